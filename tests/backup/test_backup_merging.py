"""Merging segments: every entry stays, whoever merges at once, and wherever it is broken off."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from herdpy.backup import archive, merging
from herdpy.backup.archive import (
    LogSegment,
    archive_end_of,
    entries_directory,
    entry_bytes,
    read_entries,
    segments,
)
from herdpy.backup.errors import DamagedPartError, MissingPartError
from herdpy.backup.merging import MergedSegments, is_to_be_merged, merge_ledger
from herdpy.backup.repository import Repository
from herdpy.log.lsn import START
from herdpy.log.place import PlaceError
from tests.backup.test_backup_archive import LOG, history, write


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(archive, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(merging, "MERGED_BYTES", 1200)
    return Repository.create(str(tmp_path / "repository"))


def contents(repository: Repository) -> list[bytes]:
    return [entry_bytes(one) for one in read_entries(repository, LOG, START)]


@pytest.mark.parametrize("seed", range(12))
def test_merged_segments_have_every_entry_and_are_few(repository: Repository, seed: int) -> None:
    entries = history(seed)
    write(repository, entries, flush=0.8)
    write(repository, entries[2:], entries[1].lsn, flush=0.4)  # another leader's, which overlap
    ledgers = {entry.lsn.ledger_id for entry in entries}
    before = len(segments(repository, LOG))
    removed = sum(merge_ledger(repository, LOG, ledger).removed for ledger in ledgers)
    assert contents(repository) == [entry_bytes(one) for one in entries]
    found = segments(repository, LOG)
    assert len(found) < before
    assert removed
    for ledger in ledgers:
        mine = [one for one in found if one.ledger_id == ledger]
        assert len(mine) <= 1 + sum(e.size for e in entries if e.lsn.ledger_id == ledger) // 400
        assert merge_ledger(repository, LOG, ledger) == MergedSegments()
    assert segments(repository, LOG) == found


@pytest.mark.parametrize("seed", range(8))
def test_merging_may_be_broken_off_anywhere_and_done_by_two(
    repository: Repository, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = history(seed, ledgers=1)
    write(repository, entries, flush=0.9)
    expected = [entry_bytes(one) for one in entries]
    chance = random.Random(seed)
    ledger = entries[0].lsn.ledger_id
    other = Repository.open(repository.url)
    for _ in range(6):
        left = chance.randrange(1, 6)
        place = repository.place

        def broken(work):
            def call(*arguments):
                nonlocal left
                left -= 1
                if left < 0:
                    raise PlaceError("it went away")
                if chance.random() < 0.3:  # another merges in between, its own way
                    monkeypatch.setattr(merging, "MERGED_BYTES", chance.randrange(200, 2000))
                    merge_ledger(other, LOG, ledger)
                return work(*arguments)

            return call

        with monkeypatch.context() as patched:
            patched.setattr(place, "put", broken(place.put))
            patched.setattr(place, "delete", broken(place.delete))
            with contextlib.suppress(PlaceError):
                merge_ledger(repository, LOG, ledger)
        assert contents(repository) == expected


def test_a_reader_whose_files_are_merged_lists_again(repository: Repository) -> None:
    entries = history(2)
    write(repository, entries, flush=0.9)
    reading = read_entries(repository, LOG, START)
    read = [next(reading), next(reading)]
    for ledger in {entry.lsn.ledger_id for entry in entries}:
        merge_ledger(repository, LOG, ledger)
    assert [*read, *reading] == entries


def test_a_file_that_is_listed_and_not_there_ends_the_reading(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, history(2), flush=0.9)
    lost = f"{entries_directory(LOG)}/{segments(repository, LOG)[3].name}"
    read = repository.read

    def gone(name: str) -> bytes:
        if name == lost:
            raise MissingPartError(name)
        return read(name)

    monkeypatch.setattr(repository, "read", gone)
    with pytest.raises(MissingPartError, match=lost):
        list(read_entries(repository, LOG, START))


def test_a_damaged_segment_is_named_and_nothing_goes(repository: Repository) -> None:
    entries = history(4, ledgers=1)
    write(repository, entries, flush=0.9)
    before = segments(repository, LOG)
    name = f"{entries_directory(LOG)}/{before[-1].name}"
    repository.place.put(name, b"HPBK and nothing else that fits")
    with pytest.raises(DamagedPartError, match=before[-1].name):
        merge_ledger(repository, LOG, entries[0].lsn.ledger_id)
    assert {one.name for one in before} <= {one.name for one in segments(repository, LOG)}


def test_many_small_segments_are_to_be_merged() -> None:
    small = [LogSegment(1, at, at, 1000) for at in range(5)]
    assert is_to_be_merged(small)
    assert not is_to_be_merged(small[:4])
    assert not is_to_be_merged([LogSegment(1, at, at, 3 << 20) for at in range(9)])


def test_the_end_of_an_archive_has_a_position_and_a_time(repository: Repository) -> None:
    assert archive_end_of(repository, LOG) == (START, 0)
    entries = history(6)
    write(repository, entries)
    lsn, time_us = archive_end_of(repository, LOG)
    assert lsn == entries[-1].lsn
    whole = [one for one in entries if len(one.parts[0].data) >= 8]
    assert time_us == int.from_bytes(whole[-1].parts[0].data[:8], "big", signed=True)
    assert archive_end_of(repository, "ef" * 16) == (START, 0)
