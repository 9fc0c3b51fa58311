"""The smallest history that still shows a violation."""

from __future__ import annotations

from functools import partial

from herdpy.drill.checkers import linearizable, list_append
from herdpy.drill.history import DrillHistory, Event
from herdpy.drill.judging import Anomaly, Verdict, fewest, smallest
from herdpy.drill.workloads import inserts
from tests.drill.checkers.hand import one_by_one, op
from tests.drill.checkers.list_histories import TinyDatabase
from tests.drill.checkers.register_histories import linearizable_history, spoilt


def test_fewest_leaves_out_whatever_it_can():
    assert fewest(range(100), lambda part: {7, 42, 99} <= set(part)) == [7, 42, 99]
    assert fewest([1], lambda _: True) == [1]


def test_fewest_looks_again_at_what_had_to_stay_before():
    assert fewest([0, 1, 2], lambda part: 2 in part and (1 not in part or 0 in part)) == [2]


def test_fewest_stops_when_its_tries_are_used_up():
    tried = []

    def shows(part):
        tried.append(part)
        return 3 in part and 97 in part

    result = fewest(range(100), shows, tries=5)
    assert len(tried) == 5
    assert {3, 97} <= set(result)


def test_the_operations_of_an_anomaly_are_nearly_always_enough():
    history = one_by_one(*[op("add", [n]) for n in range(50)], op("members", [], list(range(49))))
    history.events.append(Event(0.0, "note", "kept"))
    (anomaly,) = inserts.check_sets(history).anomalies
    small = smallest(history, inserts.check_sets, anomaly)
    assert [each.name for each in small] == ["add", "members"]
    assert small.events == history.events
    assert anomaly.text in [each.text for each in inserts.check_sets(small).anomalies]


def test_registers_and_lists_shrink_to_a_part_that_shows_the_same():
    for seed in range(8):
        registers = spoilt(linearizable_history(seed, 100), seed)
        for anomaly in linearizable.check(registers).anomalies:
            small = smallest(registers, linearizable.check, anomaly)
            assert sorted(small, key=lambda each: each.called_s) == anomaly.operations
    lists = TinyDatabase("read committed", 2).run(150)
    check = partial(list_append.check, level="repeatable read")
    anomalies = check(lists).anomalies
    assert anomalies
    for anomaly in anomalies[:4]:
        small = smallest(lists, check, anomaly)
        assert len(small) < 12
        assert anomaly.kind in check(small).kinds


def test_what_an_anomaly_does_not_name_is_searched_for():
    def needs_three(history: DrillHistory) -> Verdict:
        found = {each.process for each in history} >= {3, 5, 8}
        anomalies = [Anomaly("three", "met", [history.operations[-1]])] if found else []
        return Verdict.of("three", anomalies, "")

    history = one_by_one(*[op("read", ["x"], None, process=number) for number in range(20)])
    (anomaly,) = needs_three(history).anomalies
    assert [each.process for each in smallest(history, needs_three, anomaly)] == [3, 5, 8, 19]
