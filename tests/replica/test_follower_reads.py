"""Reads on followers: linearizable by one question to the leader, bounded in place."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

import herdpy
from herdpy.dev import LocalCluster
from tests.replica.replicas import await_leader, connect, followers, replica_status, run

_ROWS = itertools.count(1)
CONNECTED_S = 10.0


@pytest.fixture(scope="module")
def table(cluster: LocalCluster) -> Iterator[str]:
    run(cluster, await_leader(cluster), "CREATE TABLE f (id int8 PRIMARY KEY, v int8)")
    yield "f"
    run(cluster, await_leader(cluster), "DROP TABLE f")


@pytest.fixture
def there(cluster: LocalCluster, table: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(cluster, followers(cluster, await_leader(cluster))[0]) as connection:
        yield connection


@pytest.fixture
def leading(cluster: LocalCluster, table: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(cluster, await_leader(cluster)) as connection:
        yield connection


def add(leading: psycopg.Connection[Any]) -> int:
    """A row that is acknowledged; its id."""
    row = next(_ROWS)
    leading.execute("INSERT INTO f VALUES (%s, 0)", (row,))
    return row


def test_a_follower_answers_at_the_default_level(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    assert there.execute("SHOW herdpy.read_level").fetchone() == ("linearizable",)
    for prepare in (False, True):
        for _ in range(20):
            row = add(leading)
            found = there.execute("SELECT v FROM f WHERE id = %s", (row,), prepare=prepare).fetchall()
            assert found == [(0,)]
            assert there.execute("SELECT max(id) FROM f", prepare=prepare).fetchone() == (row,)


def test_it_knows_the_newest_definitions(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    for number in range(5):
        leading.execute(f"CREATE TABLE f{number} (id int8 PRIMARY KEY)".encode())
        assert there.execute(f"SELECT * FROM f{number} WHERE id = %s".encode(), (1,)).fetchall() == []
        leading.execute(f"DROP TABLE f{number}".encode())
        with pytest.raises(psycopg.errors.UndefinedTable):
            there.execute(f"SELECT * FROM f{number} WHERE id = %s".encode(), (1,))


def test_each_statement_of_a_transaction_sees_what_was_acknowledged_before(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    with there.transaction():
        for _ in range(5):
            row = add(leading)
            assert there.execute("SELECT max(id) FROM f").fetchone() == (row,)
            assert there.execute("SELECT v FROM f WHERE id = %s", (row,)).fetchall() == [(0,)]


def test_a_repeatable_read_begins_with_its_first_statement(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    there.isolation_level = IsolationLevel.REPEATABLE_READ
    with there.transaction():
        there.execute("SELECT 1")
        there.execute("SHOW herdpy.read_level")
    with there.transaction():
        row = add(leading)
        assert there.execute("SELECT max(id) FROM f").fetchone() == (row,)
        later = add(leading)
        assert there.execute("SELECT max(id) FROM f").fetchone() == (row,)
        assert there.execute("SELECT v FROM f WHERE id = %s", (later,)).fetchall() == []
    assert there.execute("SELECT max(id) FROM f").fetchone() == (later,)


def test_copies_cursors_and_explained_statements_are_as_new(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    row = add(leading)
    with there.cursor().copy("COPY (SELECT max(id) FROM f) TO STDOUT") as copied:
        assert [bytes(one) for one in copied] == [b"%d\n" % row]
    row = add(leading)
    with there.transaction(), there.cursor(name="c") as cursor:
        cursor.execute("SELECT id FROM f ORDER BY id DESC")
        assert cursor.fetchone() == (row,)
    row = add(leading)
    assert there.execute("EXPLAIN ANALYZE SELECT v FROM f WHERE id = %s", (row,)).fetchall()
    with there.pipeline():
        row = add(leading)
        first = there.execute("SELECT v FROM f WHERE id = %s", (row,))
        second = there.execute("SELECT max(id) FROM f")
        assert (first.fetchall(), second.fetchall()) == ([(0,)], [(row,)])


def test_it_still_refuses_writes(
    cluster: LocalCluster, leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    for statement in (
        b"INSERT INTO f VALUES (0, 0)",
        b"SELECT v FROM f FOR UPDATE",
        b"CREATE TABLE g (id int8)",
    ):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            there.execute(statement)
    shown = [there.execute(f"SHOW {name}".encode()).fetchone() for name in _STANDBY]
    assert shown == [("on",), ("on",)]
    # Only a server that certainly leads may say that something was not done.
    assert there.execute("SELECT herdpy.commit_outcome('f1')").fetchone() == ("unknown",)


_STANDBY = ("in_hot_standby", "transaction_read_only")


def test_bounded_reads_are_answered_in_place(
    cluster: LocalCluster, leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    """Once a second has passed each acknowledged row is seen; and nobody is asked about most of the reads."""
    node = followers(cluster, await_leader(cluster))[0]
    there.execute("SET herdpy.read_level = 'bounded'")
    before = replica_status(cluster, node)
    row, until_s = add(leading), time.monotonic() + 2.0
    while time.monotonic() < until_s:
        there.execute("SELECT v FROM f WHERE id = %s", (row,), prepare=True)
    assert there.execute("SELECT v FROM f WHERE id = %s", (row,)).fetchall() == [(0,)]
    after = replica_status(cluster, node)
    asked, in_place = (after[name] - before[name] for name in ("read_index_questions", "reads_in_place"))
    assert 0 < asked < 20
    assert in_place > 20 * asked


def test_many_who_wait_share_a_question(
    cluster: LocalCluster, leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    node = followers(cluster, await_leader(cluster))[0]
    begin = threading.Barrier(16)

    def read(connection: psycopg.Connection[Any]) -> None:
        begin.wait()
        for _ in range(20):
            connection.execute("SELECT count(*) FROM f WHERE id = 1")

    before = replica_status(cluster, node)
    connections = [connect(cluster, node) for _ in range(16)]
    readers = [threading.Thread(target=read, args=(one,)) for one in connections]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    for one in connections:
        one.close()
    after = replica_status(cluster, node)
    waited = after["reads_waited"] - before["reads_waited"]
    assert waited >= 320
    assert after["read_index_questions"] - before["read_index_questions"] < waited


def test_reads_by_key_see_each_row_while_another_client_writes(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    """The answer to the question comes before the row is applied, as often as not."""
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            leading.execute("UPDATE f SET v = v + 1 WHERE id = 0", prepare=True)

    leading.execute("INSERT INTO f VALUES (0, 0)")
    with connect_again(leading) as own:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            before = -1
            for _ in range(100):
                row = next(_ROWS)
                own.execute("INSERT INTO f VALUES (%s, 0)", (row,), prepare=True)
                for _ in range(3):
                    found = there.execute("SELECT v FROM f WHERE id = %s", (row,), prepare=True).fetchall()
                    assert found == [(0,)]
                (now,) = there.execute("SELECT v FROM f WHERE id = %s", (0,), prepare=True).fetchone() or (
                    -1,
                )
                assert now >= before
                before = now
        finally:
            stop.set()
            writer.join()
    own.close()


def test_a_table_that_another_client_drops_and_makes_again_is_never_empty(
    leading: psycopg.Connection[Any], there: psycopg.Connection[Any]
) -> None:
    stop, acknowledged = threading.Event(), [0]

    def redefine(number: int) -> None:
        columns = ("a int8", "b int8") if number % 2 else ("b int8", "a int8")
        with leading.transaction():
            leading.execute("DROP TABLE IF EXISTS again")
            leading.execute(f"CREATE TABLE again (id int8 PRIMARY KEY, {', '.join(columns)})".encode())
            leading.execute("INSERT INTO again (id, a, b) VALUES (1, %s, %s)", (number, -number))
        acknowledged[0] = number

    def write() -> None:
        for number in itertools.count(2):
            if stop.is_set():
                return
            redefine(number)

    redefine(1)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for at in range(100):
            sql = b"SELECT a, b FROM again WHERE id = 1" if at % 2 else b"SELECT a, b FROM again"
            least = acknowledged[0]
            ((a, b),) = there.execute(sql, prepare=at > 50).fetchall()
            assert a == -b
            assert a >= least
    finally:
        stop.set()
        writer.join()
        leading.execute("DROP TABLE again")


def connect_again(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(connection.info.dsn, autocommit=True)


def test_the_driver_reads_followers_as_the_leader_is_read(
    cluster: LocalCluster, leading: psycopg.Connection[Any]
) -> None:
    with closing(
        herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="linearizable")
    ) as reader:
        for _ in range(5):
            row = add(leading)
            assert reader.execute("SELECT max(id) FROM f").fetchall() == [(row,)]
        assert reader.execute("SHOW in_hot_standby").fetchone() == ("on",)
