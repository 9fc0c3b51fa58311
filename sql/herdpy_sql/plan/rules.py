"""What the definition of a table asks of its rows: DEFAULT and CHECK, bound once for each table version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.insert import Rules
from herdpy_sql.expr import NotOwn, Params, bind, coerce, compile_expr
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.scope import TableScope
from herdpy_sql.types import BOOLEAN

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
        found = table.derived["rules"] = Rules(table, not_null, checks)
    assert isinstance(found, Rules)
    return found


def default_of(table: Table, position: int) -> Expr | None:
    """The DEFAULT expression of a column, bound; None when it has none. Kept with the table."""
    key = f"default {position}"
    column = table.columns[position]
    if column.default is None:
        return None
    if key not in table.derived:
        table.derived[key] = default_expr(column.name, column.type, scalar(column.default))
    return table.derived[key]  # type: ignore[return-value]


def compile_default(table: Table, position: int) -> Compiled | None:
    """The DEFAULT of a column, ready to run."""
    found = default_of(table, position)
    return None if found is None else compile_expr(found)
