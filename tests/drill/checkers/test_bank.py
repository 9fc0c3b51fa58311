"""The bank: totals, negative balances, and transfers that are lost or done twice."""

from __future__ import annotations

import random

import pytest

from herdpy.drill.history import HistoryError
from herdpy.drill.workloads import bank
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op


def transfer(source, target, amount, result: bool | None = True, outcome=DONE, **fields):
    return op("transfer", [source, target, amount], result if outcome is DONE else None, outcome, **fields)


def balances(**accounts):
    return op("balances", [], accounts)


OPENING = balances(a=10, b=10, c=10)

BAD = {
    "wrong total": one_by_one(OPENING, transfer("a", "b", 3), balances(a=7, b=10, c=10)),
    "negative balance": one_by_one(OPENING, transfer("a", "b", 13), balances(a=-3, b=23, c=10)),
    # The whole transfer is lost, or done twice: the sum tells nothing.
    "unexplained balance": one_by_one(OPENING, transfer("a", "b", 3), balances(a=10, b=10, c=10)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_broken_bank_is_named(kind):
    assert bank.check(BAD[kind]).kinds == [kind]


def test_a_transfer_that_was_done_twice_is_seen():
    history = one_by_one(OPENING, transfer("a", "b", 3), balances(a=4, b=16, c=10))
    assert bank.check(history).kinds == ["unexplained balance"]


def test_refused_and_failed_transfers_move_nothing():
    history = one_by_one(
        OPENING,
        transfer("a", "b", 99, result=False),
        transfer("a", "b", 1, outcome=NOT_DONE),
        transfer("c", "b", 2),
        balances(a=10, b=12, c=8),
    )
    assert bank.check(history).valid
    history.operations[-1] = one_by_one(*history, balances(a=9, b=13, c=8)).operations[-1]
    assert bank.check(history).kinds == ["unexplained balance"]


@pytest.mark.parametrize(("a", "b", "c"), [(10, 10, 10), (7, 13, 10), (10, 5, 15), (7, 8, 15)])
def test_unknown_transfers_may_have_been_or_not(a, b, c):
    unknown = [transfer("a", "b", 3, outcome=UNKNOWN), transfer("b", "c", 5, outcome=UNKNOWN)]
    assert bank.check(one_by_one(OPENING, *unknown, balances(a=a, b=b, c=c))).valid


def test_no_choice_of_unknown_transfers_explains_half_of_one():
    history = one_by_one(OPENING, transfer("a", "b", 4, outcome=UNKNOWN), balances(a=8, b=12, c=10))
    assert bank.check(history).kinds == ["unexplained balance"]


def test_without_a_look_at_first_only_sums_are_judged_and_that_is_told():
    verdict = bank.check(one_by_one(transfer("a", "b", 3), balances(a=10, b=10, c=10)), total=30)
    assert verdict.valid
    assert "only sums" in verdict.summary
    opening = {"a": 10, "b": 10, "c": 10}
    history = one_by_one(transfer("a", "b", 3), balances(a=10, b=10, c=10))
    assert bank.check(history, opening=opening).kinds == ["unexplained balance"]


def test_too_many_unknown_transfers_are_told():
    dice = random.Random(1)
    unknown = [transfer(*dice.sample("abc", 2), 3**number, outcome=UNKNOWN) for number in range(20)]
    verdict = bank.check(one_by_one(OPENING, *unknown, OPENING))
    assert "too many unknown transfers" in verdict.summary


def test_a_total_may_be_demanded():
    assert bank.check(one_by_one(OPENING), total=30).valid
    assert bank.check(one_by_one(OPENING), total=31).kinds == ["wrong total"]


@pytest.mark.parametrize(
    "wrong", [op("transfer", ["a", "b"], True), op("transfer", ["a", "b", 1], 5), op("balances", [], [1])]
)
def test_a_history_that_is_recorded_wrongly_is_refused(wrong):
    with pytest.raises(HistoryError):
        bank.check(one_by_one(OPENING, wrong, OPENING))


@pytest.mark.parametrize("seed", range(10))
def test_random_banks_are_accepted(seed):
    dice = random.Random(seed)
    accounts = dict.fromkeys("abcd", 50)
    made = [balances(**accounts)]
    for _ in range(200):
        source, target = dice.sample("abcd", 2)
        amount, outcome = dice.randrange(1, 30), dice.choice([DONE] * 20 + [NOT_DONE, UNKNOWN])
        enough = accounts[source] >= amount
        if enough and (outcome is DONE or (outcome is UNKNOWN and dice.random() < 0.5)):
            accounts[source] -= amount
            accounts[target] += amount
        made.append(transfer(source, target, amount, enough, outcome))
        if dice.random() < 0.2:
            made.append(balances(**accounts))
    made.append(balances(**accounts))
    verdict = bank.check(one_by_one(*made))
    assert verdict.valid, verdict
