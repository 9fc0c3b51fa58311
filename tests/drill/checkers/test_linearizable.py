"""The own checker of registers: bad histories are refused and explained, good ones accepted."""

from __future__ import annotations

from itertools import permutations

import pytest

from herdpy.drill.checkers import linearizable
from herdpy.drill.checkers.linearizable import RegisterStep, StepKind, steps_by_key
from herdpy.drill.history import DrillHistory, HistoryError
from herdpy.drill.judging import UNDECIDED
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op
from tests.drill.checkers.register_histories import linearizable_history, spoilt


def read(value, **fields):
    return op("read", ["x"], value, **fields)


def write(value, outcome=DONE, **fields):
    return op("write", ["x", value], None, outcome, **fields)


def cas(old, new, result=True, outcome=DONE, **fields):
    return op("cas", ["x", old, new], result if outcome is DONE else None, outcome, **fields)


BAD = {
    "a stale read": one_by_one(write(1), write(2), read(1)),
    "a lost write": one_by_one(write(1), read(None)),
    "a value that nobody wrote": one_by_one(write(1), read(7)),
    "a value from the future": one_by_one(read(1), write(1)),
    "a refused write that is seen": one_by_one(write(1, NOT_DONE), read(1)),
    "a write that came back": one_by_one(write(1), write(2), read(2), read(1)),
    "an unknown write that came and went": one_by_one(write(1), write(2, UNKNOWN), read(2), read(1)),
    "a swap of another value": one_by_one(write(1), cas(2, 3), read(3)),
    "a swap that was refused for no reason": one_by_one(write(1), cas(1, 2, False)),
    "two swaps of one value": one_by_one(write(1), cas(1, 2, at=(5, 8)), cas(1, 3, at=(6, 7))),
    "two readers that disagree on the order": one_by_one(
        write(1, at=(0, 9)), write(2, at=(0, 9)), read(1, at=(1, 2)), read(2, at=(3, 4)), read(1, at=(5, 6))
    ),
    "a write that two swaps leave no room for": one_by_one(
        write(1, at=(0, 4)), cas(1, 2, at=(3, 7)), write(9, at=(5, 8)), cas(2, 3, at=(10, 11)), read(3)
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_history_is_refused(what):
    verdict = linearizable.check(BAD[what])
    assert verdict.kinds == [linearizable.NOT_LINEARIZABLE]
    assert 0 < len(verdict.anomalies[0].operations) <= len(BAD[what])


GOOD = {
    "what is under way may be seen or not": one_by_one(
        write(1, at=(0, 9)), read(None, at=(1, 2)), read(1, at=(3, 4))
    ),
    "an unknown write may come late": one_by_one(write(1, UNKNOWN), read(None), write(2), read(2), read(1)),
    "an unknown write may never come": one_by_one(write(1, UNKNOWN), read(None), read(None)),
    "an unknown swap may come late": one_by_one(write(1), cas(1, 2, outcome=UNKNOWN), read(1), read(2)),
    "a refused write is not seen": one_by_one(write(1, NOT_DONE), read(None)),
    "a swap is refused by an unknown write": one_by_one(write(1), write(2, UNKNOWN), cas(1, 3, False)),
    "a swap is refused between two writes of what it wanted": one_by_one(
        write(5, at=(0, 1)),
        write(7, at=(2, 8)),
        write(5, at=(2, 3)),
        cas(5, 9, False, at=(2, 4)),
        read(5, at=(9, 10)),
    ),
    "swaps in a chain": one_by_one(
        cas(None, 1, at=(0, 9)), cas(1, 2, at=(0, 9)), cas(2, 3, at=(0, 9)), read(3, at=(8, 9))
    ),
    "a read that may be stale": one_by_one(write(1), write(2), read(1, sees_from_s=0.7)),
    "a read that is not known": one_by_one(write(1), op("read", ["x"], None, UNKNOWN), read(1)),
    "keys are apart": one_by_one(write(1), op("read", ["y"], None), read(1)),
}


@pytest.mark.parametrize("what", GOOD)
def test_a_good_history_is_accepted(what):
    verdict = linearizable.check(GOOD[what])
    assert verdict.valid, verdict


def test_what_a_request_id_told_counts():
    later = write(1, UNKNOWN, resolved=DONE)
    assert not linearizable.check(one_by_one(later, read(None))).valid
    assert linearizable.check(one_by_one(later, read(1))).valid
    assert not linearizable.check(one_by_one(write(1, UNKNOWN, resolved=NOT_DONE), read(1))).valid


def test_a_first_value_may_be_given():
    history = one_by_one(op("read", ["x"], 0))
    assert linearizable.check(history, initial=0).valid
    assert not linearizable.check(history).valid


def test_the_fewest_operations_are_named_and_told():
    noise = [write(number) for number in range(10, 40)] + [read(39)]
    history = one_by_one(*noise, write(1), read(1), write(2), read(2), read(1), *[write(n) for n in (50, 51)])
    (anomaly,) = linearizable.check(history).anomalies
    assert [[*each.arguments, each.result] for each in anomaly.operations] == [
        ["x", 1, None],
        ["x", 2, None],
        ["x", 1],
    ]
    assert 'explains read ["x"] -> 1' in anomaly.text
    assert anomaly.text.endswith("it could then be 2")


def test_a_write_that_explains_a_refused_swap_is_not_left_out():
    history = one_by_one(write(1), write(2), cas(1, 3, False), read(1))
    (anomaly,) = linearizable.check(history).anomalies
    assert [each.name for each in anomaly.operations] == ["write", "write", "read"]


def test_a_value_that_nobody_wrote_is_said_to_be_one():
    (anomaly,) = linearizable.check(one_by_one(write(1), read(7))).anomalies
    assert anomaly.text.endswith("and no operation had written that")


def test_a_register_with_more_possibilities_than_allowed_is_undecided():
    at_once = [write(number, at=(0.0, 9.0)) for number in range(8)]
    reads = [read(number, at=(0.0, 9.5)) for number in range(8)]
    history = DrillHistory([*at_once, *reads])
    assert linearizable.check(history).valid
    verdict = linearizable.check(history, configurations=5)
    assert verdict.kinds == [UNDECIDED]
    assert not verdict.valid


@pytest.mark.parametrize(
    "wrong", [op("read", [], 1), op("write", ["x"]), op("cas", ["x", 1, 2], None), op("cas", ["x", 1], True)]
)
def test_a_history_that_is_recorded_wrongly_is_refused(wrong):
    with pytest.raises(HistoryError):
        linearizable.check(one_by_one(wrong))


def by_every_order(steps: list[RegisterStep]) -> bool:
    """Linearizability by its definition: is there any order? For a handful of steps."""
    sure = [step for step in steps if not step.may_never_be]
    unsure = [step for step in steps if step.may_never_be]
    for chosen in range(1 << len(unsure)):
        part = sure + [step for bit, step in enumerate(unsure) if chosen >> bit & 1]
        if any(_is_legal(order) for order in permutations(part)):
            return True
    return False


def _is_legal(order: tuple[RegisterStep, ...]) -> bool:
    state, latest = 0, -1.0
    for step in order:
        latest = max(latest, step.called_s)
        if step.ended_s < latest:
            return False
        if step.kind in (StepKind.READ, StepKind.SWAP) and state != step.expected:
            return False
        if step.kind is StepKind.DIFFERS and state == step.expected:
            return False
        state = step.value if step.writes else state
    return True


@pytest.mark.parametrize("few", [0, 16])
def test_it_agrees_with_the_definition_on_small_histories(monkeypatch, few):
    monkeypatch.setattr(linearizable, "_FEW", few)  # 0: configurations are always compared with each other
    answers = set()
    for seed in range(400):
        good = linearizable_history(seed, 6, clients=3, unknown=0.2, swaps=0.3, values=[None, 2][seed % 2])
        for history in (good, spoilt(good, seed)):
            for steps in steps_by_key(history).values():
                expected = by_every_order(steps)
                assert (linearizable.first_failure(steps) is None) == expected, steps
                answers.add(expected)
    assert answers == {True, False}


def test_what_is_reported_is_not_linearizable_on_its_own():
    refused = 0
    for seed in range(60):
        history = spoilt(linearizable_history(seed, 100, keys=2), seed)
        for anomaly in linearizable.check(history).anomalies:
            refused += 1
            assert anomaly.kind == linearizable.NOT_LINEARIZABLE
            again = linearizable.check(DrillHistory(anomaly.operations))
            assert again.anomalies[0].text == anomaly.text
    assert refused > 20


@pytest.mark.parametrize("clients", [5, 40])
def test_twenty_thousand_operations_on_ten_registers_are_judged(clients):
    history = linearizable_history(clients, 20_000, clients=clients, keys=10, unknown=0.01)
    verdict = linearizable.check(history)
    assert verdict.valid
    assert "on 10 registers" in verdict.summary
