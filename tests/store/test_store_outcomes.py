"""Outcomes of named commits in the store: replicas agree on them, however they flush, reopen and replay."""

from __future__ import annotations

import shutil
from collections import deque

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy.log import LSN, START, LoggedTransaction
from herdpy.log.records import TablesChecksum
from herdpy_server.store import Store, outcomes, verify_copy
from herdpy_server.store.outcomes import CommitOutcome, made_after

COUNT, AGE_US = 6, 100
DONE = [TablesChecksum([])]

IDS = st.sampled_from([b"a", b"b", b"c", b"1:3/d", b"", b""]) | st.binary(min_size=1, max_size=64)
LOGGED = st.builds(
    LoggedTransaction,
    timestamp_us=st.integers(0, 400),
    records=st.sampled_from([DONE, []]),
    request_id=IDS,
)
ENTRIES = st.lists(st.lists(LOGGED, min_size=1, max_size=4), max_size=25)
STEPS = st.lists(st.sampled_from(["", "", "flush", "reopen", "crash"]), min_size=25, max_size=25)


class Model:
    """What is to be kept, said as simply as can be."""

    def __init__(self):
        self.kept: deque[CommitOutcome] = deque()
        self.forgotten, self.newest_us = START, 0

    def add(self, lsn: LSN, transaction: LoggedTransaction) -> None:
        if not transaction.request_id or any(one.request_id == transaction.request_id for one in self.kept):
            return
        time_us = self.newest_us = max(self.newest_us, transaction.timestamp_us)
        self.kept.append(CommitOutcome(transaction.request_id, lsn, time_us, bool(transaction.records)))
        while len(self.kept) > COUNT or self.kept[0].time_us < self.newest_us - AGE_US:
            self.forgotten = self.kept.popleft().lsn


def state(store: Store) -> tuple[object, ...]:
    kept = store.outcomes
    return list(kept), kept.forgotten, kept.newest_us


def logged(entries):
    return [(LSN(1, at), [(LSN(1, at), one) for one in entry]) for at, entry in enumerate(entries)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(outcomes, "KEEP_COUNT", COUNT)
    monkeypatch.setattr(outcomes, "KEEP_US", AGE_US)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES, steps=STEPS)
def test_leader_replica_and_model_agree(small, tmp_path_factory, entries, steps):
    home = tmp_path_factory.mktemp("outcomes")
    log = logged(entries)
    model = Model()
    store = Store.open(home / "leader")
    for at, (lsn, entry) in enumerate(log):
        store.apply_logged(lsn, entry)
        for one in entry:
            model.add(*one)
        if steps[at] == "flush":
            store.flush()
        elif steps[at] in ("reopen", "crash"):
            if steps[at] == "reopen":
                store.flush()
            store.close()
            store = Store.open(home / "leader")
            for again, missed in log[: at + 1]:
                if again > store.applied:
                    store.apply_logged(again, missed)
        assert state(store) == (list(model.kept), model.forgotten, model.newest_us)
    replica = Store.open(home / "replica")
    for lsn, entry in log:
        replica.apply_logged(lsn, entry)
    assert state(replica) == state(store)
    for one in (store, replica):
        one.flush()
        assert list(one.check()) == []
        for outcome in model.kept:
            assert one.outcomes.find(outcome.request_id) == outcome
    assert store.disk.outcomes == replica.disk.outcomes  # their checksums too
    replica.close()
    store.copy(home / "copy")
    verify_copy(home / "copy")
    store.close()
    copied = Store.open(home / "copy")
    assert state(copied) == (list(model.kept), model.forgotten, model.newest_us)
    copied.close()
    shutil.rmtree(home)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES)
def test_what_is_not_found_and_would_be_known_was_never_committed(small, tmp_path_factory, entries):
    home = tmp_path_factory.mktemp("outcomes")
    store = Store.open(home / "db")
    used: dict[bytes, LSN] = {}
    for lsn, entry in logged(entries):
        # A client names its transactions after the position that it was given.
        named = [
            (lsn, LoggedTransaction(one.timestamp_us, DONE, b"%s/%d" % (str(store.applied).encode(), at)))
            for at, (_lsn, one) in enumerate(entry)
        ]
        store.apply_logged(lsn, named)
        used.update({one.request_id: lsn for _lsn, one in named})
    for request_id, lsn in used.items():
        found = store.outcomes.find(request_id)
        assert found is None or found.lsn == lsn
        assert found is not None or not store.outcomes.would_know(request_id)
    never = str(store.applied).encode() + b"/never"
    assert store.outcomes.find(never) is None
    assert store.outcomes.would_know(never)
    assert store.outcomes.would_know(b"never") == (store.outcomes.forgotten == START)
    store.close()
    shutil.rmtree(home)


@pytest.mark.parametrize(
    ("request_id", "position"),
    [
        (b"3:4/x", LSN(3, 4)),
        (b"-1:-1/", START),
        (b"x", None),
        (b"x/y", None),
        (b"\xff/1", None),
        (b"3:4", None),
    ],
)
def test_an_id_says_after_which_position_it_was_made(request_id, position):
    assert made_after(request_id) == position


def test_a_store_from_before_outcomes_takes_them(tmp_path):
    store = Store.open(tmp_path / "db")
    store.apply_logged(LSN(1, 0), [(LSN(1, 0), LoggedTransaction(1, DONE))])
    store.flush()
    with store.disk.env.begin(write=True) as txn:
        txn.delete(outcomes.NAME, db=store.disk.meta)
        txn.drop(store.disk.outcomes_handle)
    store.close()
    store = Store.open(tmp_path / "db")
    assert state(store) == ([], START, 0)
    store.apply_logged(LSN(1, 1), [(LSN(1, 1), LoggedTransaction(1, DONE, b"x"))])
    store.flush()
    store.close()
    store = Store.open(tmp_path / "db", read_only=True)
    assert store.outcomes.find(b"x") == CommitOutcome(b"x", LSN(1, 1), 1, True)
    store.close()


@pytest.mark.parametrize("damage", ["value", "missing", "surplus", "twice"])
def test_damage_is_found(tmp_path, damage):
    store = Store.open(tmp_path / "db")
    for at in range(3):
        store.apply_logged(LSN(1, at), [(LSN(1, at), LoggedTransaction(at, DONE, b"id %d" % at))])
    store.flush()
    handle = store.disk.outcomes_handle
    with store.disk.env.begin(write=True) as txn:
        key, value = outcomes.encode(1, CommitOutcome(b"id 1", LSN(1, 1), 1, True))
        assert txn.get(key, db=handle) == value
        if damage == "value":
            txn.put(key, value[:-1] + b"X", db=handle)
        elif damage == "missing":
            txn.delete(key, db=handle)
        elif damage == "surplus":
            txn.put(*outcomes.encode(3, CommitOutcome(b"id 3", LSN(1, 2), 1, True)), db=handle)
        else:
            txn.put(*outcomes.encode(1, CommitOutcome(b"id 0", LSN(1, 1), 1, True)), db=handle)
    found = list(store.check())
    assert found
    assert {one.where for one in found} == {"outcomes of commits"}
    store.close()
