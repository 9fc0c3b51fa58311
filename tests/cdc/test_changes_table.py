"""Changes into a table of another database: it is the followed one, whatever is killed, and when."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy_spark.cdc import command
from herdpy_spark.cdc.follow import Follower
from herdpy_spark.cdc.sinks import SinkError
from herdpy_spark.cdc.table_sink import ChangesTable

COLUMNS = {
    "i": ("BIGINT", "5"),
    "n": ("NUMERIC(9,2)", "1.50"),
    "f": ("REAL", "'NaN'"),
    "g": ("DOUBLE PRECISION", "0.1"),
    "b": ("BYTEA", r"'\x00ff'"),
    "d": ("DATE", "'infinity'"),
    "ts": ("TIMESTAMPTZ", "'2026-01-01T00:00:00+05:30'"),
    "t": ("TIME", "'24:00:00'"),
    "iv": ("INTERVAL", "'1 mon -3 days'"),
    "u": ("UUID", "'00000000-0000-0000-0000-00000000000a'"),
    "j": ("JSONB", """'{"a": [1, null]}'"""),
    "bo": ("BOOLEAN", "true"),
    "a": ("INT[][]", "'{{1,NULL},{3,4}}'"),
    "ta": ("TEXT[]", """ARRAY['a"b\\', NULL, 'NULL', '']"""),
    "ba": ("BYTEA[]", r"ARRAY['\x00'::bytea]"),
    "v": ("VECTOR(2)", "'[1,2.5]'"),
    'q "x"': ("TEXT", "''"),
}


class Killed(BaseException):
    """As if the process ended here."""


@pytest.fixture
def copy(tmp_path: Path):
    """``copy("SELECT ...")`` in the database that follows: the rows."""

    def run(statement: str) -> list[tuple[Any, ...]]:
        with herdpy.connect(tmp_path / "copy", autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def follow(tmp_path: Path):
    """One run to what is committed now."""

    def run(table: str = "t", into: str | None = None, starting: str = "earliest") -> Follower:
        request = command.ChangesRequest(
            url=f"herdpy://{tmp_path}/db",
            user=None,
            password=None,
            table=table,
            starting=starting,
            form="json",
            to=None,
            registry=None,
            name=None,
            on_trimmed="error",
            lease=None,
            forever=False,
            to_table=str(tmp_path / "copy"),
            into=into,
        )
        return command.follow(request, threading.Event(), print)

    return run


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
def test_every_type_arrives_as_it_is(sql, copy, follow, starting: str):
    names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in COLUMNS]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(names, COLUMNS.values(), strict=True))
    sql(
        "CREATE SCHEMA app",
        f"CREATE TABLE app.t (part TEXT, k INT, {columns}, PRIMARY KEY (k, part))",
        "CREATE TABLE t (k INT PRIMARY KEY)",
        "INSERT INTO app.t (k, part) VALUES (1, ''), (2, 'b''')",
        f"INSERT INTO app.t VALUES ('a', 1, {', '.join(value for _, value in COLUMNS.values())})",
    )
    copy("CREATE SCHEMA app")
    follow("app.t", starting=starting)
    sql("UPDATE app.t SET k = 7 WHERE part = 'a'", "DELETE FROM app.t WHERE k = 2")
    follow("app.t", starting=starting)
    shown = ", ".join(f"{name}::text" for name in names)
    query = f"SELECT part, k, {shown} FROM app.t ORDER BY 2, 1"
    assert copy(query) == sql(query)
    assert len(copy(query)) == 2


def test_columns_that_come_are_renamed_and_go(sql, copy, follow):
    sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    follow(into="mine")
    sql(
        "ALTER TABLE t ADD COLUMN n NUMERIC(9,2) DEFAULT 1.5",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "INSERT INTO t VALUES (3, 'c', NULL)",
    )
    follow(into="mine")
    assert copy("SELECT id, w, n FROM mine ORDER BY id") == sql("SELECT id, w, n FROM t ORDER BY id")
    sql("ALTER TABLE t DROP COLUMN n", "ALTER TABLE t ADD COLUMN n INT DEFAULT 4")
    sql("ALTER TABLE t ALTER COLUMN w TYPE INT USING length(w)")
    with pytest.raises(SinkError) as refused:
        follow(into="mine")
    assert 'ALTER COLUMN "w" TYPE integer' in str(refused.value)
    copy("ALTER TABLE mine ALTER COLUMN w TYPE integer USING length(w)")
    follow(into="mine")
    assert copy("SELECT id, w, n FROM mine ORDER BY id") == sql("SELECT id, w, n FROM t ORDER BY id")


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_run_that_dies_at_its_commit_leaves_all_or_nothing(sql, copy, follow, monkeypatch, at: str):
    sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 0)")
    follow()
    sql("UPDATE t SET n = n + 1", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 5), (2, 6)")
    move = ChangesTable._move

    def dies(self: ChangesTable, end: Any) -> None:
        move(self, end)
        if at == "after":
            self._connection.commit()
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(ChangesTable, "_move", dies)
        with pytest.raises(Killed):
            follow()
    assert copy("SELECT * FROM t") == ([(1, 0)] if at == "before" else [(1, 5), (2, 6)])
    assert follow().messages == (4 if at == "before" else 0)
    assert copy("SELECT * FROM t ORDER BY 1") == [(1, 5), (2, 6)]


def test_of_two_runs_one_fails(sql, copy, follow, monkeypatch):
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    write = ChangesTable.write

    def slower(self: ChangesTable, messages: Any, end: Any) -> int:
        self._connection.execute("UPDATE herdpy_changes SET position = '{}'")
        self._connection.commit()
        return write(self, messages, end)

    monkeypatch.setattr(ChangesTable, "write", slower)
    with pytest.raises(SinkError, match="another process writes"):
        follow()
    assert copy("SELECT * FROM t") == []


def test_a_table_that_is_anothers_is_refused(sql, copy, follow):
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "CREATE TABLE w (id INT)",
    )
    follow(into="mine")
    with pytest.raises(SinkError, match="has changes of"):
        follow("u", into="mine")
    copy("CREATE TABLE full_ (id INT PRIMARY KEY)")
    copy("INSERT INTO full_ VALUES (1)")
    with pytest.raises(SinkError, match="has rows, and herdpy_changes no position"):
        follow(into="full_")
    with pytest.raises(SinkError, match="has no primary key"):
        follow("w")


def test_the_rows_come_first_where_they_are_to(sql, changes, tmp_path: Path):
    """Debezium's initial snapshot: rows as `r`, then changes, each once, however often it is begun."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", "DELETE FROM t WHERE id = 2")
    argv = ("--table", "t", "--from", "snapshot", "--format", "debezium", "--to", str(tmp_path / "out"))
    changes.run(*argv)
    sql("INSERT INTO t VALUES (3)")
    changes.run(*argv)
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    found = [
        (one["value"]["op"], one["value"]["after"]["id"], one["value"]["source"]["snapshot"]) for one in lines
    ]
    assert found == [("r", 1, "true"), ("c", 3, "false")]


def test_the_command_says_what_does_not_fit_together(changes, sql):
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    for argv in (
        ("--into", "x"),
        ("--to-table", "x", "--to", "y"),
        ("--to-table", "x", "--format", "debezium"),
    ):
        assert "--to-table" in changes.run("--table", "t", *argv, code=2)


def statement(dice: random.Random, fresh: int) -> str:
    """A change of t; ``fresh`` is a key that it never had."""
    key = dice.randrange(20)
    return dice.choice(
        [
            f"INSERT INTO t (id, n) VALUES ({key}, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
            f"DELETE FROM t WHERE id = {key}",
            "UPDATE t SET n = n + 1",
            f"UPDATE t SET id = {fresh} WHERE id = {key}",
        ]
    )


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_runs_that_are_killed_lose_and_repeat_nothing(sql, copy, changes, tmp_path: Path, seed: int):
    """kill -9 at any moment, while clients change the table, and its columns."""
    dice = random.Random(seed)
    sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    argv = ("--table", "t", "--follow", "--to-table", str(tmp_path / "copy"))
    fresh = itertools.count(1000)
    for kill in range(15):
        with changes.start(*argv) as process:
            for _ in range(dice.randrange(1, 30)):
                sql(statement(dice, next(fresh)))
            if kill % 5 == 4:
                sql(f"ALTER TABLE t ADD COLUMN c{kill} INT DEFAULT {kill}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(dice.random() * 4)  # it runs on, as it is to
            process.kill()
            process.communicate()
    changes.run("--table", "t", "--to-table", str(tmp_path / "copy"))
    names = ", ".join(row[0] for row in sql("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass"
                                            " AND attnum > 0 ORDER BY attnum"))  # fmt: skip
    assert copy(f"SELECT {names} FROM t ORDER BY id") == sql(f"SELECT {names} FROM t ORDER BY id")
