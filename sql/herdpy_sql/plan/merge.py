"""MERGE: one query joins the source with the target and says for each pair which WHEN clause takes it.

The query gives the target's live columns (NULL where there is no row), the number of the clause, and what
each clause computes. A clause sees what PostgreSQL lets it see: both sides where they match, else the one
that is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import ColumnarMatches
from herdpy_sql.execute.merge import DELETE, INSERT, NOTHING, UPDATE, Action, MergePlan
from herdpy_sql.expr import Params, compile_expr
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.plan.assignment import ElementPuts, assigned, assignments, is_default, null, target_positions
from herdpy_sql.plan.columnar import columnar_select
from herdpy_sql.plan.insert import checked_rows, from_columns
from herdpy_sql.plan.returning import target_name
from herdpy_sql.plan.rules import default_of, rules_of
from herdpy_sql.plan.scope import in_schema, name_of, quoted, row_columns, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType

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
    plan = columnar_select(query, catalog, settings.param_types, "MERGE", types, settings.given)
    live = tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    found = ColumnarMatches(table, plan, live)
    actions = tuple(_action(table, clause, plan.columns) for clause in clauses)
    return MergePlan(table, found, actions, rules_of(table))


def _clause(when: exp.Expression, table: Table, alias: str, source: exp.Expression) -> WhenClause:
    matched, alone = bool(when.args.get("matched")), bool(when.args.get("source"))
    then, condition = when.args["then"], when.args.get("condition")
    clause = WhenClause(matched or alone, alone, condition, NOTHING)
    if isinstance(then, exp.Update):
        clause.kind, clause.values = UPDATE, _updated(then, table)
    elif isinstance(then, exp.Insert):
        clause.kind, clause.values = INSERT, _inserted(then, table)
    elif str(then).upper() == "DELETE":
        clause.kind = DELETE
    elif str(then).upper() != "DO NOTHING":
        raise SqlError("42601", f'syntax error at or near "{then.sql("postgres")}"')
    if clause.matched != (clause.kind in {UPDATE, DELETE}) and clause.kind != NOTHING:
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
    if clause.kind == INSERT:
        return Action(INSERT, insert=from_columns(table, places, columns, Params()))
    assign: list[tuple[int, Compiled]] = []
    for place, position in places:
        value = ColumnRef(columns[place].type, place, columns[place].name)
        assign.append((position, compile_expr(assigned(table, position, value, Params()))))
    for position, node in clause.values:
        if is_default(node):
            default = default_of(table, position)
            assign.append((position, compile_expr(default) if default is not None else null))
    return Action(clause.kind, tuple(assign))
