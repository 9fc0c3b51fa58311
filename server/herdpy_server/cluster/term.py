"""One term: this node leads a tablespace, from an election won until it is lost or given back.

Made by ``election``, used by the tablespace's replica: it recovers the log with the term's epoch, then awaits
``alone()`` before it acknowledges or answers anything, and from then on asks ``lease.valid()`` after each
read.
"""

from __future__ import annotations

import asyncio
import enum

from herdpy_server.cluster.errors import TermLostError
from herdpy_server.cluster.lease import Clock, Lease
from herdpy_server.cluster.renewal import Renewal


class Loss(enum.Enum):
    """Why a term is over."""

    SESSION = "the ZooKeeper session was lost"
    SUSPENDED = "ZooKeeper could not be reached for longer than the lease"
    REMOVED = "the leader znode is gone"
    RESIGNED = "it was given back"


class Term:
    """Attributes:
    epoch: rises by at least one with each term of the tablespace.
    tag: of its ``leader`` znode.
    predecessor_until_s: when the last lease that another can hold is over, by the lease's clock.
    lease: asked after each read.
    loss: why it is over, or None.
    """

    def __init__(
        self, epoch: int, tag: str, lease: Lease, renewal: Renewal, predecessor_until_s: float
    ) -> None:
        self.epoch = epoch
        self.tag = tag
        self.lease = lease
        self.predecessor_until_s = predecessor_until_s
        self.loss: Loss | None = None
        self._renewal = renewal
        self._over = asyncio.Event()
        self._news = asyncio.Event()  # a proof, or the end
        lease.proved = self._news.set

    @property
    def is_alone(self) -> bool:
        """Whether no predecessor can hold a lease any more."""
        return self._clock() >= self.predecessor_until_s

    async def alone(self) -> None:
        """Wait until no predecessor can hold a lease, and this term's own is valid. Raises TermLostError."""
        while self.loss is None:
            self._news.clear()
            left_s = self.predecessor_until_s - self._clock()
            if left_s > 0:
                await self._sleep(left_s)
                continue
            self.lease.open()
            if self.lease.valid():
                return
            self._renewal.prove_now()
            await self._sleep(self._renewal.lease_s)
        raise TermLostError(self.epoch, self.loss.value)

    async def over(self) -> Loss:
        """Wait until the term is over; why."""
        await self._over.wait()
        assert self.loss is not None
        return self.loss

    def end(self, loss: Loss) -> None:
        """For the election: it is over. The lease ends with it."""
        self.lease.drop()
        self._renewal.discard(self.lease)
        self.loss = self.loss or loss
        self._over.set()
        self._news.set()

    @property
    def _clock(self) -> Clock:
        return self._renewal.clock

    async def _sleep(self, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await self._news.wait()
        except TimeoutError:
            pass
