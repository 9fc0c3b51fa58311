"""Loads keep foreign keys: rows that refer to nothing are named, actions follow, and the log has it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy_server.embedded import opened
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
    with pytest.raises(SqlError) as caught:
        db.publish("anew", "p", "overwrite", db.batch("p", "overwrite", id=[2], u=[2]))
    assert caught.value.sqlstate == "0A000"
    assert db("SELECT id FROM p ORDER BY id") == [(1,), (2,)]
    db.publish("one", "p", "delete", db.batch("p", "delete", id=[1]))
    assert db("SELECT id FROM p") == [(2,)]


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
