"""Arrays in the columnar engine: parameters, literals and casts; DuckDB has them as lists.

A typed array is a ``Typed`` whose ``array`` is set and whose type is that of an element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy.codec.kinds import Grid
from herdpy_sql.columnar import casts
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.types import TEXT, Base, SqlType, array_of
from herdpy_sql.values.arrays import split_array

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope


def element_of(to: Any) -> SqlType | None:
    """The type of the elements of a type of arrays; None for another type."""
    if not isinstance(to, exp.DataType) or to.this is not exp.DataType.Type.ARRAY or len(to.expressions) != 1:
        return None
    return sql_type(to, any_scale=True).element_type


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
    texts = split_array(str(inner.this))
    if isinstance(texts, Grid):
        return node
    items: list[Any] = [exp.Null() if text is None else exp.Literal.string(text) for text in texts]
    if to is not None:
        items = [exp.Cast(this=item, to=to.expressions[0].copy()) for item in items]
        if not items:
            return node
    return exp.Array(expressions=items)


def operand(binder: Binder, node: Any, other: Typed, scope: Scope) -> Typed:
    """What ANY or ALL is over: an array, of the type of ``other`` where nothing else says it."""
    x = binder.bind(node, scope)
    if x.unknown:
        x = casts.settled(binder, x, array_of(other.type if other.base is not Base.UNKNOWN else TEXT))
    x = casts.listed(binder, x)
    if not x.array:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    return x
