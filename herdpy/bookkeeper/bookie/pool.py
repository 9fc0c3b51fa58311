"""All bookies a client speaks to: one handle each, made when first asked for and kept until the end.

Top of the bookie layer: writers, readers and recovery get their handles here, by the ids that ensembles name.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Collection

from herdpy.bookkeeper.bookie.connection import BookieContext
from herdpy.bookkeeper.bookie.handle import Bookie
from herdpy.bookkeeper.bookie.metrics import Metrics
from herdpy.bookkeeper.errors import BookieUnavailableError, BookKeeperError, ClosedClientError
from herdpy.bookkeeper.settings import ClientSettings


def address_of(bookie_id: str) -> tuple[str, int]:
    """Host and port of an id that is an address, ``host:port``, as ids of bookies are unless configured.

    Raises BookieUnavailableError for any other id: its address stands only in the registry of bookies.
    """
    host, colon, port = bookie_id.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BookieUnavailableError(
            "the bookie is not registered, and its id is no address", bookie=bookie_id
        )
    return host.strip("[]"), int(port)


class BookiePool:
    """The handles of a client.

    Attributes:
        next_txn: gives a transaction id that no other request of this client has; the frame of one add may
            so go to many bookies.
        metrics: of all bookies.
    """

    next_txn: Callable[[], int]

    def __init__(
        self,
        settings: ClientSettings,
        resolve: Callable[[str], tuple[str, int]] | None = None,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`resolve(bookie_id)` gives host and port; for ids it does not know (LookupError or a
        BookKeeperError) the id itself is taken as the address.
        """
        self.metrics = Metrics() if metrics is None else metrics
        self.next_txn = itertools.count(1).__next__
        self._settings = settings
        self._resolve_registered = resolve
        self._rng = random.Random() if rng is None else rng
        self._bookies: dict[str, Bookie] = {}
        self._awaiting: dict[Callable[[str], None], None] = {}  # called at each registration, in this order
        self._closed = False

    def get(self, bookie_id: str) -> Bookie:
        """The handle of a bookie; nothing is connected yet. Raises ClosedClientError after `close`."""
        bookie = self._bookies.get(bookie_id)
        if bookie is None:
            if self._closed:
                raise ClosedClientError(bookie=bookie_id)
            bookie = self._bookies[bookie_id] = Bookie(
                BookieContext(
                    bookie_id,
                    self._settings,
                    self._resolve,
                    self.next_txn,
                    self.metrics.of(bookie_id),
                    self._rng,
                    _clock_of(asyncio.get_running_loop()),
                )
            )
        return bookie

    def registered(self, bookie_id: str) -> None:
        """A bookie has registered: requests to it are not refused any more, and waits for it end."""
        if bookie_id in self._bookies:
            self._bookies[bookie_id].registered()
        for callback in tuple(self._awaiting):
            callback(bookie_id)

    async def await_any(self, bookie_ids: Collection[str], limit_s: float) -> None:
        """Return when one of these bookies registers, or the time is over."""
        registered = asyncio.Event()

        def callback(bookie_id: str) -> None:
            if bookie_id in bookie_ids:
                registered.set()

        self._awaiting[callback] = None
        try:
            async with asyncio.timeout(limit_s):
                await registered.wait()
        except TimeoutError:
            return
        finally:
            del self._awaiting[callback]

    def close(self) -> None:
        """Give up all connections and everything unanswered. Idempotent."""
        self._closed = True
        for bookie in self._bookies.values():
            bookie.close()

    async def wait_closed(self) -> None:
        """After `close`: wait until no task of the pool is left."""
        for bookie in self._bookies.values():
            await bookie.wait_closed()

    def _resolve(self, bookie_id: str) -> tuple[str, int]:
        if self._resolve_registered is not None:
            try:
                return self._resolve_registered(bookie_id)
            except (LookupError, BookKeeperError):
                return address_of(bookie_id)
        return address_of(bookie_id)


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The loop's clock, or a finer one of the same origin: uvloop's counts whole milliseconds."""
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return time.monotonic
    return loop.time
