"""Reports of what is confirmed: a leader's pace, and a follower that listens to whoever leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from herdpy.log import LSN, START, LogClosedError, LogError
from herdpy.log.bookkeeper import FollowedLog
from herdpy.rpc import common_pb2, logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy.rpc.lac_reports import LacReport, lac_reports
from herdpy.rpc.read_index import ReadIndex, ReadIndexAnswerer, ReadIndexAsker
from herdpy_server.cluster.layout import Address, LeaderRecord
from herdpy_server.pgwire import PgServer, PgSettings
from herdpy_server.pgwire.subscriptions import Subscriptions
from herdpy_server.replica.lac_reports import (
    HEARTBEAT_S,
    QUICK_S,
    REPORT_S,
    SILENT_S,
    LacListener,
    ReportPace,
    reports_of,
)
from herdpy_server.replica.read_index import LeaderQuestions
from herdpy_server.service import logs as logs_service
from herdpy_server.service.gate import Caller, Callers, Gate
from herdpy_server.service.logs import LogsService
from herdpy_server.service.server import LOGS
from herdpy_server.serving import Databases
from herdpy_server.serving.logs import LacReports
from herdpy_server.serving.node import ServedNode
from tests.bookkeeper.reader_fakes import run

LOG_ID = "1" * 32


def now() -> float:
    return asyncio.get_running_loop().time()


# What a leader reports.


class Log:
    """A log that is led."""

    def __init__(self) -> None:
        self.lac = LSN(1, 0)
        self.failure: LogError | None = None
        self._moved = asyncio.Event()

    async def lac_after(self, position: LSN) -> LSN:
        while self.lac <= position and self.failure is None:
            await self._moved.wait()
            self._moved.clear()
        return self.lac

    def recent_entries(self, after: LSN, upto: LSN) -> tuple[bytes, ...]:
        return tuple(b"entry %d" % entry_id for entry_id in range(after.entry_id + 1, upto.entry_id + 1))

    def move(self, lac: LSN, failure: LogError | None = None) -> None:
        self.lac, self.failure = lac, failure
        self._moved.set()


def test_the_first_after_a_pause_is_reported_at_once_and_many_together() -> None:
    async def program() -> None:
        log = Log()
        reports = reports_of(log, 7)
        assert await anext(reports) == (7, LSN(1, 0), ())
        await asyncio.sleep(REPORT_S)
        moved = now()
        asyncio.get_running_loop().call_later(0.1, log.move, LSN(1, 1))
        assert await anext(reports) == (7, LSN(1, 1), (b"entry 1",))
        assert now() - moved == pytest.approx(REPORT_S + 0.1, abs=REPORT_S)
        for entry in range(2, 1002):
            asyncio.get_running_loop().call_later(entry / 1000, log.move, LSN(1, entry))
        began, count = now(), 0
        entries: list[bytes] = []
        while not entries or entries[-1] != b"entry 1001":
            entries += (await anext(reports)).entries
            count += 1
        assert entries == [b"entry %d" % entry_id for entry_id in range(2, 1002)]
        assert count <= (now() - began) / REPORT_S + 1
        await reports.aclose()

    run(program)


def test_what_a_read_of_the_follower_waits_for_is_reported_soon() -> None:
    async def program() -> None:
        log, pace = Log(), ReportPace()
        reports = reports_of(log, 7, pace)
        assert (await anext(reports)).confirmed == LSN(1, 0)
        began = now()
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, log.move, LSN(1, 1))
        loop.call_later(0.002, pace.want, LSN(1, 2))  # (1, 2) is on its way to the bookies
        loop.call_later(0.005, log.move, LSN(1, 2))
        assert (await anext(reports)).confirmed == LSN(1, 1)
        assert now() - began == pytest.approx(QUICK_S)
        assert (await anext(reports)).confirmed == LSN(1, 2)
        assert now() - began == pytest.approx(2 * QUICK_S)
        log.move(LSN(1, 3))  # nobody waits for that
        pace.want(LSN(1, 2))
        assert (await anext(reports)).confirmed == LSN(1, 3)
        assert now() - began == pytest.approx(2 * QUICK_S + REPORT_S)
        pace.want(LSN(1, 4))
        loop.call_later(QUICK_S / 2, log.move, LSN(1, 4))
        began = now()
        assert (await anext(reports)).confirmed == LSN(1, 4)
        assert now() - began == pytest.approx(QUICK_S)
        await reports.aclose()

    run(program)


def test_nothing_new_is_reported_now_and_then_and_the_end_of_the_log_ends_the_reports() -> None:
    async def program() -> None:
        log = Log()
        reports = reports_of(log, 7)
        began = now()
        assert [await anext(reports) for _ in range(5)] == [(7, LSN(1, 0), ())] * 5
        assert now() - began == pytest.approx(4 * (HEARTBEAT_S + REPORT_S))
        asyncio.get_running_loop().call_later(0.1, log.move, LSN(1, 1), LogClosedError("it is closed"))
        assert [one async for one in reports] == [(7, LSN(1, 1), (b"entry 1",))]

    run(program)


# Who listens.


@dataclass
class Nodes:
    """Nodes that report what a test puts into their queues; ``opened``: who was listened to, in order."""

    queues: dict[str, asyncio.Queue[LacReport | Exception]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    leader: LeaderRecord | None = None
    reported: list[tuple[LSN, float]] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    ended: int = 0
    questions: LeaderQuestions = field(default_factory=lambda: LeaderQuestions(now, lambda _answered: None))

    async def reports(
        self, leader: LeaderRecord, tablespace: str, log_id: str, asker: ReadIndexAsker
    ) -> AsyncGenerator[LacReport, None]:
        assert (tablespace, log_id) == ("t", LOG_ID)
        self.opened.append(leader.node)
        try:
            while True:
                one = await self.queues.setdefault(leader.node, asyncio.Queue()).get()
                if isinstance(one, Exception):
                    raise one
                yield one
        finally:
            self.closed.append(leader.node)

    def say(self, node: str, report: LacReport | Exception) -> None:
        self.queues.setdefault(node, asyncio.Queue()).put_nowait(report)

    @property
    def log(self) -> FollowedLog:
        async def state() -> Any:
            return SimpleNamespace(log_id=LOG_ID)

        def report(confirmed: LSN, silent_s: float, entries: Sequence[bytes] = ()) -> None:
            self.entries += entries
            if silent_s:
                self.reported.append((confirmed, silent_s))
            else:
                assert confirmed == START
                self.ended += 1

        return cast(FollowedLog, SimpleNamespace(state=state, report=report))


def record(node: str, epoch: int, grpc_port: int | None = 8481) -> LeaderRecord:
    address = None if grpc_port is None else Address(node, grpc_port)
    return LeaderRecord(node=node, epoch=epoch, tag="", grpc=address)


def heard(script: Callable[[Nodes, LacListener], Any]) -> Nodes:
    """Run a script while a node n0 listens."""

    async def program() -> Nodes:
        nodes = Nodes()
        listener = LacListener(nodes.reports, "n0", "t", lambda: nodes.leader, nodes.questions)
        async with listener.listening(nodes.log):
            await script(nodes, listener)
        assert nodes.closed == nodes.opened
        assert nodes.ended == len(nodes.opened)  # bookies are asked again at once
        return nodes

    return run(program)


def test_whoever_leads_is_listened_to() -> None:
    async def script(nodes: Nodes, listener: LacListener) -> None:
        await asyncio.sleep(1)
        for epoch, node in enumerate(("n1", "n2", "n1"), 1):
            nodes.leader = record(node, epoch)
            listener.look()
            nodes.say(node, LacReport(epoch, LSN(epoch, 0), (node.encode(), b"%d" % epoch)))
            await asyncio.sleep(0.5)

    nodes = heard(script)
    assert nodes.opened == ["n1", "n2", "n1"]
    assert nodes.reported == [(LSN(epoch, 0), SILENT_S) for epoch in (1, 2, 3)]
    assert nodes.entries == [b"n1", b"1", b"n2", b"2", b"n1", b"3"]


@pytest.mark.parametrize("leader", [None, record("n0", 1), record("n1", 1, None)])
def test_nobody_is_listened_to(leader: LeaderRecord | None) -> None:
    """There is no leader; it is this node itself; it has no gRPC."""

    async def script(nodes: Nodes, listener: LacListener) -> None:
        nodes.leader = leader
        listener.look()
        await asyncio.sleep(10)

    assert heard(script).opened == []


def test_a_node_that_reports_for_an_earlier_epoch_is_left_alone_for_a_while() -> None:
    async def script(nodes: Nodes, listener: LacListener) -> None:
        nodes.leader = record("n1", 5)
        listener.look()
        for _ in range(3):
            nodes.say("n1", LacReport(4, LSN(9, 9)))
        nodes.say("n1", LacReport(5, LSN(10, 0)))
        await asyncio.sleep(5)

    nodes = heard(script)
    assert nodes.opened[:4] == ["n1"] * 4
    assert [one for one, _ in nodes.reported] == [LSN(10, 0)]


@pytest.mark.parametrize(
    "error",
    [
        RemoteError(grpc.StatusCode.UNAVAILABLE, "57P03", "it does not lead"),
        RemoteError(grpc.StatusCode.DATA_LOSS, "XX001", "damaged"),
        OSError("no certificate"),
    ],
)
def test_after_an_error_it_listens_again_and_seldom(error: Exception) -> None:
    async def script(nodes: Nodes, listener: LacListener) -> None:
        nodes.leader = record("n1", 1)
        listener.look()
        for _ in range(100):
            nodes.say("n1", error)
        await asyncio.sleep(60)
        assert 10 < len(nodes.opened) < 30

    assert heard(script).reported == []


def test_a_silent_node_is_connected_to_again() -> None:
    async def script(nodes: Nodes, listener: LacListener) -> None:
        nodes.leader = record("n1", 1)
        listener.look()
        nodes.say("n1", LacReport(1, LSN(1, 1)))
        await asyncio.sleep(SILENT_S - 0.1)
        assert len(nodes.opened) == 1
        await asyncio.sleep(1.0)
        assert len(nodes.opened) == 2
        nodes.say("n1", LacReport(1, LSN(1, 2)))

        def speak() -> None:
            nodes.say("n1", LacReport(1, LSN(1, 2)))

        for at in range(1, 100):
            asyncio.get_running_loop().call_later(at * HEARTBEAT_S, speak)
        await asyncio.sleep(40)
        assert len(nodes.opened) == 2

    heard(script)


def test_without_a_way_to_listen_nothing_is_done() -> None:
    async def program() -> None:
        nodes = Nodes(leader=record("n1", 1))
        listener = LacListener(None, "n0", "t", lambda: nodes.leader, nodes.questions)
        async with listener.listening(nodes.log):
            listener.look()
            await asyncio.sleep(10)
        assert nodes.opened == []

    run(program)


# Over gRPC.


class Told(logs_pb2_grpc.LogsServicer):
    """Reports what it was told to, and then ends."""

    def __init__(self, *answers: logs_pb2.LacReport) -> None:
        self._answers = answers

    async def ReportLac(self, request: Any, context: Any) -> None:  # type: ignore[override]
        assert request.tablespace == "t"
        for answer in self._answers:
            await context.write(answer)


class Leading:
    """A node that leads a tablespace, and has nothing new."""

    def __init__(self) -> None:
        self.led = Log()
        self.answerer = cast(ReadIndexAnswerer, SimpleNamespace(close=lambda: None))

    def find(self, tablespace: str) -> Any:
        assert tablespace == "t"
        return SimpleNamespace(log=self)

    def lac_reports(self) -> LacReports:
        return LacReports(LOG_ID, reports_of(self.led, 7), self.answerer)


@asynccontextmanager
async def serving(
    callers: Callers, led: Leading | None = None, subscriptions: Subscriptions | None = None
) -> AsyncIterator[tuple[LogsService, GrpcAddress]]:
    """The service, behind its gate."""
    server = grpc.aio.server(interceptors=[Gate(callers, {LOGS: lambda caller: True})])
    service = LogsService(cast(ServedNode, led or Leading()), callers, subscriptions)
    logs_pb2_grpc.add_LogsServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield service, GrpcAddress("127.0.0.1", port)
    finally:
        await server.stop(0)


def callers(*, replicates: bool = True) -> Callers:
    async def judge(_context: Any) -> Caller:
        return Caller("node n1", is_superuser=False, replicates=replicates)

    return cast(Callers, SimpleNamespace(judge=judge, record_event=lambda *_names, **_fields: None))


def test_reports_end_when_the_server_begins_to_go_down() -> None:
    async def program() -> None:
        async with serving(callers()) as (service, place):
            reports = lac_reports(place, "t", LOG_ID)
            assert await anext(reports) == (7, LSN(1, 0), ())
            service.stop()
            with pytest.raises(RemoteError, match="shutting down"):
                [one async for one in reports]

    asyncio.run(program())


def test_reports_are_taken_at_the_port_of_sql_and_again_after_that_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs_service, "OFFER_AGAIN_S", 0.01)

    async def program() -> None:
        sql = PgServer(cast(Databases, None), PgSettings(port=0))
        await sql.start()
        leading = Leading()
        async with (
            serving(callers(), leading, sql.context.subscriptions) as (service, place),
            aclosing(lac_reports(place, "t", LOG_ID, ("127.0.0.1", sql.port))) as reports,
        ):
            assert await anext(reports) == (7, LSN(1, 0), ())
            assert await anext(reports) == (7, LSN(1, 0), ())  # the next one is after half a second
            (connection,) = sql._connections
            for entry_id in range(1, 10):
                leading.led.move(LSN(1, entry_id))
                while (await anext(reports)).confirmed < (1, entry_id):
                    pass
            assert sql._connections == {connection}
            connection.abort()
            await reports_until(reports, leading.led, lambda: not sql._connections)
            await reports_until(reports, leading.led, lambda: bool(sql._connections))
            (other,) = sql._connections
            assert other is not connection
            for _ in range(10):  # it takes them now, and no other connection comes
                await reports_until(reports, leading.led, lambda: True)
            assert sql._connections == {other}
            service.stop()
            with pytest.raises(RemoteError, match="shutting down"):
                [one async for one in reports]
        await sql.stop()

    asyncio.run(program())


async def reports_until(reports: AsyncGenerator[LacReport, None], log: Log, met: Callable[[], bool]) -> None:
    """Confirm entries, each of which must be reported, until a condition is met; one at least."""
    while True:
        log.move(LSN(1, log.lac.entry_id + 1))
        while (await anext(reports)).confirmed < log.lac:
            pass
        if met():
            return


def test_tickets_that_nobody_takes_are_offered_ever_less_often_and_the_last_one_alone_is_good() -> None:
    offered: dict[float, bytes] = {}

    async def program() -> None:
        async def write(answer: logs_pb2.LacReport) -> None:
            if answer.ticket:
                offered[now() - began] = answer.ticket

        subscriptions = Subscriptions()
        service = LogsService(cast(ServedNode, Leading()), callers(), subscriptions)
        began = now()
        with suppress(TimeoutError):
            async with asyncio.timeout(400):
                await service.ReportLac(
                    logs_pb2.ReportLacRequest(tablespace="t"), SimpleNamespace(write=write)
                )
        assert not any(map(subscriptions.claim, offered.values()))  # the call is over

    run(program)
    assert len(set(offered.values())) == len(offered)
    due = [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]
    assert list(offered) == pytest.approx(due, abs=len(due) * (HEARTBEAT_S + REPORT_S))


def test_the_end_of_the_call_ends_the_connection_that_took_its_place() -> None:
    async def program() -> None:
        sql = PgServer(cast(Databases, None), PgSettings(port=0))
        await sql.start()
        async with serving(callers(), None, sql.context.subscriptions) as (service, place):
            reports = lac_reports(place, "t", LOG_ID, ("127.0.0.1", sql.port))
            assert await anext(reports) == await anext(reports)
            assert sql.connections == 1
            service.stop()
            with pytest.raises(RemoteError, match="shutting down"):
                [one async for one in reports]
            while sql.connections:
                await asyncio.sleep(0.005)
        await sql.stop()

    asyncio.run(program())


class Answering:
    """Answers as a leader does that has confirmed one entry."""

    def answer(self, number: int, send: Callable[[ReadIndex], object]) -> None:
        send(ReadIndex(number, 7, LSN(1, 0), LSN(1, 1)))

    def close(self) -> None:
        pass


def test_questions_go_the_other_way_on_the_connection_of_the_reports() -> None:
    async def program() -> None:
        sql = PgServer(cast(Databases, None), PgSettings(port=0))
        await sql.start()
        leading = Leading()
        leading.answerer = Answering()
        questions = LeaderQuestions(now, lambda _answered: None)
        async with (
            serving(callers(), leading, sql.context.subscriptions) as (_service, place),
            aclosing(lac_reports(place, "t", LOG_ID, ("127.0.0.1", sql.port), questions)) as reports,
        ):
            reading = asyncio.create_task(reports_until(reports, leading.led, lambda: found.done()))
            found = asyncio.ensure_future(questions.next(20.0))
            answered = await found
            assert answered is not None
            assert answered.read_index == (1, 7, LSN(1, 0), LSN(1, 1))
            assert questions.is_connected
            await reading
        assert not questions.is_connected
        await sql.stop()

    asyncio.run(program())


def test_a_leader_that_answers_no_questions_says_so_by_its_silence() -> None:
    """An older version: its reports do not have the mark."""
    connected: list[object] = []
    asker = cast(
        ReadIndexAsker,
        SimpleNamespace(connected=connected.append, disconnected=lambda: connected.append("end")),
    )

    async def program() -> None:
        server = grpc.aio.server()
        logs_pb2_grpc.add_LogsServicer_to_server(Told(answer(LacReport(3, LSN(5, 0)))), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            place = GrpcAddress("127.0.0.1", port)
            assert (
                len([one async for one in lac_reports(place, "t", LOG_ID, ("127.0.0.1", port), asker)]) == 1
            )
        finally:
            await server.stop(0)

    asyncio.run(program())
    assert connected == [None]


def test_at_most_so_many_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_service, "MAX_LISTENERS", 2)

    async def program() -> None:
        async with serving(callers()) as (_service, place):
            first, second = (lac_reports(place, "t", LOG_ID) for _ in range(2))
            assert await anext(first) == await anext(second)
            with pytest.raises(RemoteError, match="2 listeners to reports already") as caught:
                await anext(lac_reports(place, "t", LOG_ID))
            assert caught.value.sqlstate == "53400"
            await first.aclose()
            while True:  # until the server has heard of it
                third = lac_reports(place, "t", LOG_ID)
                with suppress(RemoteError):
                    assert await anext(third) == (7, LSN(1, 0), ())
                    break
            await second.aclose()
            await third.aclose()

    asyncio.run(program())


def test_they_are_for_who_may_read_the_log() -> None:
    async def program() -> None:
        async with serving(callers(replicates=False)) as (_service, place):
            with pytest.raises(RemoteError, match="may not read the log") as caught:
                await anext(lac_reports(place, "t", LOG_ID))
            assert caught.value.sqlstate == "42501"

    asyncio.run(program())


def answer(report: LacReport, log_id: str = LOG_ID) -> logs_pb2.LacReport:
    ledger_id, entry_id = report.confirmed
    return logs_pb2.LacReport(
        epoch=report.epoch,
        confirmed=common_pb2.Lsn(ledger_id=ledger_id, entry_id=entry_id),
        crc32c=report.checksum(log_id),
    )


async def received(*answers: logs_pb2.LacReport) -> list[LacReport]:
    server = grpc.aio.server()
    logs_pb2_grpc.add_LogsServicer_to_server(Told(*answers), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        place = GrpcAddress("127.0.0.1", port)
        return [one async for one in lac_reports(place, "t", LOG_ID)]
    finally:
        await server.stop(0)


def test_reports_arrive_as_they_were_sent() -> None:
    reports = [LacReport(3, LSN(5, 0)), LacReport(3, LSN(1 << 40, 1 << 33)), LacReport(4, LSN(-1, -1))]
    assert asyncio.run(received(*map(answer, reports))) == reports


def test_a_report_of_another_log_is_refused() -> None:
    with pytest.raises(RemoteError, match="damaged, or of another log") as caught:
        asyncio.run(received(answer(LacReport(3, LSN(5, 1)), "2" * 32)))
    assert caught.value.code is grpc.StatusCode.DATA_LOSS


@pytest.mark.parametrize("entries", [(), (b"one",), (b"", b"two", bytes(300))])
def test_a_report_over_a_connection_is_what_was_sent_or_refused(entries: tuple[bytes, ...]) -> None:
    report = LacReport(3, LSN(1 << 40, 5), entries)
    sent = report.encode(LOG_ID)
    assert LacReport.decode(sent, LOG_ID) == report
    damaged = [sent[:-1], sent + b"\0", b""]
    damaged += [sent[:at] + bytes([sent[at] ^ 1]) + sent[at + 1 :] for at in range(len(sent))]
    for data, log_id in [*((one, LOG_ID) for one in damaged), (sent, "2" * 32)]:
        with pytest.raises(RemoteError, match="damaged, or of another log"):
            LacReport.decode(data, log_id)


@pytest.mark.parametrize("field_name", ["epoch", "ledger_id", "entry_id"])
def test_a_flipped_bit_is_noticed(field_name: str) -> None:
    damaged = answer(LacReport(3, LSN(5, 1)))
    place = damaged if field_name == "epoch" else damaged.confirmed
    setattr(place, field_name, getattr(place, field_name) ^ 1 << 7)
    with pytest.raises(RemoteError, match="damaged"):
        asyncio.run(received(damaged))
