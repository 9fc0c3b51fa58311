"""Sums of a state: the same however it came about, others when anything in it is another."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import herdpy
from herdpy.log import LSN, START, LoggedTransaction
from herdpy.log.records import Delete, Insert, TablesChecksum
from herdpy_server.store import Store
from herdpy_server.store.check import DEFINITIONS, Sum, SumsGivenUpError, lower_priority, names, sums

MARK = TablesChecksum([(0, 7, 0)])


@pytest.fixture
def store(tmp_path: Path):
    """A store with a table of five rows and an index."""
    with herdpy.connect(f"herdpy://{tmp_path}/origin", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)").close()
        connection.execute("CREATE INDEX t_v ON t (v)").close()
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')").close()
    opened = Store.open(tmp_path / "origin" / "store")
    yield opened
    opened.close()


def of(store: Store) -> dict[str, Sum]:
    """The sums of what is applied, by name."""
    snapshot, _lsn = store.applied_snapshot()
    found = sums(snapshot, threading.Event())
    named = names(snapshot.catalog)
    snapshot.close()
    return {named[one.relation]: one for one in found}


def test_rows_in_memory_count_as_rows_on_the_disk_do(store: Store):
    before = of(store)
    assert {name: one.rows for name, one in before.items()} == {"(definitions)": 1, "t": 5, "t_v": 5}
    assert before["(definitions)"].relation == DEFINITIONS
    assert before["t"][1:] == store.table_checksums()[before["t"].relation]
    table = store.catalog.by_name["t"]
    ((key, image), *_others) = list(store.applied_snapshot()[0].scan(table))
    at = store.durable
    store.apply(LSN(at.ledger_id, at.entry_id + 1), [Delete(table.id, key)])
    without = of(store)
    assert without["t"].rows == without["t_v"].rows == 4
    assert {name for name in before if before[name] != without[name]} == {"t", "t_v"}
    store.flush()
    assert of(store) == without
    store.apply(LSN(at.ledger_id, at.entry_id + 2), [Insert(table.id, key, image)])
    assert of(store) == before


def test_the_thread_of_sums_alone_has_a_lower_priority(store: Store):
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    with ThreadPoolExecutor(1, initializer=lower_priority) as executor:
        assert executor.submit(niceness).result() > before
    of(store)
    assert niceness() == before


def test_nobody_waits_for_sums_that_are_not_wanted(store: Store):
    ended = threading.Event()
    ended.set()
    with pytest.raises(SumsGivenUpError):
        sums(store.applied_snapshot()[0], ended)


def test_a_mark_is_told_also_when_others_share_its_entry(store: Store):
    table = store.catalog.by_name["t"]
    (key, image) = next(iter(store.applied_snapshot()[0].scan(table)))
    told: list[tuple[TablesChecksum, LSN]] = []
    store.on_checksum = lambda record: told.append((record, store.applied))
    lsn = LSN(store.durable.ledger_id, store.durable.entry_id + 1)
    one = LoggedTransaction(1, [Insert(table.id, key, image)])
    store.apply_logged(lsn, [(lsn, one), (lsn, LoggedTransaction(1, [MARK])), (lsn, one)])
    assert told == [(MARK, lsn)]
    after = LSN(lsn.ledger_id, lsn.entry_id + 1)
    store.apply_entry(after, [([Insert(table.id, key, image)], None), ([MARK], None)])
    assert told == [(MARK, lsn), (MARK, after)]
    assert store.applied > START
