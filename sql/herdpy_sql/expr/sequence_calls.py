"""nextval, currval, lastval and setval: bound here, carried out by the statement's ``Clock.sequences``.

Which sequence is meant is looked up when they run, by a text as a regclass is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce
from herdpy_sql.expr.resolve import can_coerce
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder

SEQUENCE_FUNCTIONS: dict[str, tuple[tuple[SqlType, ...], ...]] = {
    "nextval": ((t.TEXT,),),
    "currval": ((t.TEXT,),),
    "lastval": ((),),
    "setval": ((t.TEXT, t.BIGINT), (t.TEXT, t.BIGINT, t.BOOLEAN)),
}
"""The lists of arguments that each can have, the sequence's name as a text."""


def bind_sequence_call(binder: Binder, name: str, args: Sequence[exp.Expression]) -> n.Expr:
    """Bind a call of one of SEQUENCE_FUNCTIONS; SqlError 42883 when no list of arguments fits."""
    bound = [binder.bind(_plain(arg)) for arg in args]
    for wanted in SEQUENCE_FUNCTIONS[name]:
        if len(wanted) == len(bound) and all(
            can_coerce(one.type.base, target.base) for one, target in zip(bound, wanted, strict=True)
        ):
            given = (
                coerce(one, target, "implicit", binder.params)
                for one, target in zip(bound, wanted, strict=True)
            )
            return n.SequenceCall(t.BIGINT, name, tuple(given))
    types = ", ".join(arg.type.base.value for arg in bound)
    raise SqlError(
        "42883",
        f"function {name}({types}) does not exist",
        hint="No function matches the given name and argument types. "
        "You might need to add explicit type casts.",
    )


def _plain(node: exp.Expression) -> exp.Expression:
    """What is cast to regclass, which is the name of a sequence: an object id as a text."""
    if is_regclass(node):
        inner: exp.Expression = node.this
        return exp.Literal.string(inner.name) if isinstance(inner, exp.Literal) else inner
    return node


def is_regclass(node: exp.Expression) -> bool:
    """Whether it is a cast to regclass."""
    return isinstance(node, exp.Cast) and node.to.sql("postgres").lower() in {
        "regclass",
        "pg_catalog.regclass",
    }
