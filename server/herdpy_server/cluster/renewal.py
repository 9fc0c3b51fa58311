"""Renewing leases: one operation proves that the session lives, for all leaders of this node at once.

Between ``session`` and ``lease``. The proof is a write to an ephemeral znode of this session's own, under
``beats``, whose name nobody else knows. Writes are ordered by ZooKeeper's leader, so one that succeeds shows
that the session had not ended when it was sent; as long as the session lives, so do all of its ephemeral
znodes, the ``leader`` znodes among them, which nobody but their owner deletes. Nothing is written while this
node leads nothing.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.errors import ClosedClientError, SessionExpiredError
from herdpy.bookkeeper.metadata.backoff import UNANSWERED
from herdpy.bookkeeper.metadata.znodes import ANY_VERSION, NoNodeError, Znodes, ZooKeeperState
from herdpy_server.cluster.certain import token
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.lease import Clock, Lease, boottime
from herdpy_server.cluster.session import ZooKeeperSession

_log = logging.getLogger("herdpy.cluster")

_SHARE = 3  # renewals in a lease's time: one may get lost
_MOST_UNANSWERED = 4


class Renewal:
    """Renews the leases it is given, each third of ``lease_s`` seconds. Made on the loop, one a node."""

    def __init__(
        self,
        znodes: Znodes,
        session: ZooKeeperSession,
        layout: Layout,
        node: str,
        lease_s: float,
        clock: Clock = boottime,
    ) -> None:
        self.lease_s = lease_s
        self.clock = clock
        self._znodes = znodes
        self._session = session
        self._prefix = f"{layout.beats}/{node}-"
        self._leases: set[Lease] = set()
        self._beat: tuple[int, str] | None = None  # session, path
        self._timer: asyncio.TimerHandle | None = None
        self._proofs: set[asyncio.Task[None]] = set()
        self._watch = session.on_change(self._session_changed)
        self._closed = False

    def add(self, lease: Lease) -> None:
        """Renew this one too, from now on."""
        self._leases.add(lease)
        self.prove_now()

    def discard(self, lease: Lease) -> None:
        """Renew it no more."""
        self._leases.discard(lease)

    def prove_now(self) -> None:
        """Ask for a proof at once, unless several are unanswered; the next one after a third of the lease."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._leases or self._closed:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.lease_s / _SHARE, self.prove_now)
        if len(self._proofs) < _MOST_UNANSWERED and self._session.state is ZooKeeperState.CONNECTED:
            proof = loop.create_task(self._prove(), name="lease renewal")
            self._proofs.add(proof)
            proof.add_done_callback(self._proofs.discard)

    async def catch_up(self) -> None:
        """Write something: what this session reads afterwards is no older than this moment.

        A server of ZooKeeper answers reads from what it has, which may be behind; but a session's own write
        is not answered before its server has everything up to it. BookKeeperError.
        """
        path = await self._own_znode(self._session.number)
        if path is None:
            raise SessionExpiredError
        try:
            await self._znodes.set(path, b"", ANY_VERSION)
        except NoNodeError as error:
            self._beat = None
            raise SessionExpiredError from error

    async def close(self) -> None:
        """Renew no more."""
        self._closed = True
        self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()
        proofs = tuple(self._proofs)
        for proof in proofs:
            proof.cancel()
        await asyncio.gather(*proofs, return_exceptions=True)

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.CONNECTED:
            self.prove_now()

    async def _prove(self) -> None:
        number = self._session.number
        try:
            path = await self._own_znode(number)
            if path is None:
                return
            sent_s = self.clock()  # before it is sent: what is true then is all that the answer shows
            await self._znodes.set(path, b"", ANY_VERSION)
        except UNANSWERED:
            return  # no proof; the next one tries again
        except NoNodeError:
            self._beat = None
            return
        except ClosedClientError:
            return
        if self._session.number == number:
            for lease in self._leases:
                lease.prove(sent_s, number)

    async def _own_znode(self, number: int) -> str | None:
        """The path of a znode made in session ``number``; None when that session is over."""
        if self._beat is None or self._beat[0] != number:
            path = self._prefix + token()
            await self._znodes.create(path, ephemeral=True, make_parents=True)
            if self._session.number != number:
                return None
            if self._beat is not None and self._beat[0] == number:  # another proof was as quick
                await self._znodes.delete(path)
                return self._beat[1]
            _log.debug("session's beat made", extra={"path": path})
            self._beat = (number, path)
        return self._beat[1]
