"""The facts of a timeline, from histories of a few operations."""

from __future__ import annotations

import math

import pytest

from herdpy.drill.felt import percentile
from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.timeline import (
    AFTER,
    BEFORE,
    DURING,
    FOLLOWER_READ,
    READ,
    WRITE,
    FaultSpan,
    Gap,
    Reign,
    kind_of,
    longest_gap,
    timeline_of,
)
from tests.drill.synthetic import KILL, outage_history


def write(
    called_s: float,
    returned_s: float,
    outcome: OperationOutcome = OperationOutcome.DONE,
    resolved: OperationOutcome | None = None,
) -> ClientOperation:
    return ClientOperation(
        1, "write", ["x", called_s], None, outcome, called_s, returned_s, resolved=resolved
    )


@pytest.mark.parametrize(
    ("name", "arguments", "details", "kind"),
    [
        ("read", ["x"], {}, READ),
        ("balances", [], {"read_level": "linearizable"}, READ),
        ("members", [], {"read_level": "bounded"}, FOLLOWER_READ),
        ("read", ["x"], {"read_level": "linearizable", "at_follower": True}, FOLLOWER_READ),
        ("txn", [["read", "x", None], ["read", "y", None]], {}, READ),
        ("txn", [["read", "x", None], ["append", "y", 1]], {}, WRITE),
        ("txn", [], {}, WRITE),
        ("take", [], {}, WRITE),
        ("cas", ["x", 1, 2], {}, WRITE),
        ("checksum", ["herdpy"], {}, None),
    ],
)
def test_kinds(name, arguments, details, kind):
    operation = ClientOperation(1, name, arguments, None, OperationOutcome.DONE, 0.0, 1.0, details=details)
    assert kind_of(operation) == kind


def test_a_gap_is_between_two_acknowledgements():
    operations = [
        write(0.0, 0.1),
        write(0.2, 0.3),
        write(0.3, 2.0, OperationOutcome.UNKNOWN),
        write(2.1, 4.3),
    ]
    assert longest_gap(operations) == Gap(0.3, 4.3)


def test_nobody_tries_and_that_is_no_gap():
    assert longest_gap([write(0.0, 0.1), write(0.2, 0.4), write(9.0, 9.1)]) == Gap(0.2 - 0.1, 0.4)


def test_what_returns_when_clients_were_told_to_stop_is_no_gap():
    looks = [write(1.2, 8.0), write(2.0, 9.0), write(9.0, 9.1)]
    events = [Event(1.5, "phase", "clients are stopped", {"phase": "quiet"})]
    line = timeline_of(DrillHistory([write(0.0, 1.0), write(1.0, 1.4), *looks], events))
    assert line.gaps[WRITE] == Gap(0.0, 1.0)
    assert line.latencies[BEFORE][WRITE].count == 2
    assert line.operations == 5


def test_trying_without_any_answer_is_one_gap():
    assert longest_gap(
        [write(1.0, 2.0, OperationOutcome.NOT_DONE), write(2.2, 7.0, OperationOutcome.UNKNOWN)]
    ) == Gap(1.0, 7.0)
    assert longest_gap([]) is None


def test_what_is_under_way_when_another_returns_is_counted_once():
    assert longest_gap([write(0.0, 5.0), write(0.1, 1.0), write(1.1, 1.2)]) == Gap(1.2, 5.0)


def test_percentiles_are_by_nearest_rank():
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert (percentile([7.0], 0.5), percentile([], 0.5)) == (7.0, None)


def test_a_failover():
    line = timeline_of(outage_history(KILL))
    assert line.reigns == [
        Reign("server-1", 0.0, 10.1),
        Reign(None, 10.1, 13.2),
        Reign("server-2", 13.2, None),
    ]
    assert line.faults == [
        FaultSpan(
            "kill-leader",
            "server-1 is killed",
            10.0,
            18.0,
            "everything is as it was",
            line.gaps[WRITE],
            line.felt,
        )
    ]
    assert line.clients == 8
    for kind in (WRITE, READ):
        gap = line.gaps[kind]
        assert gap is not None
        assert 9.9 < gap.begin_s < 10.1 < 13.2 < gap.end_s < 13.7
    assert [*line.phases] == [BEFORE, DURING, AFTER]
    assert line.phases[DURING] == (10.0, 18.0)
    counted = sum(one.count for found in line.latencies.values() for one in found.values())
    assert counted == line.counts[OperationOutcome.DONE]
    before, during = (line.latencies[phase][WRITE] for phase in (BEFORE, DURING))
    assert during.per_second < 0.8 * before.per_second
    assert during.max_s > 2 > before.p99_s


def test_unknown_outcomes_and_what_was_told_of_them_later():
    done, never = (
        write(0.0, 1.0, OperationOutcome.UNKNOWN, OperationOutcome.DONE),
        write(2.0, 2.5, OperationOutcome.UNKNOWN),
    )
    line = timeline_of(DrillHistory([never, write(1.0, 1.2), done]))
    assert line.unknown == [done, never]
    assert [line.resolved(one) for one in (OperationOutcome.DONE, OperationOutcome.NOT_DONE, None)] == [
        1,
        0,
        1,
    ]


def test_each_fault_ends_with_the_end_of_its_own_name():
    events = [
        Event(1.0, "fault-begin", "a", {"fault": "kill-leader"}),
        Event(2.0, "fault-begin", "b", {"fault": "slow-disk"}),
        Event(3.0, "fault-end", "healed", {"fault": "kill-leader"}),
        Event(4.0, "fault-begin", "c", {"fault": "kill-leader"}),
        Event(6.0, "fault-end", "quick again", {"fault": "slow-disk"}),
    ]
    line = timeline_of(DrillHistory([write(0.0, 9.0)], reversed(events)))
    assert [(one.text, one.begin_s, one.end_s) for one in line.faults] == [
        ("a", 1.0, 3.0),
        ("b", 2.0, 6.0),
        ("c", 4.0, None),
    ]
    assert line.phases == {BEFORE: (0.0, 1.0), DURING: (1.0, 9.0)}


def test_each_fault_has_its_own_time_without_writes():
    events = [
        Event(at_s, kind, "x", {"fault": "slow-disk"})
        for at_s, kind in ((1.0, "fault-begin"), (3.0, "fault-end"), (6.0, "fault-begin"), (7.0, "fault-end"))
    ]
    writes = [write(0.0, 0.8), write(0.8, 2.5), write(2.5, 3.5), write(3.5, 6.5), write(6.5, 6.9)]
    refused = write(6.9, 9.0, OperationOutcome.NOT_DONE)
    found = timeline_of(DrillHistory([*writes, refused], events)).faults
    assert [one.write_gap for one in found] == [Gap(0.8, 2.5), Gap(3.5, 6.5)]
    (lone,) = timeline_of(DrillHistory([], events[:1])).faults
    assert lone.write_gap is None


def test_of_two_of_a_name_the_inner_one_ends_first():
    events = [Event(at_s, "fault-begin", "x", {"fault": "slow-disk"}) for at_s in (1.0, 2.0)]
    events += [Event(at_s, "fault-end", "over", {"fault": "slow-disk"}) for at_s in (3.0, 4.0)]
    found = timeline_of(DrillHistory([], events)).faults
    assert [(one.begin_s, one.end_s) for one in found] == [(1.0, 4.0), (2.0, 3.0)]


def test_what_was_done_is_told_by_a_note():
    events = [
        Event(1.0, "fault-begin", "kill-leader begins", {"fault": "kill-leader"}),
        Event(1.1, "note", "pause-leader: not this one"),
        Event(1.2, "note", "kill-leader: server-1, the leader, is killed"),
        Event(1.3, "note", "kill-leader: and more"),
        Event(3.0, "fault-end", "kill-leader is over", {"fault": "kill-leader"}),
    ]
    assert timeline_of(DrillHistory([], events)).faults == [
        FaultSpan("kill-leader", "server-1, the leader, is killed", 1.0, 3.0)
    ]


def test_without_a_fault_all_is_before_one():
    line = timeline_of(DrillHistory([write(0.5, 1.0), write(1.0, 2.5)]))
    assert line.phases == {BEFORE: (0.5, 2.5)}
    assert math.isclose(line.latencies[BEFORE][WRITE].per_second, 1.0)


def test_a_leader_that_is_seen_again_and_again_leads_once():
    events = [Event(at_s, "leader", "", {"server": "a" if at_s < 3 else "b"}) for at_s in range(5)]
    assert timeline_of(DrillHistory([], events)).reigns == [Reign("a", 0, 3), Reign("b", 3, None)]


def test_nothing_at_all():
    line = timeline_of(DrillHistory())
    assert (line.seconds, line.operations, line.phases, line.gaps) == (0.0, 0, {}, {WRITE: None, READ: None})
