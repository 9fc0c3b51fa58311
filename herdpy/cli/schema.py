"""What tables a database has, as the shell describes them and import and export need them.

A database in this process is asked for its catalog's own objects, servers for their system tables. What comes
back are plain copies with names and PostgreSQL's spelling of types, taken through a connection, so that they
hold what its transaction sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import CliError
from herdpy.cli.extras import needed

if TYPE_CHECKING:
    from herdpy_sql import catalog
    from herdpy_sql.types import SqlType

_COLUMNS = """
SELECT schema_name, table_name, name, type, not_null, default_value, key_position
FROM herdpy.columns ORDER BY schema_name, table_name, position
"""
_PARTITIONS = """
SELECT n.nspname, c.relname, pg_get_partkeydef(c.oid), pn.nspname, p.relname,
  pg_get_expr(c.relpartbound, c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_class p ON p.oid = i.inhparent LEFT JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relkind = 'p' OR c.relkind = 'r' AND c.relispartition
"""


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column that ``SELECT *`` shows."""

    name: str
    sql_type: SqlType
    nullable: bool
    default: str | None

    @property
    def type(self) -> str:
        """The type in PostgreSQL's spelling."""
        return str(self.sql_type)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """A secondary index; ``parts`` are its columns, with DESC where that is so."""

    name: str
    unique: bool
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """A CHECK constraint."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the primary key."""

    name: str
    descending: bool


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table; ``key`` is empty when none was declared, and ``hidden_key`` then names the hidden one.

    Attributes:
        partition_key: of a partitioned table: "RANGE (id)"; else empty.
        partition_of: of a partition: "history FOR VALUES FROM (0) TO (1000)"; else empty.
    """

    name: str
    schema: str
    columns: tuple[ColumnInfo, ...]
    key: tuple[KeyColumn, ...]
    key_name: str
    hidden_key: str | None
    indexes: tuple[IndexInfo, ...]
    checks: tuple[CheckInfo, ...]
    partition_key: str = ""
    partition_of: str = ""

    @property
    def sql_name(self) -> str:
        """SQL text that means just this table."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def label(self) -> str:
        """The name for people: with its schema where that is not public."""
        return _label(self.schema, self.name)

    @property
    def key_text(self) -> tuple[str, ...]:
        """The key's columns, with DESC where that is so."""
        return tuple(f"{part.name} DESC" if part.descending else part.name for part in self.key)


def _label(schema: str, name: str) -> str:
    return name if schema == "public" else f"{schema}.{name}"


def tables(connection: Any) -> list[TableInfo]:
    """Every table but other sessions' temporary ones, by name."""
    if _is_remote(connection):
        found = remote_tables(connection)
    else:
        known = _catalog(connection)
        found = [_table(known, one) for one in known.tables.values()]
    path = _path(connection)
    return sorted(
        (one for one in found if one.schema in path or not one.schema.startswith("pg_temp_")),
        key=lambda one: (one.name, one.schema),
    )


def find(connection: Any, name: str) -> TableInfo | None:
    """The table of that name along the search path, or of "schema.name"; None if there is none.

    Unquoted names are in lower case, as SQL has them.
    """
    there = {(one.schema, one.name): one for one in tables(connection)}
    path = _path(connection)
    for text in (name, folded(name)):
        schema, dot, own = text.partition(".")
        for meant in (*((one, text) for one in path), *([(schema, own)] if dot else [])):
            if meant in there:
                return there[meant]
    return None


def place(connection: Any, name: str) -> tuple[str | None, str]:
    """Schema and name of the table that is meant; of a new one no schema, unless it is "schema.name"."""
    found = find(connection, name)
    if found is not None:
        return found.schema, found.name
    text = folded(name)
    schema, dot, own = text.partition(".")
    if dot:
        with connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)) as cursor:
            if cursor.fetchone() is not None:
                return schema, own
    return None, text


def table(connection: Any, name: str) -> TableInfo:
    """As :func:`find`; CliError when there is no such table."""
    found = find(connection, name)
    if found is None:
        names = [known.label for known in tables(connection)]
        some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise CliError(
            f'there is no table "{name}"', hint=f"There are: {some}" if names else "There are no tables yet."
        )
    return found


def folded(name: str) -> str:
    """A name as the catalog has it: quotes removed, or in lower case where there are none."""
    if len(name) > 1 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name.lower()


def quoted(name: str) -> str:
    """``name`` as SQL text that means just that name."""
    return '"' + name.replace('"', '""') + '"'


def _is_remote(connection: Any) -> bool:
    """Whether it is one to servers, whose catalog is not at hand."""
    return not hasattr(connection.shared_link.link, "session")


def _path(connection: Any) -> tuple[str, ...]:
    """The schemas of the search path, a session's own among them."""
    if not _is_remote(connection):
        return _catalog(connection).path
    with connection.execute("SELECT unnest(current_schemas(true))") as cursor:
        return tuple(name for (name,) in cursor.fetchall())


def _catalog(connection: Any) -> catalog.Catalog:
    found: catalog.Catalog = connection.shared_link.link.session.catalog
    return found


def _table(known: catalog.Catalog, found: catalog.Table) -> TableInfo:
    names = [column.name for column in found.columns]
    hidden = found.has_hidden_key
    texts = needed("herdpy_sql.partition_texts")
    parent = known.tables[found.bound.parent] if found.bound else None
    return TableInfo(
        name=found.name,
        schema=found.schema,
        columns=tuple(
            ColumnInfo(column.name, column.type, not column.not_null, column.default)
            for column in found.columns
            if column.visible
        ),
        key=() if hidden else tuple(KeyColumn(names[p.position], p.descending) for p in found.key),
        key_name=found.key_name,
        hidden_key=names[found.key[0].position] if hidden else None,
        indexes=tuple(
            IndexInfo(
                index.name,
                index.unique,
                tuple(f"{names[p.position]}{' DESC' if p.descending else ''}" for p in index.parts),
            )
            for index in found.indexes
        ),
        checks=tuple(CheckInfo(check.name, check.condition) for check in found.checks),
        partition_key=texts.key_text(found) if found.partition_key else "",
        partition_of=f"{_label(parent.schema, parent.name)} {texts.bound_text(found)}" if parent else "",
    )


def remote_tables(connection: Any) -> list[TableInfo]:
    """Every table, without indexes and checks. ``connection`` is the driver's."""
    with connection.execute(_COLUMNS) as cursor:
        rows = cursor.fetchall()
    found = [
        _remote_table(schema, name, list(columns))
        for (schema, name), columns in groupby(rows, itemgetter(0, 1))
    ]
    with connection.execute(_PARTITIONS) as cursor:
        spread = {(schema, name): rest for schema, name, *rest in cursor.fetchall()}
    return [_spread(one, *spread.get((one.schema, one.name), (None,) * 4)) for one in found]


def _spread(
    one: TableInfo, key: str | None, schema: str | None, parent: str | None, bound: str | None
) -> TableInfo:
    """The table with what the server says of its partition key, its parent and its bound."""
    of = "" if schema is None or parent is None else f"{_label(schema, parent)} {bound}"
    return replace(one, partition_key=key or "", partition_of=of)


def _remote_table(schema: str, name: str, rows: list[tuple[Any, ...]]) -> TableInfo:
    key = sorted((place, column) for *_named, column, _type, _not_null, _default, place in rows if place)
    catalog = needed("herdpy_sql.catalog")
    return TableInfo(
        name=name,
        schema=schema,
        columns=tuple(
            ColumnInfo(column, _type_of_text(text), not not_null, default)
            for _schema, _table, column, text, not_null, default, _place in rows
        ),
        key=tuple(KeyColumn(column, descending=False) for _place, column in key),
        key_name="",
        hidden_key=None if key else catalog.HIDDEN_KEY,
        indexes=(),
        checks=(),
    )


def _type_of_text(text: str) -> SqlType:
    """A type as the server spells it."""
    sqlglot = needed("sqlglot")
    names = needed("herdpy_sql.expr.typenames")
    dialect = needed("herdpy_sql.parse.dialect")
    cast = sqlglot.parse_one(f"CAST(NULL AS {text})", read=dialect.HerdPostgres)
    found: SqlType = names.sql_type(cast.to)
    return found
