"""What a table asks of its rows: DEFAULT, CHECK and GENERATED, bound once for each version of it."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.rules import Rules
from herdpy_sql.expr import (
    NotOwn,
    Params,
    bind,
    children,
    coerce,
    columns_used,
    compile_expr,
    is_constant,
    is_volatile,
    walk,
)
from herdpy_sql.expr.nodes import Call, Cast, Chain, ColumnRef
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.scope import TableScope, name_of
from herdpy_sql.plan.type_names import mark_enums, mark_types_of
from herdpy_sql.types import BOOLEAN, Base

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.types import SqlType

_NO_PARAMETERS = "42P02"


def bind_default(name: str, target: SqlType, node: exp.Expression | None) -> str | None:
    """Check a DEFAULT expression; its text, or None when there is none (or it is NULL)."""
    if node is None:
        return None
    default_expr(name, target, node)
    return node.sql("postgres")


def default_expr(name: str, target: SqlType, node: exp.Expression) -> Expr:
    """The DEFAULT expression, coerced to its column's type."""
    if node.find(exp.Column):
        raise SqlError("0A000", "cannot use column reference in DEFAULT expression", column=name)
    mark_enums(node, [target.enum])
    params = Params()
    try:
        found = bind(node, TableScope(volatile=True), params, target)
        found = coerce(found, target, "assignment", params)
    except NotOwn as refusal:
        raise SqlError("0A000", f'DEFAULT of column "{name}": {refusal.reason} is not supported') from None
    _refuse_parameters(params)
    return found


def bind_check(table: Table, node: exp.Expression) -> Expr:
    """The condition of a CHECK over the table's physical row."""
    mark_types_of(node, table)
    scope = TableScope()
    scope.add(table.name, table)
    params = Params()
    try:
        found = bind(node, scope, params, BOOLEAN)
        if found.type != BOOLEAN:
            found = coerce(found, BOOLEAN, "implicit", params)
    except NotOwn as refusal:
        raise SqlError("0A000", f"CHECK constraint: {refusal.reason} is not supported") from None
    _refuse_parameters(params)
    return found


def bind_generated(table: Table, position: int) -> Expr:
    """The expression of a generated column over the table's physical row, coerced to the column's type.

    SqlError 42P17 when it may give another value later, or is made of another generated column.
    """
    column = table.columns[position]
    assert column.generated is not None
    node = scalar(column.generated)
    mark_types_of(node, table)
    if node.find(exp.Subquery, exp.Select, exp.AggFunc, exp.Window):
        found_name = "subquery" if node.find(exp.Subquery, exp.Select) else "aggregate functions"
        raise SqlError("0A000", f"cannot use {found_name} in column generation expression")
    scope = TableScope(volatile=True)
    scope.add(table.name, table)
    params = Params()
    try:
        found = bind(node, scope, params, column.type)
        found = coerce(found, column.type, "assignment", params)
    except NotOwn as refusal:
        raise SqlError("0A000", f"generation expression: {refusal.reason} is not supported") from None
    _refuse_parameters(params)
    for one in columns_used(found):
        if table.columns[one.index].generated is not None and not column.hidden:
            raise SqlError(
                "42P17",
                f'cannot use generated column "{one.name}" in column generation expression',
                detail="A generated column cannot reference another generated column.",
            )
    if not is_immutable(found):
        raise SqlError("42P17", "generation expression is not immutable")
    return found


def is_immutable(expr: Expr) -> bool:
    """Whether it is the same for the same row, whenever and in whatever session it is computed."""
    return all(
        is_constant(one) if not children(one) and not isinstance(one, ColumnRef) else not _needs_clock(one)
        for one in walk(expr)
    )


def _needs_clock(expr: Expr) -> bool:
    if isinstance(expr, Call | Cast):
        return expr.function is not None and expr.function.needs_clock
    return isinstance(expr, Chain) and any(function.needs_clock for function, _ in expr.steps)


def _refuse_parameters(params: Params) -> None:
    if len(params.types):
        raise SqlError(_NO_PARAMETERS, "there is no parameter $1")


def scalar(text: str) -> exp.Expression:
    """The tree of an expression kept as text in the catalog."""
    tree = parse(split(f"SELECT {text}")[0])
    assert isinstance(tree, exp.Select)
    found: exp.Expression = tree.expressions[0]
    return found


def rules_of(table: Table) -> Rules:
    """The table's NOT NULL and CHECK constraints, compiled; kept with the table."""
    found = table.derived.get("rules")
    if found is None:
        not_null = tuple(i for i, c in enumerate(table.columns) if c.not_null and not c.dropped)
        checks = tuple(
            (check.name, compile_expr(bind_check(table, scalar(check.condition)))) for check in table.checks
        )
        generated = tuple(
            (position, compile_expr(bind_generated(table, position)))
            for position, column in enumerate(table.columns)
            if column.generated is not None and not column.dropped
        )
        shapes = tuple(
            (position, column.type.dimensions)
            for position, column in enumerate(table.columns)
            if column.type.base is Base.ARRAY and not column.dropped
        )
        found = table.derived["rules"] = Rules(table, not_null, checks, generated, shapes=shapes)
    assert isinstance(found, Rules)
    return found


def checked_by_view(table: Table, tree: exp.Expression) -> Table:
    """The table; its rules have the condition of the view that is named, if that has the option."""
    option = tree.meta.get("check_option")
    if option is None:
        return table
    view, condition = option
    found = copy(table)
    found.__dict__.pop("derived", None)
    compiled = compile_expr(bind_check(table, condition))
    found.derived["rules"] = replace(rules_of(table), options=((view, compiled),))
    return found


def generated_columns_used(table: Table) -> frozenset[int]:
    """The positions of the columns that its generated columns are made of."""
    return frozenset(
        one.index
        for position, column in enumerate(table.columns)
        if column.generated is not None and not column.dropped
        for one in columns_used(bind_generated(table, position))
    )


def default_of(table: Table, position: int) -> Expr | None:
    """The DEFAULT expression of a column, bound; None when it has none. Kept with the table."""
    key = f"default {position}"
    column = table.columns[position]
    if column.default is None:
        return None
    if key not in table.derived:
        table.derived[key] = default_expr(column.name, column.type, scalar(column.default))
    return table.derived[key]  # type: ignore[return-value]


def has_volatile_default(table: Table, position: int) -> bool:
    """Whether a column's DEFAULT is another value for each row."""
    found = None if table.columns[position].dropped else default_of(table, position)
    return found is not None and is_volatile(found)


def compile_default(table: Table, position: int) -> Compiled | None:
    """The DEFAULT of a column, ready to run."""
    found = default_of(table, position)
    return None if found is None else compile_expr(found)


def columns_named(text: str) -> set[str]:
    """The names of the columns in an expression that the catalog keeps as text."""
    return {name_of(node.this) for node in scalar(text).find_all(exp.Column) if not node.is_star}
