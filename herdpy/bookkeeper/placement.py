"""Choosing bookies: ensembles for new ledgers, and replacements for bookies that failed.

Between the registry (which bookies there are) and those who need some: the client for a new ledger, writers
and recoverers for a replacement. The choice is random, so that load spreads; a bookie that failed a write
lately is in quarantine and is taken only when there is no other. Read-only bookies are never taken.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from herdpy.bookkeeper.errors import NotEnoughBookiesError, Outcome
from herdpy.bookkeeper.settings import ClientSettings

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
