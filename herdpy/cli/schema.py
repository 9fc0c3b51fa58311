"""What tables a database has, as the shell describes them and import and export need them.

The catalog's own objects belong to the engine; these are plain copies with names and PostgreSQL's
spelling of types, taken through a connection, so that they hold what its transaction sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import CliError

if TYPE_CHECKING:
    from herdpy_sql import catalog
    from herdpy_sql.types import SqlType


@dataclass(frozen=True, slots=True)
class Column:
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
class Index:
    """A secondary index; ``parts`` are its columns, with DESC where that is so."""

    name: str
    unique: bool
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of the primary key."""

    name: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table; ``key`` is empty when none was declared, and ``hidden_key`` then names the hidden one."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    key_name: str
    hidden_key: str | None
    indexes: tuple[Index, ...]
    checks: tuple[Check, ...]

    @property
    def key_text(self) -> tuple[str, ...]:
        """The key's columns, with DESC where that is so."""
        return tuple(f"{part.name} DESC" if part.descending else part.name for part in self.key)


def tables(connection: Any) -> list[Table]:
    """Every table, by name."""
    if _is_remote(connection):
        from herdpy.cli import remote_schema

        return remote_schema.tables(connection)
    return sorted((_table(found) for found in _catalog(connection).tables.values()), key=lambda t: t.name)


def find(connection: Any, name: str) -> Table | None:
    """The table of that name, unquoted names in lower case as SQL has them; None if there is none."""
    if _is_remote(connection):
        there = {one.name: one for one in tables(connection)}
        return there.get(name) or there.get(folded(name))
    catalog = _catalog(connection)
    found = catalog.table_named(name) or catalog.table_named(folded(name))
    return None if found is None else _table(found)


def table(connection: Any, name: str) -> Table:
    """As :func:`find`; CliError when there is no such table."""
    found = find(connection, name)
    if found is None:
        names = [known.name for known in tables(connection)]
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
    return not hasattr(connection._link, "_session")


def _catalog(connection: Any) -> catalog.Catalog:
    found: catalog.Catalog = connection._link._session.catalog  # the driver has no public way to it yet
    return found


def _table(found: catalog.Table) -> Table:
    names = [column.name for column in found.columns]
    hidden = found.has_hidden_key
    return Table(
        name=found.name,
        columns=tuple(
            Column(column.name, column.type, not column.not_null, column.default)
            for column in found.columns
            if column.visible
        ),
        key=() if hidden else tuple(KeyPart(names[p.position], p.descending) for p in found.key),
        key_name=found.key_name,
        hidden_key=names[found.key[0].position] if hidden else None,
        indexes=tuple(
            Index(
                index.name,
                index.unique,
                tuple(f"{names[p.position]}{' DESC' if p.descending else ''}" for p in index.parts),
            )
            for index in found.indexes
        ),
        checks=tuple(Check(check.name, check.condition) for check in found.checks),
    )
