"""INSERT: the target's columns, and for each row of VALUES where every physical column comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.insert import FromQuery, InsertPlan, InsertSelectPlan, Value, make_maker
from herdpy_sql.expr import NotOwn, Params, bind, coerce, compile_expr
from herdpy_sql.expr.nodes import ColumnRef, Const, Param
from herdpy_sql.plan.output import output_columns, project
from herdpy_sql.plan.rules import default_of, rules_of
from herdpy_sql.plan.scope import TableScope, name_of, table_of
from herdpy_sql.plan.select import bind_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.execute.insert import Maker, Project
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.prepare import Settings

_KNOWN = {"this", "expression", "returning", "default"}


def bind_insert(tree: exp.Insert, catalog: Catalog, settings: Settings) -> Plan:
    """The plan of INSERT."""
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            what = "ON CONFLICT" if key == "conflict" else key.upper()
            raise SqlError("0A000", f"INSERT: {what} is not supported")
    if tree.args.get("expression") is None and not tree.args.get("default"):
        raise SqlError("42601", "syntax error at end of input")
    table = table_of(catalog, tree.this)
    targets = _targets(table, tree.this)
    source = tree.args.get("expression")
    params = settings.params()
    places = None
    if isinstance(source, exp.Subquery) and not any(
        value for key, value in source.args.items() if key != "this"
    ):
        source = source.this
    if isinstance(source, exp.Values):
        listed = isinstance(tree.this, exp.Schema)
        rows = _values_rows(table, targets, source.expressions, params, listed=listed)
        often = len(rows) == 1 and len(params.types) > 0
        makers = tuple(_maker(table, bound, often=often) for bound in rows)
        places = _places(table, targets, source.expressions[0], len(params.types)) if often else None
    elif source is None:
        makers = (_maker(table, {}, often=False),)
    else:
        return _from_query(tree, table, targets, source, catalog, settings)
    columns, returning = bind_returning(tree, table, params)
    return InsertPlan(table, makers, tuple(params.types), columns, returning, places)


def _targets(table: Table, node: exp.Expression) -> list[int]:
    """Positions of the columns named, or of all that are visible."""
    if not isinstance(node, exp.Schema):
        return list(table.visible)
    found: list[int] = []
    for one in node.expressions:
        name = name_of(one.this if isinstance(one, exp.Column) else one)
        position = table.positions.get(name)
        if position is None or table.columns[position].hidden:
            raise SqlError(
                "42703",
                f'column "{name}" of relation "{table.name}" does not exist',
                column=name,
                table=table.name,
            )
        if position in found:
            raise SqlError("42701", f'column "{name}" specified more than once', column=name)
        found.append(position)
    return found


def _values_rows(
    table: Table, targets: list[int], rows: Sequence[exp.Expression], params: Params, *, listed: bool
) -> list[dict[int, Expr]]:
    """For each row of VALUES what is given, by position; DEFAULT is not."""
    scope = TableScope()
    found: list[dict[int, Expr]] = []
    width = None
    for row in rows:
        items = _items(row)
        if width is not None and len(items) != width:
            raise SqlError("42601", "VALUES lists must all be the same length")
        width = len(items)
        if width > len(targets):
            raise SqlError("42601", "INSERT has more expressions than target columns")
        # Without a column list the columns at the end get their defaults; with one it is an error.
        if width < len(targets) and listed:
            raise SqlError("42601", "INSERT has more target columns than expressions")
        bound: dict[int, Expr] = {}
        for position, node in zip(targets, items, strict=False):
            if is_default(node):
                continue
            bound[position] = assigned(
                table, position, bind(node, scope, params, table.columns[position].type), params
            )
        found.append(bound)
    return found


def _places(
    table: Table, targets: list[int], row: exp.Expression, count: int
) -> tuple[int | None, ...] | None:
    """See InsertPlan; ``count`` parameters there are."""
    found: list[int | None] = [None] * len(table.columns)
    for position, node in zip(targets, _items(row), strict=False):
        if isinstance(node, exp.Parameter):
            found[position] = int(str(node.this)) - 1
        elif not is_default(node):
            return None
    placed = sorted(one for one in found if one is not None)
    return tuple(found) if placed == list(range(count)) else None


def _items(row: exp.Expression) -> list[exp.Expression]:
    """The values of one row of VALUES."""
    items: Any = row.expressions if isinstance(row, exp.Tuple) else [row.unnest()]
    return list(items)


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


def _maker(table: Table, bound: dict[int, Expr], *, often: bool) -> Maker:
    values = [_value(table, position, bound) for position in range(len(table.columns))]
    return make_maker(values, rules_of(table), often=often)


def _value(table: Table, position: int, bound: dict[int, Expr]) -> Value:
    column = table.columns[position]
    if column.hidden:
        return Value(row_id=True)
    found = bound[position] if position in bound else default_of(table, position)
    if found is None or column.dropped:
        return Value(is_constant=True)
    if isinstance(found, Param):
        return Value(param=found.number - 1)
    if isinstance(found, Const):
        return Value(constant=found.value, is_constant=True)
    return Value(compute=compile_expr(found))


def _from_query(
    tree: exp.Insert,
    table: Table,
    targets: list[int],
    source: exp.Expression,
    catalog: Catalog,
    settings: Settings,
) -> Plan:
    from herdpy_sql.plan.prepare import query_plan

    if tree.args.get("returning") and any(
        node.find(exp.Parameter) for node in tree.args["returning"].expressions
    ):
        raise SqlError("0A000", "parameters in RETURNING of INSERT ... SELECT are not supported")
    plan = query_plan(source, catalog, settings, [table.columns[p].type for p in targets])
    params = settings.params()
    columns = plan.columns or ()
    if len(columns) > len(targets):
        raise SqlError("42601", "INSERT has more expressions than target columns")
    if len(columns) < len(targets) and isinstance(tree.this, exp.Schema):
        raise SqlError("42601", "INSERT has more target columns than expressions")
    given: dict[int, Expr] = {}
    for i, (position, column) in enumerate(zip(targets, columns, strict=False)):
        given[position] = assigned(table, position, ColumnRef(column.type, i, column.name), params)
    compute = []
    for position in range(len(table.columns)):
        found = given.get(position) or (
            None if table.columns[position].hidden else default_of(table, position)
        )
        compute.append(compile_expr(found) if found is not None else _null)
    row_id = next((i for i, column in enumerate(table.columns) if column.hidden), None)
    output, returning = bind_returning(tree, table, params)
    return InsertSelectPlan(
        table, plan, FromQuery(tuple(compute), row_id, rules_of(table)), output, returning
    )


def _null(row: object, params: object, clock: object) -> None:
    """NULL, as a compiled expression."""
    del row, params, clock


def bind_returning(
    tree: exp.Expression, table: Table, params: Params, alias: str | None = None
) -> tuple[tuple[OutputColumn, ...] | None, Project | None]:
    """The columns of RETURNING and the function that makes them of a physical row; (None, None)."""
    node = tree.args.get("returning")
    if node is None:
        return None, None
    scope = TableScope()
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    given = target.args.get("alias")
    scope.add(alias or (name_of(given.this) if given is not None else table.name), table)
    try:
        outputs = bind_outputs(node.expressions, scope, params)
    except NotOwn as refusal:
        raise SqlError("0A000", f"RETURNING: {refusal.reason} is not supported") from None
    columns = output_columns(outputs, scope)
    return columns, project([expr for _, expr in outputs])
