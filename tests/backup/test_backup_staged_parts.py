"""Staged ledgers are found in entries as decoding the records finds them, however transactions are cut."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from herdpy.backup import archive
from herdpy.backup.archive import ArchiveWriter
from herdpy.backup.repository import Repository
from herdpy.backup.staged_parts import CutTransactionError, StagedParts
from herdpy.log.entry import START_CRC, LogEntry, LoggedTransaction, decode_entry, encode_entry, pack
from herdpy.log.lsn import LSN, START
from herdpy.log.records import Insert, LoadBatch, LoadOp, StagedPart

LOG = "ab" * 16


def transactions(seed: int) -> list[LoggedTransaction]:
    chance = random.Random(seed)
    made = []
    for number in range(30):
        records = []
        for _ in range(chance.randrange(4)):
            row = chance.choice([b"\x15\x01" * 30, chance.randbytes(chance.randrange(150))])
            records.append(Insert(1, row[:8], row))
        if chance.random() < 0.3:
            parts = tuple(StagedPart(chance.randrange(1 << 40), 1, 2, 3, 800) for _ in range(4))
            records.append(LoadBatch(5, LoadOp.UPSERT, -1, parts, chance.randbytes(300)))
        identity = chance.randbytes(chance.randrange(20))
        made.append(LoggedTransaction(number, records, identity))
    return made


def entries_of(made: list[LoggedTransaction]) -> list[LogEntry]:
    found: list[LogEntry] = []
    before, crc = START, START_CRC
    for parts, _ending in pack([one.body() for one in made], 220):
        lsn = LSN(3, len(found))
        data, crc = encode_entry(lsn, before, crc, -1, parts)
        found.append(decode_entry(data))
        before = lsn
    return found


def named(made: list[LoggedTransaction]) -> list[StagedPart]:
    return [
        part
        for one in made
        for record in one.records
        if isinstance(record, LoadBatch)
        for part in record.parts
    ]


@pytest.mark.parametrize("seed", range(10))
def test_they_are_what_the_records_name(seed: int) -> None:
    made = transactions(seed)
    scanner = StagedParts()
    assert [part for entry in entries_of(made) for part in scanner.of(entry)] == named(made)


@pytest.mark.parametrize("seed", range(4))
def test_who_begins_in_a_transaction_goes_back(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SEGMENT_BYTES", 300)
    repository = Repository.create(str(tmp_path))
    made = transactions(seed)
    entries = entries_of(made)
    writer = ArchiveWriter(repository, LOG, START)
    for entry in entries:
        writer.add(entry)
    writer.flush()
    whole = StagedParts()
    each = [whole.of(entry) for entry in entries]
    cut = 0
    for at in range(1, len(entries)):
        scanner = StagedParts()
        try:
            found = scanner.of(entries[at])
        except CutTransactionError:
            cut += 1
            scanner.go_back(repository, LOG, entries[at - 1].lsn)
            found = scanner.of(entries[at])
        assert found == each[at]
        assert [scanner.of(entry) for entry in entries[at + 1 :]] == each[at + 1 :]
    assert cut
