"""What a query over the catalog does beside reading: settings, other sessions, waiting.

Most is done when the query begins. pg_cancel_backend and pg_terminate_backend as outputs of the query signal
the sessions that its rows name when the rows are there (``SystemQuery.ended``), and none of a row that WHERE
or LIMIT left out: before the rewriting the argument takes the call's place. Elsewhere in the query they are
actions (``calls.ACTIONS``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.library.bytes_and_hashes import hashtext
from herdpy_sql.library.catalog_functions import ACTIONS, TRANSACTION_NUMBERS
from herdpy_sql.system import advisory
from herdpy_sql.system.contents import oid_of_database, role_oid
from herdpy_sql.system.state import ServerState, setting_values, unknown_setting

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.columnar.engine import Interrupt


_SLEEP_STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class SessionAction:
    """A function carried out when the query begins; its arguments are texts or numbers of parameters."""

    name: str
    arguments: tuple[str | int | None, ...]


class Sleep:
    """pg_sleep: how long the query waits before it runs."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def wait(self, interrupt: Interrupt | None, limit_s: float | None) -> None:
        """Wait, unless interrupted (57014) or longer than a statement may take."""
        deadline = time.monotonic() + self.seconds
        latest = None if limit_s is None else time.monotonic() + limit_s
        while (rest := deadline - time.monotonic()) > 0:
            if interrupt is not None:
                interrupt.check()
            if latest is not None and time.monotonic() > latest:
                raise SqlError("57014", "canceling statement due to statement timeout")
            time.sleep(min(rest, _SLEEP_STEP_S))


def perform(action: SessionAction, state: ServerState, params: Sequence[Datum]) -> object:
    """Do it; what the function gives. SqlError 42704, 22023, 55P02 of settings, 22P02."""
    given = [params[a - 1] if isinstance(a, int) else a for a in action.arguments]
    if action.name == "current_setting":
        name, missing_ok = str(given[0]), len(given) > 1 and _truth(given[1])
        found = setting_values(state).get(name.lower())
        if found is None and not missing_ok:
            raise unknown_setting(name)
        return found
    if action.name == "set_config if there" and str(given[0]).lower() not in setting_values(state):
        return None  # nor does the query find it
    if action.name.startswith("set_config"):
        if len(given) != 3:
            raise SqlError("42883", "function set_config does not exist")
        value = None if given[1] is None else str(given[1])
        return state.set_config(str(given[0]), value, local=_truth(given[2]))
    if action.name in advisory.NAMES:
        call = advisory.advisory_call(action.name, given)
        answer = None if call is None else state.advise(call)
        return "" if call is not None and action.name not in advisory.ANSWERING else answer
    if action.name in TRANSACTION_NUMBERS:
        return state.transaction_number(assign=not action.name.endswith("_if_assigned"))
    if action.name == "pg_stat_reset":
        state.reset_counts()
        return ""
    if action.name == "pg_stat_statements_reset":
        _reset_statements(state, given)
        return ""
    try:
        number = float(str(given[0]))
    except ValueError:
        raise SqlError("22P02", f'invalid input syntax for type double precision: "{given[0]!s}"') from None
    if action.name == "pg_sleep":
        return Sleep(number)
    return state.signal(int(number), terminate=action.name == "pg_terminate_backend")


def _reset_statements(state: ServerState, given: Sequence[object]) -> None:
    """pg_stat_statements_reset(userid, dbid, queryid): 0 stands for any. SqlError 42501, 22P02."""
    try:
        numbers = [int(str(one)) for one in given if one is not None]
    except ValueError:
        raise SqlError("22P02", "invalid input syntax for type bigint") from None
    if len(numbers) < len(given):
        return  # of NULL PostgreSQL does nothing
    user, database, query_id = (*numbers, 0, 0, 0)[:3]
    key = next((one.key for one in state.roles() if role_oid(one.key) == user), "") if user else None
    names = [one for one in state.databases() if oid_of_database(one, state.database) == database]
    state.reset_statements(key, (names[0] if names else "") if database else None, query_id)


def take_actions(tree: exp.Expression) -> tuple[SessionAction, ...]:
    """Number the calls of functions that change something; what each does, in the order of the text.

    SqlError 0A000 for a call whose arguments are no constants or parameters.
    """
    found: list[SessionAction] = []
    for node in list(tree.find_all(exp.Anonymous, bfs=False)):
        name = str(node.this).lower()
        if name not in ACTIONS:
            continue
        constants = [_constant(one) for one in node.expressions]
        if name == "set_config" and len(constants) == 3 and isinstance(constants[0], exp.Expression):
            constants[0], name = _named_setting(node.expressions[0]), "set_config if there"
        if any(isinstance(one, exp.Expression) for one in constants):
            raise SqlError("0A000", f"{name} takes constants and parameters only")
        node.set("expressions", [exp.Literal.number(len(found)), *node.expressions])
        found.append(SessionAction(name, tuple(constants)))  # type: ignore[arg-type]
    return tuple(found)


def _constant(node: exp.Expression) -> str | int | exp.Expression | None:
    """The text of a literal, the number of a parameter (an int), None for NULL, else the node."""
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Paren | exp.Cast):
        return _constant(node.this)
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return f"-{inner}" if isinstance(inner, str) and inner.isdigit() else node
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Parameter):
        if not node.name.isdigit():
            raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
        return int(node.name)
    if (
        isinstance(node, exp.Anonymous)
        and str(node.this).lower() == "hashtext"
        and len(node.expressions) == 1
    ):
        inner = _constant(node.expressions[0])
        return str(hashtext(inner)) if isinstance(inner, str) else node
    return node


def _named_setting(column: Any) -> str | exp.Expression:
    """The setting that a query finds by its name: ``... FROM pg_settings WHERE name = 'x'``."""
    select = column.parent_select
    where = select.args.get("where") if select is not None else None
    for test in where.find_all(exp.EQ) if where is not None else ():
        if test.this == column and isinstance(test.expression, exp.Literal):
            plain = test.parent is where or isinstance(test.parent, exp.And)
            if plain and test.expression.is_string and column.name.lower() == "name":
                return str(test.expression.this)
    return column  # type: ignore[no-any-return]


def _truth(value: object) -> bool:
    return value is True or str(value).lower() in {"true", "t", "on", "1"}


_TERMINATES = {"pg_cancel_backend": False, "pg_terminate_backend": True}


@dataclass(frozen=True, slots=True)
class Signal:
    """A column of session numbers that are to be signalled."""

    column: int
    terminates: bool


def take_signals(tree: exp.Expression) -> tuple[Signal, ...]:
    """Put the arguments of a query's signalling outputs in their places; which ones they are.

    Left alone are queries in which a row is not its output's: set operations, DISTINCT, groups and columns
    after a star.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return ()
    found = []
    for place, output in enumerate(tree.expressions):
        called = output.this if isinstance(output, exp.Alias) else output
        if called.is_star:
            break
        name = str(called.this).lower() if isinstance(called, exp.Anonymous) else ""
        if name in _TERMINATES and len(called.expressions) == 1:
            if called is output:
                named = exp.alias_(called.copy(), name, quoted=True)
                called.replace(named)
                called = named.this
            found.append(Signal(place, _TERMINATES[name]))
            called.replace(exp.cast(called.expressions[0].copy(), "INTEGER"))
    return tuple(found)
