"""The checker of list transactions agrees on small histories with the definitions of what it judges.

Serializable: some order of all transactions, one at a time, explains every answer. Snapshot isolation: some
order of their beginnings and ends does, where each reads what had ended before it began, and nobody appends
to what has changed since.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from herdpy.drill.checkers import list_append
from herdpy.drill.checkers.list_append import ListTransaction, lists_of
from herdpy.drill.history import DrillHistory, Json
from tests.drill.checkers.list_histories import DONE, TinyDatabase


def has_order(history: DrillHistory, *, real_time: bool) -> bool:
    """Is there an order of all committed transactions that explains every answer? All of them are tried."""
    left = [each for each in lists_of(history).transactions if each.is_committed]
    return _search(left, {}, real_time)


def _search(left: list[ListTransaction], lists: dict[str, list[Json]], real_time: bool) -> bool:
    if not left:
        return True
    for each in left:
        others = [other for other in left if other is not each]
        if real_time and any(other.operation.ended_s < each.operation.called_s for other in others):
            continue
        after = _applied(each, lists)
        if after is not None and _search(others, after, real_time):
            return True
    return False


def _applied(each: ListTransaction, lists: dict[str, list[Json]]) -> dict[str, list[Json]] | None:
    """The lists after a transaction; None when they are not what it read."""
    state = {key: list(elements) for key, elements in lists.items()}
    result = each.operation.result
    parts = result if isinstance(result, list) else each.operation.arguments
    for name, key, value in parts:
        if name == "append":
            state.setdefault(key, []).append(value)
        elif each.operation.outcome is DONE and state.get(key, []) != value:
            return None
    return state


def has_snapshots(history: DrillHistory, *, real_time: bool) -> bool:
    """Is there an order of beginnings and ends that explains every answer? All of them are tried."""
    waiting = [each for each in lists_of(history).transactions if each.is_committed]
    return _search_snapshots(waiting, [], {}, real_time, set())


def _search_snapshots(
    waiting: list[ListTransaction],
    running: list[tuple[ListTransaction, dict[str, list[Json]]]],
    lists: dict[str, list[Json]],
    real_time: bool,
    vain: set[str],
) -> bool:
    if not waiting and not running:
        return True
    started = sorted((each.number, repr(seen)) for each, seen in running)
    here = repr(([each.number for each in waiting], started, lists))
    if here in vain:
        return False
    vain.add(here)
    for place, (each, seen) in enumerate(running):
        others = running[:place] + running[place + 1 :]
        if all(lists.get(key, []) == seen.get(key, []) for key in each.appends):
            ended = {key: [*lists.get(key, []), *elements] for key, elements in each.appends.items()}
            if _search_snapshots(waiting, others, lists | ended, real_time, vain):
                return True
    for each in waiting:
        unfinished = [*(other for other in waiting if other is not each), *(other for other, _ in running)]
        if real_time and any(other.operation.ended_s < each.operation.called_s for other in unfinished):
            continue
        others = [other for other in waiting if other is not each]
        fits = _applied(each, lists) is not None
        if fits and _search_snapshots(others, [*running, (each, lists)], lists, real_time, vain):
            return True
    return False


DEFINITIONS = {"serializable": has_order, "snapshot": has_snapshots}


def spoilt(history: DrillHistory, dice: random.Random) -> DrillHistory:
    """One read is of one more or one less element, or two transactions are made at other times."""
    made = list(history)
    index = dice.randrange(len(made))
    one = made[index]
    if one.outcome is DONE and isinstance(one.result, list) and dice.random() < 0.7:
        parts = [list(part) for part in one.result]
        reads = [part for part in parts if part[0] == "read" and part[2]]
        if reads:
            dice.choice(reads)[2].pop()
        made[index] = replace(one, result=parts)
    else:
        other = made[dice.randrange(len(made) - 1)]
        made[index] = replace(one, called_s=other.called_s, returned_s=other.returned_s)
    return DrillHistory(made)


@pytest.mark.parametrize("real_time", [False, True])
@pytest.mark.parametrize("promise", DEFINITIONS)
def test_it_agrees_with_the_definition_on_small_histories(promise, real_time):
    answers = {True: 0, False: 0}
    for seed in range(150):
        dice = random.Random(seed)
        level = ("read committed", "snapshot", "serializable")[seed % 3]
        good = TinyDatabase(level, seed, clients=3, keys=2, unknown=0.1).run(5)
        for history in (good, spoilt(good, dice)):
            expected = DEFINITIONS[promise](history, real_time=real_time)
            verdict = list_append.check(history, level=promise, real_time=real_time)
            assert verdict.valid == expected, (seed, history is good, verdict)
            answers[expected] += 1
    assert min(answers.values()) > 30
