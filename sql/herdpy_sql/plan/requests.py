"""Questions about named commits and the leader: ``SELECT herdpy.commit_outcome('id')`` and its like.

They are answered by the session itself, from the tablespace and not from a table, so they stand alone:
one function, whose argument is a literal or a parameter, and nothing else in the SELECT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.types import SqlType

SCHEMA = "herdpy"
FUNCTIONS = {
    "commit_outcome": 1,
    "forbid_commit": 1,
    "use_request_id": 1,
    "commit_position": 0,
    "leader_unreached": 0,
}
"""Name and number of arguments of each."""


@dataclass(frozen=True)
class RequestFunction(Plan):
    """One of FUNCTIONS. ``literal`` is its argument, or None for a parameter or for none."""

    function: str
    name: str
    literal: str | None
    takes_parameter: bool = False
    tag = "SELECT"
    read_only = True

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One text column."""
        return (OutputColumn(self.name, TEXT),)

    @property
    def param_types(self) -> tuple[SqlType, ...]:  # type: ignore[override]
        """Text for $1."""
        return (TEXT,) if self.takes_parameter else ()

    def argument(self, values: Sequence[Datum]) -> str:
        """The request id. SqlError 22023 for none."""
        found = values[0] if self.takes_parameter else self.literal
        if not isinstance(found, str) or not found:
            raise SqlError("22023", f"{SCHEMA}.{self.function} needs a request id")
        return found


def request_plan(tree: exp.Expression) -> RequestFunction | None:
    """The plan of a SELECT that is one of the functions; None for another. SqlError for a wrong one."""
    found = next((dot for dot in tree.find_all(exp.Dot) if _is_ours(dot)), None)
    if found is None:
        return None
    call = found.expression
    function = call.name.lower() if isinstance(call, exp.Func) else ""
    if function not in FUNCTIONS:
        raise SqlError("42883", f"function {found.sql(dialect='postgres')} does not exist")
    alone = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    others = {key for key, value in tree.args.items() if value} - {"expressions"}
    whole = tree.expressions[0] if alone else None
    name = function
    if isinstance(whole, exp.Alias):
        name, whole = whole.alias, whole.this
    if whole is not found or others:
        raise SqlError("0A000", f"{SCHEMA}.{function} stands alone: SELECT {SCHEMA}.{function}(...)")
    arguments = call.expressions
    if len(arguments) != FUNCTIONS[function]:
        raise SqlError("42883", f"{SCHEMA}.{function} takes {FUNCTIONS[function]} arguments")
    if not arguments:
        return RequestFunction(function, name, None)
    argument = arguments[0].this if isinstance(arguments[0], exp.Cast) else arguments[0]
    if isinstance(argument, exp.Literal) and argument.is_string:
        return RequestFunction(function, name, argument.name)
    if isinstance(argument, exp.Parameter) and argument.name == "1":
        return RequestFunction(function, name, None, takes_parameter=True)
    raise SqlError("0A000", f"the argument of {SCHEMA}.{function} is a text or $1")


def _is_ours(dot: exp.Dot) -> bool:
    return isinstance(dot.this, exp.Identifier) and dot.this.name.lower() == SCHEMA
