"""Names for what the log has numbers for: tables by id, and rows by their columns.

What is in the store's catalog is known from the start; what tables came to be later is learnt from
the records that define them, as they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy.cli import target
from herdpy.cli.errors import tell
from herdpy.cli.values import json_names, json_object

if TYPE_CHECKING:
    from herdpy.log.inspect import EntryReport, RecordReport
    from herdpy_sql.catalog import Table


class Names:
    """The tables that are known so far, by id."""

    def __init__(self) -> None:
        self._tables: dict[int, Table] = {}

    @classmethod
    def of(cls, found: target.TargetDatabase) -> Names:
        """Those of a database's store; none, with a word of why, when it cannot be read."""
        names = cls()
        store_module = target.needed("herdpy_server.store")
        try:
            store = store_module.Store.open(found.store, read_only=True)
        except (store_module.StoreDamagedError, OSError) as error:
            tell(f"Tables are shown by number: the store cannot be read ({error}).")
            return names
        names._tables.update(store.catalog.tables)
        store.close()
        return names

    def learn(self, entry: EntryReport) -> None:
        """Take up the tables that an entry defines."""
        from herdpy.log.records import AlterTable, CreateTable
        from herdpy_sql.definitions import decode_table

        for transaction in entry.transactions:
            for report in transaction.records:
                if isinstance(report.record, CreateTable | AlterTable):
                    table = decode_table(report.record.definition)
                    self._tables[table.id] = table

    def table(self, table_id: int | None) -> str | None:
        """A table's name, or its number."""
        if table_id is None:
            return None
        known = self._tables.get(table_id)
        return _label(known) if known else f"#{table_id}"

    def describe(self, report: RecordReport) -> str:
        """A record on one line."""
        from herdpy.log.records import AlterTable, CreateTable
        from herdpy_sql.definitions import decode_table

        words = [report.name]
        if isinstance(report.record, CreateTable | AlterTable):
            words.append(_label(decode_table(report.record.definition)))
        elif report.table_id is not None:
            words.append(self.table(report.table_id) or "")
        if report.rows:
            words.append(f"{report.rows:,} row{'s' if report.rows > 1 else ''}")
        if report.detail:
            words.append(report.detail)
        words.append(f"({report.bytes:,} bytes)")
        return " ".join(words)

    def rows(self, report: RecordReport) -> Iterator[str]:
        """The rows that a record carries itself, as JSON; keys alone of rows that go."""
        from herdpy.log import records

        record: Any = report.record
        table = self._tables.get(report.table_id) if report.table_id is not None else None
        if table is None:
            return
        if isinstance(record, records.Insert | records.Update | records.Before):
            yield _object(table, table.row_codec.decode(record.row))
        elif isinstance(record, records.Delete):
            values: list[Any] = [None] * len(table.columns)
            for position, value in zip(table.key_positions, table.key_codec.decode(record.key), strict=True):
                values[position] = value
            yield _object(table, values, table.key_positions)
        elif isinstance(record, records.InsertBatch):
            pa = target.needed("pyarrow")
            with pa.ipc.open_stream(record.stream) as reader:
                for batch in reader:
                    keys = json_names(batch.schema.names)
                    columns = [column.to_pylist() for column in batch.columns]
                    yield from (json_object(keys, row) for row in zip(*columns, strict=True))


def _label(table: Table) -> str:
    return table.name if table.schema == "public" else f"{table.schema}.{table.name}"


def _object(table: Table, values: Any, positions: tuple[int, ...] | None = None) -> str:
    from herdpy_sql.values import output_converter

    places = positions or tuple(i for i, column in enumerate(table.columns) if not column.dropped)
    shown = []
    for place in places:
        convert = output_converter(table.columns[place].type)
        value = values[place]
        shown.append(value if convert is None or value is None else convert(value))
    return json_object(json_names([table.columns[place].name for place in places]), shown)
