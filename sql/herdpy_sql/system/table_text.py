"""A table as the statements that make it again, in the same database or another, under any name.

Beside ``definitions``. What belongs to the table comes with it: columns with their types, defaults, identity
and generated expressions, the key, constraints, indexes, the sequences that it owns, foreign keys, comments
and REPLICA IDENTITY. What it only uses (types, other sequences, tables that it refers to) must be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from herdpy_sql.errors import SqlError
from herdpy_sql.objects import CommentDefinition, SequenceDefinition
from herdpy_sql.partition_texts import partitions_hint
from herdpy_sql.quoting import quote_ident
from herdpy_sql.sequences import NEXTVAL
from herdpy_sql.system.definitions import constraint_text, foreign_key_text, indexes_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Column, Index, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.system.definitions import Relating
    from herdpy_sql.types import SqlType


@dataclass(frozen=True, slots=True)
class TableText:
    """Statements, in the order in which they are to be run. Names without a schema are of "public".

    Attributes:
        name: the new table's, as SQL text.
        before, after: what comes before the rows and after them, but for foreign keys.
        foreign_keys: after the rows, too.
        columns: those that take values, as SQL text.
        sequences: (schema, name, column) of each sequence of the old table: its state is to be taken over by
            that of the new table's column.
    """

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    foreign_keys: tuple[str, ...]
    columns: tuple[str, ...]
    sequences: tuple[tuple[str, str, str], ...]


def table_text(catalog: Catalog, table: Table, schema: str, name: str) -> TableText:
    """The statements that make ``table`` again as ``schema``.``name``.

    Where that is another name than the table has, keys, indexes and sequences get the names that they have
    without one being said: the old ones may be taken. SqlError 0A000 for a partitioned table.
    """
    if table.partition_key is not None:
        raise SqlError(
            "0A000",
            f'"{table.name}" is a partitioned table: its rows are in its partitions',
            hint=partitions_hint(catalog, table),
        )
    return _TableWriter(catalog, table, replace(table, schema=schema, name=name)).written()


class _TableWriter:
    def __init__(self, catalog: Catalog, old: Table, new: Table) -> None:
        self._catalog = catalog
        self._old = old
        self._new = new
        self._keeps_names = old.name == new.name
        self._owned = {
            one.definition.owner[1]: one
            for one in catalog.objects.values()
            if isinstance(one.definition, SequenceDefinition)
            and one.definition.owner is not None
            and one.definition.owner[0] == old.id
        }

    @property
    def _name(self) -> str:
        return f"{quote_ident(self._new.schema)}.{quote_ident(self._new.name)}"

    def written(self) -> TableText:
        old = self._old
        indexes = [self._index(one) for one in old.indexes if not one.constraint]
        serial = [(at, one) for at, one in sorted(self._owned.items()) if not _definition(one).identity]
        return TableText(
            self._name,
            (*(self._sequence(at, one) for at, one in serial), self._create(), *indexes),
            (*(self._owner(at, one) for at, one in serial), *self._later(), *self._comments()),
            tuple(self._foreign_keys()),
            tuple(quote_ident(one.name) for one in old.columns if one.visible and one.generated is None),
            tuple((one.schema, one.name, old.columns[at].name) for at, one in sorted(self._owned.items())),
        )

    # The table.

    def _create(self) -> str:
        items = [self._column(at, one) for at, one in enumerate(self._old.columns) if one.visible]
        items += [
            self._constraint(one.name) + self._key(one) for one in indexes_of(self._old) if one.constraint
        ]
        items += [
            f"CONSTRAINT {quote_ident(one.name)} CHECK ({one.condition})"
            for one in self._old.checks
            if one.validated
        ]
        return f"CREATE TABLE {self._name} (\n  " + ",\n  ".join(items) + "\n)"

    def _constraint(self, name: str) -> str:
        return f"CONSTRAINT {quote_ident(name)} " if self._keeps_names else ""

    def _key(self, index: Relating) -> str:
        return constraint_text(replace(index, table=self._old))

    def _column(self, position: int, column: Column) -> str:
        words = [quote_ident(column.name), type_text(column.type)]
        if column.identity:
            owned = _definition(self._owned[position])
            words.append(f"GENERATED {column.identity} AS IDENTITY ({_options(owned)})")
        elif column.generated is not None:
            words.append(f"GENERATED ALWAYS AS ({column.generated}) STORED")
        elif column.default is not None:
            words.append(f"DEFAULT {NEXTVAL.sub(self._next_value, column.default)}")
        if column.not_null:
            words.append("NOT NULL")
        return " ".join(words)

    def _index(self, index: Index) -> str:
        """With its expressions as they are kept: another spelling would be another index to the planner."""
        columns = self._old.columns
        parts = []
        for part in index.parts:
            column = columns[part.position]
            text = f"({column.generated})" if column.hidden else quote_ident(column.name)
            order = " DESC" if part.descending else ""
            nulls = " NULLS FIRST" if part.nulls_first else " NULLS LAST"
            parts.append(text + order + nulls)
        unique = "UNIQUE " if index.unique else ""
        name = f"{quote_ident(index.name)} " if self._keeps_names else ""
        where = "" if index.predicate is None else f" WHERE {columns[index.predicate].generated}"
        return f"CREATE {unique}INDEX {name}ON {self._name} ({', '.join(parts)}){where}"

    # Sequences.

    def _next_value(self, match: Any) -> str:
        oid = int(match[1])
        for position, one in self._owned.items():
            if one.oid == oid:
                return f"nextval({_literal(self._sequence_name(position, one))})"
        for one in self._catalog.objects.values():
            if one.oid == oid:
                return f"nextval({_literal(f'{quote_ident(one.schema)}.{quote_ident(one.name)}')})"
        return str(match[0])

    def _sequence_name(self, position: int, one: CatalogObject) -> str:
        own = one.name if self._keeps_names else f"{self._new.name}_{self._old.columns[position].name}_seq"
        return f"{quote_ident(self._new.schema)}.{quote_ident(own)}"

    def _sequence(self, position: int, one: CatalogObject) -> str:
        definition = _definition(one)
        name = self._sequence_name(position, one)
        return f"CREATE SEQUENCE {name} AS {definition.type} {_options(definition)}"

    def _owner(self, position: int, one: CatalogObject) -> str:
        column = quote_ident(self._old.columns[position].name)
        return f"ALTER SEQUENCE {self._sequence_name(position, one)} OWNED BY {self._name}.{column}"

    # What comes after the rows.

    def _later(self) -> Iterator[str]:
        for one in self._old.checks:
            if not one.validated:
                yield (
                    f"ALTER TABLE {self._name} ADD CONSTRAINT {quote_ident(one.name)}"
                    f" CHECK ({one.condition}) NOT VALID"
                )
        if self._old.identity_full:
            yield f"ALTER TABLE {self._name} REPLICA IDENTITY FULL"

    def _comments(self) -> Iterator[str]:
        for one in self._catalog.objects.values():
            found = one.definition
            if isinstance(found, CommentDefinition) and found.on == "relation" and found.id == self._old.id:
                on = f"TABLE {self._name}"
                if found.column >= 0:
                    on = f"COLUMN {self._name}.{quote_ident(self._old.columns[found.column].name)}"
                yield f"COMMENT ON {on} IS {_literal(found.text)}"

    def _foreign_keys(self) -> Iterator[str]:
        for one in self._old.foreign_keys:
            is_own = one.table_id == self._old.id
            parent = self._new if is_own else self._catalog.tables[one.table_id]
            text = foreign_key_text(self._old, one, parent)
            yield f"ALTER TABLE {self._name} ADD {self._constraint(one.name)}{text}"


def type_text(of: SqlType) -> str:
    """A type as SQL text that means it along any search path."""
    if of.enum is None:
        return str(of)
    return f"{quote_ident(of.enum.schema)}.{quote_ident(of.enum.name)}" + (
        "[]" * of.dimensions if of.element is not None else ""
    )


def _definition(one: CatalogObject) -> SequenceDefinition:
    assert isinstance(one.definition, SequenceDefinition)
    return one.definition


def _options(one: SequenceDefinition) -> str:
    cycle = "CYCLE" if one.cycle else "NO CYCLE"
    return (
        f"START WITH {one.start} INCREMENT BY {one.increment} MINVALUE {one.minimum} MAXVALUE {one.maximum}"
        f" CACHE {one.cache} {cycle}"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
