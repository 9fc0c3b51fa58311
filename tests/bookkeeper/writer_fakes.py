"""Bookies, a ledger store and a registry that do what a test tells them to, for the writer's own tests."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from herdpy.bookkeeper.digest import Digest, DigestType, Entry, master_key
from herdpy.bookkeeper.errors import BookKeeperError, MetadataVersionError, error_of
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment, Versioned
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.proto.protocol_pb2 import Request
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from herdpy.bookkeeper.write import LedgerWriter

OK = int(ReplyStatus.EOK)
FENCED = int(ReplyStatus.EFENCED)
LEDGER = 7
PASSWORD = b"secret"


@dataclass
class Sent:
    """An add that a fake bookie got and has not answered."""

    bookie: FakeBookie
    frame: bytes
    op: Any

    def reply(self, status: int = OK) -> None:
        self.bookie.sent.remove(self)
        self.bookie.pending_bytes -= self.op.size_bytes
        if status == OK:
            self.bookie.stored.add(self.entry_id)
        self.op.on_add_reply(self.bookie, status)
        self.bookie.tell_room()

    @property
    def request(self) -> Any:
        message = Request()
        message.ParseFromString(self.frame[4:])
        return message

    @property
    def entry_id(self) -> int:
        return int(self.request.add.entry_id)

    @property
    def entry(self) -> Entry:
        return digest().open(self.request.add.body, LEDGER, self.entry_id)


class FakeBookie:
    """Remembers what it is sent; answers when told, or at once with ``answer``."""

    def __init__(self, bookie_id: str) -> None:
        self.id = bookie_id
        self.pending_bytes = 0
        self.unsettled = None
        self.sent: list[Sent] = []
        self.seen: list[int] = []
        self.stored: set[int] = set()
        self.answer: int | None = None
        self.lacs: list[int] = []
        self.lac_answer: int = OK
        self.forces = 0
        self.force_answer: int = OK
        self.before_force: Callable[[], Awaitable[None]] | None = None
        self._room: list[tuple[int, int, Callable[[], None]]] = []

    def send_add(self, txn: int, frame: bytes, op: Any) -> None:
        sent = Sent(self, frame, op)
        assert sent.request.header.txn == txn
        self.sent.append(sent)
        self.seen.append(sent.entry_id)
        self.pending_bytes += op.size_bytes
        if self.answer is not None:
            asyncio.get_running_loop().call_soon(self._answer, sent, self.answer)

    def _answer(self, sent: Sent, status: int) -> None:
        if sent in self.sent:
            sent.reply(status)

    def find(self, entry_id: int) -> Sent:
        return next(sent for sent in self.sent if sent.entry_id == entry_id)

    def reply(self, entry_id: int, status: int = OK) -> None:
        self.find(entry_id).reply(status)

    def reply_all(self, status: int = OK) -> None:
        for sent in list(self.sent):
            sent.reply(status)

    @property
    def unanswered(self) -> list[Sent]:
        return self.sent

    def when_room(self, limit_bytes: int, limit_entries: int, callback: Callable[[], None]) -> None:
        self._room.append((limit_bytes, limit_entries, callback))
        self.tell_room()

    def tell_room(self) -> None:
        waiting, self._room = self._room, []
        for limit_bytes, limit_entries, callback in waiting:
            if self.pending_bytes <= limit_bytes and len(self.sent) <= limit_entries:
                asyncio.get_running_loop().call_soon(callback)
            else:
                self._room.append((limit_bytes, limit_entries, callback))

    async def write_lac(self, ledger_id: int, key: bytes, body: bytes) -> None:
        assert key == master_key(PASSWORD)
        lac = digest().open_lac(body, ledger_id)
        await asyncio.sleep(0)
        if self.lac_answer != OK:
            raise error_of(self.lac_answer, bookie=self.id)
        self.lacs.append(lac)

    async def force(self, ledger_id: int) -> None:
        assert ledger_id == LEDGER
        if self.before_force is not None:
            await self.before_force()
        if self.force_answer != OK:
            raise error_of(self.force_answer, bookie=self.id)
        self.forces += 1


class FakePool:
    def __init__(self, count: int) -> None:
        self.bookies = {f"b{number}": FakeBookie(f"b{number}") for number in range(count)}
        self.next_txn = itertools.count(1).__next__

    def get(self, bookie_id: str) -> FakeBookie:
        return self.bookies[bookie_id]


class FakeRegistry:
    def __init__(self, bookies: list[str]) -> None:
        self.available: dict[str, object] = dict.fromkeys(bookies)
        self.readonly: dict[str, object] = {}


class FakeWatch:
    def __init__(self, store: FakeStore) -> None:
        self._store = store

    def cancel(self) -> None:
        self._store.callback = None


class FakeStore:
    """One ledger's znode. ``before_write`` runs before a write is judged, ``after_write`` when it is done."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.now: Versioned = Versioned(metadata, 0)
        self.writes = 0
        self.callback: Callable[[Versioned | None], None] | None = None
        self.before_write: Callable[[], Awaitable[None]] | None = None
        self.after_write: Callable[[], None] | None = None

    async def read(self, ledger_id: int) -> Versioned:
        await asyncio.sleep(0)
        return self.now

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> Versioned:
        await asyncio.sleep(0)
        if self.before_write is not None:
            await self.before_write()
        if version != self.now.version:
            raise MetadataVersionError(ledger_id=ledger_id)
        self.writes += 1
        self.set(metadata)
        written = self.now
        if self.after_write is not None:
            self.after_write()
        return written

    def set(self, metadata: LedgerMetadata) -> None:
        """Change the metadata, as somebody else may."""
        self.now = Versioned(metadata, self.now.version + 1)
        if self.callback is not None:
            asyncio.get_running_loop().call_soon(self._tell, self.now)

    def _tell(self, versioned: Versioned | None) -> None:
        if self.callback is not None:
            self.callback(versioned)

    def watch(self, ledger_id: int, callback: Callable[[Versioned | None], None]) -> FakeWatch:
        self.callback = callback
        asyncio.get_running_loop().call_soon(self._tell, self.now)
        return FakeWatch(self)


def digest() -> Digest:
    return Digest.of(DigestType.CRC32C, PASSWORD)


class Bench:
    """A writer with everything around it faked: bookies b0.., of which the first ones are the ensemble."""

    def __init__(
        self,
        ensemble: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        *,
        bookies: int = 5,
        seed: int = 1,
        deferred_sync: bool = False,
        **settings: Any,
    ) -> None:
        settings.setdefault("explicit_lac_interval_s", None)
        self.settings = ClientSettings(**settings)
        self.pool = FakePool(bookies)
        members = tuple(f"b{number}" for number in range(ensemble))
        self.store = FakeStore(
            LedgerMetadata(ensemble, write_quorum, ack_quorum, (Segment(0, members),), password=PASSWORD)
        )
        self.registry = FakeRegistry(list(self.pool.bookies))
        self.placement = Placement(self.registry, random.Random(seed), self.settings)
        parts: Any = (self.store, self.pool, self.placement)
        self.writer = LedgerWriter(
            LEDGER, self.store.now, *parts, self.settings, digest(), deferred_sync=deferred_sync
        )

    def __getitem__(self, number: int) -> FakeBookie:
        return self.pool.bookies[f"b{number}"]

    @property
    def bookies(self) -> list[FakeBookie]:
        return list(self.pool.bookies.values())

    def answer_all(self, status: int = OK) -> None:
        """From now on every bookie answers at once; what it was sent before, too."""
        for bookie in self.bookies:
            bookie.answer = status
            bookie.reply_all(status)

    def members(self) -> tuple[str, ...]:
        return self.store.now.metadata.last_segment.members

    def append(self, count: int, data: bytes = b"x" * 10) -> list[asyncio.Future[int]]:
        return [self.writer.append_nowait(data) for _ in range(count)]


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(30):
        await asyncio.sleep(0)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def error_in(future: asyncio.Future[int]) -> BookKeeperError:
    error = future.exception()
    assert isinstance(error, BookKeeperError)
    return error


def confirmed(futures: list[asyncio.Future[int]]) -> list[bool]:
    return [future.done() and not future.cancelled() and future.exception() is None for future in futures]


def start(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


def end_of(bench):
    metadata = bench.store.now.metadata
    return metadata.state, metadata.last_entry_id, metadata.length_bytes
