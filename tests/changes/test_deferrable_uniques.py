"""Rows that come to a deferrable UNIQUE by COPY, executemany and Arrow, and what older versions may not read.

What statements do to it is in the golden script ``deferred_uniques`` of tests/sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import herdpy
from herdpy.formats import NEWEST_LEVEL
from herdpy_server.embedded import opened
from herdpy_server.store import definitions
from tests.sessions.test_copy_in_sessions import Client

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, n int UNIQUE INITIALLY DEFERRED)"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Any]:
    with herdpy.connect(str(tmp_path / "db")) as connection:
        connection.autocommit = True
        connection.execute(_TABLE)
        yield connection


def _many(connection: Any, rows: list[tuple[int, int]]) -> None:
    connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", rows)


def _arrow(connection: Any, rows: list[tuple[int, int]]) -> None:
    ids, numbers = zip(*rows, strict=True)
    table = pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(numbers, pa.int32())})
    connection.cursor().adbc_ingest("t", table, mode="append")


@pytest.mark.parametrize("write", [_many, _arrow])
def test_every_door_looks_at_the_end(own: Any, write: Any) -> None:
    write(own, [(1, 1), (2, 2), (3, 3)])
    with pytest.raises(herdpy.IntegrityError, match="t_n_key"):
        write(own, [(number, number % 10 + 10) for number in range(10, 30)])
    with own.transaction():
        write(own, [(number, number) for number in range(100, 2, -1)][:-1])
        write(own, [(200, 50), (201, 3)])
        own.execute("DELETE FROM t WHERE id IN (3, 50)")
    assert own.execute("SELECT count(*), count(DISTINCT n) FROM t").fetchone() == (100, 100)


def test_copy_looks_at_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        client = Client(database)
        client.ask(_TABLE)
        assert client.ask("COPY t FROM STDIN", b"1\t1\n2\t2\n") == ["COPY 2"]
        assert client.ask("COPY t FROM STDIN", b"3\t3\n4\t1\n") == ["23505"]
        client.ask("BEGIN")
        assert client.ask("COPY t FROM STDIN", b"3\t1\n") == ["COPY 1"]
        assert client.ask("UPDATE t SET n = 3 WHERE id = 1; COMMIT") == ["UPDATE 1", "COMMIT"]


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    for begin in (_TABLE, "UPDATE t SET n = n + 1"):
        with herdpy.connect(str(tmp_path / "db")) as connection:
            connection.execute(begin)
            connection.execute(
                "INSERT INTO t SELECT i, i FROM generate_series(1, 9) i ON CONFLICT (id) DO NOTHING"
            )
            connection.commit()
            connection.execute("INSERT INTO t VALUES (0, 2)")
            with pytest.raises(herdpy.IntegrityError, match="t_n_key"):
                connection.commit()


def test_it_needs_a_finished_upgrade(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older version, which may lead again, would let rows be equal."""
    monkeypatch.setattr(definitions, "DEFERRABLE_UNIQUE_LEVEL", NEWEST_LEVEL + 1)
    own.execute("CREATE TABLE u (a int, b int UNIQUE)")
    for sql in ("CREATE TABLE v (a int UNIQUE DEFERRABLE)", "ALTER TABLE u ADD PRIMARY KEY (a) DEFERRABLE"):
        with pytest.raises(herdpy.NotSupportedError, match="before the upgrade of this database is finished"):
            own.execute(sql)
