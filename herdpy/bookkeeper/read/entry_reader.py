"""What all reads of a ledger share: the order of replicas, the digest, and one timer for those that are late.

Between those who want entries (``ranges``, ``window``, ``recovery``) and ``entry_read``, which is one read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.read.entry_read import EntryRead
from herdpy.bookkeeper.read.replicas import ReplicaOrder
from herdpy.bookkeeper.schedule import write_set
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import Bookie, BookiePool


class EntryReader:
    """Everything that the reads of one ledger share.

    Args:
        fence_key: for recovery: the master key. Each read then fences the bookie it asks, and ends as soon
            as enough replicas lack the entry.
        remade: for recovery: bookies that began with empty disks after the ledger was made. That they lack
            an entry says nothing.

    Attributes:
        digest_mismatches: replicas passed over because their body was not the entry asked for.
        speculative_reads: replicas asked because another one was late.
        outstanding: the reads under way; each takes itself out at its end.
    """

    def __init__(
        self,
        ledger_id: int,
        write_quorum: int,
        ack_quorum: int,
        pool: BookiePool,
        settings: ClientSettings,
        digest: Digest,
        order: ReplicaOrder,
        *,
        fence_key: bytes | None = None,
        remade: frozenset[str] = frozenset(),
    ) -> None:
        self.ledger_id: Final = ledger_id
        self.write_quorum: Final = write_quorum
        self.pool: Final = pool
        self.digest: Final = digest
        self.order: Final = order
        self.fence_key: Final = fence_key
        self.remade: Final = remade
        # Who reads what is confirmed has lost it only when no replica is left that may have it.
        self.missing_proof: Final = write_quorum if fence_key is None else write_quorum - ack_quorum + 1
        self.digest_mismatches = 0
        self.speculative_reads = 0
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._speculative_s = settings.speculative_read_s
        self.outstanding: dict[EntryRead, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._orders: dict[int, tuple[Bookie, ...]] = {}
        self._orders_members: tuple[str, ...] = ()
        self._orders_version = -1

    def begin(
        self, entry_id: int, members: tuple[str, ...], on_done: Callable[[EntryRead], None]
    ) -> EntryRead:
        """Start to read an entry from the segment with these members; ``on_done`` is called later, once."""
        read = EntryRead(self, entry_id, members, on_done)
        read.replicas = self._replicas(entry_id, members)
        read.speculate_at = self._loop.time() + self._speculative_s
        self.outstanding[read] = None
        if self._timer is None:
            self._timer = self._loop.call_at(read.speculate_at, self._speculate)
        read.ask_next()
        return read

    def begin_many(
        self, first: int, stop: int, members: tuple[str, ...], on_done: Callable[[EntryRead], None]
    ) -> list[EntryRead]:
        """As ``begin`` for the entries from ``first`` to before ``stop``; each bookie is asked at once."""
        if self.fence_key is not None:
            return [self.begin(entry_id, members, on_done) for entry_id in range(first, stop)]
        speculate_at = self._loop.time() + self._speculative_s
        reads = [EntryRead(self, entry_id, members, on_done) for entry_id in range(first, stop)]
        turns = len(members)
        for turn in range(min(turns, len(reads))):
            replicas = self._replicas(first + turn, members)
            together = reads[turn::turns]
            for read in together:
                read.begun(replicas, speculate_at)
            self.outstanding.update(dict.fromkeys(together))
            replicas[0].send_reads(self.ledger_id, together)
        if self._timer is None and reads:
            self._timer = self._loop.call_at(speculate_at, self._speculate)
        return reads

    async def read(self, entry_id: int, members: tuple[str, ...]) -> EntryRead:
        """Read an entry and wait for the outcome, good or bad; nothing is raised for a bad one."""
        done: asyncio.Future[EntryRead] = self._loop.create_future()
        read = self.begin(entry_id, members, done.set_result)
        try:
            return await done
        finally:
            read.cancel()

    def closed_error(self) -> ClosedClientError:
        """What reads end with once this is closed."""
        return ClosedClientError("the reader is closed", ledger_id=self.ledger_id)

    def close(self) -> None:
        """End all reads under way with ClosedClientError."""
        self.is_closed = True
        for read in list(self.outstanding):
            read.fail(self.closed_error())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _replicas(self, entry_id: int, members: tuple[str, ...]) -> tuple[Bookie, ...]:
        """The bookies of the entry's write set in the order to ask them; the same few orders come again."""
        order = self.order
        order.refresh()
        if order.version != self._orders_version or members is not self._orders_members:
            self._orders.clear()
            self._orders_version = order.version
            self._orders_members = members
        key = entry_id % len(members)
        found = self._orders.get(key)
        if found is None:
            indexes = write_set(entry_id, len(members), self.write_quorum)
            get = self.pool.get
            found = tuple(get(bookie) for bookie in order.ordered(members[index] for index in indexes))
            self._orders[key] = found
        return found

    def _speculate(self) -> None:
        """Ask another replica for every read that is late; one timer serves them all."""
        now = self._loop.time()
        self._timer = None
        soonest = 0.0
        for read in list(self.outstanding):
            if read.speculate_at <= now:
                if read.asked == len(read.replicas):
                    continue
                self.speculative_reads += 1
                read.speculate_at = now + (self._speculative_s * (1 << read.asked))
                read.ask_next()
            if not soonest or read.speculate_at < soonest:
                soonest = read.speculate_at
        if soonest:
            self._timer = self._loop.call_at(soonest, self._speculate)
