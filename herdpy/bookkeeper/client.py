"""The way in: a cluster of bookies, named by its ZooKeeper, and what can be done there.

Top layer of the package. ClientParts is what all ledgers share while a client is open: the ZooKeeper session,
the registry of bookies, one handle for each bookie; writers and readers are made with it. BookKeeper checks
what callers pass and remembers its readers and writers; it knows nothing of frames or quorums itself. See
DESIGN.md for how an append passes down from here.
"""

from __future__ import annotations

import asyncio
import hmac
import random
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from herdpy.bookkeeper.bookie.metrics import Metrics
from herdpy.bookkeeper.bookie.pool import BookiePool
from herdpy.bookkeeper.cluster import BookieInfo, LedgerIds, LedgerLabels, bookies_of
from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import (
    AuthenticationError,
    BackPressureError,
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    Outcome,
    TimedOutError,
    WrongDigestTypeError,
    WrongPasswordError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerMetadata, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.paths import Scheme, parse_uri, read_layout
from herdpy.bookkeeper.metadata.registry import Registry
from herdpy.bookkeeper.metadata.znodes import Watch, Znodes
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.read import LedgerReader, missing_copies, recover_ledger
from herdpy.bookkeeper.settings import (
    ClientSettings,
    check_custom_metadata,
    check_ledger_id,
    check_password,
    check_quorums,
)
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.distribution import install_line

if TYPE_CHECKING:
    from typing import Self


def unlocked(ledger_id: int, metadata: LedgerMetadata, password: bytes, digest: DigestType | None) -> Digest:
    """The digest of a ledger for whoever knows its password (client/LedgerOpenOp.java).

    Args:
        digest: the type that the caller insists on; None: what the ledger has.

    Raises:
        WrongPasswordError, WrongDigestTypeError: it was created otherwise.
    """
    if not metadata.has_password:
        # Before BookKeeper 4.2 neither was stored: the caller's word is all there is.
        return Digest.of(digest or metadata.digest, password)
    if not hmac.compare_digest(metadata.password, password):
        raise WrongPasswordError("the ledger has another password", ledger_id=ledger_id)
    if digest is not None and digest is not metadata.digest:
        raise WrongDigestTypeError(
            f"the ledger's digest type is {metadata.digest.name}, not {digest.name}", ledger_id=ledger_id
        )
    return Digest.of(metadata.digest, password)


@dataclass(frozen=True, slots=True)
class ClientParts:
    """The parts of one client, on its event loop.

    Attributes:
        check_open: raises ``ClosedClientError`` once the client is closed.
    """

    settings: ClientSettings
    store: LedgerStore
    registry: Registry
    pool: BookiePool
    placement: Placement
    check_open: Callable[[], object]

    @classmethod
    async def open(
        cls,
        znodes: Znodes,
        root: str,
        scheme: Scheme | None,
        settings: ClientSettings,
        metrics: Metrics,
        rng: random.Random,
        check_open: Callable[[], object],
    ) -> ClientParts:
        """Connect to ZooKeeper and learn what is there; closes ``znodes`` if that fails.

        Errors as ``BookKeeper.open``.
        """
        registry: Registry | None = None
        try:
            await znodes.start()
            layout = await read_layout(znodes, root, scheme)
            registry = Registry(znodes, root)
            await registry.start()
        except BaseException:
            if registry is not None:
                registry.close()
            await znodes.close()
            raise
        store = LedgerStore(znodes, root, layout, rng=rng)
        pool = BookiePool(settings, registry.address, metrics, rng)
        placement = Placement(registry, rng, settings)
        registry.on_registration(pool.registered)
        registry.on_registration(placement.registered)
        return cls(settings, store, registry, pool, placement, check_open)

    def close(self) -> None:
        """End the connections to bookies, and watch them no more."""
        self.pool.close()
        self.registry.close()

    async def create(
        self, metadata: LedgerMetadata, ledger_id: int | None, *, deferred_sync: bool
    ) -> LedgerWriter:
        """Make a ledger and its writer. Errors as ``BookKeeper.create_ledger``."""
        created, versioned = await self.store.create(metadata, ledger_id)
        self.check_open()
        return LedgerWriter(
            created,
            versioned,
            self.store,
            self.pool,
            self.placement,
            self.settings,
            Digest.of(metadata.digest, metadata.password),
            deferred_sync=deferred_sync,
        )

    async def missing_copies(self, ledger_id: int, password: bytes) -> dict[str, list[int]]:
        """See ``BookKeeper.missing_copies``."""
        metadata = (await self.store.read(ledger_id)).metadata
        if not metadata.is_closed:
            return {}
        checker = unlocked(ledger_id, metadata, password, None)
        return await missing_copies(ledger_id, metadata, self.pool, self.settings, checker)

    async def open_ledger(
        self,
        ledger_id: int,
        password: bytes,
        digest: DigestType | None,
        *,
        recover: bool,
        known_entry_id: int | asyncio.Future[int],
        accept_loss: bool,
    ) -> LedgerReader:
        """A reader of a ledger, which is recovered first if that is asked for.

        Errors as ``BookKeeper.open_ledger``.
        """
        versioned = await self.store.read(ledger_id)
        checker = unlocked(ledger_id, versioned.metadata, password, digest)
        if recover and not versioned.metadata.is_closed:
            versioned = await recover_ledger(
                ledger_id,
                versioned,
                self.store,
                self.pool,
                self.placement,
                self.settings,
                checker,
                password,
                known_entry_id,
                accept_loss=accept_loss,
            )
        self.check_open()
        return LedgerReader(ledger_id, versioned, self.store, self.pool, self.settings, checker)


# The client.

_NO_ANSWER = (AuthenticationError, BackPressureError, BookieUnavailableError, TimedOutError)


class BookKeeper:
    """A client of one BookKeeper cluster; everything happens on the event loop that opened it.

    Use it as ``async with BookKeeper("zk://host:2181/ledgers") as bk: ...``, or call :meth:`open` and
    :meth:`close`.

    Args:
        uri: ``zk://host:port[,host:port]/ledgers``: ZooKeeper's servers, and the znode under which the
            cluster keeps its metadata.
        znodes: instead of a URI, the metadata itself; the client starts and closes it. For simulations.
        root: the root znode that goes with ``znodes``.
        settings: limits and time-outs.
        clock: the time that new ledgers are stamped with, in seconds since 1970.
        rng: the source of every random choice; pass a seeded one to have runs repeat.

    Raises:
        ValueError, TypeError: the arguments are wrong.
        ImportError: kazoo is missing: ``pip install "herdpydb[bookkeeper]"``.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        znodes: Znodes | None = None,
        root: str = "/ledgers",
        settings: ClientSettings | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        if (uri is None) == (znodes is None):
            raise ValueError("give either a URI, such as zk://host:2181/ledgers, or znodes")
        self.settings = settings or ClientSettings()
        scheme = None
        if znodes is None:
            assert uri is not None
            where = parse_uri(uri)
            root, scheme = where.root, where.scheme
            znodes = _zookeeper(where.connect_string, self.settings)
        self._znodes = znodes
        self._root = root.rstrip("/")
        self._scheme = scheme
        self._clock = clock
        self._rng = rng or random.Random()
        self._metrics = Metrics()
        self._parts: ClientParts | None = None
        self._closed = False
        self._labels = LedgerLabels()
        self._writers: weakref.WeakSet[LedgerWriter] = weakref.WeakSet()
        self._readers: weakref.WeakSet[LedgerReader] = weakref.WeakSet()

    async def open(self) -> None:
        """Connect to ZooKeeper, read the cluster's layout, and learn which bookies there are.

        Connections to bookies are made when something is first sent to them.

        Raises:
            ZooKeeperUnavailableError: no server answers.
            UnknownLayoutError: the metadata is laid out in a way that this client does not know, or
                there is no cluster under that root.
            ClosedClientError: the client was closed; make another one.
        """
        if self._closed:
            raise ClosedClientError("the client is closed; make another one", outcome=Outcome.NOT_DONE)
        if self._parts is not None:
            raise RuntimeError("the client is open already")
        try:
            self._parts = await ClientParts.open(
                self._znodes,
                self._root,
                self._scheme,
                self.settings,
                self._metrics,
                self._rng,
                self._open_parts,
            )
        except BaseException:
            self._closed = True
            raise

    async def close(self) -> None:
        """Let go of every ledger, close all connections and end the ZooKeeper session; may be repeated.

        Ledgers still open for writing are not closed in the metadata (``await writer.close()`` does
        that): their appends in flight fail with :class:`ClosedClientError`, and whoever opens them with
        ``recover=True`` finds every entry that was acknowledged.
        """
        if self._closed:
            return
        self._closed = True
        parts, self._parts = self._parts, None
        if parts is None:
            return
        try:
            for writer in list(self._writers):
                writer.abandon(ClosedClientError("the client was closed", ledger_id=writer.ledger_id))
            for reader in list(self._readers):
                await reader.close()
            parts.close()
        finally:
            await self._znodes.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_ledger(
        self,
        ensemble_size: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
        *,
        ledger_id: int | None = None,
        deferred_sync: bool = False,
    ) -> LedgerWriter:
        """Make a ledger and open it for writing.

        Args:
            ensemble_size: how many bookies share the ledger's entries.
            write_quorum: how many of them store each entry.
            ack_quorum: how many must have stored an entry before its append is done.
            digest: the checksum of every entry. HMAC proves that the writer knew the password, too.
            password: opens the ledger again. It stands in the clear in ZooKeeper.
            custom_metadata: kept with the ledger's metadata, shown by every tool.
            ledger_id: an id of the caller's choice; None takes the next one.
            deferred_sync: bookies answer before the entry is on their disks; ``force`` makes it safe, and
                only then the last add confirmed moves. Such a ledger cannot replace a failed bookie.

        Raises:
            ValueError, TypeError: an argument is wrong.
            NotEnoughBookiesError: fewer writable bookies than ensemble_size.
            LedgerExistsError: ledger_id is taken.
            ZooKeeperUnavailableError: the outcome is unknown; a ledger that came to be is empty.
        """
        parts = self._open_parts()
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        if not isinstance(digest, DigestType):
            raise TypeError(f"digest must be a DigestType, not {type(digest).__name__}")
        check_password(password)
        custom = check_custom_metadata(custom_metadata)
        if ledger_id is not None:
            check_ledger_id(ledger_id)
        metadata = LedgerMetadata(
            ensemble_size=ensemble_size,
            segments=(Segment(0, parts.placement.new_ensemble(ensemble_size)),),
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=digest,
            password=password,
            custom_metadata=custom,
            ctime_ms=int(self._clock() * 1000),
        )
        writer = await parts.create(metadata, ledger_id, deferred_sync=deferred_sync)
        self._writers.add(writer)
        return writer

    async def open_ledger(
        self,
        ledger_id: int,
        password: bytes = b"",
        recover: bool = False,
        digest: DigestType | None = None,
        *,
        known_entry_id: int | asyncio.Future[int] = NO_ENTRY,
        accept_loss: bool = False,
    ) -> LedgerReader:
        """Open a ledger for reading.

        Args:
            password: what it was created with.
            recover: take the ledger from its writer: fence it, find its true end, and close it there.
                Without it an open ledger stays open, and is read up to its last add confirmed.
            digest: insist on this type; None takes what the ledger has.
            known_entry_id: with ``recover``: an entry that certainly was confirmed, because somebody has
                it; the ledger is not closed below it. -1: none is known. A future is awaited once the end
                is found, so it may become known meanwhile.
            accept_loss: with ``recover``: also believe bookies whose disks are newer than the ledger that
                they have nothing of it. What they had is lost then: a person has to decide that.

        Raises:
            NoSuchLedgerError: there is none of that id.
            WrongPasswordError, WrongDigestTypeError: it was created otherwise.
            BookieUnavailableError: the ledger is open, and too few bookies say what is confirmed.
            LostEntriesError: the bookies have no such entry as ``known_entry_id`` any more; the ledger stays
                in recovery.
            RecoveryError: too few bookies answered to know the ledger's end; it stays in recovery, and
                can be recovered when they are back.
        """
        parts = self._open_parts()
        check_ledger_id(ledger_id)
        check_password(password)
        reader = await parts.open_ledger(
            ledger_id,
            password,
            digest,
            recover=recover,
            known_entry_id=known_entry_id,
            accept_loss=accept_loss,
        )
        self._readers.add(reader)
        if not reader.is_closed:
            try:
                await reader.read_last_add_confirmed()
            except BaseException:
                await reader.close()
                raise
        return reader

    async def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger, whatever its state; the bookies free its space some minutes later.

        Raises:
            NoSuchLedgerError: there is none of that id.
        """
        check_ledger_id(ledger_id)
        await self._open_parts().store.delete(ledger_id)

    def list_ledgers(self) -> LedgerIds:
        """The ids of all ledgers: ``async for id in bk.list_ledgers()`` or ``await bk.list_ledgers()``.

        The first reads as it goes, in ascending order; ledgers made or deleted meanwhile may or may not
        be among them.
        """
        return LedgerIds(self._open_parts().store.list)

    async def ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """What ZooKeeper has of a ledger: quorums, ensembles, state, custom metadata.

        Raises:
            NoSuchLedgerError: there is none of that id.
            MetadataError: it cannot be understood.
        """
        check_ledger_id(ledger_id)
        return (await self._open_parts().store.read(ledger_id)).metadata

    async def missing_copies(self, ledger_id: int, password: bytes = b"") -> dict[str, list[int]]:
        """The entries of a closed ledger that bookies should have and do not give, by the bookie's id.

        Every copy of every entry is read. Empty: all are there; also of a ledger that is not closed, whose
        entries may be on their way.

        Raises:
            NoSuchLedgerError: there is none of that id.
            WrongPasswordError: it was created otherwise.
        """
        parts = self._open_parts()
        check_ledger_id(ledger_id)
        check_password(password)
        return await parts.missing_copies(ledger_id, password)

    async def custom_metadata(self) -> Mapping[int, Mapping[str, bytes]]:
        """What the makers of all ledgers wrote about them, by id: ``custom_metadata`` of ``create_ledger``.

        It does not change, so each ledger's is read once in the life of this client, and listing the ids is
        all that later calls cost. Before something is done to a ledger, ``ledger_metadata`` is to be asked:
        ids can be given again by hand. Ledgers whose metadata cannot be read now are left out.
        """
        self._open_parts()
        return await self._labels.of_all(self.list_ledgers(), self.ledger_metadata)

    async def bookies(self) -> list[BookieInfo]:
        """Every bookie that is or was registered: where it is, its state, its free space.

        Each one that is up is asked, all at the same time; one that does not answer has no figures and
        says why in ``problem``.
        """
        parts = self._open_parts()
        return await bookies_of(self._znodes, self._root, parts.registry, parts.pool)

    def usable_bookies(self) -> frozenset[str]:
        """The bookies that take writes and did not fail any lately: what new ledgers are best made of.

        As far as is known now: a bookie that died is found out by its session's end or by a failed write.
        """
        parts = self._open_parts()
        return frozenset(parts.registry.available).difference(
            parts.registry.readonly, parts.placement.quarantined()
        )

    def writable_bookies(self) -> frozenset[str]:
        """The bookies that are registered to take writes, whether they answer this client or not."""
        return frozenset(self._open_parts().registry.available)

    async def answers(self, bookie_id: str) -> bool:
        """Whether a bookie answers a question within ``request_timeout_s``; a refusal is an answer."""
        try:
            await self._open_parts().pool.get(bookie_id).info()
        except ClosedClientError:
            raise
        except _NO_ANSWER:
            return False
        except BookKeeperError:
            return True
        return True

    def heard_s(self, bookie_id: str) -> float:
        """When anything came from a bookie last, by the loop's clock; at first: when it was asked for."""
        return self._open_parts().pool.get(bookie_id).heard_s

    def on_bookies_change(self, callback: Callable[[], None]) -> Watch:
        """Call back on the loop whenever a bookie comes, goes or becomes read-only, until cancelled."""
        return self._open_parts().registry.on_change(callback)

    async def raise_ledger_ids(self, above: int) -> None:
        """See to it that new ledgers, of all clients, have ids above this one; nothing where they have.

        Java's clients learn of it when they start.

        Raises:
            MetadataError: the cluster's layout has no such ids.
            ZooKeeperUnavailableError: ZooKeeper did not answer; it may be done again.
        """
        await self._open_parts().store.raise_ids_above(above)

    @property
    def znodes(self) -> Znodes:
        """The client's ZooKeeper session, for an application's own znodes (a ledger list, an election)."""
        self._open_parts()
        return self._znodes

    @property
    def metrics(self) -> Metrics:
        """Counters and latency histograms of every bookie, since the client was made."""
        return self._metrics

    def _open_parts(self) -> ClientParts:
        if self._parts is None:
            why = "the client is closed" if self._closed else "the client is not open: use async with"
            raise ClosedClientError(why, outcome=Outcome.NOT_DONE)
        return self._parts


def _zookeeper(hosts: str, settings: ClientSettings) -> Znodes:
    """ZooKeeper's znodes; imported late, so that simulations need no kazoo."""
    try:
        from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise ImportError(f"kazoo is not installed: {install_line('bookkeeper')}", name=error.name) from error
    return KazooZnodes(
        hosts,
        settings.zookeeper_timeout_s,
        start_timeout_s=settings.zookeeper_patience_s,
        access=settings.zookeeper_access,
    )
