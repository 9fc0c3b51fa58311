"""Znodes over kazoo are closed, or never started: in time, without a thread left, whatever ZooKeeper does."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    Outcome,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.znodes import ZooKeeperState
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.testing import ZooKeeperServer
from tests.support import znode_worlds
from tests.support.znode_worlds import RealWorld, Seen, await_ended


def test_a_thread_that_goes_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(znode_worlds, "_ENDING_S", 0.01)
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="one that goes on")
    thread.start()
    try:
        with pytest.raises(AssertionError, match="one that goes on"):
            await_ended({thread})
    finally:
        over.set()
        thread.join()


def test_closing_answers_what_is_under_way_and_ends_all_threads(server: ZooKeeperServer) -> None:
    world = RealWorld(server)  # its run looks at the threads

    async def program() -> None:
        znodes = await world.client()
        server.pause()
        try:
            operations = [
                asyncio.ensure_future(operation)
                for operation in (znodes.get("/"), znodes.create("/x"), znodes.children("/"))
            ]
            await asyncio.sleep(0)
            closed = asyncio.ensure_future(znodes.close())
            ended = await asyncio.gather(*operations, return_exceptions=True)
        finally:
            server.resume()
        await closed
        assert [type(one) for one in ended] == [ClosedClientError] * 3
        outcomes = [one.outcome for one in ended if isinstance(one, BookKeeperError)]
        assert outcomes == [Outcome.NOT_DONE, Outcome.UNKNOWN, Outcome.NOT_DONE]

    world.run(program)


def test_closing_is_not_held_up_by_a_silent_zookeeper(server: ZooKeeperServer) -> None:
    world = RealWorld(server)  # its run looks at the threads

    async def program() -> None:
        # By kazoo's own time-outs of such a session, closing would take half a minute.
        znodes = KazooZnodes(server.hostport, session_timeout_s=40.0)
        await znodes.start()
        server.pause()
        try:
            _, waiting = await asyncio.wait([asyncio.ensure_future(znodes.close())], timeout=15)
            assert not waiting
        finally:
            server.resume()

    world.run(program)


def test_closing_while_kazoo_reconnects_to_a_silent_zookeeper(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = KazooZnodes(server.hostport, session_timeout_s=40.0)
        await znodes.start()
        states = Seen()
        znodes.on_session(states)
        server.pause()
        try:
            # Kazoo gives the connection up, and its next one is accepted by the system, not by the server.
            connection = znodes._client._connection
            first = connection._socket
            first.shutdown(socket.SHUT_RDWR)
            await states.until(lambda state: state is ZooKeeperState.SUSPENDED)
            while connection._socket in (None, first):
                await asyncio.sleep(0.01)
            _, waiting = await asyncio.wait([asyncio.ensure_future(znodes.close())], timeout=15)
            assert not waiting
        finally:
            server.resume()

    world.run(program)


def test_closing_without_zookeeper_is_not_told_as_a_failure(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = KazooZnodes(server.hostport)
        await znodes.start()
        states = Seen()
        znodes.on_session(states)
        await asyncio.to_thread(server.stop)
        await states.until(lambda state: state is ZooKeeperState.SUSPENDED)
        caplog.clear()
        await znodes.close()

    world.run(program)
    assert not [record for record in caplog.records if record.name.startswith("kazoo")]


def connecting(port: int) -> int:
    """How many sockets of this machine have asked for a connection to a port and have no answer."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)  # 02: SYN_SENT


def test_a_thread_that_connects_into_a_black_hole_is_left_to_its_end() -> None:
    before = set(threading.enumerate())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]  # the queue of the listener is full from now on
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())

        async def program() -> None:
            host, port = listener.getsockname()
            others = connecting(port)
            znodes = KazooZnodes(f"{host}:{port}", session_timeout_s=40.0)
            starting = asyncio.ensure_future(znodes.start())
            while connecting(port) <= others:  # kazoo has other threads before the one that connects
                await asyncio.sleep(0.01)
            async with asyncio.timeout(15):
                starting.cancel()
                await asyncio.wait([starting])
            assert starting.cancelled()

        asyncio.run(program())
        left = set(threading.enumerate()) - before
        assert left
        assert all(thread.daemon for thread in left)
        for filler in fillers:
            filler.close()
    for thread in left:
        thread.join()  # refused at last


def test_where_nobody_listens_start_fails_in_time_and_leaves_no_thread(server: ZooKeeperServer) -> None:
    server.stop()
    before = set(threading.enumerate())

    async def program() -> None:
        znodes = KazooZnodes(server.hostport, session_timeout_s=1.0)
        with pytest.raises(ClosedClientError, match="not started"):
            await znodes.get("/")
        with pytest.raises(ZooKeeperUnavailableError, match=server.hostport) as nobody:
            await znodes.start()
        assert nobody.value.outcome is Outcome.NOT_DONE
        with pytest.raises(ClosedClientError):
            await znodes.start()

    asyncio.run(program())
    await_ended(set(threading.enumerate()) - before)


def test_a_loop_that_ended_without_closing_is_not_called_any_more(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    znodes = KazooZnodes(server.hostport, session_timeout_s=2.0)

    async def program() -> None:
        await znodes.start()
        znodes.watch_data("/", Seen())

    asyncio.run(program())
    with closing(znodes._client):
        suspended = threading.Event()
        znodes._client.add_listener(lambda state: suspended.set())
        server.stop()
        assert suspended.wait(30)
        znodes._client.stop()
    # A callback that failed in one of kazoo's threads would have been logged by it.
    assert [record for record in caplog.records if record.exc_info] == []
