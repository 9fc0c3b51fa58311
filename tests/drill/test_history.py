"""Histories: what is recorded, from any thread, and what a file keeps of it."""

from __future__ import annotations

import threading

import pytest

from herdpy.drill import ClientOperation, DrillHistory, Event, HistoryError, OperationOutcome, Recorder


class Clock:
    """Moves by one second at each look."""

    def __init__(self):
        self.now_s = 99.0

    def __call__(self):
        self.now_s += 1.0
        return self.now_s


def test_an_operation_is_recorded_with_its_times_and_outcome():
    recorder = Recorder(clock=Clock())
    with recorder.call(4, "write", ("x", 1), server="server-1") as call:
        assert call.called_s == 1.0
        call.detail(retries=2)
        call.done()
    assert recorder.history.operations == [
        ClientOperation(
            4,
            "write",
            ["x", 1],
            None,
            OperationOutcome.DONE,
            1.0,
            2.0,
            details={"server": "server-1", "retries": 2},
        )
    ]


def test_a_refused_and_an_unknown_operation_tell_why():
    recorder = Recorder()
    with recorder.call(0, "write", ["x", 1]) as call:
        call.not_done("23505: there is one")
    with recorder.call(0, "write", ["x", 2]) as call:
        call.unknown("08007: who knows")
    refused, unknown = recorder.history
    assert (refused.outcome, refused.final, refused.error) == (
        OperationOutcome.NOT_DONE,
        OperationOutcome.NOT_DONE,
        "23505: there is one",
    )
    assert (unknown.outcome, unknown.final, unknown.ended_s) == (
        OperationOutcome.UNKNOWN,
        OperationOutcome.UNKNOWN,
        float("inf"),
    )


def test_an_unknown_operation_may_be_resolved_later():
    recorder = Recorder(clock=Clock())
    with recorder.call(0, "write", ["x", 1]) as call:
        call.unknown("gone")
    with recorder.call(1, "read", ["x"]) as other:
        other.done(1)
    call.resolved(OperationOutcome.DONE)
    first, second = recorder.history
    assert (first.outcome, first.resolved, first.final) == (
        OperationOutcome.UNKNOWN,
        OperationOutcome.DONE,
        OperationOutcome.DONE,
    )
    assert (first.returned_s, first.resolved_s, first.ended_s) == (2.0, 5.0, 5.0)
    assert second.name == "read"
    with pytest.raises(HistoryError, match="cannot be resolved"):
        other.resolved(OperationOutcome.DONE)
    with pytest.raises(HistoryError, match="cannot be resolved"):
        call.resolved(OperationOutcome.UNKNOWN)


def test_an_exception_makes_the_outcome_unknown_and_goes_on():
    recorder = Recorder()

    def interrupted():
        with recorder.call(0, "write", ["x", 1]):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        interrupted()
    (operation,) = recorder.history
    assert (operation.outcome, operation.error) == (OperationOutcome.UNKNOWN, "ConnectionError: gone")


def test_an_operation_without_an_outcome_and_one_with_two_are_mistakes():
    recorder = Recorder()
    with pytest.raises(HistoryError, match="recorded no outcome"), recorder.call(0, "write", ["x", 1]):
        pass
    with recorder.call(0, "write", ["x", 1]) as call:
        call.done()
        with pytest.raises(HistoryError, match="recorded already"):
            call.not_done("no")


def test_only_json_values_are_recorded():
    recorder = Recorder()
    with pytest.raises(HistoryError, match="no JSON value"):
        recorder.call(0, "write", [b"bytes"])


def test_threads_share_a_recorder():
    recorder = Recorder()
    together = threading.Barrier(8)

    def client():
        process = recorder.next_process()
        together.wait()
        for number in range(200):
            with recorder.call(process, "write", ["x", number]) as call:
                call.done()

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.history) == 1600
    for process in range(8):
        written = [each.arguments[1] for each in recorder.history if each.process == process]
        assert written == list(range(200))


def test_a_stale_read_names_the_oldest_moment_that_it_may_show():
    def read(**details):
        return ClientOperation(0, "read", ["x"], 1, OperationOutcome.DONE, 5.0, 6.0, details=details)

    assert read().sees_from_s == 5.0
    assert read(sees_from_s=2.5).sees_from_s == 2.5
    assert read(sees_from_s=7.0).sees_from_s == 5.0


def test_a_history_is_kept_as_json_lines(tmp_path):
    recorder = Recorder()
    recorder.event("leader", "server-2 leads", server="server-2")
    with recorder.call(0, "txn", [["append", "x", 1], ["read", "y", None]], level="any") as call:
        call.done([["append", "x", 1], ["read", "y", [2]]])
    with recorder.call(1, "write", ["x", 'a "text"\n']) as call:
        call.unknown("gone")
    call.resolved(OperationOutcome.NOT_DONE)
    recorder.history.save(tmp_path / "history.jsonl")
    loaded = DrillHistory.load(tmp_path / "history.jsonl")
    assert loaded.operations == recorder.history.operations
    assert loaded.events == recorder.history.events
    assert isinstance(loaded.events[0], Event)
    assert loaded.operations[1].resolved is OperationOutcome.NOT_DONE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", "line 1: this is no history"),
        ('{"herdpy-drill-history": 99}\n', "line 1: .* another version"),
        ('{"herdpy-drill-history": 1}\nnonsense\n', "line 2"),
        ('{"herdpy-drill-history": 1}\n{"operation": {"process": 1}}\n', "line 2"),
        ('{"herdpy-drill-history": 1}\n{"other": {}}\n', "line 2"),
    ],
)
def test_a_file_that_is_no_history_is_refused(tmp_path, text, message):
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(HistoryError, match=message):
        DrillHistory.load(path)


def test_a_part_of_a_history_keeps_the_events():
    operations = [
        ClientOperation(0, name, [], None, OperationOutcome.DONE, 0.0, 1.0)
        for name in ("read", "write", "add")
    ]
    history = DrillHistory(operations, [Event(0.0, "note", "text")])
    assert [each.name for each in history.of("read", "add")] == ["read", "add"]
    assert history.of("read").events == history.events
    assert len(history) == 3
