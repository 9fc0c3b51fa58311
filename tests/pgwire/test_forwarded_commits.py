"""The connection to the leader is lost at each step of a forwarded commit: it is done once, and never twice.

Two servers in this process, without a cluster: one plays the leader, the other a follower whose way to the
leader is a relay that reads PostgreSQL's messages and cuts at a step. The next connection goes through.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, cast

import psycopg
import pytest

from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.pgwire.forwarding import NodeForwarding, SessionForwarder
from herdpy_server.serving import Databases, ServedDatabase, alone
from herdpy_server.tablespace.cluster import Basis, LeaderPlace, ReadLevel
from herdpy_sql.errors import SqlError
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import SYNC, Wire, bind, execute, parse, query

STEPS = ["before the request", "before its answer", "before ReadyForQuery"]
UPDATE = "UPDATE counters SET n = n + 1 WHERE name = 'c' RETURNING n"
_HEAD = struct.Struct(">BI")
_REQUESTS = frozenset(b"QBP")


class FollowerGuard:
    """Of a replica that follows ``place`` for ever, and is as new as anything but its leader."""

    basis: Basis | None = None
    leads = False

    def __init__(self) -> None:
        self.place: LeaderPlace | None = None

    def is_open(self, wanted: ReadLevel) -> bool:
        return wanted.level != "linearizable"

    async def admit(self, wanted: ReadLevel) -> Basis | None:
        raise SqlError("HP003", "this is not the leader")

    def holds(self, wanted: ReadLevel, basis: Basis | None) -> bool:
        return True

    async def confirm(self, wanted: ReadLevel, basis: Basis | None) -> None:
        return None

    def refusal(self, what: str) -> SqlError:
        return SqlError("25006", f"cannot execute {what} here")

    def leader_place(self) -> LeaderPlace | None:
        return self.place

    def leader_unreached(self, client: str) -> str:
        return ""


class CuttingRelay:
    """Cuts the connection of the request that comes next, at ``step``; "" lets everything through."""

    def __init__(self, port: int) -> None:
        self.step = ""
        self.is_armed = False
        self.cuts = 0
        self._port = port
        self._listener: asyncio.Server

    async def start(self) -> int:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            up_writer.write(await reader.readexactly(24))  # the start of a forwarded session
            await asyncio.gather(self._requests(reader, up_writer), self._answers(up_reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            up_writer.close()
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            message = await _message(reader)
            if self.step == STEPS[0] and message[0] in _REQUESTS and self._cuts_now():
                raise ConnectionResetError
            self.is_armed |= message[0] in _REQUESTS and bool(self.step)
            writer.write(message)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            message = await _message(reader)
            if self.is_armed and (self.step == STEPS[1] or (self.step and message[:1] == b"Z")):
                while message[:1] != b"Z":  # so that the leader has carried it out
                    message = await _message(reader)
                if self._cuts_now():
                    raise ConnectionResetError
            writer.write(message)

    def _cuts_now(self) -> bool:
        self.step, self.is_armed = "", False
        self.cuts += 1
        return True


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(_HEAD.size)
    return head + await reader.readexactly(_HEAD.unpack(head)[1] - 4)


class Pair:
    """The two servers, and the relay between them."""

    def __init__(
        self, leader: ThreadServer, follower: ThreadServer, relay: CuttingRelay, guard: FollowerGuard
    ) -> None:
        self.leader, self.follower, self.relay, self.guard = leader, follower, relay, guard

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        dsn = f"{self.follower.dsn} options='-c herdpy.forward=on -c herdpy.forward_timeout=5s'"
        return psycopg.connect(dsn, **options)

    @property
    def counter(self) -> int:
        with psycopg.connect(self.leader.dsn, autocommit=True) as connection:
            row = connection.execute("SELECT n FROM counters").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("forwarded")
    secret = directory / "secret"
    secret.write_text("a secret of many characters\n")
    guard = FollowerGuard()
    following_guard: Any = guard

    def following(database: ServedDatabase) -> Databases:
        """Sessions of a database that follows."""
        node = alone(database)
        begin = node.session

        def session(name: str) -> Any:
            database.tablespace.guard = following_guard
            made = begin(name)
            made.settings.set_standby(True)
            return made

        cast("Any", node).session = session
        return node

    leader_directory, follower_directory = directory / "leader", directory / "follower"
    for one in (leader_directory, follower_directory):  # as if the follower had applied this
        with thread_server(one) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE counters (name text PRIMARY KEY, n int8)")
            connection.execute("INSERT INTO counters VALUES ('c', 0)")
    with (
        thread_server(leader_directory) as leader,
        thread_server(follower_directory, databases=following) as follower,
    ):
        for server in (leader, follower):
            server.server.context.forwarding = NodeForwarding(
                "node", NodeSecret(secret), lambda: None, lambda _database: True
            )
        relay = CuttingRelay(leader.port)
        guard.place = LeaderPlace("leader", 1, "127.0.0.1", follower.run(relay.start()))
        yield Pair(leader, follower, relay, guard)
        follower.run(relay.close())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("prepare", [False, True], ids=["parsed", "prepared"])
def test_a_statement_is_done_once(pair: Pair, step: str, prepare: bool) -> None:
    with pair.connect(autocommit=True) as connection:
        connection.execute(UPDATE, prepare=prepare)
        before, cuts = pair.counter, pair.relay.cuts
        pair.relay.step = step
        if step == STEPS[1]:  # the answer alone is lost
            with pytest.raises(psycopg.OperationalError, match="The commit is done") as lost:
                connection.execute(UPDATE, prepare=prepare)
            assert lost.value.sqlstate == "08007"
        else:
            assert connection.execute(UPDATE, prepare=prepare).fetchone() == (before + 1,)
        assert pair.relay.cuts == cuts + 1
        assert pair.counter == before + 1
        assert connection.execute(UPDATE).fetchone() == (before + 2,)


@pytest.mark.parametrize("step", STEPS)
def test_a_simple_query_is_done_once(pair: Pair, step: str) -> None:
    with pair.connect(autocommit=True) as connection, psycopg.ClientCursor(connection) as cursor:
        cursor.execute(UPDATE)
        before = pair.counter
        pair.relay.step = step
        if step == STEPS[1]:
            with pytest.raises(psycopg.OperationalError, match="The commit is done"):
                cursor.execute(UPDATE)
        else:
            assert cursor.execute(UPDATE).fetchone() == (before + 1,)
        assert pair.counter == before + 1


@pytest.mark.parametrize("step", STEPS)
def test_a_commit_is_looked_up(pair: Pair, step: str) -> None:
    """COMMIT has one answer, so it is known in any case; one that did not arrive is 40001."""
    with pair.connect() as connection:
        connection.execute(UPDATE)
        connection.rollback()
        before = pair.counter
        connection.execute(UPDATE)
        pair.relay.step = step
        if step == STEPS[0]:
            with pytest.raises(psycopg.errors.SerializationFailure):
                connection.commit()
            assert pair.counter == before
        else:
            connection.commit()
            assert pair.counter == before + 1


@pytest.mark.parametrize("step", STEPS)
def test_a_statement_of_a_transaction_is_not_repeated(pair: Pair, step: str) -> None:
    with pair.connect() as connection:
        before = pair.counter
        connection.execute(UPDATE)
        pair.relay.step = step
        with pytest.raises(psycopg.errors.SerializationFailure, match="leader changed"):
            connection.execute(UPDATE)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert pair.counter == before
        connection.execute(UPDATE)
        connection.commit()
        assert pair.counter == before + 1


def test_a_transaction_begins_again_where_its_first_statement_was_lost(pair: Pair) -> None:
    with pair.connect() as connection:
        before = pair.counter
        connection.execute("SET herdpy.read_level = 'any'")
        connection.execute("SELECT count(*) FROM counters")
        pair.relay.step = STEPS[0]
        assert connection.execute(UPDATE).fetchone() == (before + 1,)
        connection.commit()
        assert pair.counter == before + 1


def test_a_request_that_is_refused_after_it_was_put_back_has_one_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This node leads itself when the leader of its transaction is lost."""
    recovered = SessionForwarder._recovered

    async def leads_then(self: SessionForwarder, request: Any, first: bytes) -> Any:
        self._session.settings.set_standby(False)
        return await recovered(self, request, first)

    monkeypatch.setattr(SessionForwarder, "_recovered", leads_then)
    executed = (bind(), execute())
    with Wire(("127.0.0.1", pair.follower.port)) as wire:
        wire.start(options="-c herdpy.forward=on")
        pair.relay.step = STEPS[0]
        wire.send(parse("BEGIN"), *executed, parse(UPDATE), *executed, SYNC, query("ROLLBACK"))
        failed, rolled_back = wire.replies(), wire.replies()
    assert [one.kind for one in failed if one.kind != "S"] == ["1", "2", "C", "1", "E", "Z"]
    assert [one.fields["C"] for one in failed if one.kind == "E"] == ["40001"]
    assert [one.kind for one in rolled_back if one.kind != "S"] == ["C", "Z"]


def test_a_name_of_the_clients_own_is_used(pair: Pair) -> None:
    with pair.connect(autocommit=True) as connection:
        connection.execute("SET herdpy.request_id = 'mine'")
        pair.relay.step = STEPS[2]
        connection.execute(UPDATE)
        outcome = connection.execute("SELECT herdpy.commit_outcome('mine')").fetchone()
        assert outcome is not None
        assert str(outcome[0]).startswith("done ")
        assert connection.info.parameter_status("herdpy.commit_position") == str(outcome[0])[5:]
        assert connection.execute("SHOW herdpy.request_id").fetchone() == ("",)


def test_a_forwarder_that_does_not_look_up_the_outcome_does_it_twice(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seeded bug that the tests above must catch."""

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(SessionForwarder, "_outcome", nothing)
    with pair.connect(autocommit=True) as connection:
        connection.execute(UPDATE)
        before = pair.counter
        pair.relay.step = STEPS[2]
        connection.execute(UPDATE)
        assert pair.counter == before + 2


def test_one_that_was_forwarded_is_not_forwarded_again(pair: Pair) -> None:
    """Two followers that take each other for the leader: the second one refuses."""
    guard = pair.guard
    place, guard.place = guard.place, LeaderPlace("itself", 2, "127.0.0.1", pair.follower.port)
    try:
        with pair.connect(autocommit=True) as connection:
            connection.execute("SET herdpy.forward_timeout = '300ms'")
            with pytest.raises(psycopg.OperationalError) as refused:
                connection.execute(UPDATE)
            assert refused.value.sqlstate == "57P03"
    finally:
        guard.place = place


def test_the_same_start_is_not_taken_twice(pair: Pair) -> None:
    """A recorded start of a forwarded session is refused the next time: other bytes are to be signed."""
    recorded: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", pair.leader.port)
        with suppress(asyncio.IncompleteReadError):
            packet = await reader.readexactly(24)
            up_writer.write(packet)
            writer.write(await _message(up_reader))
            recorded[:] = [packet, await _message(reader)]
        for one in (writer, up_writer):
            one.close()
            await one.wait_closed()

    async def replayed() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.leader.port)
        writer.write(recorded[0])
        await _message(reader)
        writer.write(recorded[1])
        answer = await _message(reader)
        writer.close()
        await writer.wait_closed()
        return answer

    listener = pair.follower.run(asyncio.start_server(record, "127.0.0.1", 0))
    guard = pair.guard
    place = guard.place
    guard.place = LeaderPlace("leader", 3, "127.0.0.1", int(listener.sockets[0].getsockname()[1]))
    try:
        with pair.connect(autocommit=True) as connection:
            connection.execute("SET herdpy.forward_timeout = '300ms'")
            with pytest.raises(psycopg.OperationalError):
                connection.execute(UPDATE)
        assert b"C28000\0" in pair.follower.run(replayed())
    finally:
        guard.place = place
        pair.follower.look(listener.close)


def test_a_leader_that_leads_no_more_is_one_that_was_lost(pair: Pair) -> None:
    """Its sessions follow from now on; the statement is made again once it, or another, leads."""
    with pair.connect(autocommit=True) as connection:
        connection.execute(UPDATE)
        before = pair.counter
        database = pair.leader.database
        sessions = [one for one in pair.leader.server.admission.conversations if one.origin is not None]
        assert database is not None
        for one in sessions:
            pair.leader.look(partial(one.session.settings.set_standby, True))
        assert connection.execute(UPDATE).fetchone() == (before + 1,)


def test_what_is_refused_here_is_answered_by_the_leader(pair: Pair) -> None:
    """A follower that cannot make sure that it is new enough: nothing of its own attempt is seen."""
    read = "SELECT name, n FROM counters WHERE name = %s"
    with pair.connect(autocommit=True) as connection, psycopg.ClientCursor(connection) as simple:
        expected = [("c", pair.counter)]
        for prepare in (False, True, True):
            assert connection.execute(read, ("c",), prepare=prepare).fetchall() == expected
        assert simple.execute(read, ("c",)).fetchall() == expected
        with connection.pipeline():
            answers = [connection.execute(read, ("c",)) for _ in range(3)]
        assert [one.fetchall() for one in answers] == [expected] * 3
        assert connection.execute("SELECT count(*) FROM counters").fetchall() == [(1,)]


def test_each_commit_has_a_name_of_its_own(pair: Pair) -> None:
    """Requests that commit nothing leave the name that the follower made at the leader."""
    with pair.connect(autocommit=True) as connection:
        before = pair.counter
        for _ in range(3):
            connection.execute(UPDATE, prepare=True)
            connection.execute(f"{UPDATE}, name", prepare=True)
            connection.execute("SELECT n FROM counters")
            with connection.transaction():
                connection.execute(UPDATE)
            connection.execute("DEALLOCATE ALL")
            assert connection.execute("SHOW herdpy.request_id").fetchone() == ("",)
        assert pair.counter == before + 9


def _outcome(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> str:
    row = connection.execute("SELECT herdpy.commit_outcome(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _named(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    row = connection.execute("SHOW herdpy.request_id").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("moment", ["before", "first", "later"])
def test_a_name_is_of_one_transaction(pair: Pair, end: str, moment: str) -> None:
    name = f"{end} {moment}"
    with pair.connect(autocommit=True) as connection:
        connection.execute(UPDATE)
        if moment == "before":
            connection.execute(f"SET herdpy.request_id = '{name}'")
        connection.execute("BEGIN")
        if moment == "first":
            connection.execute(f"SET herdpy.request_id = '{name}'")
        connection.execute(UPDATE)
        if moment == "later":
            connection.execute("SELECT herdpy.use_request_id(%s)", [name])
        assert _named(connection) == name
        connection.execute(end)
        assert _named(connection) == ""
        assert _outcome(connection, name).startswith("done " if end == "COMMIT" else "not done")
        for _ in range(2):
            with connection.transaction():
                connection.execute(UPDATE)
        assert _named(connection) == ""


def test_a_name_that_is_reset_in_the_transaction_is_not_used(pair: Pair) -> None:
    with pair.connect(autocommit=True) as connection:
        connection.execute("SET herdpy.request_id = 'taken back'")
        with connection.transaction():
            connection.execute(UPDATE)
            connection.execute("RESET herdpy.request_id")
        assert _outcome(connection, "taken back") == "not done"


def test_what_is_set_at_the_leader_is_set_at_the_follower(pair: Pair) -> None:
    """SET, set_config and RESET in a forwarded transaction are the session's; ROLLBACK undoes them."""
    with pair.connect(autocommit=True) as connection:
        with connection.transaction():
            connection.execute(UPDATE)
            connection.execute("SET statement_timeout = '70s'")
            connection.execute("SELECT set_config('app.kind', 'a', false)")
            connection.execute("SET LOCAL lock_timeout = '3s'")
        assert connection.execute("SHOW statement_timeout").fetchone() == ("70s",)
        assert connection.execute("SHOW app.kind").fetchone() == ("a",)
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
        connection.execute("BEGIN")
        connection.execute(UPDATE)
        connection.execute("SET app.kind = 'b'")
        connection.execute("RESET statement_timeout")
        connection.execute("ROLLBACK")
        assert connection.execute("SHOW statement_timeout").fetchone() == ("70s",)
        assert connection.execute("SHOW app.kind").fetchone() == ("a",)
        with connection.transaction():
            connection.execute(UPDATE)
            connection.execute("RESET ALL")
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_a_leader_is_waited_for_anew(pair: Pair) -> None:
    """The wait of an earlier request, however that ended, is not counted to this one's."""
    guard = pair.guard
    place = guard.place
    with pair.connect(autocommit=True) as connection:
        connection.execute("SET herdpy.forward_timeout = '1ms'")
        pair.relay.step = STEPS[1]
        with pytest.raises(psycopg.OperationalError, match="The commit is done"):
            connection.execute(UPDATE)
        for one in pair.follower.server.admission.conversations:  # a SET would be a request in between
            pair.follower.look(partial(one.session.settings.set, "herdpy.forward_timeout", "10s"))
        try:
            guard.place = LeaderPlace("nobody", 2, "127.0.0.1", 1)
            pair.follower.look(
                lambda: asyncio.get_running_loop().call_later(0.2, setattr, guard, "place", place)
            )
            assert connection.execute(UPDATE).fetchone() is not None
        finally:
            guard.place = place
