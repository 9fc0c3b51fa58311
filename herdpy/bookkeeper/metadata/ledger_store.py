"""The metadata of all ledgers: created, read, changed by compare-and-set, deleted, listed; and new ids.

Between ``Znodes`` (a tree of versioned bytes) and those who own ledgers (the client, writers, recoverers): an
id becomes a path, a ``LedgerMetadata`` becomes bytes, a lost reply becomes a known outcome wherever reading
again can tell. Listing walks the trees of ``paths`` in the order of ids: at most one directory of each level
is in memory (10,000 names at most, except in the flat scheme, where the root holds everything), and no znode
is read.

A new id is the number that ZooKeeper put behind the name of an ephemeral sequence znode, which is deleted
then. An id is never given twice; numbers may be skipped. A sequence ends at 2**31 - 1. From there on (and for
good once ``idgen-long`` exists) ids have two halves: the high 32 bits name a directory ``idgen-long/HOB-<10
digits>``, the low ones come from a sequence in it. The flat scheme has only the short ids, made in the root
itself.

Sources: BookKeeper's meta/AbstractZkLedgerManager.java, client/MetadataUpdateLoop.java,
meta/ZkLedgerIdGenerator.java, meta/LongZkLedgerIdGenerator.java.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from herdpy.bookkeeper.errors import (
    LedgerExistsError,
    MetadataError,
    MetadataVersionError,
    NoSuchLedgerError,
    Outcome,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import (
    FORMAT_VERSION,
    LedgerMetadata,
    Versioned,
    decode_metadata,
    encode_metadata,
)
from herdpy.bookkeeper.metadata.paths import LedgerLayout, LedgerPaths, Scheme, Walk
from herdpy.bookkeeper.metadata.znodes import (
    UNANSWERED,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Watch,
    Znode,
    Znodes,
    ZnodeVersionError,
    ZooKeeperBackoff,
)

__all__ = ["LedgerStore", "Versioned", "update"]

_ids_log = logging.getLogger("herdpy.bookkeeper.ids")

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
        self._moved = False
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
        if not self._moved:  # somebody else may have moved on since
            self._moved = await self._znodes.exists(self._long) is not None
        if not self._moved:
            number = await self._number(self._short, make_parents=True)
            if number is not None:
                return number
            await self._make_directory(self._long)
            self._moved = True
        return await self._next_long(self._long)

    async def raise_above(self, floor: int) -> None:
        """See to it that ids are above ``floor`` from now on; nothing where they are.

        Raises:
            MetadataError: there are no such ids (flat scheme, 63 bits).
            ZooKeeperUnavailableError: ZooKeeper did not answer; it may be done again.
        """
        if await self.next() > floor:
            return
        high = (floor >> 32) + 1
        if self._long is None or high > _MAX_HIGH:
            raise MetadataError(f"the layout at {self._root} has no ledger ids above {floor}")
        await self._make_directory(f"{self._long}/HOB-{high:010d}")

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
        # One that was made after all goes with the session: only its number is lost.
        made = await self._create(prefix, ephemeral=True, sequence=True, make_parents=make_parents)
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
            _ids_log.info("sequence znode left to the session", extra={"path": path, "reason": str(error)})

    async def _make_directory(self, path: str) -> None:
        with suppress(NodeExistsError):
            await self._create(path, make_parents=True)

    async def _create(
        self, path: str, *, ephemeral: bool = False, sequence: bool = False, make_parents: bool
    ) -> str:
        """Make a znode, again while ZooKeeper does not answer; its path.

        ZooKeeperUnavailableError when the time for that is over, NodeExistsError.
        """
        patience = ZooKeeperBackoff(self._patience_s)
        while True:
            try:
                return await self._znodes.create(
                    path, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
                )
            except UNANSWERED as lost:
                if not await patience.pause():
                    raise ZooKeeperUnavailableError(
                        f"no new ledger id: {lost.message}", outcome=Outcome.NOT_DONE
                    ) from lost


# The store.


async def list_ledgers(znodes: Znodes, paths: LedgerPaths) -> AsyncIterator[int]:
    """Yield the ids of all ledgers, ascending.

    Ledgers created or deleted meanwhile may or may not be met. Names that are no ledger's (``available``,
    ``idgen``, ``LAYOUT`` and the like) are passed over.

    Raises:
        MetadataError: the root does not exist.
        ZooKeeperUnavailableError: ZooKeeper did not answer.
    """
    try:
        top = await znodes.children(paths.root)
    except NoNodeError:
        raise MetadataError(f"{paths.root} does not exist") from None
    for walk in paths.walks:
        async for ledger_id in _walk(znodes, paths, walk, top):
            yield ledger_id


async def _walk(znodes: Znodes, paths: LedgerPaths, walk: Walk, top: list[str]) -> AsyncIterator[int]:
    """Depth first without recursion: a stack of what is left to visit in each open directory."""
    stack = [_visit(paths.root, top, walk, 0)]
    while stack:
        if not stack[-1]:
            stack.pop()
            continue
        path = stack[-1].pop()
        if len(stack) == len(walk):
            try:
                yield paths.id_of(path)
            except MetadataError:
                _log.warning("not a ledger's znode", extra={"path": path})
            continue
        try:
            names = await znodes.children(path)
        except NoNodeError:
            continue  # emptied and removed since its parent was listed
        stack.append(_visit(path, names, walk, len(stack)))


def _visit(parent: str, names: list[str], walk: Walk, level: int) -> list[str]:
    """The paths to visit in a directory, last one first. Longer numbers are larger ones (flat scheme)."""
    wanted = (name for name in names if walk[level].fullmatch(name))
    return [f"{parent}/{name}" for name in sorted(wanted, key=lambda name: (len(name), name), reverse=True)]


_log = logging.getLogger("herdpy.bookkeeper.ledger_store")

_TOKEN_BITS = 63
_MAX_IDS_TRIED = 16


class LedgerStore:
    """The ledgers of one cluster, as ZooKeeper knows them."""

    def __init__(
        self,
        znodes: Znodes,
        root: str,
        layout: LedgerLayout,
        *,
        rng: random.Random | None = None,
        patience_s: float = 30.0,
    ) -> None:
        """Args:
        znodes: a started session.
        root: the absolute path of the ledgers.
        layout: what ``read_layout`` found there.
        rng: where creators' tokens come from; None takes the system's randomness.
        patience_s: how long a change is tried again while ZooKeeper does not answer.
        """
        self._znodes = znodes
        self._paths = LedgerPaths(root, layout.scheme)
        self._ids = LedgerIdGenerator(znodes, root, layout.scheme, patience_s=patience_s)
        self._rng = rng or random.SystemRandom()
        self._patience_s = patience_s

    @property
    def paths(self) -> LedgerPaths:
        """Where the ledgers are."""
        return self._paths

    async def create(
        self,
        metadata_for: Callable[[int], LedgerMetadata] | LedgerMetadata,
        ledger_id: int | None = None,
    ) -> tuple[int, Versioned]:
        """Make a ledger's znode; a reply lost on the way is found out by the creator's token in it.

        Args:
            metadata_for: the metadata, or what makes it for an id. Its ``c_token`` is replaced.
            ledger_id: the id to use; None takes a new one.

        Returns:
            the id, and the metadata as stored (someone may have changed it since the lost reply).

        Raises:
            LedgerExistsError: the id given is taken.
            MetadataError: what is to be stored cannot be, or there are no ids left.
            ZooKeeperUnavailableError: no answer within the patience; UNKNOWN when it may have been made.
        """
        for _ in range(_MAX_IDS_TRIED):
            chosen = ledger_id if ledger_id is not None else await self._ids.next()
            metadata = metadata_for(chosen) if callable(metadata_for) else metadata_for
            token = self._rng.getrandbits(_TOKEN_BITS)
            created = await self._create(
                chosen, replace(metadata, c_token=token, format_version=FORMAT_VERSION)
            )
            if created is not None:
                return chosen, created
            if ledger_id is not None:
                raise LedgerExistsError(ledger_id=ledger_id)
            # Somebody chose this number by hand; the sequence goes on behind it.
            _log.info("new ledger id is taken", extra={"ledger_id": chosen})
        raise LedgerExistsError(f"{_MAX_IDS_TRIED} new ids in a row are taken", ledger_id=chosen)

    async def _create(self, ledger_id: int, metadata: LedgerMetadata) -> Versioned | None:
        """One id: the metadata stored, or None when the znode is somebody else's."""
        path, data = self._paths.path(ledger_id), encode_metadata(metadata)
        patience = ZooKeeperBackoff(self._patience_s)
        in_doubt = False
        while True:
            try:
                await self._znodes.create(path, data, make_parents=True)
                return Versioned(metadata, 0)
            except NodeExistsError:
                return await self._mine(ledger_id, metadata.c_token)
            except UNANSWERED as lost:
                in_doubt = in_doubt or lost.outcome is Outcome.UNKNOWN
                if not await patience.pause():
                    raise _gave_up(lost, ledger_id, in_doubt=in_doubt) from lost

    async def _mine(self, ledger_id: int, token: int | None) -> Versioned | None:
        try:
            stored = await self.read(ledger_id)
        except NoSuchLedgerError:
            # It came and went between two requests, so it was somebody's ledger: do not bring it back.
            return None
        except MetadataError:
            return None  # not written here
        return stored if stored.metadata.c_token == token else None

    async def read(self, ledger_id: int) -> Versioned:
        """The metadata and its version, as of now.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            MetadataError: what is stored cannot be understood.
            ZooKeeperUnavailableError: no answer in time.
        """
        try:
            return _versioned(await self._znodes.get(self._paths.path(ledger_id)), ledger_id)
        except NoNodeError:
            raise NoSuchLedgerError(ledger_id=ledger_id) from None

    async def raise_ids_above(self, floor: int) -> None:
        """See ``LedgerIdGenerator.raise_above``."""
        await self._ids.raise_above(floor)

    async def remade(self, ledger_id: int, bookie_ids: Iterable[str]) -> frozenset[str]:
        """Those of these bookies that began with empty disks after the ledger was made.

        A bookie puts its cookie into ZooKeeper when its disks are new, and does not start on other disks than
        those that have it. So one whose cookie is younger than the ledger has lost what it had of the ledger;
        one without a cookie may have.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            ZooKeeperUnavailableError: no answer in time.
        """
        bookies = tuple(bookie_ids)
        cookies = (f"{self._paths.root}/cookies/{bookie_id}" for bookie_id in bookies)
        ledger, *found = await asyncio.gather(
            *map(self._znodes.exists, (self._paths.path(ledger_id), *cookies))
        )
        if ledger is None:
            raise NoSuchLedgerError(ledger_id=ledger_id)
        return frozenset(
            bookie_id
            for bookie_id, cookie in zip(bookies, found, strict=True)
            if cookie is None or cookie.czxid > ledger.czxid
        )

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> Versioned:
        """Replace the metadata if its version is still the one given (compare-and-set).

        Raises:
            MetadataVersionError: it was changed meanwhile; read it again and decide anew. Its outcome is
                UNKNOWN when a reply was lost: this change may have been made, and another one after it.
            NoSuchLedgerError: the ledger was deleted.
            MetadataError: what is to be stored cannot be.
            ZooKeeperUnavailableError: no answer within the patience; UNKNOWN when it may have been done.
        """
        path, data = self._paths.path(ledger_id), encode_metadata(metadata)
        patience = ZooKeeperBackoff(self._patience_s)
        in_doubt = False
        while True:
            try:
                changed = await self._znodes.set(path, data, version)
                break
            except NoNodeError:
                raise NoSuchLedgerError(ledger_id=ledger_id, outcome=_outcome(in_doubt)) from None
            except ZnodeVersionError:
                # After a lost reply the other version may be this very change.
                if in_doubt and await self._holds(path, data, version + 1):
                    changed = version + 1
                    break
                raise MetadataVersionError(ledger_id=ledger_id, outcome=_outcome(in_doubt)) from None
            except UNANSWERED as lost:
                in_doubt = in_doubt or lost.outcome is Outcome.UNKNOWN
                if not await patience.pause():
                    raise _gave_up(lost, ledger_id, in_doubt=in_doubt) from lost
        return Versioned(replace(metadata, format_version=FORMAT_VERSION), changed)

    async def _holds(self, path: str, data: bytes, version: int) -> bool:
        try:
            stored = await self._znodes.get(path)
        except NoNodeError:
            return False
        return stored.version == version and stored.data == data

    async def delete(self, ledger_id: int) -> None:
        """Remove a ledger; the bookies drop its entries when they next compare notes with ZooKeeper.

        Directories that hold no other ledger go with it.

        Raises:
            NoSuchLedgerError: there is none (not raised when a lost reply may have deleted it just now).
            ZooKeeperUnavailableError: no answer within the patience; UNKNOWN when it may have been done.
        """
        path = self._paths.path(ledger_id)
        patience = ZooKeeperBackoff(self._patience_s)
        in_doubt = False
        while True:
            try:
                await self._znodes.delete(path)
                break
            except NoNodeError:
                if in_doubt:
                    break
                raise NoSuchLedgerError(ledger_id=ledger_id) from None
            except UNANSWERED as lost:
                in_doubt = in_doubt or lost.outcome is Outcome.UNKNOWN
                if not await patience.pause():
                    raise _gave_up(lost, ledger_id, in_doubt=in_doubt) from lost
        if self._paths.scheme is not Scheme.FLAT:
            await self._tidy(ledger_id)

    async def _tidy(self, ledger_id: int) -> None:
        for directory in self._paths.parents(ledger_id):
            try:
                await self._znodes.delete(directory)
            except (NotEmptyError, NoNodeError):
                return
            except UNANSWERED as lost:
                # The ledger is deleted; an empty directory that stays is harmless.
                _log.info("empty directory left", extra={"path": directory, "reason": lost.message})
                return

    def list(self) -> AsyncIterator[int]:
        """The ids of all ledgers, ascending, found while they are asked for."""
        return list_ledgers(self._znodes, self._paths)

    def watch(self, ledger_id: int, callback: Callable[[Versioned | None], None]) -> Watch:
        """Call back on the loop with the present metadata, then after each change; None: no such ledger.

        A value that cannot be understood is logged and not delivered.
        """

        def deliver(znode: Znode | None) -> None:
            if znode is None:
                callback(None)
                return
            try:
                versioned = _versioned(znode, ledger_id)
            except MetadataError as garbled:
                _log.error(
                    "ledger metadata cannot be understood",
                    extra={"ledger_id": ledger_id, "reason": garbled.message},
                )
                return
            callback(versioned)

        return self._znodes.watch_data(self._paths.path(ledger_id), deliver)


async def update(
    store: LedgerStore,
    ledger_id: int,
    current: Versioned,
    change: Callable[[LedgerMetadata], LedgerMetadata | None],
) -> Versioned:
    """Change a ledger's metadata by compare-and-set, deciding again whenever somebody else was first.

    Args:
        store: where the ledger is.
        ledger_id: the ledger.
        current: what is known of it; may be old.
        change: makes the metadata wanted from the metadata found, or None when nothing is to be done.
            What it raises ends the loop.

    Returns:
        what is stored now, with its version (``current`` when there was nothing to do).

    Raises:
        NoSuchLedgerError, MetadataError, ZooKeeperUnavailableError: as ``LedgerStore.write``.
    """
    while True:
        wanted = change(current.metadata)
        if wanted is None:
            return current
        try:
            return await store.write(ledger_id, wanted, current.version)
        except MetadataVersionError:
            current = await store.read(ledger_id)


def _versioned(znode: Znode, ledger_id: int) -> Versioned:
    try:
        return Versioned(decode_metadata(znode.data, znode.ctime_ms), znode.version)
    except MetadataError as garbled:
        raise MetadataError(garbled.message, ledger_id=ledger_id) from garbled


def _outcome(in_doubt: bool) -> Outcome:
    return Outcome.UNKNOWN if in_doubt else Outcome.NOT_DONE


def _gave_up(lost: Exception, ledger_id: int, *, in_doubt: bool) -> ZooKeeperUnavailableError:
    return ZooKeeperUnavailableError(str(lost), outcome=_outcome(in_doubt), ledger_id=ledger_id)
