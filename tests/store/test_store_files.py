"""What the store makes of its files: damage, full disks, copies, and `herdpy check`."""

import os
import shutil
import threading
from pathlib import Path

import lmdb
import pytest

from herdpy.log.lsn import LSN
from herdpy_server.store import ApplyError, NoLocks, Store, StoreDamagedError, Workspace, probe, verify_copy
from herdpy_server.store import copy as copying
from herdpy_sql.catalog import Column, Index, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTEGER, TEXT, TIMESTAMP, UUID, VARCHAR

ITEMS = Table(
    1,
    "items",
    (Column("id", INTEGER, not_null=True), Column("a", INTEGER), Column("b", TEXT)),
    (KeyPart(0),),
    "items_pkey",
    (),
    (Index(2, "items_a_key", 1, (KeyPart(1),), unique=True), Index(3, "items_b", 1, (KeyPart(2),))),
)


class Writer:
    """Commits to a store as a leader does, an entry for each transaction."""

    def __init__(self, store: Store):
        self.store = store
        self.entry = 0

    def space(self):
        return Workspace(self.store, NoLocks(), self)

    def commit(self, space):
        token = self.store.push_pending(space.layer, space.own_catalog)
        self.entry += 1
        self.store.apply(LSN(1, self.entry), space.records, space.layer)
        self.store.pop_pending(token)

    def create(self, table=ITEMS):
        space = self.space()
        space.create_table(table)
        self.commit(space)
        return self.store.catalog.tables[table.id]

    def insert(self, table, rows):
        space = self.space()
        space.insert_many(table, rows)
        self.commit(space)


def rows(start, stop):
    return [(n, n, f"text {n}") for n in range(start, stop)]


def key(table, *values):
    return table.key_codec.encode(values)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def filled(path):
    """A store of 5,000 rows that was flushed and closed."""
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create()
    writer.insert(table, rows(0, 5000))
    store.flush()
    store.close()
    return path


def test_reopened_store_goes_on_where_it_was(filled):
    store = Store.open(filled)
    assert store.applied == store.durable == LSN(1, 2)
    table = store.catalog.tables[1]
    space = Workspace(store, NoLocks(), None)
    assert table.row_codec.decode(space.get(table, key(table, 7))) == (7, 7, "text 7")
    assert store.table_checksums()[1][0] == 5000
    assert list(store.check()) == []
    store.close()


def test_uuid_is_kept_and_unlike_another_stores(filled, tmp_path):
    first, other = Store.open(filled), Store.open(tmp_path / "other")
    again = first.uuid
    first.close()
    first = Store.open(filled)
    assert first.uuid == again != other.uuid
    first.close()
    other.close()


@pytest.mark.parametrize("cut", [0, 100, 4096, 8192, 100_000])
def test_truncated_file_is_refused(filled, cut):
    os.truncate(filled / "data.mdb", cut)
    with pytest.raises(StoreDamagedError, match=r"data\.mdb"):
        Store.open(filled)


def test_overwritten_header_is_refused(filled):
    with (filled / "data.mdb").open("r+b") as file:
        file.write(b"not LMDB" * 1024)
    with pytest.raises(StoreDamagedError, match="first header: it is not LMDB's"):
        Store.open(filled)


@pytest.mark.parametrize("garbage", [b"\xff", b"\0", b"\x5a"])
def test_garbled_pages_are_refused_after_a_crash(filled, garbage):
    (filled / "closed").unlink()
    size = (filled / "data.mdb").stat().st_size
    with (filled / "data.mdb").open("r+b") as file:
        file.seek(8192)
        file.write(garbage * (size - 8192))
    with pytest.raises(StoreDamagedError):
        Store.open(filled)


def test_one_flipped_bit_of_a_row_is_found_after_a_crash(filled):
    (filled / "closed").unlink()
    content = (filled / "data.mdb").read_bytes()
    at = content.index(b"text 4321")
    damaged = content.replace(b"text 4321", b"text 4320")
    assert damaged != content, at
    (filled / "data.mdb").write_bytes(damaged)
    with pytest.raises(StoreDamagedError, match="checksum of table 1"):
        Store.open(filled)


def _end_without_closing(store):
    """As the end of its process would: LMDB has what was committed."""
    del store.disk.current
    store.disk.env.close()


@pytest.fixture
def walks(monkeypatch):
    """How often all pages were read."""
    made = []
    monkeypatch.setattr(probe, "walk_fault", lambda path: made.append(path))
    return made


def test_pages_are_not_read_when_only_the_process_ended_but_then_if_it_does_so_again(filled, walks):
    for expected in (0, 0, 1, 1, 2):
        store = Store.open(filled)
        assert len(walks) == expected
        assert store.table_checksums()[1][0] == 5000
        _end_without_closing(store)
    Store.open(filled).close()
    _end_without_closing(Store.open(filled))
    before = len(walks)
    Store.open(filled).close()
    assert len(walks) == before


@pytest.mark.parametrize("other", ["run", "file", "unknown"])
def test_pages_are_read_when_the_machine_ended_too_or_the_file_is_another(
    filled, walks, other, monkeypatch, tmp_path
):
    _end_without_closing(Store.open(filled))
    path = filled
    if other == "run":
        monkeypatch.setattr(probe, "_RUN", tmp_path / "run")
        (tmp_path / "run").write_text("another\n")
    elif other == "unknown":
        monkeypatch.setattr(probe, "_RUN", tmp_path / "there is none")
    else:
        path = tmp_path / "copy"
        shutil.copytree(filled, path)
    Store.open(path).close()
    assert walks == [path]


def test_mark_of_a_closed_store_is_gone_while_it_is_open(filled):
    assert (filled / "closed").exists()
    store = Store.open(filled)
    assert not (filled / "closed").exists()
    store.close()
    assert (filled / "closed").exists()


def test_read_only_store_has_to_exist(path):
    with pytest.raises(StoreDamagedError, match="does not exist"):
        Store.open(path, read_only=True)


def test_read_only_store_reads(filled):
    store = Store.open(filled, read_only=True)
    table = store.catalog.tables[1]
    assert sum(1 for _ in store.snapshot().scan(table)) == 5000
    store.close()


def damaged(store, damage):
    """What check says after ``damage(txn, handles)`` wrote into LMDB behind the store's back."""
    with store.disk.env.begin(write=True) as txn:
        damage(txn, store.disk.handles)
    return [str(finding) for finding in store.check()]


def test_check_finds_a_changed_row(filled):
    store = Store.open(filled)
    table = store.catalog.tables[1]
    image = table.row_codec.encode((9, 9, "changed"))
    found = damaged(store, lambda txn, handles: txn.put(key(table, 9), image, db=handles[1]))
    assert any("5000 rows with checksum" in one for one in found)
    assert any(one.startswith("index items_b: no entry for the row") for one in found)
    assert any(one.startswith("index items_b: entry") for one in found)
    store.close()


def test_check_finds_a_row_that_does_not_decode(filled):
    store = Store.open(filled)
    table = store.catalog.tables[1]
    found = damaged(store, lambda txn, handles: txn.put(key(table, 9), b"\xff\xff", db=handles[1]))
    assert any("does not decode" in one for one in found)
    store.close()


def test_check_finds_a_lost_row_and_its_orphaned_entries(filled):
    store = Store.open(filled)
    table = store.catalog.tables[1]
    found = damaged(store, lambda txn, handles: txn.delete(key(table, 9), db=handles[1]))
    assert any("4999 rows" in one for one in found)
    assert sum("is that of no row" in one for one in found) == 2
    store.close()


def test_check_finds_a_lost_index_entry(filled):
    store = Store.open(filled)
    table = store.catalog.tables[1]
    entry = table.index_codec(table.indexes[0]).encode((9,))
    found = damaged(store, lambda txn, handles: txn.delete(entry, db=handles[2]))
    assert found == [f"index items_a_key: no entry for the row under key {key(table, 9).hex()}"]
    store.close()


def test_full_map_leaves_everything_readable_and_can_be_flushed_later(path):
    store = Store.open(path, map_size_bytes=1 << 20)
    writer = Writer(store)
    table = writer.create()
    store.flush()
    writer.insert(table, [(n, n, "x" * 500) for n in range(5000)])
    for _ in range(2):
        with pytest.raises(lmdb.MapFullError):
            store.flush()
        assert store.durable == LSN(1, 1)
        space = writer.space()
        assert sum(1 for _ in space.scan(table)) == 5000
        assert space.get(table, key(table, 17)) is not None
    writer.insert(table, rows(5000, 5010))
    store.disk.env.set_mapsize(1 << 26)
    assert store.flush() == LSN(1, 3)
    assert store.memtable_rows == store.memtable_bytes == 0
    assert sum(1 for _ in writer.space().scan(table)) == 5010
    assert list(store.check()) == []
    store.close()


def test_copy_is_consistent_while_the_store_is_in_use(filled, tmp_path):
    store = Store.open(filled)
    writer = Writer(store)
    writer.entry = 2
    table = store.catalog.tables[1]
    writer.insert(table, rows(5000, 5100))
    seen = []
    lsn = store.copy(tmp_path / "copy", lambda done, total: seen.append((done, total)))
    assert lsn == LSN(1, 2)  # what was durable
    assert seen
    assert seen[-1][0] <= seen[-1][1]
    manifest = verify_copy(tmp_path / "copy")
    assert manifest.uuid == store.uuid
    store.close()
    copied = Store.open(tmp_path / "copy")
    assert copied.applied == LSN(1, 2)
    assert sum(1 for _ in copied.snapshot().scan(table)) == 5000
    assert list(copied.check()) == []
    copied.close()


def test_changed_copy_is_refused(filled, tmp_path):
    store = Store.open(filled)
    store.copy(tmp_path / "copy")
    store.close()
    content = (tmp_path / "copy" / "data.mdb").read_bytes()
    (tmp_path / "copy" / "data.mdb").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StoreDamagedError, match="manifest"):
        verify_copy(tmp_path / "copy")
    (tmp_path / "copy" / copying.MANIFEST).unlink()
    with pytest.raises(StoreDamagedError, match="not a whole copy"):
        verify_copy(tmp_path / "copy")


def test_copy_that_is_given_up_leaves_nothing(filled, tmp_path):
    store = Store.open(filled)

    def give_up(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.copy(tmp_path / "copy", give_up)
    assert not (tmp_path / "copy").exists()
    store.close()


def test_databases_of_dropped_tables_are_removed_when_opened_again(filled):
    store = Store.open(filled)
    writer = Writer(store)
    writer.entry = 2
    space = writer.space()
    space.drop_table(store.catalog.tables[1])
    writer.commit(space)
    store.flush()
    store.close()
    store = Store.open(filled)
    with store.disk.env.begin() as txn:
        assert [bytes(name) for name, _ in txn.cursor()] == [b"loads", b"meta", b"outcomes"]
    store.close()


def test_databases_of_dropped_tables_are_removed_once_nobody_reads_them(filled):
    store = Store.open(filled)
    writer = Writer(store)
    writer.entry = 2
    table = store.catalog.tables[1]
    snapshot = store.snapshot()
    space = writer.space()
    space.drop_table(table)
    writer.commit(space)
    store.flush()
    other = writer.create(Table(7, "other", ITEMS.columns, ITEMS.key, "other_pkey"))
    store.flush()
    assert sum(1 for _ in snapshot.scan(table)) == 5000
    snapshot.close()
    writer.insert(other, rows(0, 10))
    store.flush()
    with store.disk.env.begin() as txn:
        assert [bytes(name) for name, _ in txn.cursor()] == [b"loads", b"meta", b"outcomes", b"t7"]
    assert sum(1 for _ in writer.space().scan(other)) == 10
    assert list(store.check()) == []
    store.close()


def test_snapshot_stays_while_another_thread_flushes(filled):
    store = Store.open(filled)
    writer = Writer(store)
    writer.entry = 2
    table = store.catalog.tables[1]
    writer.insert(table, rows(5000, 6000))
    snapshot = store.snapshot()
    scan = snapshot.scan(table)
    next(scan)
    space = writer.space()
    space.truncate(table)
    writer.commit(space)
    thread = threading.Thread(target=store.flush)
    thread.start()
    thread.join()
    assert sum(1 for _ in scan) == 5999
    assert snapshot.arrow(table, [0]).num_rows == 6000
    assert writer.space().get(table, key(table, 1)) is None
    snapshot.close()
    with pytest.raises(ValueError, match="closed"):
        snapshot.get(table, b"")
    store.close()


def test_record_that_does_not_fit_is_refused(filled):
    from herdpy.log.records import Delete, Insert

    store = Store.open(filled)
    with pytest.raises(ApplyError, match="Insert does not fit"):
        store.apply(LSN(1, 3), [Insert(99, b"k", b"v")])
    with pytest.raises(ApplyError, match="Delete does not fit"):
        store.apply(LSN(1, 3), [Delete(1, b"no such row")])
    store.close()


def test_duplicate_errors_are_postgresqls(path):
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create(
        Table(
            1,
            "t",
            (
                Column("u", UUID, not_null=True),
                Column("at", TIMESTAMP, not_null=True),
                Column("v", VARCHAR),
            ),
            (KeyPart(0), KeyPart(1)),
            "t_pkey",
            (),
            (Index(2, "t_v_key", 1, (KeyPart(2),), unique=True),),
        )
    )
    writer.insert(table, [(b"\x01" * 16, 1_500_000, "one")])
    for rows_ in ([(b"\x01" * 16, 1_500_000, None)], [(b"\x01" * 16, 1_500_000, f"{n}") for n in range(20)]):
        with pytest.raises(SqlError) as caught:
            writer.space().insert_many(table, rows_)
        error = caught.value
        assert error.sqlstate == "23505"
        assert error.message == 'duplicate key value violates unique constraint "t_pkey"'
        assert error.detail == (
            "Key (u, at)=(01010101-0101-0101-0101-010101010101, 1970-01-01 00:00:01.5) already exists."
        )
        assert error.fields == {"schema": "public", "table": "t", "constraint": "t_pkey"}
    with pytest.raises(SqlError, match="t_v_key"):
        writer.space().insert(table, (b"\x02" * 16, 0, "one"))
    store.close()


def test_read_position_is_that_of_the_newest_pending_change_read(path):
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create()
    writer.insert(table, rows(0, 10))
    first, second = writer.space(), writer.space()
    first.insert(table, (20, 20, "x"))
    one = store.push_pending(first.layer, None)
    second.insert(table, (21, 21, "x"))
    two = store.push_pending(second.layer, None)
    assert one < two
    reader = writer.space()
    assert reader.get(table, key(table, 5)) is not None
    assert reader.read_position == 0
    assert reader.get(table, key(table, 20)) is not None
    assert reader.read_position == one
    assert len(list(reader.scan(table))) == 12
    assert reader.read_position == two
    store.drop_pending()
    assert len(list(writer.space().scan(table))) == 10
    store.close()


def test_an_applied_snapshot_has_nothing_pending_and_its_position(path):
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create()
    writer.insert(table, rows(0, 10))
    held, lsn = store.applied_snapshot()
    pending = writer.space()
    pending.insert(table, (20, 20, "x"))
    made = writer.space()
    made.create_index(table, Index(4, "late", 1, (KeyPart(1),)))
    tokens = [store.push_pending(one.layer, one.own_catalog) for one in (pending, made)]
    during, same = store.applied_snapshot()
    assert lsn == same == LSN(1, 2)
    for snapshot in (held, during):
        assert len(list(snapshot.scan(snapshot.catalog.tables[table.id]))) == 10
        assert len(snapshot.catalog.tables[table.id].indexes) == 2
    store.apply(LSN(1, 3), pending.records, pending.layer)
    store.pop_pending(tokens[0])
    store.apply(LSN(1, 4), made.records, made.layer)
    store.pop_pending(tokens[1])
    store.flush()
    after, later = store.applied_snapshot()
    assert later == LSN(1, 4)
    assert len(list(after.scan(after.catalog.tables[table.id]))) == 11
    assert len(list(held.scan(table))) == 10
    store.close()


def test_plan_of_an_old_definition_is_refused(path):
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create()
    space = writer.space()
    space.create_index(table, Index(4, "late", 1, (KeyPart(1),)))
    with pytest.raises(SqlError, match="changed concurrently"):
        space.insert(table, (1, 1, ""))
    writer.commit(space)
    with pytest.raises(SqlError, match="changed concurrently"):
        writer.space().insert(table, (1, 1, ""))
    writer.space().insert(store.catalog.tables[1], (1, 1, ""))
    store.close()


def test_hidden_keys_go_on_after_the_last_one(path):
    store = Store.open(path)
    writer = Writer(store)
    table = writer.create()
    space = writer.space()
    assert [space.next_row_id(table), space.next_row_id(table)] == [1, 2]
    writer.insert(table, rows(0, 42))
    store.flush()
    store.close()
    store = Store.open(path)
    assert Workspace(store, NoLocks(), None).next_row_id(store.catalog.tables[1]) == 42
    store.close()
