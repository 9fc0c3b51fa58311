"""Which bookies: those that hold an entry, those that get a new ledger, those that replace a failed one.

Below writers, readers and recoverers, who all must agree on the schedule. An ensemble of E bookies is used
round robin: each entry goes to W neighbours, counted on a circle, starting one further with every entry.
Ensembles are chosen at random, so that load spreads; a bookie that failed a write lately is in quarantine and
is taken only when there is no other. Read-only bookies are never taken.

Source of the schedule: BookKeeper's client/RoundRobinDistributionSchedule.java.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from herdpy.bookkeeper.errors import NotEnoughBookiesError, Outcome
from herdpy.bookkeeper.settings import ClientSettings


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """The indexes in the ensemble of the bookies that hold an entry, in the order in which to ask them."""
    return tuple((entry_id + step) % ensemble_size for step in range(write_quorum))


class Coverage:
    """Whether the bookies that answered rule out an entry that nobody has reported.

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


# Ensembles.

_log = logging.getLogger("herdpy.bookkeeper.placement")


class Bookies(Protocol):
    """What is asked of the registry: who takes writes, who only reads."""

    @property
    def available(self) -> Mapping[str, Any]: ...

    @property
    def readonly(self) -> Mapping[str, Any]: ...


class Placement:
    """Chooses bookies by what the registry says now and by what failed lately.

    All clients' ledgers share one, and with it the quarantine.
    """

    def __init__(self, registry: Bookies, rng: random.Random, settings: ClientSettings) -> None:
        self._registry = registry
        self._rng = rng
        self._quarantine_s = settings.quarantine_s
        self._quarantined: dict[str, float] = {}

    def new_ensemble(self, size: int, exclude: Iterable[str] = ()) -> tuple[str, ...]:
        """``size`` different bookies, none of them in ``exclude``.

        Raises:
            NotEnoughBookiesError: there are fewer; nothing was done.
        """
        return self._choose(size, set(exclude))

    def replace(
        self, ensemble: Sequence[str], failed: Iterable[int], exclude: Iterable[str] = ()
    ) -> dict[int, str]:
        """A bookie for each failed index, none of them in the ensemble already or in ``exclude``.

        Raises:
            NotEnoughBookiesError: not all can be replaced.
        """
        indexes = sorted(set(failed))
        chosen = self._choose(len(indexes), {*ensemble, *exclude})
        return dict(zip(indexes, chosen, strict=True))

    def quarantine(self, bookie_id: str) -> None:
        """Avoid a bookie for ``quarantine_s`` from now on (settings), because it failed a write."""
        if bookie_id not in self._quarantined:
            _log.warning(
                "bookie quarantined", extra={"bookie": bookie_id, "quarantine_s": self._quarantine_s}
            )
        self._quarantined[bookie_id] = self._now() + self._quarantine_s

    def registered(self, bookie_id: str) -> None:
        """A bookie has registered: it has started anew, and what failed before says nothing of it now."""
        if self._quarantined.pop(bookie_id, None) is not None:
            _log.info("bookie registered again", extra={"bookie": bookie_id})

    def quarantined(self) -> frozenset[str]:
        """The bookies that are avoided now."""
        now = self._now()
        for bookie_id in [one for one, until in self._quarantined.items() if until <= now]:
            del self._quarantined[bookie_id]
        return frozenset(self._quarantined)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _choose(self, count: int, exclude: Collection[str]) -> tuple[str, ...]:
        readonly = self._registry.readonly
        # Sorted, so that one seed means one choice.
        usable = [
            one for one in sorted(self._registry.available) if one not in readonly and one not in exclude
        ]
        if len(usable) < count:
            raise NotEnoughBookiesError(
                f"{count} writable bookies are needed, {len(usable)} can be used", outcome=Outcome.NOT_DONE
            )
        avoided = self.quarantined()
        good = [one for one in usable if one not in avoided]
        if len(good) >= count:
            return tuple(self._rng.sample(good, count))
        spare = [one for one in usable if one in avoided]
        chosen = [*good, *self._rng.sample(spare, count - len(good))]
        self._rng.shuffle(chosen)
        return tuple(chosen)
