"""CREATE TABLE, also LIKE a table or AS a query, and SELECT INTO: syntax trees to definitions of tables.

The parts of CREATE TABLE are read into a :class:`Draft`, in the order written; the draft becomes a ``Table``
without ids, which the catalog gives when the plan runs. LIKE adds the columns of a table to the draft. The
columns of CREATE TABLE AS are those of its query, whose rows the plan inserts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from sqlglot import expressions as exp

from herdpy.codec.kinds import Kind
from herdpy_sql.catalog import HIDDEN_KEY, PUBLIC, Check, Column, Index, KeyPart, Table
from herdpy_sql.collations import check_stored
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.define import CreateTablePlan
from herdpy_sql.execute.insert import NO_VALUE, FromQuery, InsertSelectPlan
from herdpy_sql.expr import compile_expr, sql_type
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.node_names import clause_refusal, refusal
from herdpy_sql.objects import SequenceDefinition
from herdpy_sql.plan.assignment import null
from herdpy_sql.plan.names import (
    FreshNames,
    checked_name,
    new_name,
    on_commit,
    refuse_repeated,
    skips,
    with_remarks,
)
from herdpy_sql.plan.partition_keys import partitioned
from herdpy_sql.plan.rules import (
    bind_check,
    bind_default,
    bind_foreign_key,
    bind_generated,
    names_of,
    rules_of,
    scalar,
)
from herdpy_sql.plan.scope import name_of, table_of
from herdpy_sql.plan.sequences import SERIALS, identity_sequence, serial_sequence, settle_sequence_names
from herdpy_sql.sequences import fresh_name
from herdpy_sql.types import BIGINT, TEXT, Base, SqlType
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import OutputColumn, Row
    from herdpy_sql.storage import View

MAX_COLUMNS = 1600


class Deferral(NamedTuple):
    """Whether a constraint may be checked at COMMIT, and whether it is to begin with."""

    deferrable: bool = False
    deferred: bool = False


NOT_DEFERRABLE = Deferral()


@dataclass
class Unique:
    columns: list[str]
    name: str | None
    constraint: bool = True
    when: Deferral = NOT_DEFERRABLE
    primary: bool = False


@dataclass
class Draft:
    """A table definition while its parts are read."""

    name: str
    schema: str = PUBLIC
    on_commit: str = ""
    columns: dict[str, ColumnDraft] = field(default_factory=dict)
    key: Unique | None = None
    uniques: list[Unique] = field(default_factory=list)
    checks: list[tuple[str | None, list[str], exp.Expression]] = field(default_factory=list)
    foreign_keys: list[tuple[str | None, list[str], exp.Reference]] = field(default_factory=list)

    def set_key(self, columns: list[str], name: str | None, when: Deferral = NOT_DEFERRABLE) -> None:
        if self.key is not None or any(one.primary for one in self.uniques):
            raise SqlError("42P16", f'multiple primary keys for table "{self.name}" are not allowed')
        if when.deferrable:  # rows may have equal keys for a while: they have hidden ones
            self.uniques.insert(0, Unique(columns, name, when=when, primary=True))
        else:
            self.key = Unique(columns, name)


@dataclass
class ColumnDraft:
    type: SqlType
    not_null: bool = False
    nullable: bool = False
    default: exp.Expression | None = None
    generated: exp.Expression | None = None
    identity: str = ""
    sequence: SequenceDefinition | None = None  # of SERIAL, or of an identity column


def column_draft(table: str, part: exp.ColumnDef) -> Draft:
    """What a column definition of ALTER TABLE asks for, alone in a draft of the table of that name."""
    draft = Draft(table)
    _column(draft, part)
    return draft


def column_of(name: str, one: ColumnDraft) -> Column:
    """The column that a draft describes. SqlError as its DEFAULT is wrong; a generated one is yet to bind."""
    return Column(
        name,
        one.type,
        one.not_null,
        bind_default(name, one.type, one.default),
        generated=None if one.generated is None else one.generated.sql("postgres"),
        identity=one.identity,
    )


def create_table(tree: exp.Create, catalog: Catalog) -> Plan:
    """The plan of CREATE TABLE."""
    only(tree, {"this", "kind", "exists", "properties", "on_commit"}, "CREATE TABLE")
    check_properties(properties_of(tree))
    settle_sequence_names(tree, catalog)
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise SqlError("42601", "syntax error at end of input")
    temporary = tree.find(exp.TemporaryProperty) is not None
    namespace, name = new_name(schema.this, catalog, temporary=temporary)
    draft = Draft(name, namespace, on_commit=on_commit(tree, temporary=temporary))
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            _column(draft, part)
        elif isinstance(part, exp.LikeProperty):
            take_columns(draft, part, table_of(catalog, part.this))
        else:
            _table_constraint(draft, part, None)
    if len(draft.columns) > MAX_COLUMNS:
        raise SqlError("54011", f"tables can have at most {MAX_COLUMNS} columns")
    sequences = tuple(
        (position, one.sequence)
        for position, one in enumerate(draft.columns.values())
        if one.sequence is not None
    )
    table = _table(draft, catalog)
    spread = tree.find(exp.PartitionedByProperty)
    if spread is not None:
        _refuse_storage(tree)
        table = partitioned(table, spread)
    found = CreateTablePlan(table, if_not_exists=bool(tree.args.get("exists")), sequences=sequences)
    return with_remarks(found, skips(found, catalog))


def only(node: exp.Expression, known: set[str], what: str) -> None:
    """Refuse clauses that sqlglot read and this planner does not know."""
    for key, value in node.args.items():
        if value and key not in known:
            raise clause_refusal(node, key)


def properties_of(tree: exp.Create) -> list[exp.Expression]:
    """What stands around the columns: TEMPORARY, WITH (...), PARTITION BY and so on."""
    properties = tree.args.get("properties")
    return [] if properties is None else list(properties.expressions)


def check_properties(properties: Iterable[exp.Expression]) -> None:
    """UNLOGGED and the storage parameters of WITH (fillfactor = 100) have no meaning; PARTITION BY has."""
    for one in properties:
        if isinstance(one, exp.UnloggedProperty | exp.TemporaryProperty | exp.PartitionedByProperty):
            continue
        name = one.name.lower() if isinstance(one, exp.Property) and type(one) is exp.Property else ""
        if not name:
            raise refusal(one)
        check_storage_parameter(name, one.args["value"].name)


def _refuse_storage(tree: exp.Create) -> None:
    """22023 for a storage parameter: a partitioned table stores nothing."""
    for one in properties_of(tree):
        if type(one) is exp.Property:
            raise SqlError("22023", f'unrecognized parameter "{one.name.lower()}"')


def check_storage_parameter(name: str, value: str = "") -> None:
    """22023 for a storage parameter or a fill factor that PostgreSQL does not know either."""
    if name == "fillfactor" and value and not (value.isdigit() and 10 <= int(value) <= 100):
        raise SqlError(
            "22023",
            f'value {value} out of bounds for option "fillfactor"',
            detail='Valid values are between "10" and "100".',
        )
    if not name.startswith(_STORAGE_PARAMETERS):
        raise SqlError("22023", f'unrecognized parameter "{name}"')


def check_storage_parameters(text: str) -> None:
    """The same of what stands in the parentheses of SET and RESET."""
    for one in text.split(","):
        name, _, value = one.partition("=")
        if name.strip():
            check_storage_parameter(name.strip().lower(), value.strip())


_STORAGE_PARAMETERS = (
    "fillfactor",
    "autovacuum_",
    "toast",
    "parallel_workers",
    "vacuum_",
    "user_catalog_table",
)


def _column(draft: Draft, part: exp.ColumnDef) -> None:
    name = checked_name(name_of(part.this))
    if name in draft.columns:
        raise SqlError("42701", f'column "{name}" specified more than once', column=name)
    if name == HIDDEN_KEY:
        raise SqlError("42701", f'column name "{name}" is reserved', column=name)
    kind = part.args.get("kind")
    if kind is None:
        raise SqlError("42601", f'column "{name}" has no type')
    only(part, {"this", "kind", "constraints"}, f'column "{name}"')
    serial = SERIALS.get(kind.this) if isinstance(kind, exp.DataType) else None
    if serial is None:
        column = ColumnDraft(_column_type(name, kind))
    else:
        column = ColumnDraft(serial, not_null=True, sequence=serial_sequence(serial))
    draft.columns[name] = column
    for constraint in part.args.get("constraints") or ():
        label = name_of(constraint.this) if constraint.this else None
        _column_constraint(draft, name, column, constraint.args["kind"], label)
    if column.not_null and column.nullable:
        raise SqlError(
            "42601", f'conflicting NULL/NOT NULL declarations for column "{name}" of table "{draft.name}"'
        )
    if column.sequence is not None and (column.default is not None or column.generated is not None):
        raise SqlError(
            "42601",
            f'both default and identity specified for column "{name}" of table "{draft.name}"'
            if column.identity
            else f'multiple default values specified for column "{name}" of table "{draft.name}"',
        )
    if column.generated is not None and column.default is not None:
        raise SqlError(
            "42601",
            f'both default and generation expression specified for column "{name}" of table "{draft.name}"',
        )


def _column_type(name: str, kind: exp.Expression) -> SqlType:
    return storable(name, sql_type(kind))


_NOT_STORED = frozenset({*REG_TYPES, Base.XID, Base.INT2VECTOR, Base.OIDVECTOR})


def storable(name: str, found: SqlType) -> SqlType:
    """The type of a column. SqlError 0A000 for one that only columns of the system catalog have."""
    if (found.element or found.base) in _NOT_STORED:
        raise SqlError(
            "0A000",
            f'column "{name}" of type {found} is not supported',
            column=name,
            hint="Use the type oid.",
        )
    return found


def _column_constraint(
    draft: Draft, name: str, column: ColumnDraft, kind: exp.Expression, label: str | None
) -> None:
    if isinstance(kind, exp.NotNullColumnConstraint):
        if kind.args.get("allow_null"):
            column.nullable = True
        else:
            column.not_null = True
    elif isinstance(kind, exp.DefaultColumnConstraint):
        if column.default is not None:
            raise SqlError(
                "42601", f'multiple default values specified for column "{name}" of table "{draft.name}"'
            )
        column.default = kind.this
    elif isinstance(kind, exp.CollateColumnConstraint):
        check_stored(kind.this, column.type)
    elif isinstance(kind, exp.Reference):
        draft.foreign_keys.append((label, [name], kind))
    elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
        draft.set_key([name], label, deferral(kind))
    elif isinstance(kind, exp.UniqueColumnConstraint):
        draft.uniques.append(Unique([name], label, when=deferral(kind)))
    elif isinstance(kind, exp.CheckColumnConstraint):
        draft.checks.append((label, [name], kind.this))
    elif isinstance(kind, exp.ComputedColumnConstraint):
        if column.generated is not None:
            raise SqlError(
                "42601", f'multiple generation clauses specified for column "{name}" of table "{draft.name}"'
            )
        column.generated = kind.this
    elif isinstance(kind, exp.GeneratedAsIdentityColumnConstraint) and kind.expression is None:
        if column.identity:
            raise SqlError(
                "42601", f'multiple identity specifications for column "{name}" of table "{draft.name}"'
            )
        if column.sequence is not None:
            raise SqlError(
                "42601", f'both default and identity specified for column "{name}" of table "{draft.name}"'
            )
        column.identity = "ALWAYS" if kind.this else "BY DEFAULT"
        column.sequence = identity_sequence(kind, column.type)
        column.not_null = True
    else:
        raise _unsupported_constraint(kind)


def _table_constraint(draft: Draft, part: exp.Expression, label: str | None) -> None:
    if isinstance(part, exp.Constraint):
        for inner in part.expressions:
            _table_constraint(draft, inner, checked_name(name_of(part.this)))
    elif isinstance(part, exp.ForeignKey):
        draft.foreign_keys.append((label, list(map(column_name, part.expressions)), part.args["reference"]))
    elif isinstance(part, exp.PrimaryKey):
        draft.set_key([column_name(node) for node in part.expressions], label, deferral(part))
    elif isinstance(part, exp.UniqueColumnConstraint):
        listed = part.this.expressions if isinstance(part.this, exp.Schema) else []
        if not listed:
            raise SqlError("42601", "syntax error: UNIQUE needs a list of columns")
        columns = [column_name(node) for node in listed]
        draft.uniques.append(Unique(columns, label, when=deferral(part)))
    elif isinstance(part, exp.CheckColumnConstraint):
        columns = [name_of(node.this) for node in part.this.find_all(exp.Column)]
        draft.checks.append((label, list(dict.fromkeys(columns)), part.this))
    else:
        raise _unsupported_constraint(part)


def column_name(node: exp.Expression) -> str:
    """The name of a column in a constraint's list."""
    while isinstance(node, exp.Ordered | exp.Column):
        node = node.this
    return name_of(node)


def deferral(node: exp.Expression) -> Deferral:
    """What [NOT] DEFERRABLE and INITIALLY DEFERRED say of a key or UNIQUE. SqlError 42601."""
    words = " ".join(map(str, node.args.get("options") or ())).upper()
    deferred = "INITIALLY DEFERRED" in words
    if deferred and "NOT DEFERRABLE" in words:
        raise SqlError("42601", "constraint declared INITIALLY DEFERRED must be DEFERRABLE")
    deferrable = "DEFERRABLE" in words and "NOT DEFERRABLE" not in words
    return Deferral(deferrable or deferred, deferred)


def _unsupported_constraint(node: exp.Expression) -> SqlError:
    if isinstance(node, exp.GeneratedAsIdentityColumnConstraint | exp.ComputedColumnConstraint):
        return SqlError("0A000", "GENERATED columns are not supported")
    if isinstance(node, exp.LikeProperty):
        return SqlError("0A000", "LIKE is not supported here")
    if isinstance(node, exp.Identifier):
        return SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
    return refusal(node)


def _table(draft: Draft, catalog: Catalog) -> Table:
    """The definition, without ids."""
    primary = draft.key or next((one for one in draft.uniques if one.primary), None)
    if primary is not None:
        for name in _known(draft, primary.columns):
            if draft.columns[name].nullable:
                raise SqlError(
                    "42601",
                    f'conflicting NULL/NOT NULL declarations for column "{name}" of table "{draft.name}"',
                )
            draft.columns[name].not_null = True
            ordered(name, draft.columns[name].type)
    columns = [column_of(name, one) for name, one in draft.columns.items()]
    if draft.key is None:
        columns.append(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
    positions = {column.name: i for i, column in enumerate(columns)}
    names = FreshNames(draft.name, catalog, draft.schema)
    if draft.key is None:
        key, key_name = [HIDDEN_KEY], f"{draft.name}_{'pkey' if primary is None else HIDDEN_KEY}"
    else:
        key, key_name = draft.key.columns, draft.key.name or names.new([], "pkey")
    names.taken.add(key_name)
    indexes = tuple(
        Index(
            id=0,
            name=unique.name or _index_name(names, unique),
            table_id=0,
            parts=tuple(KeyPart(positions[name]) for name in _known(draft, unique.columns)),
            unique=not unique.when.deferrable,
            constraint=True,
            deferrable=unique.when.deferrable,
            deferred=unique.when.deferred,
            primary=unique.primary,
        )
        for unique in draft.uniques
        if draft.key is None or unique.columns != draft.key.columns
    )
    refuse_repeated([key_name, *(index.name for index in indexes)])
    bare = Table(
        id=0,
        name=draft.name,
        columns=tuple(columns),
        key=tuple(KeyPart(positions[name]) for name in key),
        key_name=key_name,
        indexes=indexes,
        schema=draft.schema,
        on_commit=draft.on_commit,
    )
    return _with_foreign_keys(draft, _with_checks(draft, bare), catalog)


def _index_name(names: FreshNames, unique: Unique) -> str:
    return names.new([], "pkey") if unique.primary else names.new(unique.columns, "key")


def _with_checks(draft: Draft, table: Table) -> Table:
    for position, column in enumerate(table.columns):
        if column.generated is not None:
            bind_generated(table, position)
    checks: list[Check] = []
    for label, columns, condition in draft.checks:
        taken = {check.name for check in checks} | {one for one, _, _ in draft.checks if one}
        if label is not None and label in {check.name for check in checks}:
            raise SqlError("42710", f'constraint "{label}" for relation "{table.name}" already exists')
        bind_check(table, condition)
        checks.append(
            Check(
                label or fresh_name(table.name, columns if len(columns) == 1 else (), "check", taken),
                condition.sql("postgres"),
            )
        )
    return replace(table, checks=tuple(checks))


def _with_foreign_keys(draft: Draft, table: Table, catalog: Catalog) -> Table:
    labels = {label for label, _, _ in draft.foreign_keys if label}
    for label, columns, node in draft.foreign_keys:
        if label in names_of(table):
            raise SqlError("42710", f'constraint "{label}" for relation "{table.name}" already exists')
        found = bind_foreign_key(table, columns, node, label, catalog, labels)
        one = replace(found, validated=True)  # there are no rows yet
        table = replace(table, foreign_keys=(*table.foreign_keys, one))
    return table


def _known(draft: Draft, names: Sequence[str]) -> Sequence[str]:
    for i, name in enumerate(names):
        if name not in draft.columns:
            raise SqlError("42703", f'column "{name}" named in key does not exist', column=name)
        if name in names[:i]:
            raise SqlError("42701", f'column "{name}" appears twice in a key constraint', column=name)
        ordered(name, draft.columns[name].type)
    return names


def ordered(name: str, sql: SqlType) -> None:
    """42704 for a column whose type has no order, and so no keys."""
    if sql.kind is Kind.JSON:
        raise SqlError(
            "42704", "data type json has no default operator class for an index", column=name, datatype="json"
        )


_OPTIONS = (
    "COMMENTS",
    "COMPRESSION",
    "CONSTRAINTS",
    "DEFAULTS",
    "GENERATED",
    "IDENTITY",
    "INDEXES",
    "STATISTICS",
    "STORAGE",
)


def take_columns(draft: Draft, part: exp.LikeProperty, source: Table) -> None:
    """Add the columns of ``source`` to the draft of a table. SqlError 42701, 0A000."""
    asked = _asked(part)
    for position in source.visible:
        column = source.columns[position]
        if column.name in draft.columns:
            raise SqlError("42701", f'column "{column.name}" specified more than once', column=column.name)
        draft.columns[column.name] = _like_column(column, asked)
    if "CONSTRAINTS" in asked:
        for check in source.checks:
            condition = scalar(check.condition)
            draft.checks.append((check.name, [], condition))
    if "INDEXES" in asked:
        if any(not (one.unique or one.constraint) or one.predicate is not None for one in source.indexes):
            raise SqlError("0A000", "LIKE ... INCLUDING INDEXES of indexes without UNIQUE is not supported")
        if not source.has_hidden_key:
            draft.set_key([source.columns[part.position].name for part in source.key], None)
        for index in source.indexes:
            names = [source.columns[part.position].name for part in index.parts]
            when = Deferral(index.deferrable, index.deferred)
            if index.primary:
                draft.set_key(names, None, when)
            else:
                draft.uniques.append(Unique(names, None, when=when))


def _asked(part: exp.LikeProperty) -> set[str]:
    asked: set[str] = set()
    for option in part.expressions:
        word, value = str(option.this).upper(), option.args["value"].name.upper()
        if value != "ALL" and value not in _OPTIONS:
            raise SqlError("42601", f'syntax error at or near "{value}"')
        named = set(_OPTIONS) if value == "ALL" else {value}
        asked = asked | named if word == "INCLUDING" else asked - named
    return asked


def _like_column(column: Column, asked: set[str]) -> ColumnDraft:
    draft = ColumnDraft(column.type, not_null=column.not_null)
    if column.identity and "IDENTITY" in asked:
        draft.identity = column.identity
        draft.sequence = msgspec.structs.replace(serial_sequence(column.type), identity=True)
    elif column.default is not None and not column.identity and "DEFAULTS" in asked:
        draft.default = scalar(column.default)
    if column.generated is not None and "GENERATED" in asked:
        draft.generated = scalar(column.generated)
    return draft


_AS_CLAUSES = {"this", "kind", "exists", "properties", "expression", "on_commit"}


class CreateTableAsPlan(Plan):
    """CREATE TABLE AS; ``table`` has no ids yet. The count is that of the query's rows."""

    tag = "SELECT"

    def __init__(self, table: Table, query: Plan, *, if_not_exists: bool, with_data: bool) -> None:
        self.table = table
        self.query = query
        self.source = query.source
        self.param_types = query.param_types
        self.engine = query.engine
        self.if_not_exists = if_not_exists
        self.with_data = with_data
        if not with_data:
            self.tag = "CREATE TABLE AS"

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        table = self.table
        there = (table.schema, table.name) in view.catalog.relations
        CreateTablePlan(table, if_not_exists=self.if_not_exists).run(view, params, clock)
        if there or not self.with_data:
            return PlanOutcome(None, 0)
        made = view.catalog.relations[table.schema, table.name]
        assert isinstance(made, Table)
        compute = [
            compile_expr(ColumnRef(column.type, i, column.name)) if not column.hidden else null
            for i, column in enumerate(made.columns)
        ]
        sources = [NO_VALUE if column.hidden else i for i, column in enumerate(made.columns)]
        convert = FromQuery(tuple(compute), len(compute) - 1, rules_of(made), tuple(sources))
        return InsertSelectPlan(made, self.query, convert).run(view, params, clock, source)

    def explain(self) -> list[str]:
        first, *rest = self.query.explain()
        return [f"Create Table {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


def create_table_as(tree: exp.Create, catalog: Catalog, planned: Callable[[exp.Expression], Plan]) -> Plan:
    """The plan of CREATE TABLE ... AS query."""
    for key, value in tree.args.items():
        if value and key not in _AS_CLAUSES:
            raise clause_refusal(tree, key)
    listed: list[str] = []
    target = tree.this
    if isinstance(target, exp.Schema):
        if any(isinstance(one, exp.ColumnDef) and one.args.get("kind") for one in target.expressions):
            raise SqlError("42601", 'syntax error at or near "AS"')
        listed = [name_of(one.this if isinstance(one, exp.ColumnDef) else one) for one in target.expressions]
        target = target.this
    given = properties_of(tree)
    data = [one for one in given if isinstance(one, exp.WithDataProperty)]
    check_properties(one for one in given if one not in data)
    temporary = any(isinstance(one, exp.TemporaryProperty) for one in given)
    schema, name = new_name(target, catalog, temporary=temporary)
    query = planned(tree.expression.unnest())
    with_data = not (data and data[0].args.get("no"))
    table = replace(
        _table_of_query(schema, name, query.columns or (), listed),
        on_commit=on_commit(tree, temporary=temporary),
    )
    found = CreateTableAsPlan(table, query, if_not_exists=bool(tree.args.get("exists")), with_data=with_data)
    skipped = skips(found, catalog)
    if skipped:
        found.tag = "CREATE TABLE AS"
    return with_remarks(found, skipped)


def select_into(tree: exp.Select, catalog: Catalog, planned: Callable[[exp.Expression], Plan]) -> Plan:
    """The plan of SELECT ... INTO table."""
    into = tree.args["into"]
    tree.set("into", None)
    schema, name = new_name(into.this, catalog, temporary=bool(into.args.get("temporary")))
    query = planned(tree)
    return CreateTableAsPlan(
        _table_of_query(schema, name, query.columns or (), []), query, if_not_exists=False, with_data=True
    )


def _table_of_query(schema: str, name: str, found: tuple[OutputColumn, ...], listed: list[str]) -> Table:
    if len(listed) > len(found):
        raise SqlError("42601", "too many column names were specified")
    names = [*listed, *(column.name for column in found[len(listed) :])]
    for i, one in enumerate(names):
        if one in names[:i]:
            raise SqlError("42701", f'column "{one}" specified more than once', column=one)
    columns = [
        Column(one, TEXT if column.type.base is Base.UNKNOWN else storable(one, column.type))
        for one, column in zip(names, found, strict=True)
    ]
    columns.append(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
    return Table(
        id=0,
        name=name,
        columns=tuple(columns),
        key=(KeyPart(len(columns) - 1),),
        key_name=f"{name}_pkey",
        schema=schema,
    )
