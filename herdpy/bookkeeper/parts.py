"""What is there while a client is open: what all ledgers share, and ledgers made and opened with it.

Below ``client``, which checks what callers pass and remembers the readers and writers.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable
from dataclasses import dataclass

from herdpy.bookkeeper.bookie.metrics import Metrics
from herdpy.bookkeeper.bookie.pool import BookiePool
from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import WrongDigestTypeError, WrongPasswordError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.paths import Scheme, read_layout
from herdpy.bookkeeper.metadata.registry import Registry
from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.read import LedgerReader, missing_copies, recover_ledger
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.write import LedgerWriter


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
        return cls(settings, store, registry, pool, Placement(registry, rng, settings), check_open)

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
        known_entry_id: int,
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
