"""Prepared statements of open transactions that meet a lock: how they go on, and every way in which their
waiting ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.pgwire.servers import ThreadServer, waits
from tests.pgwire.wire import SYNC, Reply, Wire, bind, cancel_request, describe, execute, key_of, parse, query

_ADD = "UPDATE waited SET v = v + $1 WHERE k = $2"
_OK = [("2",), ("n",), ("C", b"UPDATE 1\0"), ("Z", b"T")]


@pytest.fixture(autouse=True)
def table(server: ThreadServer) -> Iterator[None]:
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("DROP TABLE IF EXISTS waited"))
        wire.ask(query("CREATE TABLE waited (k int PRIMARY KEY, v int)"))
        wire.ask(query("INSERT INTO waited VALUES (1, 0), (2, 0), (3, 0)"))
        yield
        server.wait_for(lambda: len(server.database.tablespace.locks) == 0)
    assert server.database.tablespace.locks.waiting == 0


class Writer:
    """A client with a prepared UPDATE, in an open transaction."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.pid, self.secret = key_of(wire.start())
        wire.ask(parse(_ADD, "add"), SYNC)
        wire.ask(query("BEGIN"))

    def begin_add(self, key: int) -> None:
        """Send the UPDATE, as drivers do: the answer is for :meth:`replies`."""
        self.wire.send(bind([b"1", b"%d" % key], statement="add"), describe(), execute(), SYNC)

    def replies(self) -> list[tuple[object, ...]]:
        return [_short(one) for one in self.wire.replies()]

    def add(self, key: int) -> list[tuple[object, ...]]:
        self.begin_add(key)
        return self.replies()

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        return [_short(one) for one in self.wire.ask(query(sql))]


def _short(one: Reply) -> tuple[object, ...]:
    return (one.kind,) if one.kind in "2nTD" else one.meaning()


@contextlib.contextmanager
def writers(server: ThreadServer, count: int) -> Iterator[list[Writer]]:
    with contextlib.ExitStack() as stack:
        yield [Writer(stack.enter_context(Wire(server.address))) for _ in range(count)]


def value(server: ThreadServer, key: int) -> int:
    with Wire(server.address) as wire:
        wire.start()
        (row,) = [one for one in wire.ask(query(f"SELECT v FROM waited WHERE k = {key}")) if one.kind == "D"]
        return int(row.body[6:])


def failed(sqlstate: str) -> list[tuple[object, ...]]:
    return [("2",), ("n",), ("E", "ERROR", sqlstate), ("Z", b"E")]


def test_everybody_in_the_queue_has_his_turn_in_the_order_of_asking(server: ThreadServer) -> None:
    with writers(server, 4) as (first, *others):
        assert first.add(1) == _OK
        for count, one in enumerate(others, 1):
            one.begin_add(1)
            waits(server, count)
        before = first
        for left, one in zip((2, 1, 0), others, strict=True):
            before.ask("COMMIT")
            assert one.replies() == _OK
            waits(server, left)
            before = one
        before.ask("COMMIT")
    assert value(server, 1) == 4


def test_a_row_that_no_longer_matches_is_left_alone(server: ThreadServer) -> None:
    with writers(server, 2) as (holder, waiter):
        assert holder.ask("DELETE FROM waited WHERE k = 1")[-1] == ("Z", b"T")
        waiter.begin_add(1)
        waits(server, 1)
        holder.ask("COMMIT")
        assert waiter.replies() == [("2",), ("n",), ("C", b"UPDATE 0\0"), ("Z", b"T")]
        waiter.ask("COMMIT")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_row_that_was_changed_since_the_snapshot_is_an_error(server: ThreadServer, level: str) -> None:
    with writers(server, 2) as (holder, waiter):
        waiter.ask(f"ROLLBACK; BEGIN ISOLATION LEVEL {level}")
        waiter.ask("SELECT v FROM waited WHERE k = 3")
        holder.add(1)
        waiter.begin_add(1)
        waits(server, 1)
        holder.ask("COMMIT")
        assert waiter.replies() == failed("40001")
        waiter.ask("ROLLBACK")
        assert value(server, 1) == 1


@pytest.mark.parametrize("end", ["ROLLBACK", "disconnect"])
def test_whoever_waits_goes_on_when_the_holder_is_gone(server: ThreadServer, end: str) -> None:
    with writers(server, 2) as (holder, waiter):
        holder.add(1)
        waiter.begin_add(1)
        waits(server, 1)
        if end == "disconnect":
            holder.wire.close()
        else:
            holder.ask(end)
        assert waiter.replies() == _OK
        waiter.ask("COMMIT")
    assert value(server, 1) == 1


@pytest.mark.parametrize(
    ("setting", "sqlstate"), [("lock_timeout = '20ms'", "55P03"), ("statement_timeout = '20ms'", "57014")]
)
def test_a_wait_ends_when_its_time_is_up(server: ThreadServer, setting: str, sqlstate: str) -> None:
    with writers(server, 3) as (holder, waiter, other):
        waiter.ask(f"SET LOCAL {setting}")
        holder.add(1)
        assert waiter.add(1) == failed(sqlstate)
        other.begin_add(1)
        holder.ask("COMMIT")
        assert other.replies() == _OK  # the one that gave up is not in its way
        other.ask("COMMIT")
        waiter.ask("ROLLBACK")
    assert value(server, 1) == 2


def test_a_cancelled_wait_gets_no_lock_and_its_transaction_goes_on_from_its_savepoint(
    server: ThreadServer,
) -> None:
    with writers(server, 3) as (holder, waiter, other), Wire(server.address) as canceller:
        holder.add(1)
        waiter.add(2)
        waiter.ask("SAVEPOINT s")
        waiter.begin_add(1)
        waits(server, 1)
        canceller.send(cancel_request(waiter.pid, waiter.secret))
        assert waiter.replies() == failed("57014")
        waits(server, 0)
        waiter.ask("ROLLBACK TO s")
        holder.ask("COMMIT")
        assert other.add(1) == _OK
        other.ask("COMMIT")
        assert waiter.add(3) == _OK  # and what it had before is its own still
        waiter.ask("COMMIT")
    assert [value(server, key) for key in (1, 2, 3)] == [2, 1, 1]


def test_a_client_that_goes_while_it_waits_leaves_no_lock(server: ThreadServer) -> None:
    with writers(server, 4) as (holder, waiter, behind, other):
        holder.add(1)
        waiter.add(2)
        waiter.begin_add(1)
        waits(server, 1)
        behind.begin_add(1)
        waits(server, 2)
        waiter.wire.close()
        waits(server, 1)
        assert other.add(2) == _OK
        other.ask("COMMIT")
        holder.ask("COMMIT")
        assert behind.replies() == _OK
        behind.ask("COMMIT")
    assert [value(server, key) for key in (1, 2)] == [2, 1]


def test_of_a_cycle_of_three_one_fails_and_the_others_go_on(server: ThreadServer) -> None:
    with writers(server, 3) as all_of_them:
        for key, one in enumerate(all_of_them, 1):
            assert one.add(key) == _OK
        one, two, three = all_of_them
        one.begin_add(2)
        waits(server, 1)
        two.begin_add(3)
        waits(server, 2)
        three.begin_add(1)
        assert three.replies() == failed("40P01")  # it closed the cycle
        assert two.replies() == _OK
        two.ask("COMMIT")
        assert one.replies() == _OK
        one.ask("COMMIT")
        three.ask("ROLLBACK")
    assert [value(server, key) for key in (1, 2, 3)] == [1, 2, 1]


def test_what_was_sent_behind_a_statement_that_waits_is_answered_after_it(server: ThreadServer) -> None:
    with writers(server, 2) as (holder, waiter):
        holder.add(1)
        waiter.begin_add(1)
        waiter.begin_add(2)
        waiter.wire.send(query("COMMIT"))
        waits(server, 1)
        holder.ask("COMMIT")
        assert waiter.replies() == _OK
        assert waiter.replies() == _OK
        assert waiter.replies() == [("C", b"COMMIT\0"), ("Z", b"I")]
    assert [value(server, key) for key in (1, 2)] == [2, 1]


def test_a_table_that_is_changed_meanwhile_is_planned_for_again(server: ThreadServer) -> None:
    with writers(server, 2) as (holder, waiter):
        holder.ask("ALTER TABLE waited ADD COLUMN w int DEFAULT 5")
        waiter.begin_add(1)
        waits(server, 1)
        holder.ask("COMMIT")
        assert waiter.replies() == _OK
        waiter.ask("COMMIT")
        (row,) = [
            one for one in waiter.wire.ask(query("SELECT v, w FROM waited WHERE k = 1")) if one.kind == "D"
        ]
        assert row.body == b"\0\2\0\0\0\0011\0\0\0\0015"


def test_returning_gives_the_row_as_it_is_after_the_wait(server: ThreadServer) -> None:
    with writers(server, 2) as (holder, waiter):
        waiter.wire.ask(parse(f"{_ADD} RETURNING v", "back"), SYNC)
        holder.add(1)
        waiter.wire.send(bind([b"10", b"1"], statement="back"), describe(), execute(), SYNC)
        waits(server, 1)
        holder.ask("COMMIT")
        (row,) = [one for one in waiter.wire.replies() if one.kind == "D"]
        assert row.body[6:] == b"11"
        waiter.ask("COMMIT")


def test_an_error_behind_a_wait_leaves_nothing_of_its_statement(server: ThreadServer) -> None:
    with writers(server, 2) as (holder, waiter):
        waiter.wire.ask(parse("INSERT INTO waited VALUES ($1, 0)", "new"), SYNC)
        holder.ask("INSERT INTO waited VALUES (9, 9)")
        waiter.ask("SAVEPOINT s")
        waiter.wire.send(bind([b"9"], statement="new"), describe(), execute(), SYNC)
        waits(server, 1)
        holder.ask("COMMIT")
        assert waiter.replies() == failed("23505")
        waiter.ask("ROLLBACK TO s")
        assert waiter.add(1) == _OK
        waiter.ask("COMMIT")
    assert [value(server, key) for key in (1, 9)] == [1, 9]
