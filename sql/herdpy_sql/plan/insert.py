"""INSERT: where every physical column of a row comes from, and what ON CONFLICT makes of a row there is.

``bind_insert`` binds rows of VALUES itself; those of a query, and of VALUES that only the columnar engine can
compute, are converted from the query's. ON CONFLICT names the unique keys that decide (arbiters), and what
becomes of the row that has one already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.bind.changes import computed_output
from herdpy_sql.catalog import Catalog
from herdpy_sql.collations import check_stored
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan
from herdpy_sql.execute.change import row_mode
from herdpy_sql.execute.insert import (
    COMPUTED,
    NO_VALUE,
    SAME,
    Arbiter,
    Change,
    ColumnValue,
    ConflictPlan,
    ConflictSelectPlan,
    FromOneRow,
    FromQuery,
    IndexArbiter,
    InsertPlan,
    InsertSelectPlan,
    KeyArbiter,
    OnConflict,
    make_maker,
)
from herdpy_sql.expr import Params, columns_used, compile_expr, is_volatile, split_conjuncts
from herdpy_sql.expr.binding import typed_as
from herdpy_sql.expr.nodes import ColumnRef, Const, Param
from herdpy_sql.expr.scope import Scope
from herdpy_sql.node_names import clause_refusal
from herdpy_sql.plan.assignment import (
    assigned,
    assignments,
    is_default,
    null,
    own_assign,
    refuse_generated,
    target_positions,
)
from herdpy_sql.plan.clauses import condition
from herdpy_sql.plan.columnar import PlannedChange
from herdpy_sql.plan.indexes import implies, indexed_expression, substituted
from herdpy_sql.plan.own import Refusal, query_within, refusal_of
from herdpy_sql.plan.returning import bind_returning, target_name
from herdpy_sql.plan.rules import checked_by_view, default_of, rules_of
from herdpy_sql.plan.scope import name_of, quoted, table_of
from herdpy_sql.plan.settings import PlanSettings
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import TEXT, SqlType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.bind.nodes import Output
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled
    from herdpy_sql.execute.insert import Maker
    from herdpy_sql.expr.nodes import Expr


QueryPlan = Callable[[exp.Expression, Catalog, PlanSettings, Sequence[SqlType]], Plan]
_KNOWN = {"overriding", "this", "expression", "returning", "default", "conflict", "with_"}


def bind_insert(
    tree: exp.Insert, catalog: Catalog, settings: PlanSettings, query_plan: QueryPlan
) -> Plan | Refusal:
    """The plan of INSERT, or why own plans do not compute RETURNING.

    ``query_plan`` plans the query whose rows it takes.
    """
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            raise clause_refusal(tree, key)
    if tree.args.get("expression") is None and not tree.args.get("default"):
        raise SqlError("42601", "syntax error at end of input")
    table = checked_by_view(table_of(catalog, tree.this), tree)
    targets = target_positions(table, tree.this.expressions if isinstance(tree.this, exp.Schema) else None)
    source = tree.args.get("expression")
    params = settings.params()
    places = change = None
    if isinstance(source, exp.Subquery) and not any(
        value for key, value in source.args.items() if key != "this"
    ):
        source = source.this
    if any(column.identity for column in table.columns):
        _check_overriding(tree, table, targets, source)
    if isinstance(source, exp.Values):
        values = _Values(tree, table, targets, source, catalog, settings)
        if values.refusal is not None:
            return values.columnar_plan(settings)
        change, params = values.change, values.change.params
        makers = values.own_makers()
        if values.is_parametrized:
            places = _places(table, targets, source.expressions[0], len(params.types))
    elif source is None:
        makers = (_maker(table, {}, often=False),)
    else:
        return _from_query(tree, table, targets, source, catalog, settings, query_plan)
    conflict = _conflict(tree, table, targets, params)
    returning = bind_returning(tree, table, params)
    if isinstance(returning, Refusal):
        return returning
    columns, project = returning.columns, returning.project
    plan: Plan = (
        InsertPlan(table, makers, params.types, columns, project, places)
        if conflict is None
        else ConflictPlan(table, makers, conflict, params.types, columns, project)
    )
    if change is not None:
        plan.bound = change.trees(returning.outputs)
    return plan


def _check_overriding(tree: exp.Insert, table: Table, targets: Sequence[int], source: object) -> None:
    """Values for identity columns: refused where the column is ALWAYS its own, unless OVERRIDING says so.

    SqlError 428C9. With OVERRIDING USER VALUE they give way to the column's own.
    """
    overriding = str(tree.args.get("overriding") or "")
    for place, position in enumerate(targets):
        column = table.columns[position]
        if not column.identity or overriding == "SYSTEM":
            continue
        if isinstance(source, exp.Values):
            for row in source.expressions:
                if isinstance(row, exp.Tuple):
                    if place < len(row.expressions):
                        _judge(column.name, column.identity, overriding, row.expressions[place])
                elif place == 0:
                    _judge(column.name, column.identity, overriding, row.unnest())
        elif overriding:
            raise SqlError("0A000", "OVERRIDING USER VALUE is not supported with a query")
        elif column.identity == "ALWAYS" and isinstance(source, exp.Expression):
            raise _not_default(column.name)


def _judge(name: str, identity: str, overriding: str, node: exp.Expression) -> None:
    if is_default(node):
        return
    if overriding == "USER":
        node.replace(exp.Var(this="DEFAULT"))
    elif identity == "ALWAYS":
        raise _not_default(name)


def _not_default(name: str) -> SqlError:
    return SqlError(
        "428C9",
        f'cannot insert a non-DEFAULT value into column "{name}"',
        detail=f'Column "{name}" is an identity column defined as GENERATED ALWAYS.',
        hint="Use OVERRIDING SYSTEM VALUE to override.",
        column=name,
    )


class _Values:
    """The rows of VALUES, bound once.

    Attributes:
        rows: for each row what is given, by position, as it is stored; DEFAULT is not. Whole if own plans
            compute all of it.
        refusal: why they do not.
    """

    def __init__(
        self,
        tree: exp.Insert,
        table: Table,
        targets: list[int],
        source: exp.Values,
        catalog: Catalog,
        settings: PlanSettings,
    ) -> None:
        """SqlError."""
        self._table, self._targets = table, targets
        self._listed = isinstance(tree.this, exp.Schema)
        rows = self._rows(source)
        nodes = [node for row in rows for node in row]
        self.change = change = PlannedChange(tree, catalog, settings, [*nodes, tree.args.get("with_")])
        self.refusal: Refusal | None = Refusal("WITH") if change.bound.select.with_queries else None
        if change.is_of_system:
            self.refusal = Refusal("the system catalog")
            rows = self._rows(values_of(change.tree))
        self.rows: list[dict[int, Expr]] = []
        self._bound: list[list[tuple[int, Expr]]] = []
        clause = "VALUES" if len(rows) > 1 else "VALUES of one row"
        for row in rows:
            self._bind(row, clause)

    def _rows(self, source: exp.Values) -> list[list[exp.Expression]]:
        return list(checked_rows(self._targets, source.expressions, listed=self._listed))

    def _bind(self, row: Sequence[exp.Expression], clause: str) -> None:
        """Bind one row."""
        table, change = self._table, self.change
        stored: dict[int, Expr] = {}
        bound: list[tuple[int, Expr]] = []
        for position, node in zip(self._targets, row, strict=False):
            if is_default(node):
                continue
            refuse_generated(table, position)
            value = change.bound.value(node, clause)
            bound.append((position, value))
            self.refusal = self.refusal or refusal_of([value])
            if self.refusal is None:
                value = typed_as(value, table.columns[position].type, change.params)
                stored[position] = assigned(table, position, value, change.params)
        self.rows.append(stored)
        self._bound.append(bound)

    def columnar_plan(self, settings: PlanSettings) -> Plan | Refusal:
        """INSERT of values that the columnar engine has to compute: all of them in one row."""
        assert self.refusal is not None
        if settings.engine == "own":
            raise SqlError("0A000", f"own plans do not support {self.refusal.reason}")
        table, change = self._table, self.change
        outputs: list[Output] = []
        places: list[list[tuple[int, int]]] = []
        for row in self._bound:
            places.append([(len(outputs) + i, position) for i, (position, _) in enumerate(row)])
            for position, value in row:
                outputs.append(computed_output(value, table.columns[position].type, change.params))
                self._note(position, outputs[-1].expr)
        plan = change.query(outputs, self.refusal.reason)
        made = [from_columns(table, one, plan.columns or (), change.params) for one in places]
        assert isinstance(change.tree, exp.Insert)
        return _select_plan(
            change.tree, table, self._targets, plan, FromOneRow(tuple(made)), settings, change
        )

    def own_makers(self) -> tuple[Maker, ...]:
        """What makes the rows, if own plans compute all of it."""
        for row in self.rows if self.change.notes is not None else ():
            for position, value in row.items():
                self._note(position, value)
        often = self.is_parametrized
        return tuple([_maker(self._table, row, often=often) for row in self.rows])

    @property
    def is_parametrized(self) -> bool:
        """Whether it is one row, of parameters among others."""
        return len(self.rows) == 1 and len(self.change.params.types) > 0

    def _note(self, position: int, value: Expr) -> None:
        if self.change.notes is not None:
            self.change.notes.append((f"Value of {self._table.columns[position].name}:", value))


def values_of(tree: exp.Expression) -> exp.Values:
    """The VALUES of an INSERT, which may stand in parentheses."""
    source = tree.args["expression"]
    return source.this if isinstance(source, exp.Subquery) else source  # type: ignore[no-any-return]


def checked_rows(
    targets: Sequence[int], rows: Sequence[exp.Expression], *, listed: bool
) -> Iterator[list[exp.Expression]]:
    """The values of each row of VALUES; SqlError 42601 when there are too many or too few."""
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
        yield items


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


def _maker(table: Table, bound: dict[int, Expr], *, often: bool) -> Maker:
    values = [_value(table, position, bound) for position in range(len(table.columns))]
    return make_maker(values, rules_of(table), often=often)


def _value(table: Table, position: int, bound: dict[int, Expr]) -> ColumnValue:
    column = table.columns[position]
    if column.numbers_rows:
        return ColumnValue(row_id=True)
    found = bound[position] if position in bound else default_of(table, position)
    if found is None or column.dropped:
        return ColumnValue(is_constant=True)
    if isinstance(found, Param):
        return ColumnValue(param=found.number - 1)
    if isinstance(found, Const):
        return ColumnValue(constant=found.value, is_constant=True)
    return ColumnValue(compute=compile_expr(found))


def _from_query(
    tree: exp.Insert,
    table: Table,
    targets: list[int],
    source: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    query_plan: QueryPlan,
) -> Plan | Refusal:
    plan = query_plan(_with(tree, source), catalog, settings, [table.columns[p].type for p in targets])
    params = settings.params()
    columns = plan.columns or ()
    if len(columns) > len(targets):
        raise SqlError("42601", "INSERT has more expressions than target columns")
    if len(columns) < len(targets) and isinstance(tree.this, exp.Schema):
        raise SqlError("42601", "INSERT has more target columns than expressions")
    convert = from_columns(table, list(enumerate(targets[: len(columns)])), columns, params)
    return _select_plan(tree, table, targets, plan, convert, settings)


def _with(tree: exp.Insert, source: exp.Expression) -> exp.Expression:
    """The query of INSERT with the WITH that stands before INSERT."""
    given = tree.args.get("with_")
    if given is None:
        return source
    query = source.copy()
    if query.args.get("with_") is not None:  # its own names hide the others
        alias = exp.TableAlias(this=quoted("__query"))
        inner = exp.From(this=exp.Subquery(this=query, alias=alias))
        query = exp.Select(expressions=[exp.Star()], from_=inner)
    query.set("with_", given.copy())
    return query


def take_in_with(tree: exp.Insert) -> None:
    """Move the WITH that stands before INSERT into its query."""
    tree.set("expression", _with(tree, tree.args["expression"]))
    tree.set("with_", None)


def from_columns(
    table: Table, places: list[tuple[int, int]], columns: Sequence[OutputColumn], params: Params
) -> FromQuery:
    """How a row of a query becomes one of ``table``: (place in it, position) of what it gives."""
    given: dict[int, Expr] = {}
    for i, position in places:
        column = columns[i]
        refuse_generated(table, position)
        given[position] = assigned(table, position, ColumnRef(column.type, i, column.name), params)
    compute, sources = [], []
    used: set[int] = set()
    for position in range(len(table.columns)):
        found = given.get(position) or (
            None if table.columns[position].numbers_rows else default_of(table, position)
        )
        compute.append(compile_expr(found) if found is not None else null)
        if position in given and isinstance(found, ColumnRef):
            sources.append(found.index)
        elif found is None:
            sources.append(NO_VALUE)
        else:
            read = {column.index for column in columns_used(found)}
            used |= read
            sources.append(COMPUTED if read or is_volatile(found) else SAME)
    row_id = next((i for i, column in enumerate(table.columns) if column.numbers_rows), None)
    return FromQuery(tuple(compute), row_id, rules_of(table), tuple(sources), tuple(sorted(used)))


def _select_plan(
    tree: exp.Insert,
    table: Table,
    targets: Sequence[int],
    plan: Plan,
    convert: FromQuery | FromOneRow,
    settings: PlanSettings,
    change: PlannedChange | None = None,
) -> Plan | Refusal:
    """The plan with what is common to all that insert the rows of a query; ``change`` has trees of values."""
    if change is not None:
        params = change.params
    else:
        params = settings.knowing(plan.param_types, tree.args["expression"], tree.args.get("with_")).params()
    conflict = _conflict(tree, table, targets, params)
    returning = bind_returning(tree, table, params)
    if isinstance(returning, Refusal):
        return returning
    output, project = returning.columns, returning.project
    plan = plan.within(params.types)
    made: Plan = (
        InsertSelectPlan(table, plan, convert, output, project, params.types)
        if conflict is None
        else ConflictSelectPlan(table, plan, convert, conflict, output, project, params.types)
    )
    if change is not None:
        made.bound = change.trees(returning.outputs)
    return made


def _conflict(tree: exp.Insert, table: Table, targets: Sequence[int], params: Params) -> OnConflict | None:
    """What ON CONFLICT says, if it is there."""
    node = tree.args.get("conflict")
    if node is None:
        return None
    if str(node.args.get("action")) == "UPSERT":
        return bind_upsert(table, targets)
    return bind_conflict(node, table, target_name(tree, table), params)


_ON_CONFLICT_CLAUSES = {"expressions", "action", "conflict_keys", "constraint", "where", "index_predicate"}


def bind_conflict(node: exp.OnConflict, table: Table, alias: str, params: Params) -> OnConflict:
    """What ON CONFLICT asks for.

    Raises:
        SqlError: 42P10 when no unique key fits, 42704 for an unknown constraint, 42601 for DO UPDATE
            without either, and what the expressions of DO UPDATE raise.
    """
    for key, value in node.args.items():
        if value and key not in _ON_CONFLICT_CLAUSES:
            raise clause_refusal(node, key)
    arbiters = _arbiters(node, table)
    updates = str(node.args.get("action")).upper() == "DO UPDATE"
    if not updates:
        return OnConflict(table, arbiters, None, rules_of(table))
    if not node.args.get("conflict_keys") and not node.args.get("constraint"):
        raise SqlError(
            "42601",
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
        )
    scope = Scope(volatile=True)
    scope.add_table(alias, table)
    scope.add_table("excluded", table)
    assign = own_assign(table, assignments(node, table), scope, params)
    where = node.args.get("where")
    refusal = assign if isinstance(assign, Refusal) else query_within(where)
    filtered = None
    if where is not None and refusal is None:
        filtered = condition(where.this, scope, params, "WHERE")
        refusal = refusal_of([filtered])
    if refusal is not None:
        raise SqlError("0A000", f"ON CONFLICT DO UPDATE: {refusal.reason} is not supported")
    assert isinstance(assign, tuple)
    change = Change(
        assign,
        None if filtered is None else compile_expr(filtered),
        "" if filtered is None else expr_text(filtered),
        row_mode(table, {position for position, _ in assign}),
    )
    return OnConflict(table, arbiters, change, rules_of(table))


def bind_upsert(table: Table, targets: Sequence[int]) -> OnConflict:
    """What UPSERT does: the row that has the key takes over the columns ``targets`` of the proposed one."""
    arbiters = () if table.has_hidden_key else (KeyArbiter(table),)
    assign = tuple(
        (position, _proposed(len(table.columns) + position))
        for position in targets
        if position not in table.key_positions and table.columns[position].generated is None
    )
    mode = row_mode(table, {position for position, _ in assign})
    return OnConflict(table, arbiters, Change(assign, None, "", mode), rules_of(table))


def _proposed(place: int) -> Compiled:
    return lambda row, params, clock: row[place]


def _arbiters(node: exp.OnConflict, table: Table) -> tuple[Arbiter, ...]:
    every: list[tuple[Arbiter, frozenset[int], bool]] = []
    if not table.has_hidden_key:
        every.append((KeyArbiter(table), frozenset(table.key_positions), True))
    for index in table.indexes:
        if index.unique:
            columns = frozenset(part.position for part in index.parts)
            every.append((IndexArbiter(table, index), columns, index.constraint))
    later = [one for one in table.indexes if one.deferrable]
    constraint = node.args.get("constraint")
    if constraint is not None:
        name = name_of(constraint)
        if any(one.name == name for one in later):
            raise _not_an_arbiter()
        found = [one for one, _, is_constraint in every if is_constraint and one.name == name]
        if not found:
            raise SqlError(
                "42704", f'constraint "{name}" for table "{table.name}" does not exist', constraint=name
            )
        return tuple(found)
    keys = node.args.get("conflict_keys")
    if not keys:
        if later:
            raise _not_an_arbiter()
        return tuple(one for one, _, _ in every)
    wanted = frozenset(_position(table, key) for key in keys)
    covers = _covers(node, table)
    found = [one for one, columns, _ in every if columns == wanted and covers(one)]
    if any({part.position for part in one.parts} == wanted for one in later):
        raise _not_an_arbiter()
    if not found:
        raise SqlError(
            "42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        )
    return tuple(found)


def _not_an_arbiter() -> SqlError:
    what = "deferrable unique constraints/exclusion constraints"
    return SqlError("55000", f"ON CONFLICT does not support {what} as arbiters")


def _covers(node: exp.OnConflict, table: Table) -> Callable[[Arbiter], bool]:
    """Whether a unique index has all rows, or at least those that the WHERE of the keys is true of."""
    scope = Scope()
    item = scope.add_table(table.name, table)
    where = node.args.get("index_predicate")
    given = () if where is None else split_conjuncts(condition(where.this, scope, Params(), "WHERE"))
    given = tuple(substituted(given, [item]))
    return lambda one: isinstance(one, KeyArbiter) or implies(item, one.index, given)


def _position(table: Table, node: exp.Expression) -> int:
    """The column that an item of ON CONFLICT (...) names."""
    if isinstance(node, exp.Ordered):
        if node.args.get("desc") is not None:
            raise SqlError("42P10", "ASC/DESC is not allowed in ON CONFLICT clause")
        node = node.this
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Opclass):
        raise SqlError("0A000", "ON CONFLICT: operator classes are not supported")
    if isinstance(node, exp.Collate):
        check_stored(node.expression, TEXT)
        return _position(table, node.this)
    if not isinstance(node, exp.Column) or node.args.get("table"):
        indexed = indexed_expression(table, node)
        if indexed is not None:
            return indexed
        raise SqlError(
            "42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        )
    name = name_of(node.this)
    position = table.positions.get(name)
    if position is None or table.columns[position].hidden:
        raise SqlError("42703", f'column "{name}" does not exist', column=name)
    return position
