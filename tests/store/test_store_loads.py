"""Loads in the store: replicas agree on them, however they flush, reopen, replay, and hear of trimming."""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy.log import (
    LSN,
    START,
    LoadBatch,
    LoadDone,
    LoadOp,
    LoggedTransaction,
    Record,
    StagedPart,
    TablesChecksum,
)
from herdpy_server.store import Store, StoreDamagedError, loads, verify_copy
from herdpy_server.store.loads import LoadOutcome

COUNT = 4

IDS = st.sampled_from(["a", "b", "c", "d"]) | st.text(min_size=1, max_size=4).filter(str.isprintable)
PARTS = st.lists(st.integers(1, 40), max_size=3)
ENTRIES = st.lists(st.none() | st.tuples(IDS, PARTS), max_size=20)
STEPS = st.lists(st.sampled_from(["", "", "flush", "reopen", "crash", "trim"]), min_size=20, max_size=20)


def logged(entries: list[tuple[str, list[int]] | None]) -> list[tuple[LSN, LoggedTransaction]]:
    """Transactions: some are loads, with staged ledgers or without."""
    log = []
    for at, entry in enumerate(entries):
        records: list[Record] = [TablesChecksum([])]
        if entry is not None:
            records = [LoadDone(entry[0], 7, at, 1, 2, 3)]
        log.append((LSN(1, at), LoggedTransaction(1000 + at, records)))
    return log


def staged_of(entries: list[tuple[str, list[int]] | None], at: int) -> tuple[int, ...]:
    entry = entries[at]
    return () if entry is None else tuple(100 * at + nth for nth in range(len(entry[1])))


def take(store: Store, entries: list[tuple[str, list[int]] | None], at: int) -> None:
    """As applying does, but for the rows, of which there are none here."""
    lsn, transaction = logged(entries)[at]
    one = loads.loaded_by(lsn, transaction)
    if one is None:
        store.apply_logged(lsn, [(lsn, transaction)])
    else:
        store.apply_entry(
            lsn, [(transaction.records, None)], loads=[one._replace(staged=staged_of(entries, at))]
        )


class Model:
    """What is to be known, said as simply as can be."""

    def __init__(self) -> None:
        self.done: list[tuple[LoadOutcome, tuple[int, ...]]] = []
        self.base = START

    def add(self, outcome: LoadOutcome, staged: tuple[int, ...]) -> None:
        if self.find(outcome.load_id) is None:
            self.done.append((outcome, staged))

    def find(self, load_id: str) -> LoadOutcome | None:
        return next((one for one, _staged in self.done[-COUNT:] if one.load_id == load_id), None)

    def needed(self) -> set[int]:
        return {ledger for one, staged in self.done if one.lsn > self.base for ledger in staged}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "KEEP_COUNT", COUNT)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES, steps=STEPS)
def test_store_and_model_agree(
    small: None,
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[str, list[int]] | None],
    steps: list[str],
) -> None:
    home = tmp_path_factory.mktemp("loads")
    model = Model()
    store = Store.open(home / "leader")
    for at, (lsn, transaction) in enumerate(logged(entries)):
        take(store, entries, at)
        one = loads.loaded_by(lsn, transaction)
        if one is not None:
            model.add(one.outcome, staged_of(entries, at))
        match steps[at]:
            case "flush":
                store.flush()
            case "trim":
                before, model.base = model.needed(), LSN(1, at // 2)
                assert set(store.log_trimmed(model.base)) == before - model.needed()
                assert store.log_trimmed(model.base) == []
            case "reopen" | "crash":
                if steps[at] == "reopen":
                    store.flush()
                store.close()
                store = Store.open(home / "leader")
                for again in range(at + 1):
                    if LSN(1, again) > store.applied:
                        take(store, entries, again)
                store.log_trimmed(model.base)
        assert {one.outcome.load_id: store.load(one.outcome.load_id) for one in store.loads} == {
            one.outcome.load_id: model.find(one.outcome.load_id) for one in store.loads
        }
        assert all(store.load(one.load_id) == model.find(one.load_id) for one, _staged in model.done)
        everything = {ledger for _one, staged in model.done for ledger in staged}
        assert {ledger for ledger in everything if store.loads.needs(ledger)} == model.needed()
        kept = list(store.loads)
        assert len(kept) <= COUNT or (kept[0].staged and kept[0].outcome.lsn > model.base)
    store.flush()
    assert list(store.check()) == []
    kept = list(store.loads)
    store.copy(home / "copy")
    verify_copy(home / "copy")
    store.close()
    copied = Store.open(home / "copy")
    assert list(copied.loads) == kept
    assert all(copied.load(one.load_id) == model.find(one.load_id) for one, _staged in model.done)
    copied.close()
    shutil.rmtree(home)


@pytest.mark.usefixtures("small")
def test_beyond_the_newest_a_load_is_kept_for_its_ledgers_and_not_found(tmp_path: Path) -> None:
    entries: list[tuple[str, list[int]] | None] = [(f"load {at}", [1]) for at in range(COUNT + 2)]
    store = Store.open(tmp_path / "s")
    for at in range(len(entries)):
        take(store, entries, at)
    for _ in range(2):
        assert [store.load(f"load {at}") is None for at in range(COUNT + 2)] == [True] * 2 + [False] * COUNT
        assert all(store.loads.needs(100 * at) for at in range(COUNT + 2))
        store.flush()
        store.close()
        store = Store.open(tmp_path / "s")
    assert store.log_trimmed(LSN(1, 0)) == [0]
    assert [one.outcome.load_id for one in store.loads] == [f"load {at}" for at in range(1, COUNT + 2)]
    assert store.log_trimmed(LSN(1, 3)) == [100, 200, 300]
    take(store, [*entries, ("more", [1])], len(entries))
    store.flush()
    store.close()
    store = Store.open(tmp_path / "s")
    assert store.log_trimmed(LSN(1, 3)) == []  # nobody deletes them once more
    store.close()


def test_a_load_is_the_transaction_that_ends_with_it_and_names_its_ledgers() -> None:
    parts = (StagedPart(8, 0, 9, 0, 1), StagedPart(6, 0, 9, 0, 1))
    batches = [LoadBatch(7, LoadOp.INSERT, -1, parts), LoadBatch(7, LoadOp.INSERT, -1, parts[:1])]
    done = LoadDone("l", 7, 3, 0, 0, 0)
    one = loads.loaded_by(LSN(2, 5), LoggedTransaction(9, [*batches, done]))
    assert one == (LoadOutcome("l", LSN(2, 5), 9, 7, 3, 0, 0, 0), (8, 6, 8))
    assert loads.loaded_by(LSN(2, 5), LoggedTransaction(9, batches)) is None
    assert loads.loaded_by(LSN(2, 5), LoggedTransaction(9, [])) is None


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """A closed store that knows a load."""
    store = Store.open(tmp_path / "s")
    lsn = LSN(1, 0)
    store.apply_logged(lsn, [(lsn, LoggedTransaction(5, [LoadDone("l1", 7, 1, 2, 3, 4)]))])
    store.flush()
    store.close()
    return tmp_path / "s"


def _change(path: Path, change: str) -> None:
    with lmdb.open(str(path), max_dbs=10) as env:
        handle = env.open_db(loads.NAME)
        with env.begin(write=True, db=handle) as txn:
            cursor = txn.cursor()
            assert cursor.first()
            key, value = cursor.item()
            if change == "count":
                txn.put(key, value[:30] + bytes((value[30] ^ 1,)) + value[31:])
            elif change == "short":
                txn.put(key, value[:-1])
            elif change == "key":
                txn.delete(key)
                txn.put(b"\0" * 7 + b"\1", value)
            else:
                txn.drop(handle, delete=change == "no database")


@pytest.mark.parametrize("change", ["count", "short", "key", "nothing there", "no database"])
def test_loads_that_were_changed_are_damage(loaded: Path, change: str) -> None:
    Store.open(loaded).close()
    _change(loaded, change)
    with pytest.raises(StoreDamagedError, match="loads that were done"):
        Store.open(loaded, read_only=change == "no database").close()


def test_a_store_from_before_there_were_loads_is_read_and_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    store.apply_logged(LSN(1, 0), [(LSN(1, 0), LoggedTransaction(5, [TablesChecksum([])]))])
    store.flush()
    store.close()
    with lmdb.open(str(tmp_path / "s"), max_dbs=10) as env:
        meta, handle = env.open_db(b"meta"), env.open_db(loads.NAME)
        with env.begin(write=True) as txn:
            assert txn.delete(loads.NAME, db=meta)
            txn.drop(handle, delete=True)
    reading = Store.open(tmp_path / "s", read_only=True)
    assert reading.load("l1") is None
    assert list(reading.check()) == []
    reading.close()
    store = Store.open(tmp_path / "s")
    store.apply_logged(LSN(1, 1), [(LSN(1, 1), LoggedTransaction(5, [LoadDone("l1", 7, 1, 2, 3, 4)]))])
    store.flush()
    store.close()
    store = Store.open(tmp_path / "s")
    assert store.load("l1") == LoadOutcome("l1", LSN(1, 1), 5, 7, 1, 2, 3, 4)
    store.close()
