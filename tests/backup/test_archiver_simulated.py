"""Archiving by several leaders of one log in all orders: paused, killed, failing, merging, trimming.

The log is a model, the repository a real one. Whatever happens, the archive is a chain from the log's first
entry to its end once somebody has archived it all, and the log is never trimmed past it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herdpy.backup import archive, merging
from herdpy.backup.archive import ArchiveWriter, archived_in, read_entries, segments
from herdpy.backup.repository import Repository
from herdpy.log.entry import START_CRC, decode_entry, encode_entry, encode_part
from herdpy.log.errors import LogTrimmedError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy.log.place import Place, PlaceError
from herdpy.log.records import StagedPart
from herdpy_server.backup import archiver_child as module
from herdpy_server.backup.archiver_child import Archiving
from herdpy_server.backup.archiver_messages import ArchivedPlace, Done, StartArchive, Upto

LOG = "ab" * 16


class ModelLog:
    """Ledgers of a few entries each; all are confirmed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.entries: list[tuple[LSN, bytes]] = []
        self.base = START
        self._ledgers: list[LedgerInfo] = []
        self._next = 1
        self.roll()

    @property
    def lac(self) -> LSN:
        return self.entries[-1][0] if self.entries else START

    def append(self) -> None:
        before = self.lac
        ledger = self._ledgers[-1].ledger_id
        lsn = LSN(ledger, before.entry_id + 1 if before.ledger_id == ledger else 0)
        crc = decode_entry(self.entries[-1][1]).header.crc if self.entries else START_CRC
        part = encode_part(self._chance.randbytes(self._chance.randrange(8, 90)))
        self.entries.append((lsn, encode_entry(lsn, before, crc, -1, [part])[0]))

    def roll(self) -> None:
        """Close the ledger, if it has something, and begin another."""
        if self._ledgers:
            last = self.lac
            if last.ledger_id != self._ledgers[-1].ledger_id:
                return
            self._ledgers[-1] = LedgerInfo(
                last.ledger_id, 0, closed=True, last_entry_id=last.entry_id, length=100
            )
        self._ledgers.append(LedgerInfo(self._next, 0))
        self._next += self._chance.randrange(1, 4)

    def trim(self, floor: LSN) -> None:
        while self._ledgers[0].closed and self._ledgers[0].last <= floor:
            self.base = self._ledgers.pop(0).last

    def state(self) -> LedgerListState:
        return LedgerListState(1, LOG, base=self.base, ledgers=tuple(self._ledgers))

    # As ``EntrySource``.

    def entries_after(self, after: LSN, upto: Upto) -> Iterator[tuple[LSN, bytes, list[StagedPart]]]:
        if after < self.base:
            raise LogTrimmedError("trimmed")
        for lsn, data in list(self.entries):
            if after < lsn <= upto.lac:
                yield lsn, data, []


class Leader:
    """One that archives, as ``archiver`` has it: after a failure it begins anew."""

    def __init__(self, log: ModelLog, url: str) -> None:
        self._log, self._url = log, url
        self._archiving: Archiving | None = None
        self._stack = contextlib.ExitStack()
        self.archived = START

    def round(self, upto: LSN) -> None:
        place = ArchivedPlace(tablespace="t", log_id=LOG, directory="model")
        start = StartArchive(
            url=self._url,
            key_file="",
            repository="",
            place=place,
            parent_log=None,
            branched=None,
            rate_bytes=0,
            niceness=0,
            server=0,
        )
        try:
            if self._archiving is None:
                self._archiving = Archiving(start, self._stack, self._said)
            self._archiving.advance(Upto(upto))
        except (PlaceError, LogTrimmedError):
            self._archiving = None

    def _said(self, message: Any) -> None:
        if isinstance(message, Done):
            self.archived = max(self.archived, message.lsn)

    def die(self) -> None:
        self._archiving = None
        self.archived = START


def back_up(log: ModelLog, url: str, chance: random.Random) -> None:
    """A backup archives from its image on, which may be anywhere, wherever the archive is."""
    begins = [at for at, (lsn, _) in enumerate(log.entries) if not lsn.entry_id]
    first = chance.choice([chance.randrange(len(log.entries) + 1), *begins[-1:]])
    writer = ArchiveWriter(Repository.create(url), LOG, START)
    for lsn, data in log.entries[first:]:
        writer.add_bytes(lsn, data)
    writer.flush()


@pytest.mark.parametrize("seed", range(25))
def test_no_entry_is_lost_whoever_archives(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(archive, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(merging, "MERGED_BYTES", 2000)
    log = ModelLog(chance)

    class Source:
        state = staticmethod(log.state)
        entries = staticmethod(log.entries_after)

    monkeypatch.setattr(module, "_source_of", lambda *_: Source())
    fails_in = [0]
    put, delete = Place.put, Place.delete

    def fails() -> None:
        fails_in[0] -= 1
        if fails_in[0] == 0:
            raise PlaceError("it went away")

    def checked_put(self: Place, name: str, data: bytes) -> None:
        if chance.random() < 0.5:  # before or after it is there
            fails()
            put(self, name, data)
        else:
            put(self, name, data)
            fails()

    def checked_delete(self: Place, name: str) -> None:
        fails()
        delete(self, name)

    monkeypatch.setattr(Place, "put", checked_put)
    monkeypatch.setattr(Place, "delete", checked_delete)
    url = f"memory://archive-{seed}"
    leaders = [Leader(log, url) for _ in range(3)]
    seen = [START]
    for _ in range(250):
        match chance.randrange(11):
            case 0 | 1 | 2 | 3:
                log.append()
                seen.append(log.lac)
            case 4:
                log.roll()
            case 5 | 6 | 7:
                upto = log.lac if chance.random() < 0.7 else chance.choice(seen)  # one that was paused
                fails_in[0] = chance.choice([0, 0, 1, 2, 5])
                chance.choice(leaders).round(upto)
                fails_in[0] = 0
            case 8:
                log.trim(chance.choice(leaders).archived)  # only one that leads trims, by what it knows
            case 9:
                chance.choice(leaders).die()
            case 10:
                with contextlib.suppress(PlaceError):
                    back_up(log, url, chance)
    log.append()
    last = leaders[0]
    last.die()
    last.round(log.lac)
    repository = Repository.open(url)
    assert archived_in(segments(repository, LOG), log.state()) == log.lac == last.archived
    found = [archive.entry_bytes(one) for one in read_entries(repository, LOG, START, crc=0, upto=log.lac)]
    assert found == [data for _, data in log.entries]
    Place(url).clear()
