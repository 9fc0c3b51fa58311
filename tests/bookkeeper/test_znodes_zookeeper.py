"""Znodes over kazoo, where ZooKeeper fails: stopped, paused, cut off, or an answer is lost."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    Outcome,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.paths import LedgerLayout, Scheme
from herdpy.bookkeeper.metadata.znodes import NodeExistsError, ZooKeeperState
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.testing import ZooKeeperServer
from tests.support.relay import Relay, Streams, until_either_ends
from tests.support.znode_worlds import RealWorld, Seen

LEDGER = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),))


class ReplyLoser(Relay):
    """A relay before ZooKeeper that can lose a reply: what was asked for is done, and nobody is notified."""

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
        await states.until(lambda state: state is ZooKeeperState.SUSPENDED)
        reading = asyncio.ensure_future(znodes.get(path))  # waits, and is answered after all
        await asyncio.to_thread(server.start)
        assert (await reading).data == b"0"
        await states.until(lambda state: state is ZooKeeperState.CONNECTED)
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
        await other.set(path, b"1", 0)  # no watch fires: it died with the connection, or is dying
        await data.until(lambda znode: znode.data == b"1")
        assert ZooKeeperState.SUSPENDED in states.all
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
        store = LedgerStore(znodes, "/ledgers", LedgerLayout.of(Scheme.LONG))
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
            await states.until(lambda state: state is ZooKeeperState.SUSPENDED)
            with pytest.raises(ZooKeeperUnavailableError) as unsent:
                await znodes.create("/unsent")
            assert unsent.value.outcome is Outcome.NOT_DONE
        finally:
            server.resume()
        await states.until(lambda state: state is ZooKeeperState.CONNECTED)
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
            if ZooKeeperState.LOST in states.all and znodes.state is ZooKeeperState.CONNECTED:
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


def test_start_waits_for_a_zookeeper_that_starts_later(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    world = RealWorld(server)

    def is_waiting() -> bool:
        return any(record.message == "no session with ZooKeeper yet" for record in caplog.records)

    async def program() -> None:
        server.stop()
        znodes = KazooZnodes(server.hostport, session_timeout_s=1.0, start_timeout_s=600.0)
        starting = asyncio.create_task(znodes.start())
        while not is_waiting():  # a session's time-out is over
            assert not starting.done()
            await asyncio.sleep(0.05)
        await asyncio.to_thread(server.start)
        await starting
        assert znodes.state is ZooKeeperState.CONNECTED
        await znodes.close()

    world.run(program)
