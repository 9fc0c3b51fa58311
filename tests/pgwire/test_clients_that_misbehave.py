"""Clients that send nonsense, vanish, stall or never speak: they leave nothing, and others are served."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.pgwire.servers import ChildServer, ThreadServer, child_server, thread_server
from tests.pgwire.wire import (
    COPY_DONE,
    FLUSH,
    SYNC,
    Wire,
    bind,
    copy_data,
    describe,
    execute,
    message,
    packet,
    parse,
    query,
    start_up,
)


@contextlib.contextmanager
def served_throughout(dsn: str) -> Iterator[None]:
    """Another client works all the while; it must get every answer."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                n = 0
                while not stop.wait(0.001):
                    n += 1
                    assert connection.execute("SELECT %s::int", (n,)).fetchone() == (n,)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)
    if failures:
        raise failures[0]


def reset(wire: Wire) -> None:
    """Close with a reset, as the kernel of a killed client may do."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


TRANSACTION = [
    start_up(user="herdpy"),
    query("BEGIN"),
    parse("UPDATE killed SET b = b + 1 WHERE a = $1", "u"),
    bind([b"1"], statement="u", portal="p"),
    describe("P", "p"),
    execute("p"),
    FLUSH,
    SYNC,
    parse("SELECT a, b FROM killed ORDER BY a"),
    bind(),
    execute(rows=1),
    SYNC,
    query("SAVEPOINT s; UPDATE killed SET b = 7 WHERE a = 2"),
    query("DECLARE c CURSOR FOR SELECT a FROM killed"),
    query("FETCH 1 FROM c"),
    query("COPY killed FROM STDIN"),
    copy_data(b"100\t1\n101"),
    copy_data(b"\t5\n"),
    COPY_DONE,
    query("COPY killed TO STDOUT"),
    query("SELECT repeat('x', 1000) FROM generate_series(1, 3000)"),
]


@pytest.fixture(scope="module")
def killed(server: ThreadServer) -> ThreadServer:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE killed (a int PRIMARY KEY, b int)")
        connection.execute("INSERT INTO killed VALUES (1, 0), (2, 0), (3, 0)")
    return server


@pytest.mark.parametrize("how", ["close", "reset", "cut"])
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_a_client_killed_at_any_message_leaves_nothing(
    killed: ThreadServer, how: str, answered: bool
) -> None:
    with served_throughout(killed.dsn):
        for count in range(1, len(TRANSACTION) + 1):
            wire = Wire(killed.address)
            messages = TRANSACTION[:count]
            if how == "cut":
                messages = [*messages[:-1], messages[-1][: len(messages[-1]) // 2 + 1]]
            wire.send(*messages)
            if answered and count > 1:
                wire.reply()
            if how == "reset":
                reset(wire)
            else:
                wire.close()
        killed.wait_for(lambda: killed.server.sessions == 1 and killed.server.connections == 1)
        killed.wait_for(lambda: len(killed.database.tablespace.locks) == 0)
    with psycopg.connect(killed.dsn) as connection:
        rows = connection.execute("SELECT a, b FROM killed ORDER BY a").fetchall()
        assert rows == [(1, 0), (2, 0), (3, 0)]
    killed.wait_for(killed.is_clean)


def test_a_client_killed_while_it_waits_for_a_lock_frees_its_own(killed: ThreadServer) -> None:
    with psycopg.connect(killed.dsn) as holder:
        holder.execute("UPDATE killed SET b = 0 WHERE a = 1")
        for end in (Wire.close, reset):
            waiter = Wire(killed.address)
            waiter.start()
            waiter.ask(query("BEGIN; UPDATE killed SET b = 0 WHERE a = 2"))
            waiter.send(query("UPDATE killed SET b = 9 WHERE a = 1"))
            killed.wait_for(lambda: killed.database.tablespace.locks.waiting == 1)
            end(waiter)
            killed.wait_for(lambda: killed.database.tablespace.locks.waiting == 0)
            with psycopg.connect(killed.dsn) as other:
                other.execute("SET lock_timeout = '10s'")
                other.execute("UPDATE killed SET b = 0 WHERE a = 2")
        holder.rollback()


@seed(5)
@settings(max_examples=60)
@given(data=st.data())
def test_garbled_messages_leave_nothing(killed: ThreadServer, data: st.DataObject) -> None:
    """The transaction above, with some bytes changed, lost or doubled."""
    stream = bytearray(b"".join(TRANSACTION[1:]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(stream) - 1))
        change = data.draw(st.sampled_from(["byte", "lost", "doubled"]))
        if change == "byte":
            stream[at] = data.draw(st.integers(0, 255))
        elif change == "lost":
            del stream[at]
        else:
            stream.insert(at, stream[at])
    with Wire(killed.address) as wire:
        wire.start()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wire.send(bytes(stream))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    killed.wait_for(killed.is_clean)


@seed(6)
@settings(max_examples=60)
@given(garbage=st.binary(max_size=300))
def test_garbage_instead_of_a_start_leaves_nothing(killed: ThreadServer, garbage: bytes) -> None:
    with Wire(killed.address) as wire:  # noqa: SIM117 - the wires close first
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, AssertionError):
            wire.send(garbage)
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    killed.wait_for(killed.is_clean)


def test_messages_may_come_byte_by_byte(killed: ThreadServer) -> None:
    stream = parse("SELECT b FROM killed WHERE a = $1") + bind([b"2"]) + describe() + execute() + SYNC
    with Wire(killed.address) as wire:
        for at in range(len(stream)):
            if at == 0:
                first = start_up(user="herdpy")
                for i in range(len(first)):
                    wire.send(first[i : i + 1])
                wire.replies()
            wire.send(stream[at : at + 1])
        assert [one.kind for one in wire.replies()] == ["1", "2", "T", "D", "C", "Z"]


def test_a_message_that_is_too_long_is_told(killed: ThreadServer) -> None:
    with Wire(killed.address) as wire:
        wire.start()
        wire.send(b"Q" + struct.pack(">I", (64 << 20) + 1))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "54000")]


def test_a_pipeline_that_is_never_read_does_not_fill_memory(tmp_path: Path) -> None:
    with child_server(tmp_path / "data") as server, served_throughout(server.dsn):  # noqa: SIM117 - the wire closes first
        with Wire(server.address) as wire:
            wire.start()
            wire.ask(query("CREATE TABLE big (a int PRIMARY KEY, b text)"))
            wire.ask(query("INSERT INTO big SELECT 1, repeat('x', 100000)"))
            wire.ask(parse("SELECT b FROM big WHERE a = 1", "s"), SYNC)
            before = server.resident_bytes
            wire.socket.settimeout(1.0)
            with pytest.raises(TimeoutError):  # noqa: PT012 - the server stops reading: answers of 100,000 bytes each
                for _ in range(20_000):
                    wire.send((bind(statement="s") + execute() + SYNC) * 100)
            assert server.resident_bytes - before < 64 << 20


def test_of_a_big_answer_that_is_never_read_little_is_made(killed: ThreadServer) -> None:
    with Wire(killed.address) as wire:
        wire.start()
        wire.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))
        assert wire.reply() is not None
        (connection,) = killed.look(lambda: killed.server._connections)
        killed.wait_for(lambda: connection.is_full)
        with psycopg.connect(killed.dsn) as other:
            for n in range(300):
                assert other.execute("SELECT %s::int", (n,)).fetchone() == (n,)
        waiting = killed.look(lambda: connection.transport.get_write_buffer_size())
        settings = killed.server.context.settings
        assert waiting <= settings.write_ahead_bytes + 4 * settings.chunk_bytes
        assert sum(1 for one in wire.replies() if one.kind == "D") == 100_000
    killed.wait_for(killed.is_clean)


def test_half_open_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    rng = random.Random(8)
    with child_server(tmp_path / "data", max_starting=200) as server:
        with psycopg.connect(server.dsn):
            pass
        before = server.descriptors
        with contextlib.ExitStack() as opened, served_throughout(server.dsn):
            wires = []
            for n in range(3001):
                wire = opened.enter_context(Wire(server.address))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    wire.send(start_up(user="herdpy")[: rng.randrange(9)])
                wires.append(wire)
                if len(wires) > 400:  # this process has descriptors too
                    wires.pop(0).close()
                if n % 500 == 0:
                    psycopg.connect(server.dsn).close()  # those before it have been let in, too
            assert server.descriptors - before < 300
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("SELECT 1")
        _settles(server, before)


def _settles(server: ChildServer, descriptors: int) -> None:
    """The server closes what clients have closed, as soon as it learns of it."""
    for _ in range(1000):
        if server.descriptors <= descriptors:
            return
        psycopg.connect(server.dsn).close()
    pytest.fail(f"{server.descriptors} descriptors are open, {descriptors} were before")


def test_too_many_sessions_are_told(tmp_path: Path) -> None:
    with thread_server(tmp_path / "data", max_connections=3) as server:
        with contextlib.ExitStack() as opened:
            wires = [opened.enter_context(Wire(server.address)) for _ in range(4)]
            for wire in wires[:3]:
                wire.start()
            wires[3].send(start_up(user="herdpy"))
            assert [one.meaning() for one in wires[3].rest()][-1] == ("E", "FATAL", "53300")
        server.wait_for(server.is_clean)
        with Wire(server.address) as wire:
            wire.start()


def test_a_packet_that_no_client_sends_does_not_stop_the_server(killed: ThreadServer) -> None:
    for body in (b"", b"\0", struct.pack(">I", 3 << 16), struct.pack(">I", 3 << 16) + b"\0" * 50):
        with Wire(killed.address) as wire:
            wire.send(packet(body))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    with Wire(killed.address) as wire:
        wire.start()
        wire.send(message("p", b"x"))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "08P01")]
