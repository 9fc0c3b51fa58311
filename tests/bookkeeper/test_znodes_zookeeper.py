"""Znodes over kazoo, where ZooKeeper fails: stopped, paused, cut off, never there."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    MetadataError,
    Outcome,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.layout import Layout
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.paths import Scheme
from herdpy.bookkeeper.metadata.znodes import NodeExistsError, SessionState
from herdpy.bookkeeper.metadata.zookeeper import MAX_DATA_BYTES, Acl, KazooZnodes
from herdpy.testing import ZooKeeperServer
from tests.support.relay import Relay, Streams, until_either_ends
from tests.support.znode_worlds import RealWorld, Seen

LEDGER = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server of the test's own: it will be stopped."""
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        yield server


class ReplyLoser(Relay):
    """A relay before ZooKeeper that can lose a reply: what was asked for is done, and nobody is told."""

    def __init__(self, server: ZooKeeperServer) -> None:
        super().__init__(lambda: asyncio.open_connection(server.address, server.port))
        self.lose_reply_about: bytes | None = None
        self.lost = 0

    async def carry(self, client: Streams, server: Streams) -> None:
        armed = asyncio.Event()

        async def requests() -> None:
            while data := await client[0].read(65536):
                if self.lose_reply_about is not None and self.lose_reply_about in data:
                    self.lose_reply_about = None
                    armed.set()
                server[1].write(data)

        async def replies() -> None:
            while data := await server[0].read(65536):
                if armed.is_set():
                    self.lost += 1
                    return
                client[1].write(data)

        await until_either_ends(requests(), replies())


def test_a_watch_goes_on_when_zookeeper_was_stopped_and_started(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        path = await other.create(f"{world.root}/a", b"0", make_parents=True)
        data, names, states = Seen(), Seen(), Seen()
        znodes.watch_data(path, data)
        znodes.watch_children(world.root, names)
        znodes.on_session(states)
        await data.until(lambda znode: znode.data == b"0")
        await asyncio.to_thread(server.stop)
        await states.until(lambda state: state is SessionState.SUSPENDED)
        reading = asyncio.ensure_future(znodes.get(path))  # waits, and is answered after all
        await asyncio.to_thread(server.start)
        assert (await reading).data == b"0"
        await states.until(lambda state: state is SessionState.CONNECTED)
        await other.set(path, b"1", 0)
        await other.create(f"{world.root}/b")
        await data.until(lambda znode: znode.data == b"1")
        await names.until(lambda names: names == ["a", "b"])

    world.run(program)


def test_what_changed_while_zookeeper_was_away_is_told(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        loser = ReplyLoser(server)
        znodes = KazooZnodes(await loser.start(), session_timeout_s=4.0)
        await znodes.start()
        other = await world.client()
        path = await other.create(f"{world.root}/a", b"0", make_parents=True)
        data, states = Seen(), Seen()
        znodes.watch_data(path, data)
        znodes.on_session(states)
        await data.until(lambda znode: znode.data == b"0")
        loser.lose_reply_about = b"/cut"
        with pytest.raises(ZooKeeperUnavailableError):
            await znodes.create("/cut")
        await other.set(path, b"1", 0)  # told by nobody: the watch died with the connection, or is dying
        await data.until(lambda znode: znode.data == b"1")
        assert SessionState.SUSPENDED in states.all
        await znodes.close()
        await loser.close()

    world.run(program)


def test_a_lost_reply_leaves_a_change_in_doubt_and_is_not_repeated(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        loser = ReplyLoser(server)
        znodes = KazooZnodes(await loser.start(), session_timeout_s=4.0)
        await znodes.start()
        loser.lose_reply_about = b"/twice"
        with pytest.raises(ZooKeeperUnavailableError) as unanswered:
            await znodes.create("/twice", b"mine")
        assert (unanswered.value.outcome, loser.lost) == (Outcome.UNKNOWN, 1)
        with pytest.raises(NodeExistsError):
            await znodes.create("/twice", b"mine")
        loser.lose_reply_about = b"/twice"
        with pytest.raises(ZooKeeperUnavailableError):
            await znodes.set("/twice", b"other", 0)
        assert (await znodes.get("/twice")).version == 1
        loser.lose_reply_about = b"/twice"
        assert (await znodes.get("/twice")).data == b"other"  # a read is repeated
        assert loser.lost == 3
        await znodes.close()
        await loser.close()

    world.run(program)


def test_a_ledger_is_created_once_though_the_reply_is_lost(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        loser = ReplyLoser(server)
        znodes = KazooZnodes(await loser.start(), session_timeout_s=4.0)
        await znodes.start()
        store = LedgerStore(znodes, "/ledgers", Layout.of(Scheme.LONG))
        await store.create(LEDGER)
        loser.lose_reply_about = b"/ledgers/000/0000/0000/0000/L0001"
        ledger_id, created = await store.create(LEDGER)
        assert (ledger_id, created.version, loser.lost) == (1, 0, 1)
        loser.lose_reply_about = b"/L0001"
        written = await store.write(1, created.metadata.closed(-1, 0), 0)
        assert (written.version, loser.lost) == (1, 2)
        loser.lose_reply_about = b"/L0001"
        await store.delete(1)
        assert loser.lost == 3
        assert [found async for found in store.list()] == [0]
        await znodes.close()
        await loser.close()

    world.run(program)


def test_without_an_answer_operations_end_in_time_and_say_what_is_known(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = await world.client(operation_timeout_s=1.0)
        states = Seen()
        znodes.on_session(states)
        server.pause()
        try:
            with pytest.raises(ZooKeeperUnavailableError) as sent:
                await znodes.create("/sent")
            assert sent.value.outcome is Outcome.UNKNOWN
            with pytest.raises(ZooKeeperUnavailableError) as read:
                await znodes.get("/")
            assert read.value.outcome is Outcome.NOT_DONE
            await states.until(lambda state: state is SessionState.SUSPENDED)
            with pytest.raises(ZooKeeperUnavailableError) as unsent:
                await znodes.create("/unsent")
            assert unsent.value.outcome is Outcome.NOT_DONE
        finally:
            server.resume()
        await states.until(lambda state: state is SessionState.CONNECTED)
        assert await znodes.exists("/unsent") is None

    world.run(program)


def test_a_change_under_an_expiring_session_is_in_doubt(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = await world.client()
        mine = await znodes.create(f"{world.root}/mine", ephemeral=True, make_parents=True)
        states = Seen()
        znodes.on_session(states)
        expiring = asyncio.ensure_future(world.expire(znodes))
        lost: list[BookKeeperError] = []
        for number in itertools.count():
            if SessionState.LOST in states.all and znodes.state is SessionState.CONNECTED:
                break
            try:
                await znodes.create(f"{world.root}/{number}", ephemeral=True)
            except (ZooKeeperUnavailableError, SessionExpiredError) as error:
                lost.append(error)
        await expiring
        assert {error.outcome for error in lost} <= {Outcome.UNKNOWN}
        assert await znodes.exists(mine) is None  # gone with the old session
        assert await znodes.create(mine, ephemeral=True) == mine

    world.run(program)


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
            async with asyncio.timeout(15):
                await znodes.close()
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
            await states.until(lambda state: state is SessionState.SUSPENDED)
            while connection._socket in (None, first):
                await asyncio.sleep(0.01)
            async with asyncio.timeout(15):
                await znodes.close()
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
        await states.until(lambda state: state is SessionState.SUSPENDED)
        caplog.clear()
        await znodes.close()

    world.run(program)
    assert not [record for record in caplog.records if record.name.startswith("kazoo")]


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
            znodes = KazooZnodes(f"{host}:{port}", session_timeout_s=40.0)
            starting = asyncio.ensure_future(znodes.start())
            while set(threading.enumerate()) <= before:
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
    assert set(threading.enumerate()) <= before


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


def test_a_chroot_is_put_before_every_path(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        outside = await world.client()
        await outside.create("/inner")
        znodes = KazooZnodes(f"{server.hostport}/inner", session_timeout_s=4.0)
        await znodes.start()
        seen = Seen()
        znodes.watch_children("/a", seen)
        assert await znodes.create("/a/b-", sequence=True, make_parents=True) == "/a/b-0000000000"
        await seen.until(lambda names: names == ["b-0000000000"])
        assert await outside.children("/inner/a") == ["b-0000000000"]
        await znodes.close()

    world.run(program)


def test_znodes_may_belong_to_their_creator(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        mine = await world.client(acl=Acl.CREATOR, digest_auth="me:secret")
        other = await world.client()
        await mine.create("/mine", b"x")
        assert (await mine.get("/mine")).data == b"x"
        for operation in (other.get("/mine"), other.set("/mine", b"y", 0)):
            with pytest.raises(MetadataError, match="NoAuth"):
                await operation
        assert "secret" not in repr(mine)
        await mine.delete("/mine")

    world.run(program)


def test_data_too_large_for_zookeeper_is_refused_before_it_is_sent(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = await world.client()
        await znodes.create("/large", bytes(MAX_DATA_BYTES))
        assert len((await znodes.get("/large")).data) == MAX_DATA_BYTES
        with pytest.raises(MetadataError, match="at most") as refused:
            await znodes.set("/large", bytes(MAX_DATA_BYTES + 1), 0)
        assert refused.value.outcome is Outcome.NOT_DONE

    world.run(program)
