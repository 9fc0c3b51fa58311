"""The store with its three kinds of threads at once: the engine, a checkpointer, readers of snapshots."""

import queue
import random
import threading

from herdpy.log.lsn import LSN
from herdpy_server.store import NoLocks, Store, Workspace, columns
from herdpy_sql.catalog import Column, Index, KeyPart, Table
from herdpy_sql.types import INTEGER


def test_flushes_and_readers_beside_the_engine_see_exact_states(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_FEW", 50)
    monkeypatch.setattr(columns, "_MANY", 50)
    monkeypatch.setattr(columns, "_BLOCK_ROWS", 64)
    store = Store.open(tmp_path / "store")
    rng = random.Random(7)
    columns_ = (Column("id", INTEGER, not_null=True), Column("a", INTEGER))
    index = Index(2, "i", 1, (KeyPart(1),))
    space = Workspace(store, NoLocks(), None)
    space.create_table(Table(1, "t", columns_, (KeyPart(0),), "t_pkey", (), (index,)))
    store.push_pending(space.layer, space.own_catalog)
    store.apply(LSN(1, 0), space.records, space.layer)
    store.pop_pending(1)
    table = store.catalog.tables[1]
    done, errors = threading.Event(), []
    snapshots: queue.Queue = queue.Queue()

    def guarded(work):
        def run():
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
                errors.append(error)

        return threading.Thread(target=run)

    def checkpoint():
        while not done.is_set():
            store.flush()

    def read():
        while (item := snapshots.get()) is not None:
            snapshot, expected = item
            rows = {table.row_codec.decode(image) for _, image in snapshot.scan(table)}
            assert rows == set(expected.items())
            answer = snapshot.arrow(table, [0, 1])
            assert answer.num_rows == len(expected)
            assert set(zip(*(column.to_pylist() for column in answer.columns), strict=True)) == rows
            assert sum(1 for _ in snapshot.index_scan(table, index)) == len(expected)
            snapshot.close()

    threads = [guarded(checkpoint), guarded(read), guarded(read)]
    for thread in threads:
        thread.start()
    state: dict[int, int] = {}
    pending = []
    for entry in range(1, 400):
        space = Workspace(store, NoLocks(), None)
        for _ in range(rng.randrange(1, 12)):
            number, value = rng.randrange(600), rng.randrange(5)
            key = table.key_codec.encode((number,))
            image = space.get(table, key)
            assert (image is not None) == (number in state)
            if image is None:
                space.insert(table, (number, value))
                state[number] = value
            elif rng.random() < 0.5:
                space.update(table, key, image, (number, value))
                state[number] = value
            else:
                space.delete(table, key, image)
                del state[number]
        pending.append((store.push_pending(space.layer, None), space))
        if rng.random() < 0.3:
            snapshots.put((store.snapshot(), dict(state)))
        if rng.random() < 0.5:
            store.apply_entry(LSN(1, entry), [(one.records, one.layer) for _, one in pending])
            store.pop_pending(pending[-1][0])
            pending.clear()
    for _ in range(2):
        snapshots.put(None)
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    store.flush()
    assert list(store.check()) == []
    store.close()
