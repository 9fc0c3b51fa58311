"""New ledger ids, from ZooKeeper's sequence numbers.

Between ``Znodes`` and ``LedgerStore.create``: an ephemeral sequence znode is made, the number that ZooKeeper
put behind its name is the id, and the znode is deleted. An id is never given twice; numbers may be skipped.

Format: BookKeeper's meta/ZkLedgerIdGenerator.java and meta/LongZkLedgerIdGenerator.java. A sequence ends at
2**31 - 1. From there on (and for good once ``idgen-long`` exists) ids have two halves: the high 32 bits name
a directory ``idgen-long/HOB-<10 digits>``, the low ones come from a sequence in it. The flat scheme has only
the short ids, made in the root itself.
"""

from __future__ import annotations

import logging
import re

from herdpy.bookkeeper.errors import MetadataError, Outcome, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.backoff import UNANSWERED, ZooKeeperBackoff
from herdpy.bookkeeper.metadata.paths import Scheme
from herdpy.bookkeeper.metadata.znodes import NodeExistsError, NoNodeError, Znodes

_log = logging.getLogger("herdpy.bookkeeper.ids")

_SEQUENCE_END = 2**31 - 1
_MAX_ROUNDS = 16
_HIGH_HALF = re.compile(r"HOB-([0-9]{10})")
_MAX_HIGH = 2**31 - 1


class LedgerIdGenerator:
    """The source of new ids of one cluster."""

    def __init__(self, znodes: Znodes, root: str, scheme: Scheme, *, patience_s: float = 30.0) -> None:
        """Args:
        znodes: a started session.
        root: the absolute path of the ledgers.
        scheme: the cluster's path scheme.
        patience_s: how long to go on while ZooKeeper does not answer.
        """
        self._znodes = znodes
        self._root = root.rstrip("/")
        self._short = self._root if scheme is Scheme.FLAT else f"{self._root}/idgen"
        self._long = None if scheme is Scheme.FLAT else f"{self._root}/idgen-long"
        self._moved: bool | None = None
        self._patience_s = patience_s

    async def next(self) -> int:
        """An id that no ledger has had.

        Raises:
            MetadataError: there are none left (flat scheme).
            ZooKeeperUnavailableError: ZooKeeper did not answer; nothing but an unused number is lost.
        """
        if self._long is None:
            number = await self._number(self._short, make_parents=True)
            if number is None:
                raise MetadataError(f"the flat layout at {self._root} has no ledger ids left")
            return number
        if self._moved is None:
            self._moved = await self._znodes.exists(self._long) is not None
        if not self._moved:
            number = await self._number(self._short, make_parents=True)
            if number is not None:
                return number
            await self._make_directory(self._long)
            self._moved = True
        return await self._next_long(self._long)

    async def _next_long(self, directory: str) -> int:
        for _ in range(_MAX_ROUNDS):
            found = map(_HIGH_HALF.fullmatch, await self._znodes.children(directory))
            high = max((int(match[1]) for match in found if match), default=0)
            if high > _MAX_HIGH:
                raise MetadataError(f"{directory} has a directory beyond the ids of 63 bits")
            if high > 0:
                try:
                    # Without parents: a directory that was tidied away must not begin anew.
                    low = await self._number(f"{directory}/HOB-{high:010d}", make_parents=False)
                except NoNodeError:
                    continue
                if low is not None:
                    return high << 32 | low
            await self._make_directory(f"{directory}/HOB-{high + 1:010d}")
        raise MetadataError(
            f"no ledger id in {_MAX_ROUNDS} rounds below {directory}: other clients keep changing it"
        )

    async def _number(self, directory: str, *, make_parents: bool) -> int | None:
        """The next number of a sequence; None when the sequence has come to its end."""
        prefix = f"{directory}/ID-"
        patience = ZooKeeperBackoff(self._patience_s)
        while True:
            try:
                made = await self._znodes.create(
                    prefix, ephemeral=True, sequence=True, make_parents=make_parents
                )
                break
            except UNANSWERED as lost:
                # One that was made after all goes with the session: only its number is lost.
                if not await patience.pause():
                    raise ZooKeeperUnavailableError(
                        f"no new ledger id: {lost.message}", outcome=Outcome.NOT_DONE
                    ) from lost
        await self._discard(made)
        try:
            number = int(made.removeprefix(prefix))
        except ValueError:
            raise MetadataError(f"ZooKeeper made {made!r} of the sequence {prefix!r}") from None
        return number if 0 <= number < _SEQUENCE_END else None

    async def _discard(self, path: str) -> None:
        try:
            await self._znodes.delete(path)
        except (NoNodeError, *UNANSWERED) as error:
            _log.info("sequence znode left to the session", extra={"path": path, "reason": str(error)})

    async def _make_directory(self, path: str) -> None:
        patience = ZooKeeperBackoff(self._patience_s)
        while True:
            try:
                await self._znodes.create(path, make_parents=True)
                return
            except NodeExistsError:
                return
            except UNANSWERED as lost:
                if not await patience.pause():
                    raise ZooKeeperUnavailableError(
                        f"no new ledger id: {lost.message}", outcome=Outcome.NOT_DONE
                    ) from lost
