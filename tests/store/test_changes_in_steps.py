"""What is done with many changes in steps comes to the same as at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log.entry import LoggedTransaction
from herdpy.log.records import Delete, Insert, InsertBatch, Record, Update
from herdpy_server.store import NoLocks, Store
from herdpy_server.store.transaction_state import TransactionState


@pytest.fixture
def changes(tmp_path: Path) -> Iterator[TransactionState]:
    store = Store.open(tmp_path / "store")
    yield TransactionState(store, NoLocks(), None)
    store.close()


def many(count: int) -> list[Record]:
    kinds: list[Record] = []
    for at in range(count):
        key = b"%d" % at
        kinds.append(
            (
                Insert(1, key, b"row"),
                Update(1, None, key, b"new"),
                Delete(2, key),
                InsertBatch(3, key * 9, 9),
            )[at % 4]
        )
    return kinds


@pytest.mark.parametrize("steps", [0, 1, 3, None])
def test_records_are_encoded_as_at_once(changes: TransactionState, steps: int | None) -> None:
    changes.records = many(2000)
    taken = 0
    while taken != steps and changes.encode_some():
        taken += 1
    given = LoggedTransaction(7, changes.records, b"name", changes.encoded, changes.encoded_count)
    assert (changes.encoded_count == 2000) is (steps is None)
    wanted = LoggedTransaction(7, many(2000), b"name")
    assert given == wanted
    assert given.encode() == wanted.encode()
    assert LoggedTransaction.decode(given.encode()) == wanted


def put(changes: TransactionState, start: int, stop: int) -> None:
    for at in range(start, stop):
        changes.put(1, b"%d" % at, b"row")
        changes.records.append(Insert(1, b"%d" % at, b"row"))


def test_what_is_taken_back_was_not_encoded(changes: TransactionState) -> None:
    put(changes, 0, 10)
    mark = changes.mark()
    put(changes, 10, 20_000)
    while changes.encode_some():
        pass
    steps = 1
    while changes.undo_some(mark):
        steps += 1
    assert steps > 3
    assert changes.change_count == len(changes.records) == len(changes.layer[1].rows) == 10
    put(changes, 30, 31)
    transaction = LoggedTransaction(1, changes.records, b"", changes.encoded, changes.encoded_count)
    assert len(LoggedTransaction.decode(transaction.encode()).records) == 11


def test_what_was_encoded_before_a_mark_stays(changes: TransactionState) -> None:
    put(changes, 0, 1000)
    while changes.encode_some():
        pass
    mark = changes.mark()
    put(changes, 1000, 1010)
    changes.undo(mark)
    assert changes.encoded_count == 1000


def test_all_is_let_go_of(changes: TransactionState) -> None:
    put(changes, 0, 10_000)
    changes.encode_some()
    while changes.forget_some():
        pass
    assert changes.change_count == len(changes.records) == len(changes.encoded) == 0
    assert len(changes.layer[1].rows) == 10_000  # which others see
