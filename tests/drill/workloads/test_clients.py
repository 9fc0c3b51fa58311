"""A client records its answers, goes on under another number when that is unknown, and asks again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

from herdpy.drill.clients import Client
from herdpy.drill.history import AT_FOLLOWER, ClientOperation, OperationOutcome, Recorder
from herdpy.drill.sessions import FailedError, SessionAnswer, Way

T = TypeVar("T")


class Scripted:
    """A session that answers as it is set up to; `said` are the statements."""

    server = None

    def __init__(self, read_level: str, resolved: OperationOutcome | None) -> None:
        self.read_level = read_level
        self.said: list[str] = []
        self.asked: list[str] = []
        self._resolved = resolved

    def execute(self, sql: str, *_parameters: object) -> SessionAnswer:
        self.said.append(sql)
        return SessionAnswer([("17:4",)], 1)

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        return work()

    def resolve(self, request_id: str) -> OperationOutcome | None:
        self.asked.append(request_id)
        return self._resolved

    def close(self) -> None:
        self.said.append("close")


class Sessions:
    kind = "scripted"

    def __init__(self, resolved: OperationOutcome | None = None) -> None:
        self.made: list[Scripted] = []
        self._resolved = resolved

    def open(self, way: Way) -> Scripted:
        self.made.append(Scripted(way.read_level, self._resolved))
        return self.made[-1]


def client(sessions: Sessions, read_level: str = "linearizable") -> tuple[Client, Recorder]:
    recorder = Recorder()
    return Client("w", sessions, Way("url", read_level=read_level), recorder, Random(7)), recorder


def failing(outcome: OperationOutcome, state: str | None, request_id: str | None = None) -> Callable[[], Any]:
    def work() -> Any:
        raise FailedError(outcome, state, "went wrong", request_id=request_id)

    return work


def test_what_was_done_is_recorded_with_its_result():
    one, recorder = client(Sessions())
    assert one.attempt("write", ["x", 1], lambda: 5, isolation="SERIALIZABLE") == 5
    (operation,) = recorder.history
    assert (operation.outcome, operation.result) == (OperationOutcome.DONE, 5)
    own = {"workload": "w", "client": "scripted", "number": operation.process}
    assert operation.details == {**own, "isolation": "SERIALIZABLE"}


def test_what_was_refused_has_no_effect_and_the_client_keeps_its_number():
    one, recorder = client(Sessions())
    number = one.process
    assert one.attempt("write", ["x", 1], failing(OperationOutcome.NOT_DONE, "40001")) is None
    (operation,) = recorder.history
    assert (operation.outcome, operation.error) == (OperationOutcome.NOT_DONE, "40001: went wrong")
    assert one.process == number


@pytest.mark.parametrize("resolved", [OperationOutcome.DONE, OperationOutcome.NOT_DONE, None])
def test_what_is_unknown_is_asked_for_and_the_client_gets_another_number(resolved: OperationOutcome | None):
    sessions = Sessions(resolved)
    one, recorder = client(sessions)
    number = one.process
    one.attempt("write", ["x", 1], failing(OperationOutcome.UNKNOWN, None, "17:3/abc"))
    (operation,) = recorder.history
    assert (operation.outcome, operation.resolved) == (OperationOutcome.UNKNOWN, resolved)
    assert operation.error == "lost: went wrong"
    assert sessions.made[0].asked == ["17:3/abc"]
    assert one.process != number


def test_an_answer_that_was_lost_of_what_is_done_is_unknown_and_resolved_as_done():
    one, recorder = client(Sessions())
    one.attempt("take", [], failing(OperationOutcome.DONE, "08006"))
    (operation,) = recorder.history
    assert (operation.outcome, operation.resolved) == (OperationOutcome.UNKNOWN, OperationOutcome.DONE)


def test_a_read_that_failed_has_no_effect_however_it_failed():
    one, recorder = client(Sessions())
    one.read("read", ["x"], lambda _session: failing(OperationOutcome.UNKNOWN, None)())
    (operation,) = recorder.history
    assert operation.outcome is OperationOutcome.NOT_DONE


def at_level(recorder: Recorder, level: str) -> list[ClientOperation]:
    return [one for one in recorder.history if one.details.get("read_level") == level]


def test_a_bounded_read_may_be_as_old_as_its_bound():
    sessions = Sessions()
    one, recorder = client(sessions, "bounded")
    for _ in range(20):
        one.read("read", ["x"], lambda session: session.read_level)
    for operation in at_level(recorder, "bounded"):
        assert operation.result == "bounded"
        assert operation.called_s - 0.6 < operation.sees_from_s <= operation.called_s - 0.5
    assert 0 < len(at_level(recorder, "bounded")) < 20
    assert {operation.result for operation in at_level(recorder, "linearizable")} == {"linearizable"}


def test_a_read_at_any_level_may_show_the_beginning():
    one, recorder = client(Sessions(), "any")
    for _ in range(20):
        one.read("read", ["x"], lambda session: session.read_level)
    assert {operation.sees_from_s for operation in at_level(recorder, "any")} == {0.0}


def test_a_read_at_an_lsn_names_the_write_that_it_must_see():
    sessions = Sessions()
    one, recorder = client(sessions, "at_lsn")
    for number in range(20):
        one.attempt("write", ["x", number], lambda: None)
        one.read("read", ["x"], lambda session: session.read_level)
    writes = {str(one.arguments): one for one in recorder.history if one.name == "write"}
    for operation in at_level(recorder, "at_lsn"):
        name, arguments = operation.details["own"]  # type: ignore[misc]
        assert name == "write"
        assert operation.sees_from_s == writes[str(arguments)].called_s
    assert at_level(recorder, "at_lsn")
    assert "SET herdpy.min_lsn = '17:4'" in sessions.made[1].said
    one.close()
    assert [made.said[-1] for made in sessions.made] == ["close", "close"]


def test_linearizable_reads_go_to_followers_too_and_may_be_no_older_than_their_call():
    sessions = Sessions()
    one, recorder = client(sessions)
    leader, follower = sessions.made
    for _number in range(40):
        one.read("read", ["x"], lambda session: session.execute("SELECT 1").count)
    places = [each.details.get(AT_FOLLOWER, False) for each in recorder.history]
    assert (places.count(True), places.count(False)) == (len(follower.said), len(leader.said))
    assert min(len(follower.said), len(leader.said)) > 5
    assert all(each.details["read_level"] == "linearizable" for each in recorder.history)
    assert all(each.sees_from_s == each.called_s for each in recorder.history)
