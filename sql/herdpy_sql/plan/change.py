"""UPDATE and DELETE: which rows, by an own access path or a columnar query, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import ColumnarMatches, DeletePlan, Matches, OwnMatches, UpdatePlan
from herdpy_sql.expr import NotOwn, Params, bind, compile_expr, split_conjuncts
from herdpy_sql.expr.nodes import And, ColumnRef, Expr
from herdpy_sql.expr.syntax import subscripts
from herdpy_sql.plan.access import choose
from herdpy_sql.plan.columnar import columnar_select, with_param_types
from herdpy_sql.plan.elements import Elements, bound, put_of
from herdpy_sql.plan.expression_index import has_expressions, substituted
from herdpy_sql.plan.insert import assigned, bind_returning, is_default
from herdpy_sql.plan.returning import Brought, bind_brought
from herdpy_sql.plan.rules import checked_by_view, default_of, rules_of
from herdpy_sql.plan.scope import TableScope, name_of, table_of
from herdpy_sql.plan.select import condition
from herdpy_sql.plan.targets import in_schema, row_columns
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan
    from herdpy_sql.execute.insert import Project
    from herdpy_sql.plan.prepare import Settings
    from herdpy_sql.types import SqlType

Assignment = tuple[int, exp.Expression | Elements]


def bind_update(tree: exp.Update, catalog: Catalog, settings: Settings) -> Plan:
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


def bind_delete(tree: exp.Delete, catalog: Catalog, settings: Settings) -> Plan:
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
    tree: exp.Expression, table: Table, alias: str, catalog: Catalog, settings: Settings
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

    count = sum(len(_computed(table, one)) for one in assignments(tree, table))
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
    at = [(position, given) for position, given in found if isinstance(given, Elements)]
    position = _set_position(table, column, [one for one in found if one not in at])
    refuse_generated_update(table, position, value)
    if is_default(value):
        raise SqlError("0A000", "cannot set an array element to DEFAULT")
    one = put_of(table.columns[position], steps, value)
    earlier = dict(at).get(position)
    if earlier is not None:
        found.remove((position, earlier))
        one = Elements((*earlier.puts, *one.puts))
    found.append((position, one))


def _computed(table: Table, assignment: Assignment) -> list[tuple[exp.Expression, SqlType]]:
    """What a query has to compute for an assignment, and of which types."""
    position, value = assignment
    type_ = table.columns[position].type
    if isinstance(value, Elements):
        return list(value.nodes(type_))
    return [] if is_default(value) else [(value, type_)]


def _row_values(node: exp.Expression, count: int) -> list[exp.Expression]:
    """The values of a row that is assigned to ``count`` columns."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        selects = node.this.selects
        if len(selects) != count and not any(one.is_star for one in selects):
            raise SqlError("42601", "number of columns does not match number of values")
        names = [exp.to_identifier(f"c{i}", quoted=True) for i in range(count)]
        row = exp.to_identifier("__row", quoted=True)
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
    if has_expressions(scope.items):
        conditions = tuple(substituted(conditions, scope.items))
    access = choose(item, conditions, lambda column: False, lambda expr: expr, forced_scan=settings.scan_only)
    if settings.engine == "columnar":
        raise NotOwn("the columnar engine was asked for")
    rest = [one for number, one in enumerate(conditions) if number not in access.used]
    compiled: Compiled | None = None
    if rest:
        compiled = compile_expr(rest[0] if len(rest) == 1 else And(BOOLEAN, tuple(rest)))
    return OwnMatches(access.source, compiled, " AND ".join(map(expr_text, rest)))


def own_assign(
    table: Table, assigned_to: Sequence[Assignment], scope: TableScope, params: Params
) -> tuple[tuple[int, Compiled], ...]:
    """What SET computes, by the position that it sets, over the rows of ``scope``."""
    found = []
    for position, node in assigned_to:
        value: Expr | None
        if isinstance(node, Elements):
            value = bound(table, position, node, lambda one, type_: bind(one, scope, params, type_), params)
        elif is_default(node):
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
    settings: Settings,
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
    settings: Settings,
    reason: str,
    extras: Sequence[exp.Expression] = (),
) -> tuple[ColumnarMatches, tuple[tuple[int, Compiled], ...]]:
    computed = [found for one in assignments for found in _computed(table, one)]
    query = _row_query(tree, table, alias, [*(node for node, _ in computed), *extras])
    matches = _columnar_matches(table, query, catalog, settings, reason, [type_ for _, type_ in computed])
    live, params = len(matches.positions), settings.params()
    columns = (matches.query.columns or ())[live : live + len(computed)]
    given = iter([ColumnRef(one.type, len(table.columns) + i, one.name) for i, one in enumerate(columns)])
    assign: list[tuple[int, Compiled]] = []
    for position, node in assignments:
        value: Expr | None
        if isinstance(node, Elements):
            value = bound(table, position, node, lambda one, type_: next(given), params)
        elif is_default(node):
            value = default_of(table, position)
        else:
            value = assigned(table, position, next(given), params)
        assign.append((position, compile_expr(value) if value is not None else _null))
    return matches, tuple(assign)
