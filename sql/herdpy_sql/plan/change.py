"""UPDATE, DELETE and MERGE: which rows, by an own access path or a columnar query, and what becomes of them.

MERGE is one query that joins source and target: it gives the target's live columns (NULL where there is no
row), the number of the WHEN clause, and what each clause computes over the sides that PostgreSQL lets it
see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.bind.changes import columns_of, computed_output
from herdpy_sql.bind.nodes import BoundInnerQuery, Output
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import (
    DO_DELETE,
    DO_INSERT,
    DO_NOTHING,
    DO_UPDATE,
    Action,
    ColumnarMatches,
    DeletePlan,
    JoinedMatches,
    Matches,
    MergePlan,
    OwnMatches,
    UpdatePlan,
)
from herdpy_sql.expr import Params, columns_used, compile_expr, remap_columns, split_conjuncts
from herdpy_sql.expr.binding import typed_as
from herdpy_sql.expr.nodes import (
    And,
    ColumnRef,
    Comparison,
    In,
    QueryColumn,
    Subquery,
    SubqueryValues,
    walk,
)
from herdpy_sql.node_names import clause_refusal
from herdpy_sql.plan.access import PathReach, choose, spread_out
from herdpy_sql.plan.assignment import (
    ElementPuts,
    all_computed,
    assigned,
    assigned_values,
    assignments,
    compiled_values,
    is_default,
    null,
    own_values,
    target_positions,
)
from herdpy_sql.plan.columnar import PlannedChange, columnar_select
from herdpy_sql.plan.indexes import has_expressions, substituted
from herdpy_sql.plan.insert import checked_rows, from_columns
from herdpy_sql.plan.own import Refusal, refusal_of
from herdpy_sql.plan.returning import Brought, Returning, bind_returning, returning_over, target_name
from herdpy_sql.plan.rules import checked_by_view, default_of, rules_of
from herdpy_sql.plan.scope import in_schema, name_of, quoted, row_columns, table_of
from herdpy_sql.plan.select import own_select, take_from
from herdpy_sql.plan.steps import OwnQuery, StepPlanner
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_sql.bind.nodes import TableScan
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.assignment import Assign, ComputedValue
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType


def bind_update(tree: exp.Update, catalog: Catalog, settings: PlanSettings) -> Plan | Refusal:
    """The plan of UPDATE, or why own plans do not compute RETURNING."""
    _only(tree, {"this", "expressions", "where", "returning", "from_", "with_"}, "UPDATE")
    if not tree.expressions:
        raise SqlError("42601", "syntax error at end of input")
    plain, alias = _target(tree, catalog)
    table = checked_by_view(plain, tree)
    change = PlannedChange(tree, catalog, settings, [*_sources(tree), *_set_to(tree)])
    targets = assignments(change.tree, table)
    scan = change.bound.rows(change.tree, plain, alias)
    computed = all_computed(table, targets)
    bound = [change.bound.value(one.node, "UPDATE") for one in computed]
    matches = _own_matches(change, scan, catalog, settings)
    if not isinstance(matches, Refusal):
        values = [
            typed_as(value, one.type, change.params) for value, one in zip(bound, computed, strict=True)
        ]
        assign = own_values(table, targets, values, change.params)
        if not isinstance(assign, Refusal):
            _note_values(change, computed, values)
            plan = _update(table, matches, assign, change, _own_returning(change, matches, table, alias))
            if isinstance(plan, UpdatePlan) and isinstance(matches, OwnMatches):
                plan.reads = matches.reads.union(_positions_in(values))
            return plan
        matches = assign
    outputs = [
        computed_output(value, one.type, change.params) for value, one in zip(bound, computed, strict=True)
    ]
    _note_values(change, computed, [output.expr for output in outputs])
    found, returning = _columnar_matches(change, scan, alias, outputs, matches, settings)
    given = [
        ColumnRef(column.type, len(table.columns) + i, column.name)
        for i, column in enumerate(found.computed[: len(computed)])
    ]
    stored = assigned_values(table, targets, given, change.params)
    return _update(table, found, compiled_values(stored), change, returning)


def _update(
    table: Table, matches: Matches, assign: Assign, change: PlannedChange, returning: Returning | Refusal
) -> Plan | Refusal:
    if isinstance(returning, Refusal):
        return returning
    plan = UpdatePlan(
        table,
        matches,
        assign,
        rules_of(table),
        change.params.types,
        returning.columns,
        returning.project,
    )
    plan.bound = change.trees(returning.outputs)
    return plan


def _note_values(change: PlannedChange, computed: Sequence[ComputedValue], values: Sequence[Expr]) -> None:
    if change.notes is not None:
        for one, value in zip(computed, values, strict=True):
            change.notes.append((f"Set {one.column}:", value))


def bind_delete(tree: exp.Delete, catalog: Catalog, settings: PlanSettings) -> Plan | Refusal:
    """The plan of DELETE, or why own plans do not compute RETURNING."""
    if tree.args.get("tables"):
        raise SqlError("42601", f'syntax error at or near "{tree.args["tables"][0].sql("postgres")}"')
    _only(tree, {"this", "where", "returning", "using", "with_"}, "DELETE")
    table, alias = _target(tree, catalog)
    change = PlannedChange(tree, catalog, settings, _sources(tree))
    scan = change.bound.rows(change.tree, table, alias)
    found: Matches | Refusal = _own_matches(change, scan, catalog, settings)
    if isinstance(found, Refusal):
        found, returning = _columnar_matches(change, scan, alias, [], found, settings)
    else:
        returning = _own_returning(change, found, table, alias)
    if isinstance(returning, Refusal):
        return returning
    plan = DeletePlan(table, found, change.params.types, returning.columns, returning.project)
    plan.bound = change.trees(returning.outputs)
    return plan


def _sources(tree: exp.Expression) -> list[exp.Expression | None]:
    """What a statement says of its rows: WHERE, the other tables, WITH."""
    where = tree.args.get("where")
    others = [tree.args.get(key) for key in ("from_", "with_")]
    return [where.this if where is not None else None, *(tree.args.get("using") or ()), *others]


def _set_to(tree: exp.Expression) -> list[exp.Expression]:
    """The right sides of SET."""
    return [one.expression for one in tree.expressions if isinstance(one, exp.EQ)]


def _other_tables(tree: exp.Expression) -> Refusal:
    """Why a statement is not ours that is about more than its target."""
    return Refusal("UPDATE ... FROM" if isinstance(tree, exp.Update) else "DELETE ... USING")


def _own_returning(change: PlannedChange, matches: Matches, table: Table, alias: str) -> Returning | Refusal:
    """RETURNING over the rows that own plans find, or why they do not compute it."""
    node = change.tree.args.get("returning")
    if node is None or not isinstance(matches, JoinedMatches):
        return bind_returning(change.tree, table, change.params, alias)
    returning = returning_over(node.expressions, change.bound.scope, change.params)
    if isinstance(returning, Refusal):
        raise SqlError("0A000", f"RETURNING: {returning.reason} is not supported")
    return returning


def _allow_columnar(settings: PlanSettings, refusal: Refusal) -> None:
    if settings.engine == "own":
        raise SqlError("0A000", f"own plans do not support {refusal.reason}")


def _only(node: exp.Expression, known: set[str], what: str) -> None:
    for key, value in node.args.items():
        if value and key not in known:
            raise clause_refusal(node, key)


def _target(tree: exp.Expression, catalog: Catalog) -> tuple[Table, str]:
    table = table_of(catalog, tree.this)
    alias = tree.this.args.get("alias")
    return table, name_of(alias.this) if alias is not None else table.name


def _own_matches(
    change: PlannedChange, scan: TableScan, catalog: Catalog, settings: PlanSettings
) -> OwnMatches | JoinedMatches | Refusal:
    """How own plans find the rows of a statement's target; or why they do not."""
    if change.is_of_system:
        return Refusal("the system catalog")
    if len(change.bound.select.source) > 1:
        return _joined_matches(change, scan, catalog, settings)
    if change.tree.args.get("with_") is not None:
        return Refusal("WITH")
    conditions, subqueries = _with_values(change, catalog, settings)
    if refusal := refusal_of(conditions):
        return refusal
    item = scan.relation
    if has_expressions([item]):
        conditions = substituted(conditions, [item])
    access = choose(item, conditions, _nothing_known, _as_it_is, forced_scan=settings.scan_only)
    access = spread_out(access, item, conditions, _nothing_known, _as_it_is, catalog, in_order=False)
    if settings.engine == "columnar":
        return Refusal("the columnar engine was requested")
    rest = [one for number, one in enumerate(conditions) if number not in access.used]
    if any(isinstance(part, SubqueryValues) for one in rest for part in walk(one)):
        return Refusal("any row of subquery")  # no key or index serves it
    text = " AND ".join(map(expr_text, rest))
    found = OwnMatches(access.source, _all_of(rest), text, subqueries)
    found.reads = _positions_in(rest)
    return found


def _all_of(conditions: Sequence[Expr]) -> Compiled | None:
    """The conjunction of conditions, ready to run."""
    if not conditions:
        return None
    return compile_expr(conditions[0] if len(conditions) == 1 else And(BOOLEAN, tuple(conditions)))


def _with_values(
    change: PlannedChange, catalog: Catalog, settings: PlanSettings
) -> tuple[list[Expr], tuple[Plan, ...]]:
    """The conjuncts of WHERE, ``column IN (SELECT ...)`` as a test of what an own plan gives; those plans."""
    conditions = list(split_conjuncts(change.bound.select.where))
    found: list[tuple[int, Expr, Plan]] = []
    for number, one in enumerate(conditions):
        match one:
            case Subquery(
                query=BoundInnerQuery(query=query, syntax=syntax),
                kind="any",
                test=Comparison(op="=", left=left, right=QueryColumn()),
            ) if not query.outer:
                select = syntax.unnest()
                assert isinstance(select, exp.Expression)
                plan = own_select(select, query, catalog, change.params, settings)
                if not isinstance(plan, Refusal) and plan.read_only:
                    found.append((number, left, plan))
            case _:
                pass
    for nth, (number, left, _) in enumerate(found, 1):
        kind = conditions[number].query.columns[0]  # type: ignore[attr-defined]
        conditions[number] = In(BOOLEAN, left, (SubqueryValues(kind, nth - len(found)),), False)
    return conditions, tuple([plan for _, _, plan in found])


def _joined_matches(
    change: PlannedChange, scan: TableScan, catalog: Catalog, settings: PlanSettings
) -> JoinedMatches | Refusal:
    """How own plans find the target's rows by rows of other relations in memory; or why they do not."""
    refusal = _other_tables(change.tree)
    query, item = OwnQuery(), scan.relation
    if change.tree.args.get("with_") is not None or settings.scan_only or settings.engine == "columnar":
        return refusal
    reason = take_from(query, change.bound.select.source[1:], settings)
    if reason or query.joins or len(query.relations) < len(query.items):
        return refusal
    conditions = [*split_conjuncts(change.bound.select.where), *query.where]
    if foreign := refusal_of(conditions):
        return foreign
    if has_expressions([item]):
        conditions = substituted(conditions, [item])

    def is_other(column: int) -> bool:
        return column >= item.end

    def of_others(one: Expr) -> bool:
        columns = columns_used(one)
        return bool(columns) and all(is_other(column.index) for column in columns)

    query.where = [one for one in conditions if of_others(one)]
    query.outputs = [Output(name, column) for other in query.items for name, column in other.columns]
    others = StepPlanner(query, change.params, settings, catalog).plan()
    if isinstance(others, Refusal):
        return refusal
    own = [one for one in conditions if not of_others(one)]

    def renumbered(expr: Expr) -> Expr:
        return remap_columns(expr, lambda one: one.index - item.end)

    access = choose(item, own, is_other, renumbered)
    access = spread_out(access, item, own, is_other, renumbered, catalog, in_order=False)
    used = [own[number] for number in access.used]
    if access.reach > PathReach.SOME or not any(is_other(at) for at in _positions_in(used)):
        return refusal
    rest = [one for number, one in enumerate(own) if number not in access.used]
    return JoinedMatches(others, access.source, _all_of(rest), " AND ".join(map(expr_text, rest)))


def _nothing_known(_column: int) -> bool:
    """No column has a value before the target is read."""
    return False


def _as_it_is(expr: Expr) -> Expr:
    return expr


def _positions_in(values: Iterable[Expr]) -> frozenset[int]:
    """The places in the row of what expressions look at."""
    return frozenset(column.index for one in values for column in columns_used(one))


def _columnar_matches(
    change: PlannedChange,
    scan: TableScan,
    alias: str,
    computed: list[Output],
    refusal: Refusal,
    settings: PlanSettings,
) -> tuple[ColumnarMatches, Returning | Refusal]:
    """The rows that the columnar engine finds, each with what is ``computed`` of it; and RETURNING."""
    _allow_columnar(settings, refusal)
    table, node = scan.table, change.tree.args.get("returning")
    brought = None
    if node is not None and len(change.bound.select.source) > 1:
        place = len(table.columns) + len(computed)
        brought = Brought(node.expressions, scan.relation, change.bound.scope, change.params, place)
    extras = brought.outputs if brought is not None else []
    positions = tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    query = change.query([*columns_of(scan), *computed, *extras], refusal.reason)
    matches = ColumnarMatches(table, query, positions)
    if brought is not None:
        return matches, brought.returning(matches.computed[len(computed) :])
    returning = bind_returning(change.tree, table, change.params, alias)
    matches.use(query.within(change.params.types))
    return matches, returning


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
            raise clause_refusal(tree, key)
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
