"""A log taken apart for people: ledgers, entries and records with their sizes; and a full check.

For `herdpy log` and `herdpy check`. It reads only, prints nothing, and needs no writer to be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from herdpy.log.entry import LogEntry, LoggedTransaction, TransactionAssembler
from herdpy.log.errors import ChainError, CorruptLedgerError, RecordError
from herdpy.log.file_ledger import FileHeader, FileLedgerReader, LacSlot, ledger_ids, ledger_path
from herdpy.log.file_log import FileLog
from herdpy.log.files import Files, OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerInfo, LedgerListState, predecessor_of
from herdpy.log.lsn import LSN, START
from herdpy.log.records import (
    TYPES,
    Before,
    Delete,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    Notify,
    Record,
    TablesChecksum,
    Update,
)
from herdpy.log.recovery import TornTail, scan_open_ledger


@dataclass(slots=True, frozen=True)
class RecordReport:
    """A record: its type's name and number, its table (None: it names none), rows and bytes.

    Attributes:
        detail: what else it says, in a few words.
    """

    name: str
    type: int
    table_id: int | None
    rows: int
    bytes: int
    record: Record
    detail: str = ""


@dataclass(slots=True, frozen=True)
class TransactionReport:
    """A transaction, where it took effect."""

    lsn: LSN
    timestamp_us: int
    request_id: bytes
    records: list[RecordReport]


@dataclass(slots=True, frozen=True)
class EntryReport:
    """An entry: where it stands, what it says of itself, and what took effect with it.

    Attributes:
        file, offset, bytes: its place and size, header included.
        parts: how many transaction parts it holds; ``incomplete`` is True when its last one waits
            for more.
    """

    lsn: LSN
    file: str
    offset: int
    bytes: int
    predecessor: LSN
    lac: int
    crc: int
    parts: int
    incomplete: bool
    transactions: list[TransactionReport]


@dataclass(slots=True, frozen=True)
class LedgerReport:
    """A ledger: what the list says, and what the file says (None when it cannot be read)."""

    info: LedgerInfo
    file: str
    file_bytes: int
    header: FileHeader | None
    slot: LacSlot | None
    problem: CorruptLedgerError | None


@dataclass(slots=True)
class LogCheck:
    """The result of reading everything.

    Attributes:
        problems: damage, each with ledger, entry and file; empty when the log is whole.
        torn: the end of a write that a crash cut short, which the next opening drops. No damage.
        unfinished: transactions whose last part never came. They took no effect. No damage.
    """

    ledgers: int = 0
    entries: int = 0
    transactions: int = 0
    records: int = 0
    bytes: int = 0
    last: LSN = START
    problems: list[CorruptLedgerError] = field(default_factory=list)
    torn: list[TornTail] = field(default_factory=list)
    unfinished: int = 0


def report_record(record: Record) -> RecordReport:
    """A record for people."""
    rows = record.rows if isinstance(record, InsertBatch | LoadBatch) else 0
    if isinstance(record, Insert | Update | Delete | Before):
        rows = 1
    if isinstance(record, TablesChecksum):
        rows = len(record.checksums)
    size = len(record.encode())
    return RecordReport(
        type(record).__name__,
        TYPES[type(record)],
        getattr(record, "table_id", None),
        rows,
        size,
        record,
        _detail(record),
    )


def _detail(record: Record) -> str:
    if isinstance(record, LoadBatch):
        ledgers = ", ".join(str(part.ledger_id) for part in record.parts)
        return f"{record.op.name.lower()}, staged in {ledgers or 'no ledger'}"
    if isinstance(record, LoadDone):
        counts = {
            "inserted": record.inserted,
            "updated": record.updated,
            "deleted": record.deleted,
            "skipped": record.skipped,
        }
        listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return f"load {record.load_id!r}: {listed or 'no rows'}"
    if isinstance(record, Notify):
        channel = record.channel.decode("utf-8", "replace")
        return f"channel {channel!r}, payload of {len(record.payload):,} bytes, from process {record.pid}"
    return ""


def report_transaction(lsn: LSN, transaction: LoggedTransaction) -> TransactionReport:
    """A transaction for people."""
    records = [report_record(record) for record in transaction.records]
    return TransactionReport(lsn, transaction.timestamp_us, transaction.request_id, records)


def ledgers(directory: str, files: Files | None = None) -> list[LedgerReport]:
    """The ledgers of the list, in order; CorruptLedgerError when the list itself is damaged."""
    files = files or OsFiles()
    state = FileLedgerList(directory, files).read()
    return [_ledger(directory, files, state, info) for info in state.ledgers] if state else []


def _ledger(directory: str, files: Files, state: LedgerListState, info: LedgerInfo) -> LedgerReport:
    path = ledger_path(directory, info.ledger_id)
    try:
        reader = FileLedgerReader(files, path, info.ledger_id, state.log_id)
    except CorruptLedgerError as error:
        return LedgerReport(info, path, 0, None, None, error)
    try:
        return LedgerReport(info, path, reader.size(), reader.header, reader.slot, None)
    finally:
        reader.close()


def entries(
    directory: str, after: LSN = START, upto: LSN | None = None, files: Files | None = None
) -> Iterator[EntryReport]:
    """The entries after ``after``, to ``upto`` or the end, taken apart.

    Raises:
        CorruptLedgerError, LogTrimmedError: as reading the log does.
        RecordError: an entry's bytes make no transaction.
    """
    log = FileLog(directory, files=files, read_only=True)
    start = max(after, log.state.base)
    cursor = log.cursor(start)
    assembler: TransactionAssembler | None = None
    limit = log.lac if upto is None else min(upto, log.lac)
    try:
        while (entry := cursor.next(limit)) is not None:
            if assembler is None:
                assembler = TransactionAssembler(entry.header.predecessor)
                if entry.parts and not entry.parts[0].first:
                    # Begun in the middle of a large transaction: show what can be shown.
                    assembler.position = entry.lsn
                    yield _entry(log, cursor.offset, entry, [], incomplete=not entry.parts[-1].last)
                    assembler = None
                    continue
            done = [report_transaction(*item) for item in assembler.feed(entry)]
            yield _entry(log, cursor.offset, entry, done, incomplete=assembler.safe != entry.lsn)
    finally:
        cursor.close()
        log.close()


def _entry(
    log: FileLog, offset: int, entry: LogEntry, done: list[TransactionReport], *, incomplete: bool
) -> EntryReport:
    header = entry.header
    return EntryReport(
        lsn=header.lsn,
        file=log.path(header.lsn.ledger_id),
        offset=offset,
        bytes=entry.size,
        predecessor=header.predecessor,
        lac=header.lac,
        crc=header.crc,
        parts=header.parts,
        incomplete=incomplete,
        transactions=done,
    )


def check(directory: str, files: Files | None = None) -> LogCheck:
    """Read every byte of every ledger and verify it; damage is collected, not raised.

    After damage the check goes on with the next ledger, so one call names every damaged ledger.
    """
    files = files or OsFiles()
    result = LogCheck()
    ledger_list = FileLedgerList(directory, files)
    try:
        state = ledger_list.read()
    except CorruptLedgerError as error:
        result.problems.append(error)
        return result
    if state is None:
        for ledger_id in ledger_ids(files.names(directory)):
            path = ledger_path(directory, ledger_id)
            result.problems.append(CorruptLedgerError(ledger_id, None, path, "the ledger list is missing"))
        return result
    result.last = state.base
    assembler = TransactionAssembler(state.base, state.base_crc if state.base != START else 0)
    for info in state.ledgers:
        result.ledgers += 1
        try:
            _check_ledger(directory, files, state, info, assembler, result)
        except CorruptLedgerError as error:
            result.problems.append(error)
            if info.closed:
                assembler = TransactionAssembler(info.last, info.crc)
    result.unfinished += assembler.position != assembler.safe
    return result


def _check_ledger(
    directory: str,
    files: Files,
    state: LedgerListState,
    info: LedgerInfo,
    assembler: TransactionAssembler,
    result: LogCheck,
) -> None:
    path = ledger_path(directory, info.ledger_id)
    reader = FileLedgerReader(files, path, info.ledger_id, state.log_id)
    try:
        if (reader.last, reader.crc) != predecessor_of(state, info.ledger_id):
            raise CorruptLedgerError(
                info.ledger_id, None, path, "the ledger does not continue the one before it"
            )
        limit = info.length
        if not info.closed:
            torn = scan_open_ledger(reader)
            result.torn += [torn] if torn else []
            limit = reader.offset
            reader.close()
            reader = FileLedgerReader(files, path, info.ledger_id, state.log_id)
        while reader.offset < limit:
            start = reader.offset
            entry = reader.next(limit)
            result.entries += 1
            result.bytes += reader.offset - start
            result.last = entry.lsn
            try:
                done = assembler.feed(entry)
            except (RecordError, ChainError) as error:
                raise CorruptLedgerError(info.ledger_id, entry.lsn.entry_id, path, str(error)) from error
            result.transactions += len(done)
            result.records += sum(len(transaction.records) for _, transaction in done)
        if info.closed and (reader.last, reader.crc) != (info.last, info.crc):
            raise CorruptLedgerError(
                info.ledger_id,
                info.last_entry_id,
                path,
                f"the ledger list says that it ends at {info.last}, the file ends at {reader.last}",
            )
    finally:
        reader.close()


__all__ = [
    "EntryReport",
    "LedgerReport",
    "LogCheck",
    "RecordReport",
    "TransactionReport",
    "check",
    "entries",
    "ledgers",
    "report_record",
    "report_transaction",
]
