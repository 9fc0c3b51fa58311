"""Loads keep foreign keys: rows that refer to nothing are named, actions follow, and the log has it all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from herdpy_server.embedded import opened
from herdpy_server.loading import directory
from herdpy_sql.errors import SqlError
from tests.loading.conftest import Db

PARENT = "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)"
CHILD = "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)"
FOLLOWING = "CREATE TABLE f (id int PRIMARY KEY, p int REFERENCES p (u) ON DELETE CASCADE ON UPDATE CASCADE)"
TREE = "CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t ON DELETE CASCADE)"


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert", "ignore"])
def test_a_row_that_refers_to_nothing_is_named(db: Db, mode: str) -> None:
    db(PARENT, CHILD, "INSERT INTO p VALUES (1, 1), (2, 2)")
    batches = [db.batch("c", mode, id=[1, 2], p=[1, None]), db.batch("c", mode, id=[3, 4], p=[2, 7])]
    with pytest.raises(SqlError, match="c_p_fkey") as caught:
        db.publish("wrong", "c", mode, *batches)
    assert caught.value.sqlstate == "23503"
    assert caught.value.fields["row"] == "4"
    assert "row 4 of the load" in caught.value.fields["where"]
    assert db("SELECT * FROM c") == []
    db.publish("right", "c", mode, db.batch("c", mode, id=[1, 2], p=[1, 2]))
    assert db("SELECT id, p FROM c ORDER BY id") == [(1, 1), (2, 2)]


def test_rows_that_others_refer_to(db: Db) -> None:
    db(PARENT, CHILD, "INSERT INTO p VALUES (1, 1), (2, 2)", "INSERT INTO c VALUES (1, 2)")
    with pytest.raises(SqlError) as caught:
        db.publish("gone", "p", "delete", db.batch("p", "delete", id=[1, 2]))
    assert caught.value.sqlstate == "23503"
    assert db("SELECT id FROM p ORDER BY id") == [(1,), (2,)]
    db.publish("one", "p", "delete", db.batch("p", "delete", id=[1]))
    assert db("SELECT id FROM p") == [(2,)]


ODD_CHILDREN = [  # of "s s".p, whose rows are (1, 1), (2, 2), (3, 3)
    'CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES "s s".p)',
    'CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES "s s".p ON DELETE CASCADE)',
    'CREATE TABLE c (id int PRIMARY KEY, p bigint REFERENCES "s s".p (u) ON DELETE SET NULL)',
    'CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES "s s".p ON DELETE RESTRICT)',
    'CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES "s s".p DEFERRABLE INITIALLY DEFERRED)',
    'CREATE TABLE "s s"."c d" (id int PRIMARY KEY, p int, q int,'
    ' FOREIGN KEY (p, q) REFERENCES "s s".p (id, u) MATCH FULL)',
]


@pytest.mark.parametrize("child", ODD_CHILDREN)
def test_overwritten_rows_must_still_be_there_for_others(db: Db, child: str) -> None:
    """Nothing is deleted from others, or set to NULL: a row that has its key again was never away."""
    name = '"s s"."c d"' if "c d" in child else "c"
    both = "p, q" if "c d" in child else "p"
    db('CREATE SCHEMA "s s"', 'CREATE TABLE "s s".p (id int PRIMARY KEY, u int UNIQUE, UNIQUE (id, u))')
    db("CREATE TABLE p (id int PRIMARY KEY)", child)  # another table of the name
    db('INSERT INTO "s s".p VALUES (1, 1), (2, 2), (3, 3)')
    referring = [(1, 1), (2, 1), (3, 3)]
    for id_, p in referring:
        values = both.replace("p", str(p)).replace("q", str(p))
        db(f"INSERT INTO {name} (id, {both}) VALUES ({id_}, {values})")
    db(f"INSERT INTO {name} VALUES (4)")

    def overwrite(load_id: str, ids: list[int]) -> None:
        batches = [db.batch("s s.p", "overwrite", id=[one], u=[one]) for one in ids]
        db.publish(load_id, "s s.p", "overwrite", *batches)

    for load_id, ids in [("none", []), ("one", [1]), ("other", [3, 2, 4])]:
        with pytest.raises(SqlError, match="is still referenced from table") as caught:
            overwrite(load_id, ids)
        assert caught.value.sqlstate == "23503"
        assert caught.value.fields["constraint"]
    assert db('SELECT id FROM "s s".p ORDER BY id') == [(1,), (2,), (3,)]
    overwrite("all", [7, 3, 1])
    assert db('SELECT id FROM "s s".p ORDER BY id') == [(1,), (3,), (7,)]
    assert db(f"SELECT id, p FROM {name} ORDER BY id") == [*referring, (4, None)]
    with pytest.raises(SqlError, match="fkey"):
        db(f"INSERT INTO {name} (id, {both}) VALUES (9, {both.replace('p', '2').replace('q', '2')})")


def test_a_tree_that_others_refer_to_is_overwritten(db: Db) -> None:
    db(TREE, "CREATE TABLE leaf (id int PRIMARY KEY, t int REFERENCES t)")
    db("INSERT INTO t VALUES (1, NULL), (2, 1)", "INSERT INTO leaf VALUES (1, 2)")
    with pytest.raises(SqlError, match="t_up_fkey"):
        db.publish("no root", "t", "overwrite", db.batch("t", "overwrite", id=[2], up=[1]))
    with pytest.raises(SqlError, match="leaf_t_fkey"):
        db.publish("no branch", "t", "overwrite", db.batch("t", "overwrite", id=[5, 1], up=[1, 1]))
    db.publish("both", "t", "overwrite", db.batch("t", "overwrite", id=[2, 8], up=[8, 8]))
    assert db("SELECT id, up FROM t ORDER BY id") == [(2, 8), (8, 8)]
    assert db("SELECT id, t FROM leaf") == [(1, 2)]


def test_nobody_refers_to_rows_that_an_overwrite_takes_away_meanwhile(db: Db) -> None:
    """A row that refers to row 2 cannot be added once the load has begun to take it away."""
    db(PARENT, CHILD, "INSERT INTO p VALUES (1, 1), (2, 2)", "INSERT INTO c VALUES (1, 1)")
    batches = [db.batch("p", "overwrite", id=[1], u=[1]), db.batch("p", "overwrite", id=[3], u=[3])]
    began, go_on, refused = threading.Event(), threading.Event(), []

    def slow() -> Iterator[pa.RecordBatch]:
        yield batches[0]
        began.set()
        go_on.wait()
        yield batches[1]

    loading = threading.Thread(
        target=lambda: directory.publish_batches(db.database, "anew", "p", "overwrite", slow())
    )
    loading.start()
    began.wait()
    try:
        for statement in ("INSERT INTO c VALUES (2, 2)", "UPDATE c SET p = 2"):
            with pytest.raises(SqlError) as caught:
                db("SET lock_timeout = '1ms'", statement)
            refused.append(caught.value.sqlstate)
    finally:
        go_on.set()
        loading.join()
    assert refused == ["55P03", "55P03"]
    assert db("SELECT id FROM p ORDER BY id") == [(1,), (3,)]
    assert db("SELECT id, p FROM c") == [(1, 1)]


def test_an_overwrite_waits_for_those_who_refer_already(db: Db) -> None:
    """The other transaction has put a row in that refers to row 2; the load takes row 2 away afterwards."""
    db(PARENT, CHILD, "INSERT INTO p VALUES (1, 1), (2, 2)")
    batch = db.batch("p", "overwrite", id=[1], u=[1])
    session, errors = db.database.session(), []
    db.database.run(session.execute("BEGIN"))
    db.database.run(session.execute("INSERT INTO c VALUES (1, 2)"))

    def load() -> None:
        try:
            db.publish("anew", "p", "overwrite", batch)
        except SqlError as error:
            errors.append(error.sqlstate)

    loading = threading.Thread(target=load)
    waits = db.database.tablespace.locks.waits
    loading.start()
    while db.database.tablespace.locks.waits == waits:
        assert loading.is_alive()
    db.database.run(session.execute("COMMIT"))
    db.database.run(session.close())
    loading.join()
    assert errors == ["23503"]
    assert db("SELECT id FROM p ORDER BY id") == [(1,), (2,)]


def test_rows_of_a_load_may_refer_to_one_another(db: Db) -> None:
    db(TREE)
    db.publish(
        "tree",
        "t",
        "append",
        db.batch("t", "append", id=[3, 2], up=[2, 1]),
        db.batch("t", "append", id=[1], up=[1]),
    )
    assert db("SELECT count(*) FROM t") == [(3,)]
    with pytest.raises(SqlError) as caught:
        db.publish(
            "no",
            "t",
            "append",
            db.batch("t", "append", id=[5], up=[6]),
            db.batch("t", "append", id=[7], up=[5]),
        )
    assert caught.value.fields["row"] == "1"
    db.publish("root", "t", "delete", db.batch("t", "delete", id=[1]))
    assert db("SELECT count(*) FROM t") == [(0,)]


def test_actions_follow_and_are_logged(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        db = Db(database)
        db(PARENT, FOLLOWING, "INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)")
        db("INSERT INTO f VALUES (1, 1), (2, 2), (3, 3)")
        done = db.publish("up", "p", "upsert", db.batch("p", "upsert", id=[1, 4], u=[11, 14]))
        assert (done.updated, done.inserted) == (1, 1)
        db.publish("down", "p", "delete", db.batch("p", "delete", id=[2, 9]))
        wanted = [(1, 11), (3, 3)]
        assert db("SELECT id, p FROM f ORDER BY id") == wanted
    with opened(tmp_path / "db") as database:  # from the log
        db = Db(database)
        assert db("SELECT id, p FROM f ORDER BY id") == wanted
        assert db("SELECT id, u FROM p ORDER BY id") == [(1, 11), (3, 3), (4, 14)]
        with pytest.raises(SqlError, match="f_p_fkey"):
            db("INSERT INTO f VALUES (9, 9)")
