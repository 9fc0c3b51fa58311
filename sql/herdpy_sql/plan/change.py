"""UPDATE, DELETE and MERGE: which rows, by an own access path or a columnar query, and what becomes of them.

MERGE is one query that joins source and target: it gives the target's live columns (NULL where there is no
row), the number of the WHEN clause, and what each clause computes over the sides that PostgreSQL lets it
see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import (
    DO_DELETE,
    DO_INSERT,
    DO_NOTHING,
    DO_UPDATE,
    Action,
    ColumnarMatches,
    DeletePlan,
    MergePlan,
    OwnMatches,
    UpdatePlan,
)
from herdpy_sql.expr import Params, compile_expr, split_conjuncts
from herdpy_sql.expr.nodes import And, ColumnRef, Expr
from herdpy_sql.expr.scope import Scope, TableRelation
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
    target_positions,
)
from herdpy_sql.plan.clauses import condition
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.indexes import has_expressions, substituted
from herdpy_sql.plan.insert import checked_rows, from_columns
from herdpy_sql.plan.own import Refusal, query_within, refusal_of
from herdpy_sql.plan.returning import Brought, Returning, bind_brought, bind_returning, target_name
from herdpy_sql.plan.rules import checked_by_view, default_of, rules_of
from herdpy_sql.plan.scope import in_schema, name_of, quoted, row_columns, table_of
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType


def bind_update(tree: exp.Update, catalog: Catalog, settings: PlanSettings) -> Plan | Refusal:
    """The plan of UPDATE, or why own plans do not compute RETURNING."""
    _only(tree, {"this", "expressions", "where", "returning", "from_", "with_"}, "UPDATE")
    if not tree.expressions:
        raise SqlError("42601", "syntax error at end of input")
    table, alias = _target(tree, catalog)
    table = checked_by_view(table, tree)
    targets = assignments(tree, table)
    params = settings.params()
    scope = Scope()
    item = scope.add_table(alias, table)
    matches = _own_matches(tree, scope, item, params, settings)
    assign = own_assign(table, targets, scope, params) if isinstance(matches, OwnMatches) else ()
    refusal = next((one for one in (matches, assign) if isinstance(one, Refusal)), None)
    if refusal is not None:
        _allow_columnar(settings, refusal)
        brought = _brought(tree, table, alias, catalog, settings)
        extras = brought.extras if brought is not None else []
        found, assign = _columnar_update(
            tree, table, alias, targets, catalog, settings, refusal.reason, extras
        )
        returning = _columnar_returning(tree, found, brought, alias)
        if isinstance(returning, Refusal):
            return returning
        types = found.query.param_types
        return UpdatePlan(table, found, assign, rules_of(table), types, returning.columns, returning.project)
    assert isinstance(matches, OwnMatches)
    assert isinstance(assign, tuple)
    returning = bind_returning(tree, table, params, alias)
    if isinstance(returning, Refusal):
        return returning
    return UpdatePlan(
        table, matches, assign, rules_of(table), params.types, returning.columns, returning.project
    )


def bind_delete(tree: exp.Delete, catalog: Catalog, settings: PlanSettings) -> Plan | Refusal:
    """The plan of DELETE, or why own plans do not compute RETURNING."""
    if tree.args.get("tables"):
        raise SqlError("42601", f'syntax error at or near "{tree.args["tables"][0].sql("postgres")}"')
    _only(tree, {"this", "where", "returning", "using", "with_"}, "DELETE")
    table, alias = _target(tree, catalog)
    params = settings.params()
    scope = Scope()
    matches = _own_matches(tree, scope, scope.add_table(alias, table), params, settings)
    if isinstance(matches, Refusal):
        _allow_columnar(settings, matches)
        brought = _brought(tree, table, alias, catalog, settings)
        select = _row_query(tree, table, alias, brought.extras if brought is not None else [])
        found = _columnar_matches(table, select, catalog, settings, matches.reason)
        returning = _columnar_returning(tree, found, brought, alias)
        if isinstance(returning, Refusal):
            return returning
        return DeletePlan(table, found, found.query.param_types, returning.columns, returning.project)
    returning = bind_returning(tree, table, params, alias)
    if isinstance(returning, Refusal):
        return returning
    return DeletePlan(table, matches, params.types, returning.columns, returning.project)


def _other_tables(tree: exp.Expression) -> Refusal | None:
    """Why a statement is not ours that is about more than its target."""
    if tree.args.get("from_") is not None or tree.args.get("using"):
        return Refusal("UPDATE ... FROM" if isinstance(tree, exp.Update) else "DELETE ... USING")
    return Refusal("WITH") if tree.args.get("with_") is not None else None


def _brought(
    tree: exp.Expression, table: Table, alias: str, catalog: Catalog, settings: PlanSettings
) -> Brought | None:
    """What RETURNING wants of the other tables; None where it is not there, or there are none."""
    node = tree.args.get("returning")
    if node is None or (tree.args.get("from_") is None and not tree.args.get("using")):
        return None

    def columns_of(expressions: list[exp.Expression]) -> Sequence[OutputColumn]:
        select = _row_query(tree, table, alias, expressions, whole=False)
        return columnar_select(select, catalog, settings, "RETURNING").columns or ()

    count = sum(len(computed_values(table, one)) for one in assignments(tree, table))
    brought = Brought(table, alias, columns_of, count if isinstance(tree, exp.Update) else 0)
    for one in node.expressions:
        brought.add(one)
    return brought


def _columnar_returning(
    tree: exp.Expression, matches: ColumnarMatches, brought: Brought | None, alias: str
) -> Returning | Refusal:
    """RETURNING of a statement whose rows the columnar engine finds; parameters in it are added to those."""
    query = matches.query
    params = Params(query.param_types)
    if brought is None:
        returning = bind_returning(tree, matches.table, params, alias)
    else:
        computed = (query.columns or ())[len(matches.positions) :]
        returning = bind_brought(brought, computed, params)
    matches.use(query.within(params.types))
    return returning


def _allow_columnar(settings: PlanSettings, refusal: Refusal) -> None:
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
    tree: exp.Expression, scope: Scope, item: TableRelation, params: Params, settings: PlanSettings
) -> OwnMatches | Refusal:
    """How own plans find the rows of a statement's target; or why they do not."""
    where = tree.args.get("where")
    if refusal := _other_tables(tree) or query_within(where):
        return refusal
    conditions = split_conjuncts(condition(where.this, scope, params, "WHERE")) if where is not None else ()
    if refusal := refusal_of(conditions):
        return refusal
    if has_expressions([item]):
        conditions = tuple(substituted(conditions, [item]))
    access = choose(item, conditions, lambda column: False, lambda expr: expr, forced_scan=settings.scan_only)
    if settings.engine == "columnar":
        return Refusal("the columnar engine was requested")
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
    query = columnar_select(select, catalog, settings, reason, targets)
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


_KNOWN = {"this", "using", "on", "whens", "with_"}
_THERE = "__there"


@dataclass
class WhenClause:
    """A WHEN clause: what it is about, its condition, what it does, and the values for the target's columns.

    Attributes:
        matched: there is a row of the target; ``alone``: and none of the source.
        values: (position, value); DEFAULT among them.
        first: place of its first computed value in the query's row.
    """

    matched: bool
    alone: bool
    condition: exp.Expression | None
    kind: str
    values: list[tuple[int, exp.Expression]] = field(default_factory=list)
    first: int = 0

    @property
    def computed(self) -> list[tuple[int, exp.Expression]]:
        """Those values that are no DEFAULT."""
        return [(position, node) for position, node in self.values if not is_default(node)]


def bind_merge(tree: exp.Merge, catalog: Catalog, settings: PlanSettings) -> Plan:
    """The plan of MERGE."""
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            raise SqlError("0A000", f"MERGE: {key.rstrip('_').upper()} is not supported")
    if settings.engine == "own":
        raise SqlError("0A000", "own plans do not support MERGE")
    table = table_of(catalog, tree.this)
    alias = target_name(tree, table)
    source = tree.args["using"]
    clauses = [_clause(when, table, alias, source) for when in tree.args["whens"].expressions]
    _refuse_unreachable(clauses)
    columns = row_columns(table, alias)
    number = _number(clauses, columns[_key_place(table)], any(one.alone for one in clauses))
    asked: list[exp.Expression] = [*columns, number]
    types: list[SqlType | None] = [None] * len(asked)
    for nth, clause in enumerate(clauses, 1):
        clause.first = len(asked)
        for position, node in clause.computed:
            asked.append(_guarded(node, number, nth))
            types.append(table.columns[position].type)
    query = _query(tree, table, clauses, asked, columns[_key_place(table)])
    plan = columnar_select(query, catalog, settings, "MERGE", types)
    live = tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    found = ColumnarMatches(table, plan, live)
    actions = tuple(_action(table, clause, plan.columns or ()) for clause in clauses)
    return MergePlan(table, found, actions, rules_of(table))


def _clause(when: exp.Expression, table: Table, alias: str, source: exp.Expression) -> WhenClause:
    matched, alone = bool(when.args.get("matched")), bool(when.args.get("source"))
    then, condition = when.args["then"], when.args.get("condition")
    clause = WhenClause(matched or alone, alone, condition, DO_NOTHING)
    if isinstance(then, exp.Update):
        clause.kind, clause.values = DO_UPDATE, _updated(then, table)
    elif isinstance(then, exp.Insert):
        clause.kind, clause.values = DO_INSERT, _inserted(then, table)
    elif str(then).upper() == "DELETE":
        clause.kind = DO_DELETE
    elif str(then).upper() != "DO NOTHING":
        raise SqlError("42601", f'syntax error at or near "{then.sql("postgres")}"')
    if clause.matched != (clause.kind in {DO_UPDATE, DO_DELETE}) and clause.kind != DO_NOTHING:
        raise SqlError("42601", f'syntax error at or near "{clause.kind.upper()}"')
    if not clause.matched or alone:
        other, own = (alias, _name(source)) if not clause.matched else (_name(source), alias)
        clause.condition = None if condition is None else _seeing(condition, own, other)
        clause.values = [(position, _seeing(node, own, other)) for position, node in clause.values]
    return clause


def _updated(then: exp.Update, table: Table) -> list[tuple[int, exp.Expression]]:
    """(position, value) of UPDATE SET."""
    found = []
    for position, value in assignments(then, table):
        if isinstance(value, ElementPuts):
            raise SqlError("0A000", "MERGE: assigning to elements of arrays is not supported")
        found.append((position, value))
    return found


def _inserted(then: exp.Insert, table: Table) -> list[tuple[int, exp.Expression]]:
    """(position, value) of INSERT (columns) VALUES (...)."""
    listed, given = then.this, then.args.get("expression")
    if given is None:
        return []  # DEFAULT VALUES
    names: Any = None if listed is None else listed.expressions if isinstance(listed, exp.Tuple) else [listed]
    targets = target_positions(table, names)
    row = given if isinstance(given, exp.Tuple) else exp.Tuple(expressions=[given])
    (items,) = checked_rows(targets, [row], listed=names is not None)
    return list(zip(targets, items, strict=False))


def _name(source: exp.Expression) -> str | None:
    """What a source is called; None for a join."""
    if source.args.get("joins") or isinstance(source.this, exp.Table | exp.Subquery):
        return None
    alias = source.args.get("alias")
    if alias is not None:
        return name_of(alias.this)
    return name_of(source.this) if isinstance(source, exp.Table) else None


def _seeing(node: exp.Expression, own: str | None, other: str | None) -> exp.Expression:
    """An expression that sees only the relation ``own``: its columns are qualified, ``other``'s refused."""

    def qualified(one: exp.Expression) -> exp.Expression:
        if not isinstance(one, exp.Column) or is_default(one):
            return one
        qualifier = one.args.get("table")
        if qualifier is not None and other is not None and name_of(qualifier) == other != own:
            raise SqlError(
                "42P01",
                f'invalid reference to FROM-clause entry for table "{other}"',
                detail=f'There is an entry for table "{other}", but it cannot be referenced from this part '
                "of the query.",
            )
        if qualifier is None and own is not None and one.find_ancestor(exp.Query) is None:
            return exp.column(one.this.copy(), table=quoted(own))
        return one

    return node.copy().transform(qualified)


def _refuse_unreachable(clauses: Sequence[WhenClause]) -> None:
    """42601 for a clause behind one of its kind that takes every row."""
    done = set()
    for clause in clauses:
        kind = (clause.matched, clause.alone)
        if kind in done:
            raise SqlError("42601", "unreachable WHEN clause specified after unconditional WHEN clause")
        if clause.condition is None:
            done.add(kind)


def _key_place(table: Table) -> int:
    """The place among the live columns of one that is never NULL."""
    live = [i for i, column in enumerate(table.columns) if not column.dropped]
    return live.index(table.key_positions[0])


def _number(clauses: Sequence[WhenClause], key: exp.Expression, marked: bool) -> exp.Expression:
    """Which clause takes a pair, from 1; NULL for none."""
    ifs = []
    for nth, clause in enumerate(clauses, 1):
        is_null: exp.Expression = exp.Is(this=key.copy(), expression=exp.Null())
        tests: list[exp.Expression] = [exp.Not(this=is_null) if clause.matched else is_null]
        if marked and clause.matched:
            none: exp.Expression = exp.Is(this=exp.column(_THERE), expression=exp.Null())
            tests.append(none if clause.alone else exp.Not(this=none))
        if clause.condition is not None:
            tests.append(exp.Paren(this=clause.condition.copy()))
        ifs.append(exp.If(this=exp.and_(*tests), true=exp.Literal.number(nth)))
    return exp.Case(ifs=ifs)


def _guarded(node: exp.Expression, number: exp.Expression, nth: int) -> exp.Expression:
    """A value that is computed only where its clause is the one; what cannot fail stands as it is."""
    if isinstance(node, exp.Literal | exp.Null | exp.Parameter | exp.Column):
        return node.copy()
    test = exp.EQ(this=number.copy(), expression=exp.Literal.number(nth))
    return exp.Case(ifs=[exp.If(this=test, true=node.copy())])


def _query(
    tree: exp.Merge,
    table: Table,
    clauses: Sequence[WhenClause],
    asked: list[exp.Expression],
    key: exp.Expression,
) -> exp.Select:
    source, on = tree.args["using"].copy(), tree.args["on"].copy()
    alone = any(clause.alone for clause in clauses)
    if alone:
        source = _marked(source)
    joins = source.args.get("joins")
    source.set("joins", None)
    side = "FULL" if alone else "LEFT" if any(not clause.matched for clause in clauses) else ""
    kept = list(joins or ())
    join = exp.Join(this=in_schema(tree.this, table), on=on, **({"side": side} if side else {}))
    select = exp.Select(expressions=asked, from_=exp.From(this=source), joins=[*kept, join])
    if side == "LEFT" and not any(clause.matched for clause in clauses):
        select.set("where", exp.Where(this=exp.Is(this=key.copy(), expression=exp.Null())))
    given = tree.args.get("with_")
    if given is not None:
        select.set("with_", given.copy())
    return select


def _marked(source: exp.Expression) -> exp.Expression:
    """The source with a column that is NULL where it has no row."""
    name = _name(source)
    if name is None:
        raise SqlError(
            "0A000", "MERGE: WHEN NOT MATCHED BY SOURCE with a join as the source is not supported"
        )
    there = exp.Alias(this=exp.Boolean(this=True), alias=quoted(_THERE))
    inner = exp.Select(expressions=[exp.Star(), there], from_=exp.From(this=source))
    return exp.Subquery(this=inner, alias=exp.TableAlias(this=quoted(name)))


def _action(table: Table, clause: WhenClause, columns: Sequence[OutputColumn]) -> Action:
    """What a clause does with the query's row."""
    places = [(clause.first + i, position) for i, (position, _) in enumerate(clause.computed)]
    if clause.kind == DO_INSERT:
        return Action(DO_INSERT, insert=from_columns(table, places, columns, Params()))
    assign: list[tuple[int, Compiled]] = []
    for place, position in places:
        value = ColumnRef(columns[place].type, place, columns[place].name)
        assign.append((position, compile_expr(assigned(table, position, value, Params()))))
    for position, node in clause.values:
        if is_default(node):
            default = default_of(table, position)
            assign.append((position, compile_expr(default) if default is not None else null))
    return Action(clause.kind, tuple(assign))
