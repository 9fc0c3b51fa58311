"""The smallest part of a history that still shows a violation, for a reader who has to understand it.

Delta debugging (Zeller and Hildebrandt, 2002) with a bound on the number of tries: halves are left out, then
quarters, and so on down to single operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from herdpy.drill.history import History, Operation
from herdpy.drill.judging import Anomaly, Checker

TRIES = 400
"""How often a checker is asked, at most, unless told otherwise."""

T = TypeVar("T")


def fewest(items: Sequence[T], still_shows: Callable[[list[T]], bool], tries: int = TRIES) -> list[T]:
    """A part of `items`, in their order, that `still_shows` accepts and that lost whatever could be left out.

    All of `items` must show it. When the tries are used up the best part so far is the answer.
    """
    best = list(items)
    size = max(1, len(best) // 2)
    while tries > 0:
        start, shrunk = 0, False
        while start < len(best) and tries > 0:
            rest = best[:start] + best[start + size :]
            tries -= 1
            if rest and still_shows(rest):
                best, shrunk = rest, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return best


def smallest(history: History, check: Checker, anomaly: Anomaly, tries: int = TRIES) -> History:
    """The smallest part of the history in which `check` still finds this anomaly: same kind, same words.

    The operations that the anomaly names are always kept, and in nearly all cases they are all there is.
    Options of the checker are given with functools.partial. Events are kept.
    """
    pinned = {id(each) for each in anomaly.operations}

    def shows(operations: list[Operation]) -> bool:
        found = check(History(operations, history.events)).anomalies
        return any(each.kind == anomaly.kind and each.text == anomaly.text for each in found)

    def with_pinned(kept: set[int]) -> list[Operation]:
        return [each for each in history if id(each) in pinned or id(each) in kept]

    alone = with_pinned(set())
    if shows(alone):
        return History(alone, history.events)
    others = [each for each in history if id(each) not in pinned]
    kept = fewest(others, lambda part: shows(with_pinned({id(each) for each in part})), tries)
    return History(with_pinned({id(each) for each in kept}), history.events)
