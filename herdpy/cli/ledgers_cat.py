"""``herdpy ledgers cat``: a ledger's entries as text, hex, bytes, JSON, or HerdPy's own records."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy.cli.errors import FAILED, USAGE, CliError, tell
from herdpy.cli.ledgers_cluster import password_of, with_cluster
from herdpy.cli.progress import Bar

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper, Entry, LedgerReader
    from herdpy.log.assembler import TransactionAssembler

_HEX_LINE = 16


def cat(
    uri: str,
    ledger_id: int,
    first: int,
    last: int | None,
    *,
    follow: bool,
    form: str,
    password_file: Path | None,
) -> None:
    """Print the entries; CliError when the range ends beyond what may be read."""
    write = _writer(form)

    async def work(bk: BookKeeper) -> None:
        metadata = await bk.ledger_metadata(ledger_id)
        reader = await bk.open_ledger(ledger_id, password_of(metadata, password_file))
        try:
            end = reader.last_add_confirmed
            if last is not None and last > end:
                raise CliError(
                    f"ledger {ledger_id} has entries up to {end} so far"
                    if not reader.is_closed
                    else f"the last entry of ledger {ledger_id} is {end}",
                    hint="Ask for no more than that, or leave --to out.",
                )
            if last is None and not follow and first > end:
                tell(f"Ledger {ledger_id} has no entry {first}: its last one is {end}.")
                return
            await _pour(reader, first, end if last is None else last, follow=follow, write=write)
        finally:
            await reader.close()

    with_cluster(uri, work)


async def _pour(
    reader: LedgerReader, first: int, last: int, *, follow: bool, write: Callable[[Entry], None]
) -> None:
    entries: AsyncIterator[Entry] = reader.tail(first) if follow else reader.read(first, last)
    # A bar would run through what is printed, were both on the terminal.
    if follow or sys.stdout.isatty():
        async for entry in entries:
            write(entry)
            sys.stdout.flush()
        return
    with Bar("reading", "entries") as bar:
        async for entry in entries:
            write(entry)
            done = entry.entry_id - first + 1
            bar.update(done, last - first + 1, done)
    sys.stdout.flush()


def _writer(form: str) -> Callable[[Entry], None]:
    if form == "raw":
        if sys.stdout.isatty():
            raise CliError(
                "raw bytes are not for a terminal", hint="Send them to a file or a pipe.", code=USAGE
            )
        return _raw
    if form == "herdpy":
        return _HerdpyLog().write
    return {"text": _text, "hex": _hex, "json": _json}[form]


def _raw(entry: Entry) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(entry.data)
    sys.stdout.buffer.flush()


def _text(entry: Entry) -> None:
    sys.stdout.write(f"{entry.entry_id}\t{escaped(entry.data)}\n")


def escaped(data: bytes) -> str:
    """UTF-8 as text on one line; what is no text, and what a terminal would obey, as ``\\xNN``."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _hex(entry: Entry) -> None:
    sys.stdout.write(f"entry {entry.entry_id}, {len(entry.data):,} bytes\n")
    for line in hex_lines(entry.data):
        sys.stdout.write(f"  {line}\n")


def hex_lines(data: bytes) -> Iterator[str]:
    """Offset, sixteen bytes in hex, and what of them is ASCII."""
    for offset in range(0, len(data), _HEX_LINE):
        part = data[offset : offset + _HEX_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{offset:08x}  {part.hex(' '):<{3 * _HEX_LINE - 1}}  {shown}"


def _json(entry: Entry) -> None:
    try:
        text = entry.data.decode()
    except UnicodeDecodeError:
        text = None
    line = {
        "ledger": entry.ledger_id,
        "entry": entry.entry_id,
        "bytes": len(entry.data),
        "length": entry.length,
        "lac": entry.lac,
        "text": text,
        "hex": entry.data.hex(),
    }
    sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + os.linesep)


class _HerdpyLog:
    """Entries as HerdPy's log writes them (docs/log-format.md), taken apart into transactions."""

    def __init__(self) -> None:
        self._assembler: TransactionAssembler | None = None

    def write(self, found: Entry) -> None:
        from herdpy.log.assembler import TransactionAssembler
        from herdpy.log.entry import decode_entry
        from herdpy.log.errors import ChainError, RecordError
        from herdpy.log.inspect import report_transaction

        where = f"entry {found.entry_id} of ledger {found.ledger_id}"
        try:
            entry = decode_entry(bytes(found.data))
            if self._assembler is None:
                self._assembler = TransactionAssembler(entry.header.predecessor)
                if entry.parts and not entry.parts[0].first:
                    raise CliError(
                        f"{where} continues a transaction that began before it",
                        hint="Begin earlier with --from.",
                    )
            done = [report_transaction(*item) for item in self._assembler.feed(entry)]
        except (RecordError, ChainError) as error:
            raise CliError(
                f"{where} is none of HerdPy's log, or is damaged: {error}",
                hint="Without --herdpy it is shown as it is.",
                code=FAILED,
            ) from error
        part = "" if self._assembler.safe == entry.lsn else " (a part; its transaction goes on after it)"
        sys.stdout.write(f"{entry.lsn}  {entry.size:,} bytes, after {entry.header.predecessor}{part}\n")
        for transaction in done:
            when = datetime.fromtimestamp(transaction.timestamp_us / 1_000_000, UTC)
            sys.stdout.write(f"  transaction at {when.isoformat(sep=' ', timespec='milliseconds')}\n")
            for record in transaction.records:
                table = f" table {record.table_id}" if record.table_id is not None else ""
                rows = f" {record.rows:,} rows" if record.rows else ""
                detail = f" {record.detail}" if record.detail else ""
                sys.stdout.write(f"    {record.name}{table}{rows}{detail} ({record.bytes:,} bytes)\n")
