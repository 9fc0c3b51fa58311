"""SET of a column's elements: ``a[1] = 2``, ``a[1:2] = '{3,4}'``, several of them one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy.codec.grids import MAX_DIMENSIONS
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import Params, coerce
from herdpy_sql.expr.nodes import Call, ColumnRef, Const, Expr, Function
from herdpy_sql.library.array_changes import put_element, put_slice
from herdpy_sql.types import INTEGER, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Column, Table

Take = Callable[[exp.Expression, SqlType], Expr]
"""Binds a node; of the type given if it has none of its own."""


@dataclass(frozen=True)
class Put:
    """One assignment.

    Attributes:
        bounds: an index for each dimension; of a slice low and high, each None where it is open.
    """

    bounds: tuple[exp.Expression | None, ...]
    value: exp.Expression
    is_slice: bool


@dataclass(frozen=True)
class Elements:
    """What is assigned to elements of one column, in order."""

    puts: tuple[Put, ...]

    def nodes(self, type_: SqlType) -> Iterator[tuple[exp.Expression, SqlType]]:
        """All that is to be computed, in the order in which ``bound`` takes it, with the types wanted."""
        for put in self.puts:
            yield put.value, type_ if put.is_slice else type_.element_type
            for one in put.bounds:
                if one is not None:
                    yield one, INTEGER


def put_of(column: Column, steps: list[Any], value: exp.Expression) -> Elements:
    """``column[steps] = value``. SqlError 42804 for what has no elements, 0A000 for JSONB, 54000."""
    if column.type.base is Base.JSONB:
        raise SqlError("0A000", "assigning to elements of jsonb is not supported", hint="Use jsonb_set().")
    if column.type.base is not Base.ARRAY:
        raise SqlError(
            "42804",
            f"cannot subscript type {column.type.plain} because it does not support subscripting",
            column=column.name,
        )
    if len(steps) > MAX_DIMENSIONS:
        raise SqlError(
            "54000",
            f"number of array dimensions ({len(steps)}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
        )
    if not any(isinstance(step, tuple) for step in steps):
        return Elements((Put(tuple(steps), value, False),))
    bounds: list[exp.Expression | None] = []
    for step in steps:
        bounds += step if isinstance(step, tuple) else (exp.Literal.number(1), step)
    return Elements((Put(tuple(bounds), value, True),))


def bound(table: Table, position: int, elements: Elements, take: Take, params: Params) -> Expr:
    """The column's new value, over a row that begins with the table's columns."""
    column = table.columns[position]
    found: Expr = ColumnRef(column.type, position, column.name)
    for put in elements.puts:
        wanted = column.type if put.is_slice else column.type.element_type
        value = _coerced(take(put.value, wanted), wanted, column, params)
        bounds = [_index(one, take, params) for one in put.bounds]
        given = tuple([one is not None for one in put.bounds])
        function = _slice(given) if put.is_slice else _ELEMENT
        found = Call(column.type, function, (found, value, *bounds))
    return found


_ELEMENT = Function("array_set_element", put_element, strict=False)


@functools.lru_cache(maxsize=256)
def _slice(given: tuple[bool, ...]) -> Function:
    """The same object for the same call."""
    return Function("array_set_slice", functools.partial(put_slice, given), strict=False)


def _coerced(value: Expr, wanted: SqlType, column: Column, params: Params) -> Expr:
    try:
        return coerce(value, wanted, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        raise SqlError(
            "42804",
            f'subscripted assignment to "{column.name}" requires type {wanted} '
            f"but expression is of type {value.type}",
            hint="You will need to rewrite or cast the expression.",
            column=column.name,
        ) from error


def _index(node: exp.Expression | None, take: Take, params: Params) -> Expr:
    if node is None:
        return Const(INTEGER, None)
    try:
        return coerce(take(node, INTEGER), INTEGER, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        raise SqlError("42804", "array subscript must have type integer") from error
