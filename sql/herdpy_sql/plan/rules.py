"""What a table demands of its rows: DEFAULT, CHECK, GENERATED (bound once for a version), foreign keys.

``bind_foreign_key`` makes the definition for CREATE and ALTER TABLE. ``with_references`` gives the plan of
a statement that writes to tables with foreign keys one that checks them and carries their actions out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Rules
from herdpy_sql.execute.change import DeletePlan, MergePlan, UpdatePlan
from herdpy_sql.execute.insert import InsertSelectPlan
from herdpy_sql.execute.links import comparable, links_of, unique_access
from herdpy_sql.execute.references import ReferenceView, ReferringChange, ReferringInsert, ReferringPlan
from herdpy_sql.expr import (
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
from herdpy_sql.expr.nodes import Call, Cast, Chain, ColumnRef, Const, Function
from herdpy_sql.expr.scope import Scope
from herdpy_sql.foreign_keys import CASCADE, NO_ACTION, ForeignKey
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.tokens import OPTIONS, ReferenceOptions
from herdpy_sql.plan.own import own
from herdpy_sql.plan.scope import name_of, table_of
from herdpy_sql.plan.type_names import mark_enums, mark_types_of
from herdpy_sql.sequences import fresh_name
from herdpy_sql.types import BOOLEAN, Base

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Plan
    from herdpy_sql.execute.links import ForeignKeyLinks
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.storage import View
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
    found = own(
        bind(node, Scope(clause="DEFAULT", volatile=True), params, target), f'DEFAULT of column "{name}"'
    )
    found = coerce(found, target, "assignment", params)
    _refuse_parameters(params)
    _refuse_clock_words(found)
    return found


def bind_check(table: Table, node: exp.Expression) -> Expr:
    """The condition of a CHECK over the table's physical row."""
    mark_types_of(node, table)
    scope = Scope(clause="CHECK")
    scope.add_table(table.name, table)
    params = Params()
    found = own(bind(node, scope, params, BOOLEAN), "CHECK constraint")
    if found.type != BOOLEAN:
        found = coerce(found, BOOLEAN, "implicit", params)
    _refuse_parameters(params)
    _refuse_clock_words(found)
    return found


def bind_generated(table: Table, position: int) -> Expr:
    """The expression of a generated column over the table's physical row, coerced to the column's type.

    SqlError 42P17 when it may give another value later, or is made of another generated column.
    """
    column = table.columns[position]
    assert column.generated is not None
    node = scalar(column.generated)
    mark_types_of(node, table)
    scope = Scope(clause="generation", volatile=True)
    scope.add_table(table.name, table)
    params = Params()
    found = own(bind(node, scope, params, column.type), "generation expression")
    found = coerce(found, column.type, "assignment", params)
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
        return expr.function is not None and _looks_at_clock(expr.function)
    return isinstance(expr, Chain) and any(_looks_at_clock(function) for function, _, _ in expr.steps)


def _looks_at_clock(function: Function) -> bool:
    return function.needs_clock and not function.immutable


_CLOCK_WORD = re.compile(r"\b(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_OF_CLOCKS = frozenset({Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ})


def _refuse_clock_words(expr: Expr) -> None:
    """SqlError 0A000 for 'now' and its like in what is kept as text, where PostgreSQL keeps the moment."""
    for one in walk(expr):
        if not isinstance(one, Cast) or (one.type.element or one.type.base) not in _OF_CLOCKS:
            continue
        for part in children(one):
            if isinstance(part, Const) and isinstance(part.value, str) and _CLOCK_WORD.search(part.value):
                raise SqlError(
                    "0A000",
                    f"'{part.value}' is not supported in a definition",
                    hint="now() and CURRENT_DATE are computed for each row; a moment stays as written.",
                )


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
        conditions = [bind_check(table, scalar(check.condition)) for check in table.checks]
        checks = tuple(
            (check.name, compile_expr(condition))
            for check, condition in zip(table.checks, conditions, strict=True)
        )
        made = {
            position: bind_generated(table, position)
            for position, column in enumerate(table.columns)
            if column.generated is not None and not column.dropped
        }
        generated = tuple((position, compile_expr(expr)) for position, expr in made.items())
        shapes = tuple(
            (position, column.type.dimensions)
            for position, column in enumerate(table.columns)
            if column.type.base is Base.ARRAY and not column.dropped
        )
        found = table.derived["rules"] = Rules(
            table,
            not_null,
            checks,
            generated,
            shapes=shapes,
            watched=_positions_used(conditions),
            generated_from=_positions_used(made.values()),
        )
    assert isinstance(found, Rules)
    return found


def _positions_used(exprs: Iterable[Expr]) -> tuple[int, ...]:
    return tuple(sorted({column.index for one in exprs for column in columns_used(one)}))


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


_SETS = frozenset({"SET NULL", "SET DEFAULT"})


def bind_foreign_key(
    child: Table,
    columns: Sequence[str],
    node: exp.Reference,
    label: str | None,
    catalog: Catalog,
    taken: Collection[str] = (),
) -> ForeignKey:
    """The definition of a foreign key of ``child``, as the table will be.

    Args:
        columns: the referring ones.
        taken: names of constraints besides those of the catalog.

    Raises:
        SqlError: 42P01, 42703, 42704, 42830, 42804, 42P10, 42P16, 42601, 0A000 as PostgreSQL.
    """
    options = node.meta.get(OPTIONS) or ReferenceOptions()
    parent = _parent(child, node, catalog)
    if child.is_routed or parent.is_routed:
        raise SqlError("0A000", "foreign keys to or from partitioned tables and partitions are not supported")
    here = _positions(child, columns)
    there = _referenced(parent, node)
    if unique_access(parent, there) is None:
        if any(
            one.deferrable and {part.position for part in one.parts} == {*there} for one in parent.indexes
        ):
            raise _deferrable_target(parent, "unique constraint")
        raise SqlError(
            "42830",
            f'there is no unique constraint matching given keys for referenced table "{parent.name}"',
            table=parent.name,
        )
    if len(here) != len(there):
        raise SqlError("42830", "number of referencing and referenced columns for foreign key disagree")
    name = label or _fresh_name(child, columns, catalog, taken)
    _check_types(name, child, here, parent, there)
    deferrable, deferred = _deferral(options)
    found = ForeignKey(
        name,
        tuple(here),
        parent.id,
        tuple(there),
        options.on_delete or NO_ACTION,
        options.on_update or NO_ACTION,
        full=_is_full(options),
        set_columns=_set_columns(options, columns, here),
        deferrable=deferrable,
        deferred=deferred,
        validated=not options.not_valid,
    )
    _check_generated(child, found)
    return found


def constraint_names(catalog: Catalog, schema: str) -> set[str]:
    """The names of all constraints in a schema, which a name that is made up must not be."""
    found: set[str] = set()
    for table in catalog.tables.values():
        if table.schema == schema:
            found |= names_of(table)
    return found


def names_of(table: Table) -> set[str]:
    """The names of a table's constraints, of which no two are alike."""
    names = {check.name for check in table.checks} | {one.name for one in table.foreign_keys}
    names |= {index.name for index in table.indexes if index.constraint}
    return names if table.has_hidden_key else names | {table.key_name}


def _parent(child: Table, node: exp.Reference, catalog: Catalog) -> Table:
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    if not isinstance(target, exp.Table):
        raise SqlError("42601", "syntax error: a table name was expected")
    schema = target.args.get("db")
    if name_of(target.this) == child.name and (schema is None or name_of(schema) == child.schema):
        return child
    parent = table_of(catalog, target)
    if parent.is_temporary != child.is_temporary:
        kind = "temporary" if child.is_temporary else "permanent"
        raise SqlError("42P16", f"constraints on {kind} tables may reference only {kind} tables")
    return parent


def _positions(table: Table, names: Sequence[str]) -> list[int]:
    found = []
    for name in names:
        position = table.positions.get(name)
        if position is None or table.columns[position].hidden:
            raise SqlError(
                "42703", f'column "{name}" referenced in foreign key constraint does not exist', column=name
            )
        found.append(position)
    return found


def _referenced(parent: Table, node: exp.Reference) -> list[int]:
    """The positions of the columns referred to: those listed, or the primary key."""
    if isinstance(node.this, exp.Schema):
        found = _positions(parent, [name_of(_identifier(one)) for one in node.this.expressions])
        if len(set(found)) != len(found):
            raise SqlError("42830", "foreign key referenced-columns list must not contain duplicates")
        return found
    if any(one.primary for one in parent.indexes):
        raise _deferrable_target(parent, "primary key")
    if parent.has_hidden_key:
        raise SqlError("42704", f'there is no primary key for referenced table "{parent.name}"')
    return list(parent.key_positions)


def _deferrable_target(parent: Table, what: str) -> SqlError:
    return SqlError("55000", f'cannot use a deferrable {what} for referenced table "{parent.name}"')


def _identifier(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Column) else node


def _fresh_name(child: Table, columns: Sequence[str], catalog: Catalog, taken: Collection[str]) -> str:
    names = constraint_names(catalog, child.schema) | names_of(child) | set(taken)
    return fresh_name(child.name, columns, "fkey", names)


def check_types(one: ForeignKey, child: Table, parent: Table) -> None:
    """42804 when columns of the two tables cannot be compared (any more)."""
    _check_types(one.name, child, one.columns, parent, one.referenced)


def _check_types(name: str, child: Table, here: Sequence[int], parent: Table, there: Sequence[int]) -> None:
    for mine, other in zip(here, there, strict=True):
        given, wanted = child.columns[mine], parent.columns[other]
        if not comparable(given.type, wanted.type):
            raise SqlError(
                "42804",
                f'foreign key constraint "{name}" cannot be implemented',
                detail=f'Key columns "{given.name}" and "{wanted.name}" are of incompatible types: '
                f"{_name(given.type)} and {_name(wanted.type)}.",
            )


def _name(given: SqlType) -> str:
    """A type without its modifiers."""
    if given.enum is not None or given.element is not None:
        return str(given)
    return given.base.value


def _is_full(options: ReferenceOptions) -> bool:
    if options.match == "PARTIAL":
        raise SqlError("0A000", "MATCH PARTIAL not yet implemented")
    return options.match == "FULL"


def _deferral(options: ReferenceOptions) -> tuple[bool, bool]:
    """Whether it is deferrable, and whether it is deferred to begin with."""
    if options.deferred and options.deferrable is False:
        raise SqlError("42601", "constraint declared INITIALLY DEFERRED must be DEFERRABLE")
    return bool(options.deferrable or options.deferred), bool(options.deferred)


def _set_columns(options: ReferenceOptions, columns: Sequence[str], here: Sequence[int]) -> tuple[int, ...]:
    if options.set_on_update:
        raise SqlError(
            "0A000",
            f"a column list with {options.on_update} is only supported for ON DELETE actions",
        )
    for name in options.set_columns:
        if name not in columns:
            raise SqlError(
                "42P10",
                f'column "{name}" referenced in ON DELETE SET action must be part of foreign key',
                column=name,
            )
    return tuple(here[columns.index(name)] for name in options.set_columns)


def _check_generated(child: Table, one: ForeignKey) -> None:
    """A generated column cannot be set by an action."""
    if all(child.columns[position].generated is None for position in one.columns):
        return
    for event, action in (("UPDATE", one.on_update), ("DELETE", one.on_delete)):
        if action in _SETS or (event == "UPDATE" and action == CASCADE):
            raise SqlError(
                "42601",
                f"invalid ON {event} action for foreign key constraint containing generated column",
            )


class Tools:
    """What actions need of the definitions of tables: see ``execute.references``."""

    def __init__(self) -> None:
        self._casts: dict[tuple[SqlType, SqlType], Compiled] = {}

    def complete(self, table: Table, row: list[Datum], clock: Clock) -> None:
        """Compute what is computed of a row, and verify it. SqlError 23502, 23514."""
        rules_of(table).verify(row, clock)

    def default(self, table: Table, position: int, clock: Clock) -> Datum:
        """The DEFAULT of a column."""
        compute = compile_default(table, position)
        return None if compute is None else compute((), (), clock)

    def assigned(self, value: Datum, given: SqlType, wanted: SqlType, clock: Clock) -> Datum:
        """A value of one type as a column of another takes it. SqlError 22..."""
        if given == wanted or value is None:
            return value
        cast = self._casts.get((given, wanted))
        if cast is None:
            column = ColumnRef(given, 0, "value")
            cast = self._casts[given, wanted] = compile_expr(coerce(column, wanted, "assignment", Params()))
        return cast((value,), (), clock)


TOOLS = Tools()


def noting(view: View, table: Table) -> ReferenceView | None:
    """What notes the rows that are written to a table, where it refers to others or is referred to."""
    return ReferenceView(view, TOOLS) if links_of(view.catalog).concern(table.id) else None


def with_references(plan: Plan, catalog: Catalog) -> Plan:
    """The plan, or where it writes to tables with foreign keys or deferrable uniques, one that keeps them."""
    if not catalog.checks_later or plan.read_only:
        return plan
    links, table = links_of(catalog), getattr(plan, "table", None)
    if table is not None and not links.concern(table.id):
        return plan
    if isinstance(plan, UpdatePlan):
        return ReferringChange(plan, TOOLS) if _touches(plan, links) else plan
    if isinstance(plan, DeletePlan):
        return ReferringChange(plan, TOOLS) if plan.table.id in links.of_parent else plan
    if isinstance(plan, InsertSelectPlan) and any(one.deferrable for one in plan.table.foreign_keys):
        plan.by_columns = False  # a check that is put off looks for its row by the row's key
    if isinstance(plan, InsertSelectPlan | MergePlan):
        return ReferringInsert(plan, TOOLS)
    return ReferringPlan(plan, TOOLS)


def _touches(plan: UpdatePlan, links: ForeignKeyLinks) -> bool:
    """Whether an UPDATE may change what refers or is referred to, or the row's key, which is locked."""
    table = plan.table
    watched = {at for link in links.of_child.get(table.id, ()) for at in link.key.columns}
    for unique in links.uniques.get(table.id, ()):
        watched |= {*unique.columns}
    for link in links.of_parent.get(table.id, ()):
        watched |= {*link.key.referenced, *table.key_positions}
    if any(getattr(column, "generated", None) is not None for column in table.columns):
        return True
    return any(position in watched for position, _ in plan.assign)
