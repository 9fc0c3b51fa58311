"""Arrays in the columnar engine: parameters, literals and casts; DuckDB has them as lists.

A typed array is a ``Typed`` whose ``array`` is set and whose type is that of an element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.typed import Typed, column_dec
from herdpy_sql.columnar.typenames import sql_type
from herdpy_sql.errors import SqlError
from herdpy_sql.types import TEXT, Base, SqlType, array_of
from herdpy_sql.values.arrays import split_array

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope


def element_of(to: Any) -> SqlType | None:
    """The type of the elements of a type of arrays; None for another type."""
    if not isinstance(to, exp.DataType) or to.this is not exp.DataType.Type.ARRAY or len(to.expressions) != 1:
        return None
    if element_of(to.expressions[0]) is not None:
        raise SqlError("0A000", "arrays of several dimensions are not supported")
    return sql_type(to.expressions[0])


def written_out(node: Any) -> Any:
    """A literal such as ``'{1,2}'``, or one cast, as ARRAY[...]; all else as it is."""
    to = node.args["to"] if isinstance(node, exp.Cast) else None
    inner = node.this if to is not None else node
    if (
        not isinstance(inner, exp.Literal)
        or not inner.is_string
        or (to is not None and element_of(to) is None)
    ):
        return node
    items: list[Any] = [
        exp.Null() if text is None else exp.Literal.string(text) for text in split_array(str(inner.this))
    ]
    if to is not None:
        items = [exp.Cast(this=item, to=to.expressions[0].copy()) for item in items]
    return exp.Array(expressions=items)


def operand(binder: Binder, node: Any, other: Typed, scope: Scope) -> Typed:
    """What ANY or ALL is over: an array, of the type of ``other`` where nothing else says it."""
    x = binder.bind(node, scope)
    if x.param is not None and x.unknown:
        base = other.base if other.base is not Base.UNKNOWN else TEXT.base
        x = binder.param(x.param, array_of(base))
    if not x.array:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    return x


def cast_array(binder: Binder, node: Any, element: SqlType, scope: Scope) -> Typed:
    """``CAST(node AS element[])``."""
    node = (
        written_out(exp.Cast(this=node, to=exp.DataType.build("text[]", dialect="postgres")))
        if (isinstance(node, exp.Literal))
        else node
    )
    if isinstance(node, exp.Array):
        items = [casts.cast(binder, binder.bind(_uncast(item), scope), element) for item in node.expressions]
        from herdpy_sql.columnar.typed import duck_type, typed

        held = items[0] if items else Typed("", element, column_dec(element))
        listed = (
            f"[{', '.join(item.sql for item in items)}]" if items else f"CAST([] AS {duck_type(element)}[])"
        )
        return replace(typed(listed, held.type, *items, dec=held.dec), array=True, name="array")
    x = binder.bind(node, scope)
    if x.param is not None and x.unknown:
        return binder.param(x.param, array_of(element.base))
    if not x.array:
        raise SqlError("42846", f"cannot cast type {x.type} to {element}[]")
    if x.base is element.base:
        return x
    one = casts.cast(binder, Typed("e", x.type, x.dec), element)
    return replace(x, sql=f"list_transform({x.sql}, lambda e: {one.sql})", type=one.type, dec=one.dec)


def _uncast(item: Any) -> Any:
    """The literal in an element that ``written_out`` made text."""
    return item.this if isinstance(item, exp.Cast) and isinstance(item.this, exp.Literal | exp.Null) else item
