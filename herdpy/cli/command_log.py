"""``herdpy log``: a log's ledgers, and its entries taken apart for people."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.command_state import JsonOption
from herdpy.cli.errors import FAILED, USAGE, CliError, tell
from herdpy.cli.output import write_table
from herdpy.cli.place import Place

if TYPE_CHECKING:
    from herdpy.cli.names import Names
    from herdpy.log import LSN
    from herdpy.log.inspect import EntryReport

_POLL_S = 0.2


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
        from herdpy.cli import remote_state

        remote_state.list_ledgers(found, json=json)
        return
    inspect = target.needed("herdpy.log.inspect")
    from herdpy.log import LSN, LogError

    try:
        if lists:
            _list(inspect.ledgers(str(found.log)), json)
            return
        reports = inspect.ledgers(str(found.log))
        after, upto = _range(reports, ledger, begin, follow=follow)
        from herdpy.cli.names import Names

        names = Names.of(found)
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


def _range(reports: list[Any], ledger: int | None, begin: str | None, *, follow: bool) -> tuple[LSN, LSN]:
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
        sys.stdout.write(jsonlib.dumps(listed, indent=2) + "\n")
    elif not listed:
        tell("The log has no ledgers: nothing has been written since the last checkpoint.")
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


def _show(entry: EntryReport, names: Names, *, rows: bool, json: bool) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(_entry(entry, names, rows=rows), ensure_ascii=False) + "\n")
        return
    of = " (a part; its transaction goes on after it)" if entry.incomplete else ""
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


def _entry(entry: EntryReport, names: Names, *, rows: bool) -> dict[str, Any]:
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
