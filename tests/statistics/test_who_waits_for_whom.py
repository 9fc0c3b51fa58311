"""pg_locks, pg_blocking_pids and wait events: who waits for whom, also by the queries that people have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from tests.statistics.conftest import Counted

BLOCKED = """
SELECT blocked_locks.pid AS blocked_pid, blocking_locks.pid AS blocking_pid
FROM pg_catalog.pg_locks blocked_locks
JOIN pg_catalog.pg_stat_activity blocked_activity ON blocked_activity.pid = blocked_locks.pid
JOIN pg_catalog.pg_locks blocking_locks
    ON blocking_locks.locktype = blocked_locks.locktype
    AND blocking_locks.database IS NOT DISTINCT FROM blocked_locks.database
    AND blocking_locks.relation IS NOT DISTINCT FROM blocked_locks.relation
    AND blocking_locks.page IS NOT DISTINCT FROM blocked_locks.page
    AND blocking_locks.tuple IS NOT DISTINCT FROM blocked_locks.tuple
    AND blocking_locks.virtualxid IS NOT DISTINCT FROM blocked_locks.virtualxid
    AND blocking_locks.transactionid IS NOT DISTINCT FROM blocked_locks.transactionid
    AND blocking_locks.classid IS NOT DISTINCT FROM blocked_locks.classid
    AND blocking_locks.objid IS NOT DISTINCT FROM blocked_locks.objid
    AND blocking_locks.objsubid IS NOT DISTINCT FROM blocked_locks.objsubid
    AND blocking_locks.pid != blocked_locks.pid
JOIN pg_catalog.pg_stat_activity blocking_activity ON blocking_activity.pid = blocking_locks.pid
WHERE NOT blocked_locks.granted AND blocking_locks.granted
"""
"""Who blocks whom by the columns of pg_locks, as monitoring asks it."""
TREE = """
WITH RECURSIVE waiting AS (
    SELECT pid, unnest(pg_blocking_pids(pid)) AS by FROM pg_stat_activity
), tree AS (
    SELECT pid, by, 1 AS depth FROM waiting
    UNION ALL
    SELECT tree.pid, waiting.by, depth + 1 FROM tree JOIN waiting ON waiting.pid = tree.by
)
SELECT pid, by, depth FROM tree ORDER BY pid, depth
"""
Ask = Callable[[str], list[Any]]


class Waiters:
    """Sessions whose statements wait, each in a thread of its own."""

    def __init__(self, counted: Counted, stack: ExitStack) -> None:
        self._counted = counted
        self._stack = stack
        self._threads: list[threading.Thread] = []
        self.errors: list[str | None] = []

    def run(self, *statements: str) -> int:
        """Have a new session run them, of which the last one is to wait; its pid."""
        client = self._stack.enter_context(self._counted.connect())
        for statement in statements[:-1]:
            client.execute(statement)

        def last() -> None:
            try:
                client.execute(statements[-1])
            except psycopg.Error as error:
                self.errors.append(error.sqlstate)

        thread = threading.Thread(target=last)
        thread.start()
        self._threads.append(thread)
        self._counted.waits(client.info.backend_pid)
        return client.info.backend_pid

    def join(self) -> None:
        for thread in self._threads:
            thread.join(20)


@contextmanager
def waiting(counted: Counted) -> Iterator[tuple[psycopg.Connection, Ask, Waiters]]:
    """The session that has what others want, one that asks, and those that wait."""
    with ExitStack() as stack:
        holder, asking = stack.enter_context(counted.connect()), stack.enter_context(counted.connect())
        waiters = Waiters(counted, stack)
        holder.execute('CREATE SCHEMA "a b"')
        for schema in ("public", '"a b"'):
            holder.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT UNIQUE)")
            holder.execute(f"INSERT INTO {schema}.t VALUES (1, 1), (2, 2)")
        holder.execute("BEGIN")
        try:
            yield holder, lambda sql: asking.execute(sql).fetchall(), waiters
        finally:
            holder.execute("ROLLBACK")
            waiters.join()


def events(ask: Ask, pid: int) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ask(
        f"SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = {pid}"
    )[0]
    return found


@pytest.mark.parametrize("schema", ["public", '"a b"'])
def test_a_queue_at_a_row_is_a_chain(counted: Counted, schema: str) -> None:
    with waiting(counted) as (holder, ask, waiters):
        holder.execute(f"UPDATE {schema}.t SET v = 10 WHERE id = 1")
        first = waiters.run(f"UPDATE {schema}.t SET v = 11 WHERE id = 1")
        second = waiters.run(f"SET search_path = {schema}", "DELETE FROM t WHERE id = 1")
        mine = holder.info.backend_pid
        assert ask(TREE) == [(first, mine, 1), (second, first, 1), (second, mine, 2)]
        assert sorted(ask(BLOCKED)) == [(first, mine), (second, first)]
        assert events(ask, first) == ("active", "Lock", "transactionid")
        assert events(ask, second) == ("active", "Lock", "tuple")
        assert events(ask, mine) == ("idle in transaction", "Client", "ClientRead")
        relations = ask(
            "SELECT DISTINCT n.nspname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
        )
        assert relations == [(schema.strip('"'),)]
        assert ask("SELECT count(*) FROM pg_locks WHERE NOT granted AND waitstart <= now()") == [(2,)]


def test_after_a_cancel_the_next_one_is_first(counted: Counted) -> None:
    with waiting(counted) as (holder, ask, waiters):
        holder.execute("UPDATE t SET v = 10 WHERE id = 1")
        first = waiters.run("UPDATE t SET v = 11 WHERE id = 1")
        second = waiters.run("UPDATE t SET v = 12 WHERE id = 1")
        assert ask(f"SELECT pg_blocking_pids({second})") == [([first],)]
        ask(f"SELECT pg_cancel_backend({first})")
        counted.server.wait_for(lambda: len(waiters.errors) == 1)
        assert ask(f"SELECT pg_blocking_pids({second}), pg_blocking_pids({first})") == [
            ([holder.info.backend_pid], [])
        ]
        assert events(ask, second)[1:] == ("Lock", "transactionid")
        holder.execute("COMMIT")
        waiters.join()
        assert waiters.errors == ["57014"]
        assert ask("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]
        assert ask("SELECT count(*) FROM pg_locks WHERE locktype IN ('tuple', 'transactionid')") == [(0,)]


def test_all_who_share_a_row_block_its_writer(counted: Counted) -> None:
    with waiting(counted) as (holder, ask, waiters), counted.connect() as other:
        holder.execute("SELECT v FROM t WHERE id = 1 FOR SHARE")
        other.execute("BEGIN")
        other.execute("SELECT v FROM t WHERE id = 1 FOR SHARE")
        writer = waiters.run("UPDATE t SET v = 5 WHERE id = 1")
        pids = {holder.info.backend_pid, other.info.backend_pid}
        assert set(ask(f"SELECT pg_blocking_pids({writer})")[0][0]) == pids
        other.execute("COMMIT")
        assert ask(f"SELECT pg_blocking_pids({writer})") == [([holder.info.backend_pid],)]


def test_tables_and_their_modes(counted: Counted) -> None:
    with waiting(counted) as (holder, ask, waiters):
        holder.execute("LOCK TABLE t IN SHARE MODE")
        writer = waiters.run("INSERT INTO t VALUES (3, 3)")
        last = waiters.run("BEGIN", "LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        found = ask(
            "SELECT pid, mode, granted FROM pg_locks WHERE relation = 't'::regclass ORDER BY granted, mode"
        )
        assert found == [
            (last, "AccessExclusiveLock", False),
            (writer, "RowExclusiveLock", False),
            (holder.info.backend_pid, "ShareLock", True),
        ]
        assert events(ask, writer) == ("active", "Lock", "relation")
        assert ask(f"SELECT pg_blocking_pids({last})") == [([holder.info.backend_pid, writer],)]


def test_a_unique_value_that_another_inserts(counted: Counted) -> None:
    with waiting(counted) as (holder, ask, waiters):
        holder.execute("INSERT INTO t VALUES (3, 30)")
        other = waiters.run("INSERT INTO t VALUES (4, 30)")
        assert ask(TREE) == [(other, holder.info.backend_pid, 1)]
        assert ask(BLOCKED) == [(other, holder.info.backend_pid)]
        assert events(ask, other)[1:] == ("Lock", "transactionid")


def test_advisory_locks(counted: Counted) -> None:
    with waiting(counted) as (holder, ask, waiters):
        holder.execute("SELECT pg_advisory_lock(7)")
        other = waiters.run("SELECT pg_advisory_lock(7)")
        assert ask(TREE) == [(other, holder.info.backend_pid, 1)]
        assert ask(BLOCKED) == [(other, holder.info.backend_pid)]
        assert events(ask, other)[1:] == ("Lock", "advisory")
        holder.execute("SELECT pg_advisory_unlock(7)")
        waiters.join()
        assert ask(TREE) == []


def test_an_autocommit_statement_that_has_rows_and_waits_blocks_others(counted: Counted) -> None:
    """It took locks before it met one: with them it has a session, too."""
    with waiting(counted) as (holder, ask, waiters):
        holder.execute("UPDATE t SET v = 20 WHERE id = 2")
        middle = waiters.run("UPDATE t SET v = v + 100")
        assert ask(f"SELECT pg_blocking_pids({middle})") == [([holder.info.backend_pid],)]
        assert ask("SELECT count(*) FROM pg_locks WHERE pid IS NULL") == [(0,)]
        assert len(ask(f"SELECT mode FROM pg_locks WHERE pid = {middle} AND locktype = 'transactionid'")) >= 1


def test_who_is_not_there_waits_for_nobody(counted: Counted) -> None:
    with counted.connect() as client:
        assert client.execute(
            "SELECT pg_blocking_pids(4711), pg_safe_snapshot_blocking_pids(1)"
        ).fetchall() == [([], [])]


def test_nothing_of_a_transaction_is_kept_after_its_end(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g")
        client.execute("UPDATE t SET v = v + 1")
        (entry,) = counted.server.look(lambda: list(counted.server.server.registry))
        assert entry.session.waits.working is None
