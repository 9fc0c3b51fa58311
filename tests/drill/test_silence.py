"""Faults in which writes must go on: the check of a history, without a cluster."""

from __future__ import annotations

from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.silence import STOPPED, check_silence


def history(*written_s: float, limit: float | None = 2.0) -> DrillHistory:
    """A client writes all the time and is answered at these moments; a fault lasts from 10 to 20 s."""
    operations = [
        ClientOperation(1, "write", ["x", end], None, OperationOutcome.DONE, begin + 0.001, end)
        for begin, end in zip((9.0, *written_s), written_s, strict=False)
    ]
    details: dict[str, str | float] = {"fault": "zookeeper-away"}
    if limit is not None:
        details["most_silent_s"] = limit
    events = [
        Event(10.0, "fault-begin", "zookeeper is killed", dict(details)),
        Event(20.0, "fault-end", "over", {"fault": "zookeeper-away"}),
    ]
    return DrillHistory(operations, events)


def test_writes_that_go_on() -> None:
    verdict = check_silence(history(9.5, 11.0, 12.5, 14.0, 16.0, 18.0, 19.9, 21.8))
    assert verdict is not None
    assert verdict.valid, verdict.anomalies


def test_writes_that_stop() -> None:
    verdict = check_silence(history(9.5, 11.0, 13.1, 14.0, 16.0, 18.0, 19.9, 21.8))
    assert verdict is not None
    assert verdict.kinds == [STOPPED]
    assert "from 11.00 to 13.10 s" in verdict.anomalies[0].text


def test_a_gap_that_ends_behind_the_fault_counts() -> None:
    verdict = check_silence(history(9.5, 11.0, 12.5, 14.0, 16.0, 18.0, 22.0))
    assert verdict is not None
    assert verdict.kinds == [STOPPED]


def test_a_gap_elsewhere_does_not_count() -> None:
    verdict = check_silence(history(5.0, 9.9, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 19.5, 20.5, 25.0))
    assert verdict is not None
    assert verdict.valid, verdict.anomalies


def test_no_writes_at_all_are_no_proof() -> None:
    verdict = check_silence(history())
    assert verdict is not None
    assert verdict.kinds == [STOPPED]


def test_without_a_limit_nothing_is_judged() -> None:
    assert check_silence(history(9.5, 19.0, limit=None)) is None
