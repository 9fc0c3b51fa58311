"""What sessions say of lost answers is true: a server, and connections that are cut at every message."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from herdpy.drill.history import OperationOutcome
from herdpy.drill.sessions import ClientSession, DriverSessions, FailedError, PlainSessions, Way
from tests.remote.cutting_proxy import Cut, CuttingProxy
from tests.support.server_process import RunningServer

MESSAGES = 30
_keys = itertools.count(1)


class Cutter:
    """Cuts a connection once, at the message of that number."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self, _side: str, _kind: bytes) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        if self.left >= 0:
            return False
        self.left = None
        raise Cut


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture
def cutter(server: RunningServer) -> Iterator[tuple[Cutter, int]]:
    with closing(CuttingProxy(server.port)) as proxy:
        proxy.watch = Cutter()
        yield proxy.watch, proxy.port


@pytest.fixture
def plain() -> Iterator[PlainSessions]:
    with PlainSessions() as sessions:
        yield sessions


@pytest.fixture
def direct(server: RunningServer) -> Iterator[ClientSession]:
    with closing(DriverSessions().open(way(server.port))) as session:
        session.execute("CREATE TABLE IF NOT EXISTS t (k BIGINT)")
        yield session


def way(port: int, **more: Any) -> Way:
    url = f"herdpy://ann@127.0.0.1:{port}/test?sslmode=disable&gssencmode=disable"
    return Way(url, **({"patience_s": 20.0} | more))


def count(direct: ClientSession, key: int) -> int:
    ((number,),) = direct.execute("SELECT count(*) FROM t WHERE k = %s", key).rows
    return int(number)


def insert(session: ClientSession, key: int, *, in_transaction: bool) -> None:
    def work() -> None:
        session.execute("INSERT INTO t VALUES (%s)", key)

    if in_transaction:
        session.transaction(work)
    else:
        work()


@pytest.mark.parametrize("in_transaction", [False, True])
def test_plain_psycopg_is_told_unknown_and_learns_what_it_was(
    direct: ClientSession, cutter: tuple[Cutter, int], plain: PlainSessions, in_transaction: bool
) -> None:
    cuts, port = cutter
    seen: dict[Any, int] = {}
    with closing(plain.open(way(port))) as session:
        for number in range(MESSAGES):
            insert(session, next(_keys), in_transaction=in_transaction)  # it is connected
            key = next(_keys)
            cuts.left = number
            outcome = _told(session, key, cuts, in_transaction=in_transaction)
            cuts.left = None
            is_done = outcome in (OperationOutcome.DONE, (OperationOutcome.UNKNOWN, OperationOutcome.DONE))
            assert count(direct, key) == is_done, (number, outcome)
            seen[outcome] = seen.get(outcome, 0) + 1
    assert seen.keys() == {
        OperationOutcome.DONE,
        OperationOutcome.NOT_DONE,
        (OperationOutcome.UNKNOWN, OperationOutcome.DONE),
        (OperationOutcome.UNKNOWN, OperationOutcome.NOT_DONE),
    }


def _told(session: ClientSession, key: int, cuts: Cutter, *, in_transaction: bool) -> Any:
    """What became of an insert; a pair with what was found out of an unknown one."""
    try:
        insert(session, key, in_transaction=in_transaction)
    except FailedError as failed:
        cuts.left = None
        if failed.outcome is not OperationOutcome.UNKNOWN:
            return failed.outcome
        return OperationOutcome.UNKNOWN, session.resolve(str(failed.request_id))
    return OperationOutcome.DONE


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_driver_finds_out_by_itself(
    direct: ClientSession, cutter: tuple[Cutter, int], in_transaction: bool
) -> None:
    cuts, port = cutter
    with closing(DriverSessions().open(way(port))) as session:
        for number in range(MESSAGES):
            insert(session, next(_keys), in_transaction=in_transaction)  # it is connected
            key = next(_keys)
            cuts.left = number
            insert(session, key, in_transaction=in_transaction)
            cuts.left = None
            assert count(direct, key) == 1, number


@pytest.mark.parametrize("kind", ["driver", "psycopg"])
def test_a_transaction_that_its_work_gives_up_has_no_effect(
    direct: ClientSession, server: RunningServer, plain: PlainSessions, kind: str
) -> None:
    key = next(_keys)

    class GivenUpError(Exception):
        pass

    sessions = plain if kind == "psycopg" else DriverSessions()
    with closing(sessions.open(way(server.port))) as session:

        def work() -> None:
            session.execute("INSERT INTO t VALUES (%s)", key)
            raise GivenUpError

        with pytest.raises(GivenUpError):
            session.transaction(work, "READ COMMITTED")
        assert session.execute("SELECT 1").rows == [(1,)]
    assert count(direct, key) == 0


@pytest.mark.parametrize("kind", ["driver", "psycopg"])
def test_errors_have_their_sqlstate_and_leave_the_session_usable(
    server: RunningServer, plain: PlainSessions, kind: str
) -> None:
    sessions = plain if kind == "psycopg" else DriverSessions()
    with closing(sessions.open(way(server.port))) as session:
        for attempt in (lambda: session.execute("INSERT INTO nowhere VALUES (1)"), lambda: _in(session)):
            with pytest.raises(FailedError, match=r"^42P01: ") as failed:
                attempt()
            assert (failed.value.outcome, failed.value.sqlstate) == (OperationOutcome.NOT_DONE, "42P01")
        with pytest.raises(FailedError, match=r"^42601: "):
            session.transaction(lambda: None, "CHAOS")
        assert session.execute("SELECT 1").count == 1


def _in(session: ClientSession) -> None:
    session.transaction(lambda: session.execute("INSERT INTO nowhere VALUES (1)"))


def test_plain_psycopg_hangs_up_when_it_hears_nothing(
    direct: ClientSession, server: RunningServer, plain: PlainSessions
) -> None:
    """A lock that is not given stands for a server that says nothing."""
    with (
        closing(plain.open(way(server.port, statement_s=0.3))) as waiting,
        closing(plain.open(way(server.port))) as holding,
    ):
        key = next(_keys)
        insert(direct, key, in_transaction=False)

        def work() -> None:
            holding.execute("UPDATE t SET k = k WHERE k = %s", key)
            with pytest.raises(FailedError, match=r"^lost: ") as failed:
                waiting.execute("UPDATE t SET k = -k WHERE k = %s", key)
            assert failed.value.outcome is OperationOutcome.UNKNOWN
            assert failed.value.request_id is not None
            assert waiting.resolve(failed.value.request_id) is OperationOutcome.NOT_DONE

        holding.transaction(work)
    assert count(direct, key) == 1


def test_nobody_there_is_not_done(plain: PlainSessions) -> None:
    for sessions in (plain, DriverSessions()):
        with closing(sessions.open(way(1, patience_s=0.2))) as session:
            with pytest.raises(FailedError) as failed:
                session.execute("INSERT INTO t VALUES (1)")
            assert failed.value.outcome is OperationOutcome.NOT_DONE
