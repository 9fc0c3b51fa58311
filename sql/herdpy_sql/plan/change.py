"""UPDATE and DELETE: which rows, by an own access path or a columnar query, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import ColumnarMatches, DeletePlan, Matches, OwnMatches, UpdatePlan
from herdpy_sql.expr import NotOwn, Params, compile_expr, split_conjuncts
from herdpy_sql.expr.nodes import And, ColumnRef, Expr
from herdpy_sql.plan.access import choose
from herdpy_sql.plan.assignment import (
    Assignment,
    ElementPuts,
    assigned,
    assignments,
    bound,
    computed_values,
    is_default,
    null,
    own_assign,
)
from herdpy_sql.plan.clauses import condition
from herdpy_sql.plan.columnar import columnar_select, with_param_types
from herdpy_sql.plan.expression_index import has_expressions, substituted
from herdpy_sql.plan.returning import Brought, bind_brought, bind_returning
from herdpy_sql.plan.rules import checked_by_view, default_of, rules_of
from herdpy_sql.plan.scope import TableScope, in_schema, name_of, row_columns, table_of
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan
    from herdpy_sql.execute.insert import Project
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType


def bind_update(tree: exp.Update, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of UPDATE."""
    _only(tree, {"this", "expressions", "where", "returning", "from_", "with_"}, "UPDATE")
    if not tree.expressions:
        raise SqlError("42601", "syntax error at end of input")
    table, alias = _target(tree, catalog)
    table = checked_by_view(table, tree)
    targets = assignments(tree, table)
    params = settings.params()
    try:
        _refuse_other_tables(tree)
        scope = TableScope()
        scope.add(alias, table)
        matches: Matches = _own_matches(tree, scope, params, settings)
        assign = own_assign(table, targets, scope, params)
    except NotOwn as refusal:
        _allow_columnar(settings, refusal)
        brought = _brought(tree, table, alias, catalog, settings)
        extras = brought.extras if brought is not None else []
        found, assign = _columnar_update(
            tree, table, alias, targets, catalog, settings, refusal.reason, extras
        )
        columns, returning = _columnar_returning(tree, found, brought, alias)
        return UpdatePlan(table, found, assign, rules_of(table), found.query.param_types, columns, returning)
    columns, returning = bind_returning(tree, table, params, alias)
    return UpdatePlan(table, matches, assign, rules_of(table), params.types, columns, returning)


def bind_delete(tree: exp.Delete, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of DELETE."""
    if tree.args.get("tables"):
        raise SqlError("42601", f'syntax error at or near "{tree.args["tables"][0].sql("postgres")}"')
    _only(tree, {"this", "where", "returning", "using", "with_"}, "DELETE")
    table, alias = _target(tree, catalog)
    params = settings.params()
    try:
        _refuse_other_tables(tree)
        scope = TableScope()
        scope.add(alias, table)
        matches: Matches = _own_matches(tree, scope, params, settings)
    except NotOwn as refusal:
        _allow_columnar(settings, refusal)
        brought = _brought(tree, table, alias, catalog, settings)
        select = _row_query(tree, table, alias, brought.extras if brought is not None else [])
        found = _columnar_matches(table, select, catalog, settings, refusal.reason)
        columns, returning = _columnar_returning(tree, found, brought, alias)
        return DeletePlan(table, found, found.query.param_types, columns, returning)
    columns, returning = bind_returning(tree, table, params, alias)
    return DeletePlan(table, matches, params.types, columns, returning)


def _refuse_other_tables(tree: exp.Expression) -> None:
    """NotOwn for a statement that is about more than its target."""
    if tree.args.get("from_") is not None or tree.args.get("using"):
        raise NotOwn("UPDATE ... FROM" if isinstance(tree, exp.Update) else "DELETE ... USING")
    if tree.args.get("with_") is not None:
        raise NotOwn("WITH")


def _brought(
    tree: exp.Expression, table: Table, alias: str, catalog: Catalog, settings: PlanSettings
) -> Brought | None:
    """What RETURNING wants of the other tables; None where it is not there, or there are none."""
    node = tree.args.get("returning")
    if node is None or (tree.args.get("from_") is None and not tree.args.get("using")):
        return None

    def columns_of(expressions: list[exp.Expression]) -> Sequence[OutputColumn]:
        select = _row_query(tree, table, alias, expressions, whole=False)
        return columnar_select(
            select, catalog, settings.param_types, "RETURNING", given=settings.given
        ).columns

    count = sum(len(computed_values(table, one)) for one in assignments(tree, table))
    brought = Brought(table, alias, columns_of, count if isinstance(tree, exp.Update) else 0)
    for one in node.expressions:
        brought.add(one)
    return brought


def _columnar_returning(
    tree: exp.Expression, matches: ColumnarMatches, brought: Brought | None, alias: str
) -> tuple[tuple[OutputColumn, ...] | None, Project | None]:
    """RETURNING of a statement whose rows the columnar engine finds; parameters in it are added to those."""
    query = matches.query
    params = Params(query.param_types)
    columns: tuple[OutputColumn, ...] | None
    if brought is None:
        columns, returning = bind_returning(tree, matches.table, params, alias)
    else:
        computed = (query.columns or ())[len(matches.positions) :]
        columns, returning = bind_brought(brought, computed, params)
    matches.use(with_param_types(query, params.types))
    return columns, returning


def _allow_columnar(settings: PlanSettings, refusal: NotOwn) -> None:
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


def _own_matches(
    tree: exp.Expression, scope: TableScope, params: Params, settings: PlanSettings
) -> OwnMatches:
    where = tree.args.get("where")
    conditions = split_conjuncts(condition(where.this, scope, params, "WHERE")) if where is not None else ()
    item = scope.items[0]
    if has_expressions(scope.items):
        conditions = tuple(substituted(conditions, scope.items))
    access = choose(item, conditions, lambda column: False, lambda expr: expr, forced_scan=settings.scan_only)
    if settings.engine == "columnar":
        raise NotOwn("the columnar engine was requested")
    rest = [one for number, one in enumerate(conditions) if number not in access.used]
    compiled: Compiled | None = None
    if rest:
        compiled = compile_expr(rest[0] if len(rest) == 1 else And(BOOLEAN, tuple(rest)))
    return OwnMatches(access.source, compiled, " AND ".join(map(expr_text, rest)))


# --- rows found by the columnar engine -----------------------------------------------------------


def _row_query(
    tree: exp.Expression,
    table: Table,
    alias: str,
    extra: Sequence[exp.Expression],
    *,
    whole: bool = True,
) -> exp.Select:
    """A query for all live physical columns of the matching rows (if ``whole``), then ``extra``."""
    columns = row_columns(table, alias) if whole else []
    select = exp.Select(expressions=[*columns, *(node.copy() for node in extra)])
    select.set("from_", exp.From(this=in_schema(tree.this, table)))
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
    given_with = tree.args.get("with_")
    if given_with is not None:
        select.set("with_", given_with.copy())
    return select


def _columnar_matches(
    table: Table,
    select: exp.Select,
    catalog: Catalog,
    settings: PlanSettings,
    reason: str,
    types: Sequence[SqlType] = (),
) -> ColumnarMatches:
    positions = tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    targets = [*(None for _ in positions), *types]
    query = columnar_select(select, catalog, settings.param_types, reason, targets, settings.given)
    return ColumnarMatches(table, query, positions)


def _columnar_update(
    tree: exp.Update,
    table: Table,
    alias: str,
    assignments: Sequence[Assignment],
    catalog: Catalog,
    settings: PlanSettings,
    reason: str,
    extras: Sequence[exp.Expression] = (),
) -> tuple[ColumnarMatches, tuple[tuple[int, Compiled], ...]]:
    computed = [found for one in assignments for found in computed_values(table, one)]
    query = _row_query(tree, table, alias, [*(node for node, _ in computed), *extras])
    matches = _columnar_matches(table, query, catalog, settings, reason, [type_ for _, type_ in computed])
    live, params = len(matches.positions), settings.params()
    columns = (matches.query.columns or ())[live : live + len(computed)]
    given = iter([ColumnRef(one.type, len(table.columns) + i, one.name) for i, one in enumerate(columns)])
    assign: list[tuple[int, Compiled]] = []
    for position, node in assignments:
        value: Expr | None
        if isinstance(node, ElementPuts):
            value = bound(table, position, node, lambda one, type_: next(given), params)
        elif is_default(node):
            value = default_of(table, position)
        else:
            value = assigned(table, position, next(given), params)
        assign.append((position, compile_expr(value) if value is not None else null))
    return matches, tuple(assign)
