"""``herdpy log``: a log's ledgers, and its entries taken apart for people.

:class:`LogNames` has names for what the log has numbers for: tables by id, and rows by their columns. What is
in the store's catalog is known from the start; what tables came to be later is learnt from the records that
define them, as they are read.
"""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import FAILED, USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import json_names, json_object, write_document, write_table
from herdpy.cli.status import literal, session, tablespace_of
from herdpy.cli.target import JsonOption, Place

if TYPE_CHECKING:
    from herdpy.log import LSN
    from herdpy.log.inspect import EntryReport, RecordReport
    from herdpy_sql.catalog import Table

_POLL_S = 0.2


class LogNames:
    """The tables that are known so far, by id."""

    def __init__(self) -> None:
        self._tables: dict[int, Table] = {}

    @classmethod
    def of(cls, found: target.TargetDatabase) -> LogNames:
        """Those of a database's store; none, with a word of why, when it cannot be read."""
        names = cls()
        store_module = needed("herdpy_server.store")
        try:
            store = store_module.Store.open(found.store, read_only=True)
        except (store_module.StoreDamagedError, OSError) as error:
            print_note(f"Tables are shown by number: the store cannot be read ({error}).")
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
            pa = needed("pyarrow")
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


def log_command(
    url: Place,
    ledger: Annotated[int | None, typer.Option("--ledger", metavar="N", help="Show its entries.")] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="LSN", help="Show entries from there (ledger:entry).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most this many entries; 0 is all.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as entries are written.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows that records carry, too.")] = False,
    json: JsonOption = False,
) -> None:
    """List a log's ledgers, or show what stands in it.

    It reads the files only, so the database may be open in another process. With --ledger, --from, --limit,
    --rows or --follow it shows entries: where each stands, and the records of its transactions.

    Of servers it lists the ledgers; "herdpy ledgers" shows what stands in them.

    \b
    Examples:
      herdpy log ./flights
      herdpy log herdpy://db1,db2/flights
      herdpy log ./flights --ledger 3 --limit 10
      herdpy log ./flights --from 3:120 --rows
      herdpy log ./flights --follow --json
    """
    lists = ledger is None and begin is None and not (follow or limit or rows)
    found = target.existing(url, servers=lists)
    if found.is_remote:
        _list_of_servers(found, json=json)
        return
    inspect = needed("herdpy.log.inspect")
    from herdpy.log import LSN, LogError

    try:
        if lists:
            _list(inspect.ledgers(str(found.log)), json)
            return
        reports = inspect.ledgers(str(found.log))
        after, upto = _range(reports, ledger, begin)
        names = LogNames.of(found)
        stop = LSN(ledger, 2**62) if ledger is not None else None
        shown = 0
        for entry in _entries(str(found.log), after, stop, follow=follow):
            names.learn(entry)
            if entry.lsn < upto:
                continue
            _show(entry, names, rows=rows, json=json)
            shown += 1
            if limit and shown >= limit:
                break
    except LogError as error:
        raise CliError(str(error), hint=f"herdpy check {url} looks at all of it.") from error


def _range(reports: list[Any], ledger: int | None, begin: str | None) -> tuple[LSN, LSN]:
    """The position to read after, and the first to show; CliError (usage) when it is not there."""
    from herdpy.log import LSN

    ids = [report.info.ledger_id for report in reports]
    if ledger is not None and ledger not in ids:
        raise CliError(
            f"the log has no ledger {ledger}",
            hint=f"It has: {', '.join(map(str, ids)) or 'none'}",
            code=FAILED,
        )
    if begin is not None:
        try:
            first = LSN.parse(begin)
        except ValueError as error:
            raise CliError(str(error), code=USAGE) from error
    elif ledger is not None:
        first = LSN(ledger, 0)
    elif reports:
        last = reports[-1]
        end = last.slot.entry_id if last.slot else last.info.last_entry_id
        first = LSN(last.info.ledger_id, max(0, end - 9))
    else:
        first = LSN(0, 0)
    return LSN(first.ledger_id, first.entry_id - 1), first


def _entries(directory: str, after: LSN, stop: LSN | None, *, follow: bool) -> Iterator[EntryReport]:
    """Entries after a position; with ``follow``, without end."""
    from herdpy.log import inspect

    while True:
        for entry in inspect.entries(directory, after=after, upto=stop):
            yield entry
            after = entry.lsn
        if not follow:
            return
        sys.stdout.flush()
        time.sleep(_POLL_S)


def _list(reports: list[Any], json: bool) -> None:
    listed = [_ledger(report) for report in reports]
    if json:
        write_document(listed)
    elif not listed:
        print_note("The log has no ledgers: nothing has been written since the last checkpoint.")
    else:
        names = ["Ledger", "State", "Entries", "Bytes", "First LSN", "Last LSN", "Since", "Problem"]
        rows = [tuple(one.values()) for one in listed]
        if not any(row[-1] for row in rows):
            names.pop()
            rows = [row[:-1] for row in rows]
        write_table(names, rows, sys.stdout)
    if any(one["problem"] for one in listed):
        raise typer.Exit(FAILED)


def _ledger(report: Any) -> dict[str, Any]:
    info = report.info
    last = info.last_entry_id
    if not info.closed:
        last = report.slot.entry_id if report.slot else None
    return {
        "ledger": info.ledger_id,
        "state": "closed" if info.closed else "open",
        "entries": None if last is None else last + 1,
        "bytes": info.length if info.closed else report.file_bytes,
        "first_lsn": None if last is None or last < 0 else f"{info.ledger_id}:0",
        "last_lsn": None if last is None or last < 0 else f"{info.ledger_id}:{last}",
        "since": _time(info.created_us),
        "problem": str(report.problem) if report.problem else None,
    }


def _show(entry: EntryReport, names: LogNames, *, rows: bool, json: bool) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(_entry(entry, names, rows=rows), ensure_ascii=False) + "\n")
        return
    of = " (a part; its transaction continues after it)" if entry.incomplete else ""
    sys.stdout.write(
        f"{entry.lsn}  {entry.bytes:,} bytes, after {entry.predecessor}, crc {entry.crc:08x}{of}\n"
    )
    for transaction in entry.transactions:
        count = len(transaction.records)
        request = f", request {transaction.request_id.hex()}" if transaction.request_id else ""
        sys.stdout.write(f"  transaction at {_time(transaction.timestamp_us)}, {count} records{request}\n")
        for record in transaction.records:
            sys.stdout.write(f"    {names.describe(record)}\n")
            if rows:
                for line in names.rows(record):
                    sys.stdout.write(f"      {line}\n")


def _entry(entry: EntryReport, names: LogNames, *, rows: bool) -> dict[str, Any]:
    return {
        "lsn": str(entry.lsn),
        "bytes": entry.bytes,
        "file": entry.file,
        "offset": entry.offset,
        "predecessor": str(entry.predecessor),
        "crc": f"{entry.crc:08x}",
        "incomplete": entry.incomplete,
        "transactions": [
            {
                "time": _time(transaction.timestamp_us),
                "request_id": transaction.request_id.hex(),
                "records": [
                    {
                        "type": record.name,
                        "table": names.table(record.table_id),
                        "rows": record.rows,
                        "bytes": record.bytes,
                        **({"detail": record.detail} if record.detail else {}),
                        **({"content": list(names.rows(record))} if rows else {}),
                    }
                    for record in transaction.records
                ],
            }
            for transaction in entry.transactions
        ],
    }


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(sep=" ", timespec="milliseconds")


def _list_of_servers(found: target.TargetDatabase, *, json: bool) -> None:
    """The ledgers of the log, as ZooKeeper lists them."""
    with session(found.url) as asked:
        rows = asked.rows(
            "SELECT ledger_id, state, entries, length_bytes, epoch, node, created FROM herdpy.ledgers "
            f"WHERE tablespace = {literal(tablespace_of(asked))} ORDER BY ledger_id"
        )
    if json:
        write_document(rows)
        return
    names = ["ledger_id", "state", "entries", "length_bytes", "epoch", "node", "created"]
    shown = [["-" if row[name] is None else row[name] for name in names] for row in rows]
    write_table([name.replace("_", " ") for name in names], shown, sys.stdout)
