"""Which bookies hold an entry, and when enough of them have answered; pure arithmetic.

Below writers, readers and recoverers, who all must agree on it. An ensemble of E bookies is used round robin:
each entry goes to W neighbours, counted on a circle, starting one further with every entry.

Source: BookKeeper's client/RoundRobinDistributionSchedule.java.
"""

from __future__ import annotations


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """The indexes in the ensemble of the bookies that hold an entry, in the order in which to ask them."""
    return tuple((entry_id + step) % ensemble_size for step in range(write_quorum))


class Coverage:
    """Whether the bookies that answered rule out an entry that nobody has told of.

    An entry was confirmed only if A bookies of its write set had it. So none is overlooked once, in every one
    of the E write sets, fewer than A bookies have not answered.
    """

    __slots__ = ("_answered", "_quorum", "_write_sets")

    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
        self._quorum = ack_quorum
        self._write_sets = [write_set(first, ensemble_size, write_quorum) for first in range(ensemble_size)]
        self._answered = [False] * ensemble_size

    def answered(self, index: int, ok: bool) -> None:
        """Record whether the bookie at ``index`` said what it has; the last word counts.

        "I have no such entry" and "I know no such ledger" are answers: ``ok`` is True for them.
        """
        self._answered[index] = ok

    def is_covered(self) -> bool:
        """Whether every write set has fewer than A bookies that did not answer."""
        answered = self._answered
        return all(
            sum(not answered[index] for index in indexes) < self._quorum for indexes in self._write_sets
        )
