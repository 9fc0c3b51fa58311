"""UPDATE and DELETE: which rows, by an own access path or a columnar query, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import ColumnarMatches, DeletePlan, Matches, OwnMatches, UpdatePlan
from herdpy_sql.expr import NotOwn, Params, bind, compile_expr, split_conjuncts
from herdpy_sql.expr.nodes import And, ColumnRef
from herdpy_sql.plan.access import choose
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.insert import assigned, bind_returning, is_default
from herdpy_sql.plan.rules import default_of, rules_of
from herdpy_sql.plan.scope import TableScope, name_of, table_of
from herdpy_sql.plan.select import condition
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, Plan
    from herdpy_sql.plan.prepare import Settings
    from herdpy_sql.types import SqlType

Assignment = tuple[int, exp.Expression]


def bind_update(tree: exp.Update, catalog: Catalog, settings: Settings) -> Plan:
    """The plan of UPDATE."""
    _only(tree, {"this", "expressions", "where", "returning", "from_"}, "UPDATE")
    if not tree.expressions:
        raise SqlError("42601", "syntax error at end of input")
    table, alias = _target(tree, catalog)
    assignments = _assignments(tree, table)
    params = settings.params()
    try:
        if tree.args.get("from_") is not None:
            raise NotOwn("UPDATE ... FROM")
        scope = TableScope()
        scope.add(alias, table)
        matches: Matches = _own_matches(tree, scope, params, settings)
        assign = _own_assign(table, assignments, scope, params)
    except NotOwn as refusal:
        _allow_columnar(settings, refusal)
        params = settings.params()
        matches, assign = _columnar_update(tree, table, alias, assignments, catalog, settings, refusal.reason)
    columns, returning = bind_returning(tree, table, params, alias)
    return UpdatePlan(table, matches, assign, rules_of(table), _types(params, matches), columns, returning)


def bind_delete(tree: exp.Delete, catalog: Catalog, settings: Settings) -> Plan:
    """The plan of DELETE."""
    if tree.args.get("tables"):
        raise SqlError("42601", f'syntax error at or near "{tree.args["tables"][0].sql("postgres")}"')
    _only(tree, {"this", "where", "returning", "using"}, "DELETE")
    table, alias = _target(tree, catalog)
    params = settings.params()
    try:
        if tree.args.get("using"):
            raise NotOwn("DELETE ... USING")
        scope = TableScope()
        scope.add(alias, table)
        matches: Matches = _own_matches(tree, scope, params, settings)
    except NotOwn as refusal:
        _allow_columnar(settings, refusal)
        params = settings.params()
        select = _row_query(tree, table, alias, [])
        matches = _columnar_matches(table, select, catalog, settings, refusal.reason)
    columns, returning = bind_returning(tree, table, params, alias)
    return DeletePlan(table, matches, _types(params, matches), columns, returning)


def _types(params: Params, matches: Matches) -> tuple[SqlType, ...]:
    given = matches.query.param_types if isinstance(matches, ColumnarMatches) else ()
    own = params.types
    return tuple(given) if len(given) >= len(own) else tuple(own)


def _allow_columnar(settings: Settings, refusal: NotOwn) -> None:
    if settings.engine == "own":
        raise SqlError("0A000", f"own plans do not support {refusal.reason}")


def _only(node: exp.Expression, known: set[str], what: str) -> None:
    for key, value in node.args.items():
        if value and key not in known:
            raise SqlError("0A000", f"{what}: {key.rstrip('_').upper()} is not supported")


def _target(tree: exp.Expression, catalog: Catalog) -> tuple[Table, str]:
    table = table_of(catalog, tree.this)
    alias = tree.this.args.get("alias")
    return table, name_of(alias.this) if alias is not None else table.name


def _assignments(tree: exp.Update, table: Table) -> list[Assignment]:
    """(position, value) for each column of SET."""
    found: list[Assignment] = []
    for node in tree.expressions:
        if not isinstance(node, exp.EQ):
            raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
        left, right = node.this, node.expression
        if isinstance(left, exp.Column):
            pairs = [(left, right)]
        elif isinstance(left, exp.Tuple | exp.Paren):
            columns = left.expressions if isinstance(left, exp.Tuple) else [left.this]
            if isinstance(right, exp.Subquery):
                raise SqlError("0A000", "UPDATE: SET (...) = (SELECT ...) is not supported")
            values = right.expressions if isinstance(right, exp.Tuple) else [right.unnest()]
            if len(columns) != len(values):
                raise SqlError("42601", "number of columns does not match number of values")
            pairs = list(zip(columns, values, strict=True))
        else:
            raise SqlError("42601", f'syntax error at or near "{left.sql("postgres")}"')
        for column, value in pairs:
            found.append((_set_position(table, column, found), value))
    return found


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


def _own_matches(tree: exp.Expression, scope: TableScope, params: Params, settings: Settings) -> OwnMatches:
    where = tree.args.get("where")
    conditions = split_conjuncts(condition(where.this, scope, params, "WHERE")) if where is not None else ()
    item = scope.items[0]
    access = choose(item, conditions, lambda column: False, lambda expr: expr, forced_scan=settings.scan_only)
    if settings.engine == "columnar":
        raise NotOwn("the columnar engine was asked for")
    rest = [one for number, one in enumerate(conditions) if number not in access.used]
    compiled: Compiled | None = None
    if rest:
        compiled = compile_expr(rest[0] if len(rest) == 1 else And(BOOLEAN, tuple(rest)))
    return OwnMatches(access.source, compiled, " AND ".join(map(expr_text, rest)))


def _own_assign(
    table: Table, assignments: Sequence[Assignment], scope: TableScope, params: Params
) -> tuple[tuple[int, Compiled], ...]:
    found = []
    for position, node in assignments:
        if is_default(node):
            value = default_of(table, position)
        else:
            target = table.columns[position].type
            value = assigned(table, position, bind(node, scope, params, target), params)
        found.append((position, compile_expr(value) if value is not None else _null))
    return tuple(found)


def _null(row: object, params: object, clock: object) -> None:
    """NULL, as a compiled expression."""
    del row, params, clock


# --- rows found by the columnar engine -----------------------------------------------------------


def _row_query(tree: exp.Expression, table: Table, alias: str, extra: Sequence[exp.Expression]) -> exp.Select:
    """A query for all live physical columns of the matching rows, then ``extra``."""
    columns: list[exp.Expression] = [
        exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True))
        for column in table.columns
        if not column.dropped
    ]
    select = exp.Select(expressions=[*columns, *(node.copy() for node in extra)])
    select.set("from_", exp.From(this=tree.this.copy()))
    joins: list[exp.Expression] = []
    others = tree.args.get("using") or []
    given = tree.args.get("from_")
    if given is not None:
        joins += [join.copy() for join in given.this.args.get("joins") or ()]
        others = [given.this]
    joins = [exp.Join(this=other.copy()) for other in others] + joins
    for join in joins[: len(others)]:
        nested = join.this.args.get("joins")
        if nested:
            join.this.set("joins", None)
    if joins:
        select.set("joins", joins)
    where = tree.args.get("where")
    if where is not None:
        select.set("where", where.copy())
    return select


def _columnar_matches(
    table: Table,
    select: exp.Select,
    catalog: Catalog,
    settings: Settings,
    reason: str,
    types: Sequence[SqlType] = (),
) -> ColumnarMatches:
    positions = tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    targets = [*(None for _ in positions), *types]
    query = columnar_select(select, catalog, settings.param_types, reason, targets)
    return ColumnarMatches(table, query, positions)


def _columnar_update(
    tree: exp.Update,
    table: Table,
    alias: str,
    assignments: Sequence[Assignment],
    catalog: Catalog,
    settings: Settings,
    reason: str,
) -> tuple[ColumnarMatches, tuple[tuple[int, Compiled], ...]]:
    computed = [(position, node) for position, node in assignments if not is_default(node)]
    query = _row_query(tree, table, alias, [node for _, node in computed])
    types = [table.columns[position].type for position, _ in computed]
    matches = _columnar_matches(table, query, catalog, settings, reason, types)
    live, params = len(matches.positions), settings.params()
    columns = (matches.query.columns or ())[live:]
    assign: list[tuple[int, Compiled]] = []
    for i, ((position, _), column) in enumerate(zip(computed, columns, strict=True)):
        given = ColumnRef(column.type, len(table.columns) + i, column.name)
        assign.append((position, compile_expr(assigned(table, position, given, params))))
    for position, node in assignments:
        if is_default(node):
            value = default_of(table, position)
            assign.append((position, compile_expr(value) if value is not None else _null))
    return matches, tuple(assign)
