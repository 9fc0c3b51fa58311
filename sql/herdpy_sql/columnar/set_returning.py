"""Set-returning functions: what they list, and what becomes of them in a SELECT list or in ROWS FROM.

A call is bound to a DuckDB list of its rows. In a SELECT list that is unnested where it stands: DuckDB takes
several of them in lockstep and puts NULLs behind the shorter ones, as PostgreSQL does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import emit
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.emit import EMITTERS, Emitter
from herdpy_sql.columnar.routines import full_type, types_of
from herdpy_sql.columnar.scope import Col, FromItem, Rel, Scope
from herdpy_sql.columnar.trees import tree_binder
from herdpy_sql.duck import INTEGERS, Typed, duck_type, elements, numeric_text, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.set_returning import SERIES
from herdpy_sql.expr.set_returning import series as bound_series
from herdpy_sql.expr.set_returning import unnested as bound_unnested
from herdpy_sql.expr.syntax import identifier, named_call
from herdpy_sql.library import resolve
from herdpy_sql.types import BIGINT, Base

if TYPE_CHECKING:
    from collections.abc import Sequence

_ONE = "'1'"


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a call as DuckDB's list, and the expression that each of them is.

    Attributes:
        name: the function's, which its column has without an alias.
        one: type and form of an element; its text is not used.
    """

    name: str
    sql: str
    one: Typed


def series(binder: Binder, node: Any, scope: Scope) -> Listed:
    """generate_series over integers, NUMERIC or times; SqlError 42883 for other arguments."""
    return _rows(Emitter(binder, scope), bound_series(tree_binder(binder, scope), node))


def _rows(emitter: Emitter, expr: n.SetOf) -> Listed:
    """The rows of a call that is bound."""
    parts = [emitter.emit(arg) for arg in expr.args]
    if expr.name == "unnest":
        return Listed("unnest", elements(parts[0]), replace(parts[0], array=0))
    if expr.type.base is Base.NUMERIC:
        texts = [*map(numeric_text, parts), _ONE][:3]
        return Listed("generate_series", f"pg_numseries({', '.join(texts)})", typed("", expr.type, *parts))
    steps = [*(part.sql for part in parts), "1"][:3]
    return Listed("generate_series", f"pg_series({', '.join(steps)})", typed("", expr.type, *parts))


def _in_select_list(emitter: Emitter, expr: n.SetOf) -> Typed:
    """A call in an expression, once for each of its rows. SqlError 0A000 where none may stand."""
    assert emitter.scope is not None
    emitter.scope.refuse_rows()
    found = _rows(emitter, expr)
    if found.one.setof:
        raise SqlError("0A000", "a set-returning function within another one is not supported")
    return replace(element(found, f"unnest({found.sql})"), setof=True)


EMITTERS[n.SetOf] = _in_select_list


def listed(binder: Binder, node: Any, scope: Scope) -> Listed:
    """The rows of any call with one column; of a function that returns no set, the one that it gives.

    Raises SqlError 42883 where there is no such function, 0A000 for rows of several columns.
    """
    if isinstance(node, SERIES):
        return series(binder, node, scope)
    if isinstance(node, (exp.Unnest, exp.Explode)):
        inner = node.this if isinstance(node, exp.Explode) else node.expressions[0]
        return unnested(binder, inner, scope)
    named = named_call(node)
    if named is None:
        one = binder.bind(node, scope)
        return Listed(one.name or node.key, f"[{one.sql}]", one)
    name, nodes = named
    arguments = binder.bind_all(nodes, scope)
    found = resolve(name, tuple([full_type(x) for x in arguments]))
    if found is None:
        raise no_function(name, types_of(*arguments))
    if found.routine.columns:
        raise SqlError("0A000", f"rows of {name} as values are not supported")
    given = emit.invoke(binder, found, arguments)
    shown = "value" if "_array_elements" in name else name
    return Listed(shown, given.sql if found.routine.setof else f"[{given.sql}]", given)


def unnested(binder: Binder, node: Any, scope: Scope) -> Listed:
    """The elements of an array."""
    return _rows(Emitter(binder, scope), bound_unnested(tree_binder(binder, scope), node))


def element(found: Listed, sql: str) -> Typed:
    """One of the rows, whose text is ``sql``."""
    one = found.one
    if one.base in INTEGERS and found.name == "generate_series":
        sql = f"CAST({sql} AS {duck_type(one.type)})"
    return replace(one, sql=sql, name=found.name, literal=None, null=False, param=None, origin=None)


def rows_from(binder: Binder, node: Any, own: str | None, names: list[str], scope: Scope) -> FromItem:
    """``ROWS FROM (call, ...)``."""
    calls = [one.this if isinstance(one, exp.Table) else one for one in node.args["rows_from"]]
    numbered = "ordinality" if node.args.get("ordinality") else None
    return _side_by_side(binder, calls, own, names, scope, numbered)


def several_arrays(binder: Binder, node: Any, own: str | None, names: list[str], scope: Scope) -> FromItem:
    """``unnest(array, array, ...)`` in FROM."""
    calls = [exp.Explode(this=one) for one in node.expressions]
    offset = node.args.get("offset")
    numbered = identifier(offset) if isinstance(offset, exp.Identifier) else "ordinality" if offset else None
    return _side_by_side(binder, calls, own, names, scope, numbered)


def _side_by_side(
    binder: Binder,
    calls: Sequence[Any],
    own: str | None,
    names: list[str],
    scope: Scope,
    ordinality: str | None = None,
) -> FromItem:
    """Several calls as one relation, row by row; ``ordinality`` names the column that numbers the rows."""
    found = [listed(binder, one, scope) for one in calls]
    alias = binder.alias()
    rel = Rel(own or found[0].name, alias, [])
    items = []
    for i, one in enumerate(found):
        each = element(one, f"unnest({one.sql})")
        items.append(f"{each.sql} AS c{i}")
        rel.columns.append(
            Col(one.name, f"{alias}.c{i}", each.type, each.dec, array=each.array, position=i, rel=rel)
        )
    if ordinality is not None:
        at = len(found)
        most = f"greatest({', '.join(f'len({one.sql})' for one in found)}, 0)"
        items.append(f"unnest(range(1, {most} + 1)) AS c{at}")
        rel.columns.append(Col(ordinality, f"{alias}.c{at}", BIGINT, position=at, rel=rel))
    for column, name in zip(rel.columns, names, strict=False):
        column.name = name
    return FromItem(f"(SELECT {', '.join(items)}) AS {alias}", [rel], list(rel.columns))
