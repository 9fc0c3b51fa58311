"""Bookies and a ledger store in one process, scripted for the tests of reading and recovery.

The bookies have the methods of ``herdpy.bookkeeper.bookie.Bookie``, without connections: faults are
attributes a test sets. Time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar, cast

from herdpy.bookkeeper.bookie import AddReceiver, Bookie, BookiePool
from herdpy.bookkeeper.digest import Digest, DigestType, master_key
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    MetadataVersionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    TimedOutError,
    UnauthorizedError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from herdpy.bookkeeper.placement import Placement, write_set
from herdpy.bookkeeper.read import LedgerReader, recover_ledger
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.messages import LacReply, ReadReply
from herdpy.bookkeeper.wire.server import parse_request
from herdpy.testing.model.loop import VirtualLoop
from tests.bookkeeper.sealing import sealed_body

T = TypeVar("T")

AT_THE_BOOKIE = "at the bookie"
LEDGER = 7
PASSWORD = b"secret"
DIGEST = Digest.of(DigestType.CRC32C, PASSWORD)
SETTINGS = ClientSettings(request_timeout_s=5.0, speculative_read_s=0.5, long_poll_s=1.0)


def run(program: Callable[[], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run in virtual time; fails when the program leaves tasks behind."""

    async def main() -> T:
        result = await program()
        await asyncio.sleep(0.001)  # what was cancelled last ends now
        return result

    loop = VirtualLoop(seed, limit_s=1000.0)
    result = loop.run(main())
    leaked = [task for task in loop.leaked if not task.startswith(AT_THE_BOOKIE)]
    assert not leaked, leaked
    return result


def data_of(entry_id: int, size_bytes: int = 10) -> bytes:
    return b"%d." % entry_id * size_bytes


def sealed(entry_id: int, lac: int | None = None, size_bytes: int = 10) -> bytes:
    """An entry as its writer sealed it; every entry before it had the same size, for its length."""
    length = sum(len(data_of(one, size_bytes)) for one in range(entry_id + 1))
    confirmed = entry_id - 1 if lac is None else lac
    return sealed_body(DIGEST, LEDGER, entry_id, confirmed, length, data_of(entry_id, size_bytes))


def length_at(entry_id: int) -> int:
    return sum(len(data_of(one)) for one in range(entry_id + 1))


class FakeBookie:
    """One bookie with one ledger.

    Faults: ``down`` (no connection), ``silent`` (answers nothing until time is out), ``is_silent``
    (others' requests show that already), ``delay_s``, ``refusing`` (an error for every read),
    ``failing_adds`` (a status for every add), ``ignored_entries`` (adds not answered), ``hint`` (a maxLAC
    told instead of the true one).
    """

    def __init__(self, bookie_id: str) -> None:
        self.id = bookie_id
        self.entries: dict[int, bytes] = {}
        self.explicit_lac: bytes | None = None
        self.fenced = False
        self.key: bytes | None = None
        self.down = False
        self.silent = False
        self.delay_s = 0.001
        self.refusing: BookKeeperError | None = None
        self.failing_adds = 0
        self.ignored_entries: set[int] = set()
        self.hint: int | None = None
        self.pause_left_s = 0.0
        self.is_silent = False
        self.asked: list[int] = []
        self.polls = 0
        self.lac_requests = 0
        self.under_way = 0
        self.most_under_way = 0
        self.changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    def store(self, entry_id: int, body: bytes) -> None:
        self.entries[entry_id] = body
        self.tell()

    def tell(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    @property
    def lac(self) -> int:
        """The highest LAC in what was stored, unchecked, as bookies have it."""
        known = [int.from_bytes(body[16:24], "big", signed=True) for body in self.entries.values()]
        if self.explicit_lac is not None:
            known.append(int.from_bytes(self.explicit_lac[8:16], "big", signed=True))
        return max(known, default=-1)

    async def _work(self, patience_s: float = SETTINGS.request_timeout_s) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.down:
                await asyncio.sleep(0)
                raise BookieUnavailableError(bookie=self.id)
            if self.silent or self.delay_s > patience_s:
                await asyncio.sleep(patience_s)
                raise TimedOutError(bookie=self.id)
            await asyncio.sleep(self.delay_s)
            if self.down:
                raise BookieUnavailableError(bookie=self.id)
            if self.refusing is not None:
                raise type(self.refusing)(self.refusing.message, bookie=self.id)
        finally:
            self.under_way -= 1

    async def read(
        self,
        ledger_id: int,
        entry_id: int = -1,
        *,
        fence_key: bytes | None = None,
        timeout_s: float | None = None,
    ) -> ReadReply:
        self.asked.append(entry_id)
        await self._work()
        if fence_key is not None:
            if self.key is not None and fence_key != self.key:
                raise UnauthorizedError(bookie=self.id)
            self.fenced = True
        if not self.entries:
            raise NoSuchLedgerError(bookie=self.id)
        if entry_id == -1:
            entry_id = max(self.entries)
        if entry_id not in self.entries:
            raise NoSuchEntryError(bookie=self.id)
        max_lac = None if fence_key else self._told_lac()
        return ReadReply(0, ledger_id, entry_id, self.entries[entry_id], max_lac)

    def send_read(self, ledger_id: int, entry_id: int, sink: Any, *, fence_key: bytes | None = None) -> None:
        """As ``read``, with the outcome given to a sink."""
        self._tell_later(self.read(ledger_id, entry_id, fence_key=fence_key), sink)

    def send_long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float, sink: Any) -> None:
        """As ``long_poll``, with the outcome given to a sink."""
        self._tell_later(self.long_poll(ledger_id, previous_lac, timeout_s), sink)

    def send_read_lac(self, ledger_id: int, sink: Any) -> None:
        """As ``read_lac``, with the outcome given to a sink."""
        self._tell_later(self.read_lac(ledger_id), sink)

    def _tell_later(self, asked: Coroutine[Any, Any, Any], sink: Any) -> None:
        def tell(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if sink.done():
                return
            if error is None:
                sink.set_result(task.result())
            else:
                sink.set_exception(error)

        task = asyncio.get_running_loop().create_task(asked, name=AT_THE_BOOKIE)
        self._tasks.add(task)
        task.add_done_callback(tell)

    def send_reads(self, ledger_id: int, reads: Iterable[Any]) -> None:
        """As ``send_read`` for each, which is its own sink."""
        for read in reads:
            self.send_read(ledger_id, read.entry_id, read)

    def _told_lac(self) -> int:
        return self.lac if self.hint is None else self.hint

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float) -> ReadReply:
        self.polls += 1
        await self._work(timeout_s + SETTINGS.request_timeout_s)
        if not self.entries:
            raise NoSuchLedgerError(bookie=self.id)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self._told_lac() <= previous_lac and loop.time() < until:
            try:
                async with asyncio.timeout_at(until):
                    await self.changed.wait()
            except TimeoutError:
                break
        if self.silent:
            await asyncio.sleep(SETTINGS.request_timeout_s)
            raise TimedOutError(bookie=self.id)
        if self.down:
            raise BookieUnavailableError(bookie=self.id)
        body = self.entries.get(previous_lac + 1) if self._told_lac() > previous_lac else None
        return ReadReply(0, ledger_id, previous_lac + 1 if body else -1, body, self._told_lac())

    async def read_lac(self, ledger_id: int) -> LacReply:
        self.lac_requests += 1
        await self._work()
        if not self.entries:
            raise NoSuchLedgerError(bookie=self.id)
        return LacReply(0, ledger_id, self.explicit_lac, self.entries[max(self.entries)])

    def send_add(self, txn: int, frame: bytes, op: AddReceiver) -> None:
        request = cast(Any, parse_request(frame[4:]))
        assert request.txn == txn
        loop = asyncio.get_running_loop()
        if self.silent or request.entry_id in self.ignored_entries:
            loop.call_at(op.deadline_s, op.on_add_reply, self, TimedOutErrorStatus)
        elif self.down:
            loop.call_soon(op.on_add_reply, self, UnavailableStatus)
        else:
            loop.call_later(self.delay_s, self._add, request, op)

    def _add(self, request: Any, op: AddReceiver) -> None:
        status = self.failing_adds
        if self.down:
            status = UnavailableStatus
        elif not status:
            if self.fenced and not request.recovery:
                status = 504
            else:
                self.store(request.entry_id, bytes(request.body))
        op.on_add_reply(cast(Bookie, self), status)


TimedOutErrorStatus = -1001
UnavailableStatus = -1002


class FakePool:
    """Bookies by id, made when first asked for."""

    def __init__(self) -> None:
        self.bookies: dict[str, FakeBookie] = {}
        self._txn = 0

    def get(self, bookie_id: str) -> FakeBookie:
        if bookie_id not in self.bookies:
            self.bookies[bookie_id] = FakeBookie(bookie_id)
        return self.bookies[bookie_id]

    def next_txn(self) -> int:
        self._txn += 1
        return self._txn

    async def await_any(self, bookie_ids: Collection[str], limit_s: float) -> None:
        """None registers."""
        await asyncio.sleep(limit_s)


class FakeStore:
    """One ledger's metadata, with compare-and-set and watches; ``cut_off``: they cannot be read."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.versioned: Versioned | None = Versioned(metadata, 0)
        self.callbacks: list[Callable[[Versioned | None], None]] = []
        self.reads = 0
        self.cut_off = False
        self.writes: list[LedgerMetadata] = []
        self.made_anew: frozenset[str] = frozenset()
        self.before_write: Callable[[LedgerMetadata], None] | None = None

    @property
    def metadata(self) -> LedgerMetadata:
        assert self.versioned is not None
        return self.versioned.metadata

    async def read(self, ledger_id: int) -> Versioned:
        self.reads += 1
        await asyncio.sleep(0.001)
        if self.cut_off:
            raise ZooKeeperUnavailableError
        if self.versioned is None:
            raise NoSuchLedgerError(ledger_id=ledger_id)
        return self.versioned

    async def remade(self, ledger_id: int, bookie_ids: Iterable[str]) -> frozenset[str]:
        await asyncio.sleep(0.001)
        return self.made_anew.intersection(bookie_ids)

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> Versioned:
        await asyncio.sleep(0.001)
        if self.before_write is not None:
            self.before_write(metadata)
        if self.versioned is None:
            raise NoSuchLedgerError(ledger_id=ledger_id)
        if version != self.versioned.version:
            raise MetadataVersionError(ledger_id=ledger_id)
        self.writes.append(metadata)
        return self.change(metadata)

    def change(self, metadata: LedgerMetadata | None) -> Versioned:
        """Somebody changes (or deletes) the ledger; watches fire soon."""
        version = self.versioned.version if self.versioned is not None else 0
        self.versioned = None if metadata is None else Versioned(metadata, version + 1)
        for callback in self.callbacks:
            asyncio.get_running_loop().call_soon(callback, self.versioned)
        return cast(Versioned, self.versioned)

    def watch(self, ledger_id: int, callback: Callable[[Versioned | None], None]) -> FakeWatch:
        self.callbacks.append(callback)
        asyncio.get_running_loop().call_soon(callback, self.versioned)
        return FakeWatch(self, callback)


class FakeWatch:
    def __init__(self, store: FakeStore, callback: Callable[[Versioned | None], None]) -> None:
        self._store = store
        self._callback = callback

    def cancel(self) -> None:
        if self._callback in self._store.callbacks:
            self._store.callbacks.remove(self._callback)


class FakePlacement:
    """Replaces with the spares given, in order."""

    def __init__(self, *spares: str) -> None:
        self.spares = list(spares)
        self.quarantined: list[str] = []

    def replace(self, ensemble: Any, failed: Any, exclude: Any = ()) -> dict[int, str]:
        usable = [one for one in self.spares if one not in ensemble and one not in exclude]
        failed = list(failed)
        if len(usable) < len(failed):
            raise NotEnoughBookiesError
        return dict(zip(failed, usable, strict=False))

    def quarantine(self, bookie_id: str) -> None:
        self.quarantined.append(bookie_id)


class Ledger:
    """A ledger on fake bookies ``b0``, ``b1``, ... and what reads or recovers it."""

    def __init__(
        self, ensemble_size: int = 3, write_quorum: int = 3, ack_quorum: int = 2, *spares: str
    ) -> None:
        self.members = tuple(f"b{number}" for number in range(ensemble_size))
        self.metadata = LedgerMetadata(
            ensemble_size,
            write_quorum,
            ack_quorum,
            (Segment(0, self.members),),
            digest=DigestType.CRC32C,
            password=PASSWORD,
        )
        self.store = FakeStore(self.metadata)
        self.pool = FakePool()
        self.placement = FakePlacement(*spares)
        self.bookies = [self.pool.get(member) for member in self.members]

    def holders(self, entry_id: int) -> list[FakeBookie]:
        """The write set of an entry, in order."""
        segment = self.store.metadata.ensemble_at(entry_id)
        indexes = write_set(entry_id, len(segment.members), self.metadata.write_quorum)
        return [self.pool.get(segment.members[index]) for index in indexes]

    def write(self, first: int, last: int, *, lac: int | None = None, size_bytes: int = 10) -> None:
        """Put entries on their whole write sets."""
        for entry_id in range(first, last + 1):
            for bookie in self.holders(entry_id):
                bookie.store(entry_id, sealed(entry_id, lac, size_bytes))

    def close(self, last: int) -> None:
        self.store.change(self.store.metadata.closed(last, length_at(last) if last >= 0 else 0))

    def set_state(self, state: LedgerState) -> None:
        assert state is LedgerState.IN_RECOVERY
        self.store.change(self.store.metadata.in_recovery())

    def replace(self, first_entry_id: int, members: tuple[str, ...]) -> None:
        """A new ensemble from an entry on."""
        self.store.change(self.store.metadata.with_segment(first_entry_id, members))

    def reader(self, settings: ClientSettings = SETTINGS, **options: Any) -> LedgerReader:
        assert self.store.versioned is not None
        return LedgerReader(
            LEDGER,
            self.store.versioned,
            cast(LedgerStore, self.store),
            cast(BookiePool, self.pool),
            settings,
            DIGEST,
            **options,
        )

    def lose_disk(self, number: int) -> None:
        """A bookie comes back under its name with new disks."""
        bookie = self.bookies[number]
        bookie.entries.clear()
        bookie.explicit_lac, bookie.fenced = None, False
        self.store.made_anew |= {bookie.id}

    def recover(self, settings: ClientSettings = SETTINGS, known_entry_id: int = -1) -> Awaitable[Versioned]:
        assert self.store.versioned is not None
        return recover_ledger(
            LEDGER,
            self.store.versioned,
            cast(LedgerStore, self.store),
            cast(BookiePool, self.pool),
            cast(Placement, self.placement),
            settings,
            DIGEST,
            PASSWORD,
            known_entry_id,
        )


KEY = master_key(PASSWORD)
