"""CREATE TABLE and CREATE INDEX: syntax trees to definitions.

The parts of CREATE TABLE are read into a draft, in the order written; the draft becomes a ``Table`` without
ids, which the catalog gives when the plan runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy.codec.kinds import Kind
from herdpy_sql.catalog import HIDDEN_KEY, Check, Column, Index, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import CreateIndexPlan, CreateTablePlan, duplicate
from herdpy_sql.expr import NotOwn, sql_type
from herdpy_sql.plan.names import FreshNames, checked_name, fresh_name, new_name, refuse_repeated
from herdpy_sql.plan.rules import bind_check, bind_default
from herdpy_sql.plan.scope import name_of, table_of
from herdpy_sql.types import BIGINT, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan

MAX_COLUMNS = 1600


@dataclass
class _Unique:
    columns: list[str]
    name: str | None
    constraint: bool = True


@dataclass
class _Draft:
    """A table definition while its parts are read."""

    name: str
    columns: dict[str, _ColumnDraft] = field(default_factory=dict)
    key: _Unique | None = None
    uniques: list[_Unique] = field(default_factory=list)
    checks: list[tuple[str | None, list[str], exp.Expression]] = field(default_factory=list)

    def set_key(self, columns: list[str], name: str | None) -> None:
        if self.key is not None:
            raise SqlError("42P16", f'multiple primary keys for table "{self.name}" are not allowed')
        self.key = _Unique(columns, name)


@dataclass
class _ColumnDraft:
    type: SqlType
    not_null: bool = False
    nullable: bool = False
    default: exp.Expression | None = None


def create_table(tree: exp.Create, catalog: Catalog) -> Plan:
    """The plan of CREATE TABLE."""
    _only(tree, {"this", "kind", "exists", "properties"}, "CREATE TABLE")
    _check_properties(tree.args.get("properties"))
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise SqlError("0A000", "CREATE TABLE without a list of columns is not supported")
    draft = _Draft(new_name(schema.this))
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            _column(draft, part)
        else:
            _table_constraint(draft, part, None)
    if len(draft.columns) > MAX_COLUMNS:
        raise SqlError("54011", f"tables can have at most {MAX_COLUMNS} columns")
    return CreateTablePlan(_table(draft, catalog), if_not_exists=bool(tree.args.get("exists")))


def _only(node: exp.Expression, known: set[str], what: str) -> None:
    """Refuse clauses that sqlglot read and this planner does not know."""
    for key, value in node.args.items():
        if value and key not in known:
            raise SqlError("0A000", f"{what}: {key.rstrip('_').replace('_', ' ').upper()} is not supported")


def _check_properties(properties: exp.Properties | None) -> None:
    """UNLOGGED, and the storage parameters of WITH (fillfactor = 100): known, and without a meaning here."""
    for one in properties.expressions if properties is not None else ():
        if isinstance(one, exp.UnloggedProperty):
            continue
        name = one.name.lower() if isinstance(one, exp.Property) and type(one) is exp.Property else ""
        if not name:
            raise SqlError("0A000", f"CREATE TABLE: {one.sql('postgres')} is not supported")
        if not name.startswith(_STORAGE_PARAMETERS):
            raise SqlError("22023", f'unrecognized parameter "{name}"')


_STORAGE_PARAMETERS = (
    "fillfactor",
    "autovacuum_",
    "toast",
    "parallel_workers",
    "vacuum_",
    "user_catalog_table",
)


def _column(draft: _Draft, part: exp.ColumnDef) -> None:
    name = checked_name(name_of(part.this))
    if name in draft.columns:
        raise SqlError("42701", f'column "{name}" specified more than once', column=name)
    if name == HIDDEN_KEY:
        raise SqlError("42701", f'column name "{name}" is reserved', column=name)
    kind = part.args.get("kind")
    if kind is None:
        raise SqlError("42601", f'column "{name}" has no type')
    _only(part, {"this", "kind", "constraints"}, f'column "{name}"')
    column = draft.columns[name] = _ColumnDraft(_column_type(name, kind))
    for constraint in part.args.get("constraints") or ():
        label = name_of(constraint.this) if constraint.this else None
        _column_constraint(draft, name, column, constraint.args["kind"], label)
    if column.not_null and column.nullable:
        raise SqlError(
            "42601", f'conflicting NULL/NOT NULL declarations for column "{name}" of table "{draft.name}"'
        )


def _column_type(name: str, kind: exp.Expression) -> SqlType:
    if isinstance(kind, exp.DataType) and kind.this in _SERIALS:
        raise SqlError("0A000", f"type {kind.this.value.lower()} is not supported", column=name)
    try:
        found = sql_type(kind)
    except NotOwn as refusal:
        raise SqlError("0A000", f'column "{name}": {refusal.reason} is not supported', column=name) from None
    if found.base is Base.INTERVAL:
        raise SqlError("0A000", f'column "{name}" cannot have type {found}', column=name)
    return found


_SERIALS = {exp.DataType.Type.SERIAL, exp.DataType.Type.BIGSERIAL, exp.DataType.Type.SMALLSERIAL}


def _column_constraint(
    draft: _Draft, name: str, column: _ColumnDraft, kind: exp.Expression, label: str | None
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
    elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
        draft.set_key([name], label)
    elif isinstance(kind, exp.UniqueColumnConstraint):
        draft.uniques.append(_Unique([name], label))
    elif isinstance(kind, exp.CheckColumnConstraint):
        draft.checks.append((label, [name], kind.this))
    else:
        raise _unsupported_constraint(kind)


def _table_constraint(draft: _Draft, part: exp.Expression, label: str | None) -> None:
    if isinstance(part, exp.Constraint):
        for inner in part.expressions:
            _table_constraint(draft, inner, checked_name(name_of(part.this)))
    elif isinstance(part, exp.PrimaryKey):
        draft.set_key([_column_name(node) for node in part.expressions], label)
    elif isinstance(part, exp.UniqueColumnConstraint):
        listed = part.this.expressions if isinstance(part.this, exp.Schema) else []
        if not listed:
            raise SqlError("42601", "syntax error: UNIQUE needs a list of columns")
        draft.uniques.append(_Unique([_column_name(node) for node in listed], label))
    elif isinstance(part, exp.CheckColumnConstraint):
        columns = [name_of(node.this) for node in part.this.find_all(exp.Column)]
        draft.checks.append((label, list(dict.fromkeys(columns)), part.this))
    else:
        raise _unsupported_constraint(part)


def _column_name(node: exp.Expression) -> str:
    while isinstance(node, exp.Ordered | exp.Column):
        node = node.this
    return name_of(node)


def _unsupported_constraint(node: exp.Expression) -> SqlError:
    if isinstance(node, exp.Reference | exp.ForeignKey):
        return SqlError("0A000", "FOREIGN KEY constraints are not supported")
    if isinstance(node, exp.CollateColumnConstraint):
        return SqlError("0A000", "COLLATE is not supported: text is ordered by code point")
    if isinstance(node, exp.GeneratedAsIdentityColumnConstraint | exp.ComputedColumnConstraint):
        return SqlError("0A000", "GENERATED columns are not supported")
    if isinstance(node, exp.LikeProperty):
        return SqlError("0A000", "CREATE TABLE: LIKE is not supported")
    if isinstance(node, exp.Identifier):
        return SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
    return SqlError("0A000", f"constraint {node.sql('postgres')} is not supported")


def _table(draft: _Draft, catalog: Catalog) -> Table:
    """The definition, without ids."""
    if draft.key is not None:
        for name in _known(draft, draft.key.columns):
            if draft.columns[name].nullable:
                raise SqlError(
                    "42601",
                    f'conflicting NULL/NOT NULL declarations for column "{name}" of table "{draft.name}"',
                )
            draft.columns[name].not_null = True
            _ordered(name, draft.columns[name].type)
    columns = [
        Column(name, one.type, one.not_null, bind_default(name, one.type, one.default))
        for name, one in draft.columns.items()
    ]
    if draft.key is None:
        columns.append(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
    positions = {column.name: i for i, column in enumerate(columns)}
    names = FreshNames(draft.name, catalog)
    if draft.key is None:
        key, key_name = [HIDDEN_KEY], f"{draft.name}_pkey"
    else:
        key, key_name = draft.key.columns, draft.key.name or names.new([], "pkey")
    names.taken.add(key_name)
    indexes = tuple(
        Index(
            id=0,
            name=unique.name or names.new(unique.columns, "key"),
            table_id=0,
            parts=tuple(KeyPart(positions[name]) for name in _known(draft, unique.columns)),
            unique=True,
            constraint=True,
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
    )
    return _with_checks(draft, bare)


def _with_checks(draft: _Draft, table: Table) -> Table:
    from dataclasses import replace

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


def _known(draft: _Draft, names: Sequence[str]) -> Sequence[str]:
    for i, name in enumerate(names):
        if name not in draft.columns:
            raise SqlError("42703", f'column "{name}" named in key does not exist', column=name)
        if name in names[:i]:
            raise SqlError("42701", f'column "{name}" appears twice in a key constraint', column=name)
        _ordered(name, draft.columns[name].type)
    return names


def _ordered(name: str, sql: SqlType) -> None:
    if sql.kind is Kind.JSON:
        raise SqlError(
            "42704", "data type json has no default operator class for an index", column=name, datatype="json"
        )


def create_index(tree: exp.Create, catalog: Catalog) -> Plan:
    """The plan of CREATE INDEX."""
    _only(tree, {"this", "kind", "exists", "unique", "concurrently"}, "CREATE INDEX")
    node = tree.this
    if not isinstance(node, exp.Index):
        raise SqlError("42601", "syntax error in CREATE INDEX")
    table = table_of(catalog, node.args.get("table"))
    given = node.args.get("params")
    if given is None or not given.args.get("columns"):
        raise SqlError("42601", "syntax error: CREATE INDEX needs a list of columns")
    using = given.args.get("using")
    if using is not None and name_of(using) != "btree":
        raise SqlError("0A000", f'access method "{name_of(using)}" is not supported')
    _only(given, {"columns", "using"}, "CREATE INDEX")
    parts, names = [], []
    for item in given.args["columns"]:
        ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
        if not isinstance(ordered.this, exp.Column) or ordered.this.args.get("table"):
            raise SqlError("0A000", "indexes on expressions are not supported")
        name = _column_name(ordered)
        position = table.positions.get(name)
        if position is None or table.columns[position].hidden:
            raise SqlError("42703", f'column "{name}" does not exist', column=name)
        _ordered(name, table.columns[position].type)
        names.append(name)
        parts.append(KeyPart(position, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))))
    if node.this is not None:
        name = checked_name(name_of(node.this))
        if name in catalog.index_by_name or name in catalog.by_name:
            if tree.args.get("exists"):
                return CreateIndexPlan(table, None)
            raise duplicate(name)
    else:
        name = FreshNames(table.name, catalog).new(names, "idx")
    return CreateIndexPlan(table, Index(0, name, table.id, tuple(parts), bool(tree.args.get("unique"))))
