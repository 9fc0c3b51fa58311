"""What clients felt: the waits of each client around each fault, from histories of a few operations."""

from __future__ import annotations

import pytest

from herdpy.drill.felt import BOUNDS_S, FeltWaits, waits_of
from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.timeline import timeline_of
from tests.drill.synthetic import KILL, STORM, outage_history

DONE, NOT_DONE, UNKNOWN = OperationOutcome.DONE, OperationOutcome.NOT_DONE, OperationOutcome.UNKNOWN


def write(
    process: int,
    called_s: float,
    returned_s: float,
    outcome: OperationOutcome = DONE,
    **details: object,
) -> ClientOperation:
    return ClientOperation(
        process, "write", ["x", called_s], None, outcome, called_s, returned_s, details=details
    )  # type: ignore[arg-type]


def test_a_wait_goes_on_through_what_was_not_acknowledged():
    own = [
        write(1, 0.0, 0.1),
        write(1, 1.0, 1.5, NOT_DONE),
        write(1, 1.6, 2.0, UNKNOWN),
        write(7, 2.1, 2.25, number=None),
    ]
    assert waits_of(own[:3]) == [[(0.0, 0.1), (1.0, 2.0)]]
    assert len(waits_of(own)) == 2


def test_a_client_keeps_its_number_when_its_process_changes():
    own = [write(1, 1.0, 2.0, UNKNOWN, number=1), write(7, 2.1, 2.25, number=1)]
    assert waits_of(own) == [[(1.0, 2.25)]]
    other = [write(1, 1.0, 2.0, UNKNOWN, number=1), write(7, 2.1, 2.25, number=1, workload="bank")]
    assert len(waits_of(other)) == 2


def test_poised_clients_are_not_counted():
    assert waits_of([write(1, 0.0, 9.0, poised=True)]) == []


def test_of_each_client_and_fault_the_longest_wait_counts():
    clients = [[(0.0, 0.1), (0.9, 1.4), (1.5, 1.6)], [(1.0, 1.02)], [(5.0, 5.1)]]
    felt = FeltWaits.around([(1.0, 2.0)], clients)
    assert felt.waits_s == pytest.approx([0.02, 0.5])
    assert FeltWaits.around([(1.0, 2.0), (4.9, 6.0)], clients).waits_s == pytest.approx([0.02, 0.1, 0.5])


def test_the_histogram_has_every_wait_once():
    felt = FeltWaits((0.001, 0.01, 0.011, 0.299, 0.6, 31.0))
    counts = dict(felt.bins)
    assert sum(counts.values()) == 6
    assert list(counts) == [*BOUNDS_S, None]
    assert (counts[0.01], counts[0.03], counts[0.3], counts[0.6], counts[None]) == (2, 1, 1, 1, 1)
    assert FeltWaits().to_json() is None
    assert (FeltWaits().p50_s, FeltWaits().max_s) == (None, None)


def test_an_outage_is_felt_by_every_client():
    line = timeline_of(outage_history(KILL, clients=8))
    assert len(line.felt.waits_s) >= 6
    assert line.felt.max_s is not None
    assert 3.2 < line.felt.max_s < 4.2
    assert line.faults[0].felt == line.felt


def test_faults_that_touch_nobody_are_counted_too():
    history = outage_history(*STORM, seconds=60)
    line = timeline_of(history)
    assert len(line.felt.waits_s) == sum(len(fault.felt.waits_s) for fault in line.faults)
    p50_s = line.faults[-1].felt.p50_s
    assert p50_s is not None
    assert p50_s < 0.1


def test_a_fault_without_an_end_lasts_to_the_end():
    history = DrillHistory([write(1, 3.0, 3.2)], [Event(1.0, "fault-begin", "x", {"fault": "x"})])
    assert timeline_of(history).felt.waits_s == pytest.approx([0.2])
