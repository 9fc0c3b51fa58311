"""The archive: entries come back as they were, gaps and foreign segments are named, overlaps do no harm."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from google_crc32c import value as crc32c

from herdpy.backup import archive as module
from herdpy.backup.archive import (
    ArchiveWriter,
    LogSegment,
    chain,
    entries_directory,
    read_entries,
    read_staged,
    segments,
)
from herdpy.backup.errors import DamagedPartError, MissingLogError
from herdpy.backup.repository import Repository
from herdpy.log.entry import START_CRC, LogEntry, decode_entry, encode_entry, encode_part, entry_bytes
from herdpy.log.lsn import LSN, START
from herdpy.log.records import StagedPart
from herdpy_server.backup.log_part import continuous_end

LOG = "cd" * 16


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(module, "_STAGED_BYTES", 100)
    return Repository.create(str(tmp_path / "repository"))


def history(seed: int, ledgers: int = 4, tag: bytes = b"") -> list[LogEntry]:
    """Entries of ledgers of random lengths; ids of ledgers have gaps, as BookKeeper's do."""
    chance = random.Random(seed)
    made: list[LogEntry] = []
    before, crc, ledger_id = START, START_CRC, 0
    for _ in range(ledgers):
        ledger_id += chance.randrange(1, 4)
        for number in range(chance.randrange(1, 12)):
            part = encode_part(tag + chance.randbytes(chance.randrange(200)))
            data, crc = encode_entry(LSN(ledger_id, number), before, crc, number - 1, [part])
            made.append(decode_entry(data))
            before = LSN(ledger_id, number)
    return made


def write(repository: Repository, entries: list[LogEntry], after: LSN = START, flush: float = 0.2) -> None:
    writer = ArchiveWriter(repository, LOG, after)
    chance = random.Random(7)
    for entry in entries:
        writer.add(entry)
        if chance.random() < flush:
            assert writer.flush() == entry.lsn
    writer.flush()
    writer.flush()


@pytest.mark.parametrize("seed", range(10))
def test_entries_come_back_from_any_position_to_any(repository: Repository, seed: int) -> None:
    entries = history(seed)
    write(repository, entries)
    write(repository, entries[3:], entries[2].lsn, flush=0.7)  # another leader, which archived the same
    assert continuous_end(repository, LOG, START) == entries[-1].lsn
    positions = [START, *(entry.lsn for entry in entries)]
    for first in range(0, len(positions), 3):
        for last in range(first, len(positions), 4):
            crc = entries[first - 1].header.crc if first else None
            found = list(read_entries(repository, LOG, positions[first], crc, positions[last]))
            assert [entry_bytes(one) for one in found] == [entry_bytes(one) for one in entries[first:last]]
    assert list(read_entries(repository, LOG, entries[0].lsn)) == entries[1:]


def test_every_segment_that_is_missing_is_noticed(repository: Repository) -> None:
    entries = history(3)
    write(repository, entries, flush=0.5)
    for segment in segments(repository, LOG):
        name = f"{entries_directory(LOG)}/{segment.name}"
        contents = repository.read(name)
        repository.delete(name)
        with pytest.raises(MissingLogError):
            list(read_entries(repository, LOG, START, upto=entries[-1].lsn))
        repository.write(name, contents)
    with pytest.raises(MissingLogError, match=f"the archive ends at {entries[-1].lsn}"):
        list(read_entries(repository, LOG, START, upto=LSN(1000, 0)))


def test_a_segment_of_another_history_is_named(repository: Repository) -> None:
    write(repository, history(5))
    other = history(5, tag=b"other")
    last = segments(repository, LOG)[-1]
    part = [
        one
        for one in other
        if one.lsn.ledger_id == last.ledger_id and last.first <= one.lsn.entry_id <= last.last
    ]
    name = f"{entries_directory(LOG)}/{last.name}"
    repository.write(name, b"".join(map(entry_bytes, part)))
    with pytest.raises(DamagedPartError, match=rf"{last.name}: entry .* continues another history"):
        list(read_entries(repository, LOG, START))
    repository.write(name, b"HPEN and nothing else")
    with pytest.raises(DamagedPartError, match=last.name):
        list(read_entries(repository, LOG, START))


def test_chains_take_the_fewest_segments() -> None:
    found = [
        LogSegment(1, 0, 3),
        LogSegment(1, 0, 1),
        LogSegment(1, 2, 5),
        LogSegment(4, 0, 9),
        LogSegment(4, 12, 13),
    ]
    assert chain(found, START) == [LogSegment(1, 0, 3), LogSegment(1, 2, 5), LogSegment(4, 0, 9)]
    assert chain(found, LSN(1, 3)) == [LogSegment(1, 2, 5), LogSegment(4, 0, 9)]
    assert chain(found, LSN(4, 10)) == []
    assert chain(found, LSN(4, 11)) == [LogSegment(4, 12, 13)]


def test_staged_rows_come_back_and_are_checked(repository: Repository) -> None:
    data = random.Random(1).randbytes(450)
    part = StagedPart(7, 3, len(data), crc32c(data), 10)
    writer = ArchiveWriter(repository, LOG, START)
    writer.add_staged(part, [data[:90], data[90:300], data[300:]])
    assert b"".join(read_staged(repository, LOG, part)) == data
    empty = StagedPart(8, 0, 0, 0, 0)
    writer.add_staged(empty, [])
    assert b"".join(read_staged(repository, LOG, empty)) == b""
    with pytest.raises(DamagedPartError, match="not those that the log names"):
        list(read_staged(repository, LOG, StagedPart(7, 3, len(data), 1, 10)))
    with pytest.raises(DamagedPartError, match="it is not there"):
        list(read_staged(repository, LOG, StagedPart(9, 3, len(data), 1, 10)))
