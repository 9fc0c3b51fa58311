"""Binding of IN over values and of ANY and ALL over arrays, part of the binder.

``= ANY`` and ``<> ALL`` are IN and NOT IN: of the elements that are written out, or of a parameter that is an
array, whose elements are known when the statement runs. All else is the columnar engine's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce, common_type
from herdpy_sql.expr.fold import folded
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.expr.operate import compare
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.types import BOOLEAN, Base, SqlType, array_of
from herdpy_sql.values.arrays import split_array

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder


def quantifier(node: exp.Expression) -> exp.Expression:
    """ALL over what is no subquery, which sqlglot takes for a function's call, as ALL; all else as it is."""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "ALL" and len(node.expressions) == 1:
        return exp.All(this=node.expressions[0])
    return node


def quantified(binder: Binder, left: exp.Expression, op: str, right: exp.Any | exp.All) -> n.Expr:
    """``left = ANY (array)`` and ``left <> ALL (array)``."""
    array: exp.Expression = right.this
    while isinstance(array, exp.Paren):
        array = array.this
    every = isinstance(right, exp.All)
    if op != ("<>" if every else "=") or isinstance(left, exp.Tuple):
        raise NotOwn("ALL" if every else "ANY")
    arg = binder.bind(left)
    found = _among(binder, arg, array)
    if not every:
        return found
    return replace(found, negated=True) if isinstance(found, n.In) else folded(n.Not(BOOLEAN, found))


def _among(binder: Binder, arg: n.Expr, array: exp.Expression) -> n.Expr:
    if isinstance(array, exp.Array) and array.expressions:
        return member(binder, arg, [binder.bind(item) for item in leaves(array)])
    element: SqlType | None = None
    if isinstance(array, exp.Cast):
        element = element_of(array.args["to"])
        if element is None:
            raise NotOwn("ANY of something cast")
        array = array.this
    if isinstance(array, exp.Literal) and array.is_string:
        items = [
            n.Const(arg.type, None) if text is None else _literal(binder, text, element)
            for text in split_array(array.this)
        ]
        if not items:
            raise NotOwn("ANY of an empty array")
        return member(binder, arg, items)
    if not isinstance(array, exp.Parameter):
        raise NotOwn("ANY")
    return _parameter(binder, arg, array, element)


def leaves(array: exp.Array) -> list[exp.Expression]:
    """The elements of ARRAY[...], of several dimensions those of the innermost."""
    items: list[exp.Expression] = list(array.expressions)
    if items and all(isinstance(item, exp.Array) for item in items):
        return [leaf for item in items if isinstance(item, exp.Array) for leaf in leaves(item)]
    return items


def _literal(binder: Binder, text: str, element: SqlType | None) -> n.Expr:
    found = n.Const(SqlType(Base.UNKNOWN), text)
    return found if element is None else coerce(found, element, "explicit", binder.params)


def _parameter(binder: Binder, arg: n.Expr, node: exp.Parameter, element: SqlType | None) -> n.Expr:
    param = binder.parameter(node)
    if not isinstance(param, n.Param):
        raise NotOwn("ANY")
    if param.type.base is Base.UNKNOWN:
        if element is None and arg.type.base is Base.UNKNOWN:
            raise NotOwn("ANY of an array of nothing that is known")
        param = binder.params.fix(param, array_of((element or arg.type).base))
    held = param.type.element
    if held is None:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    if element is not None and not _wider(held, element.base):
        raise NotOwn("an array that is cast")
    one = n.Elements(SqlType(held), param.number)
    if arg.type.base is Base.UNKNOWN:
        arg = coerce(arg, one.type, "implicit", binder.params)
    found = compare("=", arg, one, binder.params)
    if not isinstance(found, n.Comparison) or found.right is not one:
        raise NotOwn("an array of another type")
    return n.In(BOOLEAN, found.left, (one,), False)


_INTEGERS = (Base.SMALLINT, Base.INTEGER, Base.BIGINT)


def _wider(held: Base, wanted: Base) -> bool:
    """Whether a cast of elements changes nothing that a comparison sees."""
    if held in _INTEGERS and wanted in _INTEGERS:
        return _INTEGERS.index(held) <= _INTEGERS.index(wanted)
    return held is wanted or {held, wanted} == {Base.TEXT, Base.VARCHAR}


def element_of(to: exp.Expression) -> SqlType | None:
    """The type of the elements of a type of arrays; None for another type."""
    if not isinstance(to, exp.DataType) or to.this is not exp.DataType.Type.ARRAY or len(to.expressions) != 1:
        return None
    inner = to.expressions[0]
    return None if element_of(inner) is not None else sql_type(inner)


def member(binder: Binder, arg: n.Expr, items: list[n.Expr]) -> n.Expr:
    """``arg IN (items)``: over one common type where there is one, else as a run of OR."""
    try:
        shared = common_type([arg.type, *(item.type for item in items)], "IN")
    except SqlError:
        shared = None
    if shared is not None:
        if arg.type.base is Base.UNKNOWN:
            arg = coerce(arg, shared, "implicit", binder.params)
        items = [
            coerce(item, shared, "implicit", binder.params) if item.type.base is Base.UNKNOWN else item
            for item in items
        ]
    parts = [compare("=", arg, item, binder.params) for item in items]
    comparisons = [part for part in parts if isinstance(part, n.Comparison)]
    if (
        len(comparisons) == len(parts)
        and len({id(one.left) if one.left is arg else one.left for one in comparisons}) == 1
    ):
        return n.In(BOOLEAN, comparisons[0].left, tuple(one.right for one in comparisons), False)
    return parts[0] if len(parts) == 1 else folded(n.Or(BOOLEAN, tuple(parts)))
