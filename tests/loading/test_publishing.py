"""Publishing a load: what each mode does, all or nothing, once, and the row that an error names."""

from __future__ import annotations

import itertools
import shutil
import threading
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.log.records import InsertBatch, LoadBatch, LoadDone, StagedPart
from herdpy_server.embedded import opened
from herdpy_server.loading import BulkLoad, LoadMode, Publishing, StagingPlan, directory, publishing
from herdpy_server.loading.rows import Batches, in_one_part
from herdpy_sql.errors import SqlError
from tests.loading.conftest import Db

TABLES = {
    "plain": "(a int, b text, v int, PRIMARY KEY (b, a))",
    "indexed": "(a int, b text, v int UNIQUE, PRIMARY KEY (b, a))",
    "long": "(a int, b text, v int, PRIMARY KEY (b, a))",
    "chars": "(a int, b char(4), v int, PRIMARY KEY (b, a))",
}
MODES = ["append", "overwrite", "upsert", "ignore", "delete"]


class RefusedError(Exception):
    """What a model says of a load that is refused.

    Attributes:
        row: from 1.
    """

    def __init__(self, row: int) -> None:
        self.row = row


def apply(model: dict, mode: str, rows: list, unique: bool) -> tuple[dict, tuple[int, int, int, int]]:
    """What a load does to rows by key; raises RefusedError with the first row that cannot be."""
    new = {} if mode == "overwrite" else dict(model)
    done = [0, 0, 0, 0]
    for at, (key, value) in enumerate(rows):
        there = key in new
        if mode == "delete":
            done[2 if there else 3] += 1
            new.pop(key, None)
            continue
        if mode == "ignore" and there:
            done[3] += 1
            continue
        if mode in ("append", "overwrite") and there:
            raise RefusedError(at + 1)
        others = (other for other in new if other != key)
        if unique and any(new[other] == value for other in others):
            raise RefusedError(at + 1)
        new[key] = value
        done[1 if there else 0] += 1
    return new, tuple(done)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xyz"), st.integers(0, 30)), max_size=12)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("loads") / "db") as database:
        yield Db(database)


NUMBERS = itertools.count()


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(TABLES)),
    loads=st.lists(st.tuples(st.sampled_from(MODES), ROWS, st.integers(1, 5)), min_size=1, max_size=5),
    slice_rows=st.sampled_from([1, 3, 256]),
)
def test_loads_do_what_a_model_does(shared, kind, loads, slice_rows):
    table = f"t{next(NUMBERS)}"
    shared(f"CREATE TABLE {table} {TABLES[kind]}")
    model: dict = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publishing.Pace, "took", lambda _self, _seconds: None)
        patched.setattr(publishing, "FIRST_ROWS", slice_rows)
        for number, (mode, triples, cut) in enumerate(loads):
            load_id = f"{table}-{number}"
            long = "k" * 600 if kind == "long" else ""
            rows = [((b + long, a), v) for a, b, v in triples]
            columns = {"a": [key[1] for key, _ in rows], "b": [key[0] for key, _ in rows]}
            if kind == "chars":  # which keeps no blanks: keys are one with any number of them
                columns["b"] = [b + " " * (at % 4) for at, b in enumerate(columns["b"], number)]
            if mode != "delete":
                columns["v"] = [v for _, v in rows]
            batch = shared.batch(table, mode, **columns)
            parts = [batch.slice(at, cut) for at in range(0, batch.num_rows, cut)]
            try:
                model, expected = apply(model, mode, rows, kind == "indexed")
            except RefusedError as refused:
                row = refused.row
                with pytest.raises(SqlError) as caught:
                    shared.publish(load_id, table, mode, *parts)
                assert caught.value.sqlstate == "23505"
                if slice_rows == 1:  # of rows that are looked at together any may be named
                    assert int(caught.value.fields["row"]) == row
                assert directory.describe(shared.database, load_id) is None
            else:
                assert shared.publish(load_id, table, mode, *parts)[4:] == expected
            shown = {
                (b.strip() if kind == "chars" else b, a): v
                for a, b, v in shared(f"SELECT a, b, v FROM {table}")
            }
            assert shown == model


def test_the_log_has_what_loads_did(shared):
    """A database that is made from the log alone is the same, and nothing is wrong with either store."""
    shared.database.checkpointer.checkpoint(trim=False)
    assert list(shared.database.store.check()) == []
    tables = shared.database.tablespace.catalog.by_name
    assert len(tables) > 20
    before = shared.database.store.table_checksums()
    shutil.copytree(shared.database.path, copy := shared.database.path.with_name("copy"))
    shutil.rmtree(copy / "store")
    with opened(copy) as again:
        again.checkpointer.checkpoint(trim=False)
        assert again.store.table_checksums() == before
        assert [one.outcome for one in again.store.loads] == [
            one.outcome for one in shared.database.store.loads
        ]


def test_a_load_is_done_once(db):
    db("CREATE TABLE t (id int PRIMARY KEY)")
    first = db.publish("nightly", "t", "append", db.batch("t", "append", id=[1, 2]))
    assert db.publish("nightly", "t", "append", db.batch("t", "append", id=[3])) == first
    assert directory.begin(db.database, "nightly", "t", "append", ["id"]) == first
    assert directory.describe(db.database, "nightly") == first
    assert db("SELECT id FROM t") == [(1,), (2,)]
    db("TRUNCATE t", "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)")
    assert db.publish("nightly", "t", "overwrite", db.batch("t", "append", id=[3])) == first
    db.database.checkpoint()
    assert db("SELECT id FROM t") == []


def test_two_who_publish_the_same_load_at_once(db):
    """The second waits for the first, and gets its outcome."""
    db("CREATE TABLE t (id int PRIMARY KEY)")
    batch = db.batch("t", "append", id=[1, 2])
    began, go_on = threading.Event(), threading.Event()
    outcomes = []

    def slow():
        yield batch
        began.set()
        go_on.wait()

    def fast():
        began.wait()
        outcomes.append(directory.publish_batches(db.database, "one", "t", "append", unread()))

    def unread():
        raise AssertionError("there is nothing to be read of a load that is done")
        yield batch

    second = threading.Thread(target=fast)
    first = threading.Thread(
        target=lambda: outcomes.append(directory.publish_batches(db.database, "one", "t", "append", slow()))
    )
    first.start()
    second.start()
    began.wait()
    assert db("SELECT id FROM t") == []
    go_on.set()
    first.join()
    second.join()
    assert len(outcomes) == 2
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].inserted == 2


def test_after_a_load_that_failed_its_id_is_free(db):
    db("CREATE TABLE t (id int PRIMARY KEY)")
    batch = db.batch("t", "append", id=[1])

    def broken():
        yield batch
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        directory.publish_batches(db.database, "one", "t", "append", broken())
    assert db("SELECT id FROM t") == []
    assert db.publish("one", "t", "append", batch).inserted == 1


@pytest.mark.parametrize(
    ("column", "values", "state", "row"),
    [
        ("v", ["a", "b", None], "23502", 13),
        ("v", ["a", "bad", "c"], "23514", 12),
        ("s", ["abc", "abcdef", "abc"], "22001", 12),
        ("j", ["{}", "1", "{"], "22P02", 13),
        ("v", ["a", "b\0", "c"], "22023", 12),
        ("id", [11, 12, 3], "23505", 13),
        ("id", [11, 12, 11], "23505", 13),
        ("u", [11, 12, 3], "23505", 13),
        ("u", [None, None, 3], "23505", 13),
        ("u", [11, 12, 12], "23505", 13),
    ],
)
def test_an_error_names_the_row(db, column, values, state, row):
    db(
        "CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL CHECK (v <> 'bad'), s varchar(3), j json,"
        " u int)",
        "CREATE UNIQUE INDEX ON t (u)",
        "INSERT INTO t (id, v, u) VALUES (3, 'there', 3)",
    )
    good = {
        "id": [*range(100, 110)],
        "v": ["x"] * 10,
        "s": ["y"] * 10,
        "j": ["{}"] * 10,
        "u": [*range(50, 60)],
    }
    bad = {"id": [11, 12, 13], "v": ["x"] * 3, "s": ["y"] * 3, "j": ["{}"] * 3, "u": [61, 62, 63]}
    batches = [db.batch("t", "append", **good), db.batch("t", "append", **bad | {column: values})]
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", "append", *batches)
    assert caught.value.sqlstate == state
    assert caught.value.fields["where"] == f"row {row} of the load"
    assert db("SELECT id FROM t") == [(3,)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda b: b.set_column(1, "n", b.column(1).cast(pa.decimal128(10, 2))), "decimal128(10, 2), not"),
        (lambda b: b.set_column(0, "id", b.column(0).cast(pa.int64())), "int64, not int32"),
        (lambda b: b.select(["n", "id", "at"]), "columns n, id, at, not id, n, at"),
        (lambda b: b.select(["id", "n"]), "columns id, n, not id, n, at"),
    ],
)
def test_types_are_those_of_the_table_exactly(db, change, text):
    db("CREATE TABLE t (id int PRIMARY KEY, n numeric(9,2), at timestamptz)")
    batch = db.batch("t", "append", id=[1], n=[Decimal("1.50")], at=[None])
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", "append", change(batch))
    assert caught.value.sqlstate == "42804"
    assert text in caught.value.message


def test_buffers_that_are_not_arrows_are_refused(db):
    db("CREATE TABLE t (id int PRIMARY KEY, v text)")
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    bad = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff"))  # no UTF-8
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), bad], names=["id", "v"])
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", "append", batch)
    assert caught.value.sqlstate == "22023"


def test_a_load_waits_for_rows_that_others_write(db):
    db("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'old')")
    session = db.database.session()
    db.database.run(session.execute("BEGIN"))
    db.database.run(session.execute("UPDATE t SET v = 'theirs' WHERE id = 1"))
    batch = db.batch("t", "upsert", id=[1, 2], v=["load", "load"])
    outcomes = []
    loading = threading.Thread(target=lambda: outcomes.append(db.publish("one", "t", "upsert", batch)))
    waits = db.database.tablespace.locks.waits
    loading.start()
    while db.database.tablespace.locks.waits == waits:
        assert loading.is_alive()
    db.database.run(session.execute("DELETE FROM t WHERE id = 1"))
    db.database.run(session.execute("COMMIT"))
    loading.join()
    assert outcomes[0][4:] == (2, 0, 0, 0)  # what was there when it began is gone
    assert db("SELECT v FROM t") == [("load",), ("load",)]


def test_what_was_done_before_a_wait_is_done_again(db):
    db("CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE)")
    session = db.database.session()
    db.database.run(session.execute("BEGIN"))
    db.database.run(session.execute("INSERT INTO t VALUES (99, 5)"))
    batch = db.batch("t", "upsert", id=[1, 2], v=[4, 5])
    outcomes = []
    loading = threading.Thread(target=lambda: outcomes.append(db.publish("one", "t", "upsert", batch)))
    waits = db.database.tablespace.locks.waits
    loading.start()
    while db.database.tablespace.locks.waits == waits:
        assert loading.is_alive()
    db.database.run(session.execute("ROLLBACK"))
    loading.join()
    assert outcomes[0][4:] == (2, 0, 0, 0)
    assert db("SELECT id, v FROM t") == [(1, 4), (2, 5)]


def test_rows_without_a_key_of_their_own(db):
    db("CREATE TABLE t (v int)", "INSERT INTO t VALUES (0)")
    db.publish("one", "t", "append", db.batch("t", "append", v=[1, 2]), db.batch("t", "append", v=[2]))
    db("INSERT INTO t VALUES (9)")
    assert db("SELECT v FROM t") == [(0,), (1,), (2,), (2,), (9,)]
    for mode in ("upsert", "ignore", "delete"):
        with pytest.raises(SqlError) as caught:
            db.plan("t", mode, ["v"])
        assert caught.value.sqlstate == "42P10"


COUNTING = """CREATE SEQUENCE s; CREATE TABLE t (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, one int DEFAULT nextval('s'),
    twice int DEFAULT 2 * nextval('s'), u uuid DEFAULT gen_random_uuid(),
    doubled int GENERATED ALWAYS AS (2 * v) STORED)"""


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore"])
@pytest.mark.parametrize("slice_rows", [1, 2, 1000])
def test_every_row_has_a_default_of_its_own(db, monkeypatch, mode, slice_rows):
    monkeypatch.setattr(publishing, "FIRST_ROWS", slice_rows)
    db(*COUNTING.split("; "))
    batches = [db.batch("t", mode, v=[10, 20, 30]), db.batch("t", mode, v=[40, 50])]
    assert db.publish("one", "t", mode, *batches).inserted == 5
    assert db("SELECT id, v, one, twice, doubled FROM t ORDER BY id") == [
        (at, 10 * at, 2 * at - 1, 4 * at, 20 * at) for at in range(1, 6)
    ]
    assert db("SELECT count(DISTINCT u) FROM t") == [(5,)]
    assert db("INSERT INTO t (v) VALUES (60) RETURNING id, one") == [(6, 11)]


def test_two_loads_do_not_count_the_same(db):
    """Both were begun, and staged, before the first was published."""
    db("CREATE TABLE t (v text, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    first, second = (db.batch("t", "append", v=[name] * 2) for name in "ab")
    db.publish("two", "t", "append", second)
    db.publish("one", "t", "append", first)
    assert db("SELECT id, v FROM t ORDER BY id") == [(1, "b"), (2, "b"), (3, "a"), (4, "a")]


def test_the_log_has_the_values_that_were_evaluated(db):
    db(*COUNTING.split("; "))
    db.publish("one", "t", "append", db.batch("t", "append", v=list(range(100))))
    rows = db("SELECT * FROM t ORDER BY id")
    shutil.copytree(db.database.path, copy := db.database.path.with_name("copy"))
    shutil.rmtree(copy / "store")
    with opened(copy) as again:
        made = Db(again)
        assert made("SELECT * FROM t ORDER BY id") == rows
        assert made("SELECT nextval('s')") == [(201,)]


KEEPING = """CREATE TABLE "t t" (
    n int GENERATED ALWAYS AS IDENTITY, id int PRIMARY KEY, v text DEFAULT 'made', w int, m serial, x int,
    doubled int GENERATED ALWAYS AS (coalesce(x, 1) * w) STORED, CHECK (w < 100 OR v = 'large'))"""


@pytest.mark.parametrize(
    "more",
    [
        [],
        ['CREATE INDEX ON "t t" (w)', 'CREATE UNIQUE INDEX ON "t t" (n)'],
        ['ALTER TABLE "t t" REPLICA IDENTITY FULL'],
        ['CREATE TABLE c (id int PRIMARY KEY REFERENCES "t t")', "INSERT INTO c VALUES (2)"],
        ['ALTER TABLE "t t" ADD COLUMN gone int DEFAULT 8', 'ALTER TABLE "t t" DROP COLUMN gone'],
    ],
)
def test_rows_that_are_there_keep_what_an_upsert_does_not_have(db, more):
    """As INSERT ... ON CONFLICT: new rows have their own values, counted in the order of the load."""
    db(KEEPING)
    db("INSERT INTO \"t t\" (id, v, w, x) VALUES (1, 'mine', 10, 3), (2, 'large', 200, NULL)", *more)
    batches = [
        db.batch("t t", "upsert", id=[1, 5], w=[11, 50]),
        db.batch("t t", "upsert", w=[300, 51], id=[2, 5]),
    ]
    with pytest.raises(SqlError) as caught:  # what is proposed must do, too
        db.publish("checked", "t t", "upsert", *batches)
    assert (caught.value.sqlstate, caught.value.fields["row"]) == ("23514", "3")
    batches[1] = db.batch("t t", "upsert", w=[30, 51], id=[2, 5])
    done = db.publish("one", "t t", "upsert", *batches)
    assert (done.inserted, done.updated) == (1, 3)
    found = db('SELECT id, v, w, x, doubled FROM "t t" ORDER BY id')
    assert found == [(1, "mine", 11, 3, 33), (2, "large", 30, None, 30), (5, "made", 51, None, 51)]
    numbers = db('SELECT n, m FROM "t t" ORDER BY id')
    assert numbers[:2] == [(1, 1), (2, 2)]
    assert min(numbers[2]) > 2
    everything = db('SELECT * FROM "t t" ORDER BY id')
    shutil.copytree(db.database.path, copy := db.database.path.with_name("copy"))
    shutil.rmtree(copy / "store")
    with opened(copy) as again:
        assert Db(again)('SELECT * FROM "t t" ORDER BY id') == everything


def test_a_kept_value_and_a_new_one_are_checked_together(db):
    db("CREATE TABLE t (id int PRIMARY KEY, low int DEFAULT 0, high int, CHECK (low < high))")
    db("INSERT INTO t VALUES (1, 50, 60)")
    batches = [db.batch("t", "upsert", id=[2], high=[1]), db.batch("t", "upsert", id=[3, 1], high=[40, 40])]
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", "upsert", *batches)
    assert (caught.value.sqlstate, caught.value.fields["row"]) == ("23514", "3")
    assert db("SELECT * FROM t") == [(1, 50, 60)]


def test_a_column_that_was_added_since_an_upsert_began_is_kept_too(db):
    db("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    batch = db.batch("t", "upsert", id=[1, 2], v=[10, 20])
    db("ALTER TABLE t ADD COLUMN w int DEFAULT 7", "UPDATE t SET w = 5")
    db.publish("one", "t", "upsert", batch)
    assert db("SELECT * FROM t ORDER BY id") == [(1, 10, 5), (2, 20, 7)]


def test_ledgers_that_do_not_have_all_of_a_row_are_not_named_in_the_log(db):
    db("CREATE TABLE t (v int PRIMARY KEY, id int GENERATED BY DEFAULT AS IDENTITY)")
    part = StagedPart(7, 0, 1, 0, 2)
    kinds = []
    for load_id, columns in (("computed", {"v": [1, 2]}), ("staged", {"v": [3, 4], "id": [30, 40]})):
        source = Batches(in_one_part([db.batch("t", "append", **columns)]), 2)
        load = BulkLoad(load_id, "t", LoadMode.APPEND)
        publishing = Publishing(db.database.session(), load, source, [part])
        transaction = begun(publishing)
        db.database.run(publishing._fill(transaction))
        kinds.append([type(record) for record in transaction.workspace.records])
        db.database.run(publishing._session.rollback())
    assert kinds == [[InsertBatch, LoadDone], [LoadBatch, LoadDone]]


def begun(publishing):
    publishing._session.begin()
    return publishing._session.transaction


@pytest.mark.parametrize("order", [0, 1])
def test_parts_that_do_not_stage_the_same_columns_are_refused(db, order):
    db("CREATE TABLE t (v int PRIMARY KEY, id int GENERATED BY DEFAULT AS IDENTITY)")
    batches = [db.batch("t", "append", v=[1]), db.batch("t", "append", v=[2], id=[20])]
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", "append", *(batches[::-1] if order else batches))
    assert caught.value.sqlstate == "42804"
    assert db("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("mode", ["upsert", "delete"])
def test_modes_that_find_rows_need_every_column_of_theirs(db, mode):
    db("CREATE TABLE t (v int, id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY)")
    batch = db.batch("t", "append", v=[1])
    with pytest.raises(SqlError) as caught:
        db.publish("one", "t", mode, batch)
    assert caught.value.sqlstate == "42804"


def test_a_load_that_memory_does_not_hold(tmp_path):
    with opened(tmp_path / "db", memtable_limit_bytes=100_000, transaction_memory_bytes=0) as database:
        db = Db(database)
        db("CREATE TABLE t (id int PRIMARY KEY)")
        batch = db.batch("t", "append", id=list(range(5000)))
        with pytest.raises(SqlError) as caught:
            db.publish("one", "t", "append", batch)
        assert caught.value.sqlstate == "54000"
        assert db.publish("one", "t", "append", batch.slice(0, 1000)).inserted == 1000


def test_another_table_of_the_same_name(db):
    db("CREATE TABLE t (id int PRIMARY KEY)")
    plan = db.plan("t", "append", ["id"])
    assert isinstance(plan, StagingPlan)
    batch = db.batch("t", "append", id=[1])
    db("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(SqlError) as caught:
        directory.publish_batches(db.database, "one", "t", "append", [batch], table_id=plan.table_id)
    assert caught.value.sqlstate == "55000"
    with pytest.raises(SqlError) as caught:
        directory.publish_batches(db.database, "one", "nowhere", "append", [batch])
    assert caught.value.sqlstate == "42P01"
