"""Set-returning functions: what they list, and what becomes of them in a SELECT list.

A call becomes a DuckDB list of its rows. In a SELECT list that is unnested where it stands: DuckDB takes
several of them in lockstep and puts NULLs behind the shorter ones, as PostgreSQL does. Above ``emit``, whose
fold this extends; ``relations`` has such calls in FROM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.emit import EMITTERS, Emitter
from herdpy_sql.duck import INTEGERS, Typed, duck_type, elements, numeric_text, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.bind.nodes import FunctionCall

_ONE = "'1'"


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a call as DuckDB's list, and the expression that each of them is.

    Attributes:
        name: the function's.
        one: type and form of an element; its text is not used.
    """

    name: str
    sql: str
    one: Typed


def listed(emitter: Emitter, call: FunctionCall) -> Listed:
    """The rows of a call in FROM; of a function that returns no set, the one that it gives."""
    if call.found is not None:
        args = [emitter.emit(arg) for arg in call.args]
        given = casts.invoke(emitter.emission, call.found, args)
        return Listed(call.name, given.sql if call.found.routine.setof else f"[{given.sql}]", given)
    if isinstance(call.expr, n.SetOf):
        return _rows(emitter, call.expr)
    assert call.expr is not None
    one = emitter.emit(call.expr)
    return Listed(call.name, f"[{one.sql}]", one)


def _rows(emitter: Emitter, expr: n.SetOf) -> Listed:
    """The rows of generate_series() or unnest()."""
    parts = [emitter.emit(arg) for arg in expr.args]
    if expr.name == "unnest":
        return Listed("unnest", elements(parts[0]), replace(parts[0], array=0))
    if expr.type.base is Base.NUMERIC:
        texts = [*map(numeric_text, parts), _ONE][:3]
        return Listed("generate_series", f"pg_numseries({', '.join(texts)})", typed("", expr.type, *parts))
    steps = [*(part.sql for part in parts), "1"][:3]
    return Listed("generate_series", f"pg_series({', '.join(steps)})", typed("", expr.type, *parts))


def _in_select_list(emitter: Emitter, expr: n.SetOf) -> Typed:
    """A call in an expression, once for each of its rows."""
    found = _rows(emitter, expr)
    if found.one.setof:
        raise SqlError("0A000", "a set-returning function within another one is not supported")
    return replace(element(found, f"unnest({found.sql})"), setof=True)


EMITTERS[n.SetOf] = _in_select_list


def element(found: Listed, sql: str) -> Typed:
    """One of the rows, whose text is ``sql``."""
    one = found.one
    if one.base in INTEGERS and found.name == "generate_series":
        sql = f"CAST({sql} AS {duck_type(one.type)})"
    return replace(one, sql=sql, literal=None, null=False, param=None)
