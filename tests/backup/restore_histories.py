"""Histories of a database to be restored: what it held after each commit, and its log packed into entries.

A history is run in an embedded database, one commit after the other, and dumped after each. Its transactions
are then packed again, several to an entry and into several ledgers, as leaders under load and failovers do;
a store that applied the first entries is the image of a backup.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

import herdpy
from herdpy.backup.archive import ArchiveWriter
from herdpy.backup.manifest import (
    BackupManifest,
    Image,
    LogRecord,
    backup_directory,
    new_backup_id,
    write_log_record,
    write_manifest,
)
from herdpy.backup.pages import PageMap, PageWriter, write_map
from herdpy.backup.repository import Repository
from herdpy.log.entry import (
    START_CRC,
    LogEntry,
    LoggedTransaction,
    TransactionAssembler,
    decode_entry,
    encode_entry,
    pack,
)
from herdpy.log.lsn import LSN, START
from herdpy.log.wait import run_blocking
from herdpy_server.embedded import Database
from herdpy_server.store import Store

_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"
_TABLES = "SELECT schema_name, name FROM herdpy.tables WHERE schema_name IN ('public', 'b') ORDER BY 1, 2"


def dump(connection: Any) -> dict[str, Any]:
    """Everything that a client can see: rows of each table, and the sequences."""
    found: dict[str, Any] = {}
    for schema, table in connection.execute(_TABLES).fetchall():
        name = f'"{schema}"."{table}"'
        found[name] = sorted(map(repr, connection.execute(f"SELECT * FROM {name}").fetchall()))
    found["sequences"] = connection.execute(_SEQUENCES).fetchall()
    return found


def dump_of(directory: Path) -> dict[str, Any]:
    """As ``dump``, of a directory."""
    with herdpy.connect(str(directory)) as connection:
        return dump(connection)


@dataclass(slots=True)
class History:
    """What happened.

    Attributes:
        transactions: in their order.
        dumps: before the first, and after each.
        entries, counts: the log, and how many transactions are complete with each entry.
    """

    transactions: list[LoggedTransaction]
    dumps: list[dict[str, Any]]
    entries: list[LogEntry]
    counts: list[int]

    def count_at(self, lsn: LSN) -> int:
        """How many transactions the state at a position has."""
        return max((n for one, n in zip(self.entries, self.counts, strict=True) if one.lsn <= lsn), default=0)


_SETUP = (
    "CREATE SCHEMA b",
    'CREATE TABLE item (id int PRIMARY KEY, "a b" text, v numeric)',
    'CREATE TABLE b.item (id serial PRIMARY KEY, "quo""ted" text UNIQUE, at timestamptz)',
    "CREATE TABLE loose (x int, y text)",
    "CREATE INDEX ON item (v)",
)


def _statement(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    number = chance.randrange(30)
    match chance.randrange(9):
        case 0 | 1:
            text = "x" * chance.choice([3, 40, 3000])
            return "INSERT INTO item VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET v = item.v + 1", (
                number, text, number / 3)  # fmt: skip
        case 2:
            return "UPDATE item SET v = v * 2 WHERE id < $1", (number,)
        case 3:
            return "DELETE FROM item WHERE id = $1", (number,)
        case 4:
            return "INSERT INTO b.item (\"quo\"\"ted\", at) VALUES ($1, '2026-01-01 10:00+05:30')", (
                f"name {chance.random()}",)  # fmt: skip
        case 5:
            return "INSERT INTO loose SELECT g, 'y' FROM generate_series(1, $1::int) g", (number,)
        case 6:
            return f"CREATE TABLE IF NOT EXISTS t{number} AS SELECT {number} AS n", ()
        case 7:
            return f"ALTER TABLE loose ADD COLUMN IF NOT EXISTS c{number} int DEFAULT {number}", ()
        case _:
            return "DELETE FROM loose WHERE mod(x, 3) = 0", ()


def run_history(directory: Path, seed: int, commits: int = 25) -> History:
    """Run one; commit number n has the request id ``commit-n``, and the dump after it is ``dumps[n]``."""
    chance = random.Random(seed)
    database = Database.acquire(directory)
    try:
        with herdpy.connect(str(directory), autocommit=True) as connection:
            dumps: list[dict[str, Any]] = [{}]
            while len(dumps) <= commits:
                number = len(dumps)
                text, values = (_SETUP[number - 1], ()) if number <= len(_SETUP) else _statement(chance)
                before = database.log.lac
                connection.execute(f"SET herdpy.request_id = 'commit-{number}'")
                connection.execute(text, values)
                connection.execute("RESET herdpy.request_id")
                if database.log.lac != before:
                    dumps.append(dump(connection))
        transactions = run_blocking(_read(database))
    finally:
        database.release()
    assert len(transactions) == commits
    return History(transactions, dumps, [], [])


def history_of(directory: Path, statements: Sequence[str]) -> History:
    """The history of some statements, each a commit with an entry of its own, without dumps."""
    database = Database.acquire(directory)
    try:
        with herdpy.connect(str(directory), autocommit=True) as connection:
            for text in statements:
                connection.execute(text)
        found = History(run_blocking(_read(database)), [], [], [])
    finally:
        database.release()
    repack(found, 0, max_entry_bytes=1 << 20)
    return found


async def _read(database: Database) -> list[LoggedTransaction]:
    assembler, found = TransactionAssembler(), []
    async for _lsn, entry in database.log.read(START):
        found += [one for _at, one in assembler.feed(entry)]
    return found


def repack(history: History, seed: int, max_entry_bytes: int = 2000) -> None:
    """Make entries of the transactions: groups of them, parts of the large ones, in several ledgers."""
    chance = random.Random(seed)
    waiting = list(history.transactions)
    before, crc, ledger_id, entry_id, count = START, START_CRC, 1, 0, 0
    while waiting:
        group = [waiting.pop(0) for _ in range(min(chance.randrange(1, 4), len(waiting)))]
        for parts, ending in pack([one.encode() for one in group], max_entry_bytes):
            if chance.random() < 0.2 and entry_id:
                ledger_id, entry_id = ledger_id + chance.randrange(1, 3), 0
            data, crc = encode_entry(LSN(ledger_id, entry_id), before, crc, entry_id - 1, parts)
            history.entries.append(decode_entry(data))
            before, entry_id, count = LSN(ledger_id, entry_id), entry_id + 1, count + len(ending)
            history.counts.append(count)


def commit_times(history: History, first_us: int, step_us: int, same: int) -> None:
    """Give the commits other times: ``same`` of them at a time have an equal one."""
    history.transactions = [
        LoggedTransaction(first_us + nth // same * step_us, one.records, one.request_id)
        for nth, one in enumerate(history.transactions)
    ]


class BackupMaker:
    """Writes backups of a history to a repository, as a server would."""

    def __init__(self, repository: Repository, history: History, scratch: Path, log_id: str = "ab" * 16,
                 record: LogRecord | None = None) -> None:  # fmt: skip
        self.repository = repository
        self.history = history
        self.log_id = log_id
        self._scratch = scratch
        self._known: PageMap | None = None
        self._archived = START
        write_log_record(repository, record or LogRecord("default", log_id, 1_700_000_000_000_000))

    def archive(self, upto: LSN) -> None:
        """Archive the entries up to a position."""
        writer = ArchiveWriter(self.repository, self.log_id, self._archived)
        for entry in self.history.entries:
            if self._archived < entry.lsn <= upto:
                writer.add(entry)
        self._archived = writer.flush()

    def back_up(self, lsn: LSN, end: LSN, *, copied_us: int = 0, **more: Any) -> BackupManifest:
        """A backup whose image is of ``lsn``, with the log up to ``end``; it was copied at ``copied_us``, or
        at once."""
        path = self._scratch / f"store-{lsn.ledger_id}-{lsn.entry_id}"
        store = Store.open(path)
        assembler, time_us = TransactionAssembler(), 0
        for entry in self.history.entries:
            if entry.lsn <= lsn:
                whole = assembler.feed(entry)
                time_us = whole[-1][1].timestamp_us if whole else time_us
                store.apply_logged(assembler.safe, whole)
        store.flush()
        uuid, at, page_bytes = store.uuid, store.applied, store.disk.env.stat()["psize"]
        store.close()
        made = new_backup_id()
        data = (path / "data.mdb").read_bytes()
        writer = PageWriter(self.repository, self.log_id, made, page_bytes, self._known)
        writer.feed(data)
        self._known = writer.finish(made)
        parts, _size = write_map(self.repository, backup_directory(self.log_id, made), self._known)
        self.archive(end)
        crc = next((one.header.crc for one in self.history.entries if one.lsn == at), START_CRC)
        image = Image(made, str(at), crc, uuid, page_bytes, len(self._known), parts, copied_us or time_us)
        manifest = BackupManifest(
            made, "default", self.log_id, "full", None, image, self._known.used_sources(), str(end), 0,
            time_us, time_us, (), 0, 0,
        )  # fmt: skip
        manifest = structs.replace(manifest, **more)
        write_manifest(self.repository, manifest)
        return manifest
