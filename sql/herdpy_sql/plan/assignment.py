"""Assignment: which column of a table is given which value, by INSERT, UPDATE, MERGE and ON CONFLICT.

``target_positions`` and ``assignments`` read the columns that a statement sets: a value for each position, or
:class:`ElementPuts`, where elements of an array are set (``a[1] = 2``, ``a[1:2] = '{3,4}'``, several of them
one after the other). ``assigned`` and ``elements_set`` give the value that is stored, as assignment coerces
it; ``assigned_values`` puts them together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy.codec.kinds import MAX_DIMENSIONS
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import Params, bind, coerce, compile_expr
from herdpy_sql.expr.nodes import Call, ColumnRef, Const, Expr, Function
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.syntax import subscripts
from herdpy_sql.library.arrays import put_element, put_slice
from herdpy_sql.plan.own import Refusal, query_within, refusal_of
from herdpy_sql.plan.rules import default_of
from herdpy_sql.plan.scope import name_of, quoted
from herdpy_sql.types import INTEGER, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from herdpy_sql.catalog import Column, Table
    from herdpy_sql.execute.base import Compiled


def target_positions(table: Table, names: Sequence[exp.Expression] | None) -> list[int]:
    """Positions of the columns named, or of all that are visible."""
    if names is None:
        return list(table.visible)
    found: list[int] = []
    for one in names:
        name = name_of(one.this if isinstance(one, exp.Column) else one)
        found.append(target_position(table, name, found))
    return found


def target_position(table: Table, name: str, before: Container[int]) -> int:
    """Position of a column that is given values; SqlError 42703, or 42701 when it is one of ``before``."""
    position = table.positions.get(name)
    if position is None or table.columns[position].hidden:
        raise SqlError(
            "42703",
            f'column "{name}" of relation "{table.name}" does not exist',
            column=name,
            table=table.name,
        )
    if position in before:
        raise SqlError("42701", f'column "{name}" specified more than once', column=name)
    return position


def is_default(node: exp.Expression) -> bool:
    """Whether a value is the word DEFAULT."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return not node.this.args.get("quoted") and str(node.this.this).upper() == "DEFAULT"
    return isinstance(node, exp.Var) and str(node.this).upper() == "DEFAULT"


def assigned(table: Table, position: int, value: Expr, params: Params) -> Expr:
    """``value`` coerced to its column's type, as assignment does it; SqlError 42804 names the column."""
    column = table.columns[position]
    try:
        return coerce(value, column.type, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        raise SqlError(
            "42804",
            f'column "{column.name}" is of type {column.type} but expression is of type {value.type}',
            hint="You will need to rewrite or cast the expression.",
            column=column.name,
            table=table.name,
        ) from error


def null(row: object, params: object, clock: object) -> None:
    """NULL, as a compiled expression."""
    del row, params, clock


def refuse_generated(table: Table, position: int) -> None:
    """428C9 for a value that is given to a generated column."""
    column = table.columns[position]
    if column.generated is not None:
        raise SqlError(
            "428C9",
            f'cannot insert a non-DEFAULT value into column "{column.name}"',
            detail=f'Column "{column.name}" is a generated column.',
            column=column.name,
            table=table.name,
        )


def refuse_generated_update(table: Table, position: int, value: exp.Expression) -> None:
    """428C9 for a value that is given to a generated column."""
    column = table.columns[position]
    if column.identity == "ALWAYS" and not is_default(value):
        raise SqlError(
            "428C9",
            f'column "{column.name}" can only be updated to DEFAULT',
            detail=f'Column "{column.name}" is an identity column defined as GENERATED ALWAYS.',
            column=column.name,
            table=table.name,
        )
    if column.generated is not None and not is_default(value):
        raise SqlError(
            "428C9",
            f'column "{column.name}" can only be updated to DEFAULT',
            detail=f'Column "{column.name}" is a generated column.',
            column=column.name,
            table=table.name,
        )


# --- SET -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementPut:
    """One assignment.

    Attributes:
        bounds: an index for each dimension; of a slice low and high, each None where it is open.
    """

    bounds: tuple[exp.Expression | None, ...]
    value: exp.Expression
    is_slice: bool


@dataclass(frozen=True)
class ElementPuts:
    """What is assigned to elements of one column, in order."""

    puts: tuple[ElementPut, ...]

    def nodes(self, type_: SqlType) -> Iterator[tuple[exp.Expression, SqlType]]:
        """All that is to be computed, with its type, in the order in which ``elements_set`` takes it."""
        for put in self.puts:
            yield put.value, type_ if put.is_slice else type_.element_type
            for one in put.bounds:
                if one is not None:
                    yield one, INTEGER


Assignment = tuple[int, exp.Expression | ElementPuts]
Assign = tuple[tuple[int, "Compiled"], ...]
"""What is computed, by the position that it is for."""


def assignments(tree: exp.Expression, table: Table) -> list[Assignment]:
    """(position, value) for each column of SET, which are the expressions of ``tree``."""
    found: list[Assignment] = []
    for node in tree.expressions:
        if not isinstance(node, exp.EQ):
            raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
        left, right = node.this, node.expression
        if isinstance(left, exp.Column | exp.Bracket):
            pairs = [(left, right)]
        elif isinstance(left, exp.Tuple | exp.Paren):
            columns = left.expressions if isinstance(left, exp.Tuple) else [left.this]
            values = _row_values(right, len(columns))
            if len(columns) != len(values):
                raise SqlError("42601", "number of columns does not match number of values")
            pairs = list(zip(columns, values, strict=True))
        else:
            raise SqlError("42601", f'syntax error at or near "{left.sql("postgres")}"')
        for column, value in pairs:
            _assign(table, column, value, found)
    return found


def _assign(table: Table, left: exp.Expression, value: exp.Expression, found: list[Assignment]) -> None:
    """Note what is set; more elements of a column whose elements are set already are set after them."""
    if not isinstance(left, exp.Bracket):
        position = _set_position(table, left, found)
        refuse_generated_update(table, position, value)
        found.append((position, value))
        return
    column, steps = subscripts(left)
    at = [(position, given) for position, given in found if isinstance(given, ElementPuts)]
    position = _set_position(table, column, [one for one in found if one not in at])
    refuse_generated_update(table, position, value)
    if is_default(value):
        raise SqlError("0A000", "cannot set an array element to DEFAULT")
    one = put_of(table.columns[position], steps, value)
    earlier = dict(at).get(position)
    if earlier is not None:
        found.remove((position, earlier))
        one = ElementPuts((*earlier.puts, *one.puts))
    found.append((position, one))


def _set_position(table: Table, column: exp.Expression, found: Sequence[Assignment]) -> int:
    if not isinstance(column, exp.Column) or column.args.get("table"):
        raise SqlError(
            "42703", f'column "{column.sql("postgres")}" of relation "{table.name}" does not exist'
        )
    name = name_of(column.this)
    position = table.positions.get(name)
    if position is None or table.columns[position].hidden:
        raise SqlError(
            "42703",
            f'column "{name}" of relation "{table.name}" does not exist',
            column=name,
            table=table.name,
        )
    if any(position == other for other, _ in found):
        raise SqlError("42601", f'multiple assignments to same column "{name}"', column=name)
    return position


def _row_values(node: exp.Expression, count: int) -> list[exp.Expression]:
    """The values of a row that is assigned to ``count`` columns."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        selects = node.this.selects
        if len(selects) != count and not any(one.is_star for one in selects):
            raise SqlError("42601", "number of columns does not match number of values")
        names = [quoted(f"c{i}") for i in range(count)]
        row = quoted("__row")
        source = exp.Subquery(this=node.this, alias=exp.TableAlias(this=row, columns=names))
        found: list[exp.Expression] = []
        for name in names:
            one = exp.Select(expressions=[exp.column(name, table=row)], from_=exp.From(this=source.copy()))
            found.append(exp.Subquery(this=one))
        return found
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "ROW":
        return list(node.expressions)
    values: Any = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
    return list(values)


def computed_values(table: Table, assignment: Assignment) -> list[tuple[exp.Expression, SqlType]]:
    """What a query has to compute for an assignment, and of which types."""
    position, value = assignment
    type_ = table.columns[position].type
    if isinstance(value, ElementPuts):
        return list(value.nodes(type_))
    return [] if is_default(value) else [(value, type_)]


@dataclass(frozen=True, slots=True)
class ComputedValue:
    """What has to be computed for a column that is set, and of which type."""

    column: str
    node: exp.Expression
    type: SqlType


def all_computed(table: Table, assigned_to: Sequence[Assignment]) -> list[ComputedValue]:
    """What has to be computed for all assignments, in their order."""
    return [
        ComputedValue(table.columns[one[0]].name, node, type_)
        for one in assigned_to
        for node, type_ in computed_values(table, one)
    ]


def assigned_values(
    table: Table, assigned_to: Sequence[Assignment], values: Iterable[Expr], params: Params
) -> list[tuple[int, Expr | None]]:
    """What SET stores, by position, made of the values of :func:`all_computed`.

    SqlError as ``assigned`` and ``elements_set`` raise.
    """
    found, given = list[tuple[int, Expr | None]](), iter(values)
    for position, node in assigned_to:
        value: Expr | None
        if isinstance(node, ElementPuts):
            value = elements_set(table, position, node, given, params)
        elif is_default(node):
            value = default_of(table, position)
        else:
            value = assigned(table, position, next(given), params)
        found.append((position, value))
    return found


def own_values(
    table: Table, assigned_to: Sequence[Assignment], values: Iterable[Expr], params: Params
) -> Assign | Refusal:
    """:func:`assigned_values`, compiled; or why own plans do not compute them."""
    found = assigned_values(table, assigned_to, values, params)
    if refusal := refusal_of(value for _, value in found if value is not None):
        return refusal
    return compiled_values(found)


def compiled_values(values: Iterable[tuple[int, Expr | None]]) -> Assign:
    """What :func:`assigned_values` gives, as it is run."""
    return tuple([(at, compile_expr(value) if value is not None else null) for at, value in values])


def own_assign(
    table: Table, assigned_to: Sequence[Assignment], scope: Scope, params: Params
) -> Assign | Refusal:
    """What SET computes over the rows of ``scope``; or why it is not ours."""
    computed = all_computed(table, assigned_to)
    if refusal := query_within(*(one.node for one in computed)):
        return refusal
    scope.clause = "UPDATE"
    values = [bind(one.node, scope, params, one.type) for one in computed]
    return own_values(table, assigned_to, values, params)


# --- elements of arrays --------------------------------------------------------------------------


def put_of(column: Column, steps: list[Any], value: exp.Expression) -> ElementPuts:
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
        return ElementPuts((ElementPut(tuple(steps), value, False),))
    bounds: list[exp.Expression | None] = []
    for step in steps:
        bounds += step if isinstance(step, tuple) else (exp.Literal.number(1), step)
    return ElementPuts((ElementPut(tuple(bounds), value, True),))


def elements_set(
    table: Table, position: int, elements: ElementPuts, values: Iterator[Expr], params: Params
) -> Expr:
    """The column's new value, over a row that begins with the table's columns; takes its ``values``.

    SqlError 42804 for what an element or an index cannot be.
    """
    column = table.columns[position]
    found: Expr = ColumnRef(column.type, position, column.name)
    for put in elements.puts:
        wanted = column.type if put.is_slice else column.type.element_type
        value = _coerced(next(values), wanted, column, params)
        bounds = [Const(INTEGER, None) if one is None else _index(next(values), params) for one in put.bounds]
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


def _index(value: Expr, params: Params) -> Expr:
    try:
        return coerce(value, INTEGER, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        raise SqlError("42804", "array subscript must have type integer") from error
