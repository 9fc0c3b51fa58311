"""A model bookie: what a bookie does with each request, without its threads, disks and sockets.

ModelBookieConnection, between a transport (simulated, or a real socket) and ModelBookie, turns frames into
calls of the bookie's methods; each takes what the request holds and a callback for the answer. What is no
frame or no request ends the connection; a request that is understood and not served is answered with EBADREQ.
The specification is what BookKeeper's own bookie does (bookie/BookieImpl.java, proto/*ProcessorV3.java),
statuses of odd cases included; one suite runs against this model and against real bookies.

Storage keeps the ledgers in memory, with a journal that makes them durable. Every change is applied to what
readers see at once, and to what survives a crash when its journal record is synced, in the order in which the
records were written. This is a bookie's own order: its memtable serves entries that are not yet on disk.

One thing is stronger than in a real bookie: a fence is durable before it is answered, also where there is
no entry to return. A bookie answers that case before its journal has the fence, and no client can tell.
"""

from __future__ import annotations

import asyncio
import copy
import random
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire import server
from herdpy.bookkeeper.wire.availability import NO_ENTRIES, EntryRanges
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.messages import (
    AddReply,
    AuthReply,
    ForceReply,
    InfoReply,
    LacReply,
    ListReply,
    ReadReply,
    Reply,
    ReplyBody,
    WriteLacReply,
)
from herdpy.bookkeeper.wire.protocol import (
    HIGH_PRIORITY,
    LAST_ENTRY,
    InfoField,
    Operation,
    ReplyStatus,
    WriteFlag,
)

NO_LAC = -1


@dataclass(slots=True)
class StoredLedger:
    """One ledger on one bookie. `max_lac` is the highest LAC that any entry or explicit LAC carried."""

    master_key: bytes
    is_fenced: bool = False
    entries: dict[int, bytes] = field(default_factory=dict)
    explicit_lac: bytes | None = None
    max_lac: int = NO_LAC

    @property
    def last_entry_id(self) -> int | None:
        """The highest entry stored here, or None."""
        return max(self.entries, default=None)


# Changes are functions, so that one description serves both copies of a ledger.
Change = Callable[[StoredLedger], None]


def store_entry(entry_id: int, body: bytes) -> Change:
    """Store an entry; the first copy stays when it comes again, as in a bookie's memtable."""
    lac = int.from_bytes(body[16:24], "big", signed=True)

    def change(ledger: StoredLedger) -> None:
        ledger.entries.setdefault(entry_id, body)
        ledger.max_lac = max(ledger.max_lac, lac)

    return change


def fence(ledger: StoredLedger) -> None:
    """Refuse ordinary adds from now on."""
    ledger.is_fenced = True


def store_lac(body: bytes) -> Change:
    """Keep an explicit LAC."""
    lac = int.from_bytes(body[8:16], "big", signed=True)

    def change(ledger: StoredLedger) -> None:
        ledger.explicit_lac = body
        ledger.max_lac = max(ledger.max_lac, lac)

    return change


def _nothing(ledger: StoredLedger) -> None:
    """No change: what a force waits behind."""


@dataclass(frozen=True, slots=True)
class _Record:
    ledger_id: int
    master_key: bytes
    change: Change
    done: Callable[[], None] | None


class Storage:
    """The ledgers of one bookie.

    `sync_s` is the range of the time one sync of the journal takes; records that come meanwhile share
    the next one (group commit).
    """

    def __init__(self, loop: AbstractEventLoop, rng: random.Random, sync_s: tuple[float, float]) -> None:
        self._loop = loop
        self._rng = rng
        self.sync_s = sync_s
        self.ledgers: dict[int, StoredLedger] = {}
        self._durable: dict[int, StoredLedger] = {}
        self._waiting: list[_Record] = []
        self._syncing: list[_Record] = []
        self._timer: TimerHandle | None = None
        self._halted = False

    def change(
        self, ledger_id: int, master_key: bytes, change: Change, done: Callable[[], None] | None = None
    ) -> None:
        """Apply `change` now, durably later, and then call `done`. A crash forgets both."""
        self._apply(self.ledgers, ledger_id, master_key, change)
        self._waiting.append(_Record(ledger_id, master_key, change, done))
        self._sync()

    def force(self, done: Callable[[], None]) -> None:
        """Call `done` when everything changed so far is durable."""
        if not self._waiting and not self._syncing:
            self._loop.call_soon(done)
            return
        self._waiting.append(_Record(0, b"", _nothing, done))
        self._sync()

    def change_at_once(self, ledger_id: int, master_key: bytes, change: Change) -> None:
        """Apply `change` to both copies, with no journal between."""
        self._apply(self.ledgers, ledger_id, master_key, change)
        self._apply(self._durable, ledger_id, master_key, change)

    def is_durable(self, ledger_id: int, entry_id: int) -> bool:
        """Whether a crash would leave the entry."""
        ledger = self._durable.get(ledger_id)
        return ledger is not None and entry_id in ledger.entries

    def crash(self) -> None:
        """The power goes: of what was not synced, any prefix may be on disk, and nobody gets an answer."""
        self._halted = False
        self._stop_timer()
        pending = [*self._syncing, *self._waiting]
        self._persist(pending[: self._rng.randint(0, len(pending))])
        self._waiting.clear()
        self._syncing.clear()
        self.ledgers = copy.deepcopy(self._durable)

    def flush(self) -> None:
        """Everything is durable, and nobody gets an answer: the process ends in order."""
        self._stop_timer()
        self._persist([*self._syncing, *self._waiting])
        self._waiting.clear()
        self._syncing.clear()

    def wipe(self) -> None:
        """An empty disk."""
        self.crash()
        self.ledgers.clear()
        self._durable.clear()

    def halt(self) -> None:
        """The process is stopped: its syncs do not end."""
        self._halted = True
        self._stop_timer()
        self._waiting[:0], self._syncing = self._syncing, []

    def go_on(self) -> None:
        """The process runs again."""
        self._halted = False
        self._sync()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sync(self) -> None:
        if self._timer is None and self._waiting and not self._halted:
            self._syncing, self._waiting = self._waiting, []
            self._timer = self._loop.call_later(self._rng.uniform(*self.sync_s), self._synced)

    def _synced(self) -> None:
        self._timer = None
        records, self._syncing = self._syncing, []
        self._persist(records)
        for record in records:
            if record.done is not None:
                record.done()
        self._sync()

    def _persist(self, records: list[_Record]) -> None:
        for record in records:
            if record.change is not _nothing:
                self._apply(self._durable, record.ledger_id, record.master_key, record.change)

    @staticmethod
    def _apply(ledgers: dict[int, StoredLedger], ledger_id: int, master_key: bytes, change: Change) -> None:
        ledger = ledgers.get(ledger_id)
        if ledger is None:
            ledger = ledgers[ledger_id] = StoredLedger(master_key)
        change(ledger)


_TOTAL_BYTES = 100 * 1024**3
_FREE_BYTES = 50 * 1024**3

_OPERATIONS = {
    server.AddRequest: Operation.ADD_ENTRY,
    server.ReadRequest: Operation.READ_ENTRY,
    server.WriteLacRequest: Operation.WRITE_LAC,
    server.ReadLacRequest: Operation.READ_LAC,
    server.ForceRequest: Operation.FORCE_LEDGER,
    server.InfoRequest: Operation.GET_BOOKIE_INFO,
    server.ListRequest: Operation.GET_LIST_OF_ENTRIES,
    server.AuthRequest: Operation.AUTH,
    server.StartTlsRequest: Operation.START_TLS,
}


class ModelBookieConnection(asyncio.Protocol):
    """What asyncio calls for one connection; made by `ModelBookie.protocol`."""

    def __init__(self, bookie: ModelBookie) -> None:
        self._bookie = bookie
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Replies have no way any more."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Serve the requests that are complete, when the process runs."""
        try:
            frames = self._splitter.feed(data)
        except ProtocolError:
            self._end()
            return
        for frame in frames:
            self._bookie.run(lambda frame=frame: self._frame(frame))  # type: ignore[misc]

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _frame(self, frame: bytes) -> None:
        if self._transport is None:
            return  # the client is gone, as a bookie finds, too, before it reads for it
        try:
            request = server.parse_request(frame)
        except ProtocolError:
            self._end()
            return
        operation = _OPERATIONS.get(type(request))
        failure = None if operation is None else self._bookie.failures.get(operation)
        if failure is not None and operation is not None:
            self._reply(request.txn, operation, failure, None)
        else:
            self._serve(request)

    def _reply(self, txn: int, operation: int, status: int, body: ReplyBody | None) -> None:
        if self._transport is not None:
            self._transport.write(server.encode_reply(Reply(txn, operation, status, body)))

    def _serve(self, request: server.AnyRequest) -> None:
        bookie, txn = self._bookie, request.txn
        match request:
            case server.AddRequest():
                self._add(request)
            case server.ReadRequest():
                self._read(request)
            case server.WriteLacRequest(_, ledger_id):
                bookie.write_lac(
                    ledger_id,
                    request.master_key,
                    request.body,
                    lambda status: self._reply(
                        txn, Operation.WRITE_LAC, status, WriteLacReply(status, ledger_id)
                    ),
                )
            case server.ReadLacRequest(_, ledger_id):
                status, lac, last = bookie.read_lac(ledger_id)
                self._reply(txn, Operation.READ_LAC, status, LacReply(status, ledger_id, lac, last))
            case server.ForceRequest(_, ledger_id):
                bookie.force(
                    lambda status: self._reply(
                        txn, Operation.FORCE_LEDGER, status, ForceReply(status, ledger_id)
                    )
                )
            case server.ListRequest(_, ledger_id):
                ids = bookie.entry_ids(ledger_id)
                status = ReplyStatus.ENOLEDGER if ids is None else ReplyStatus.EOK
                entries = NO_ENTRIES if ids is None else EntryRanges.of(ids)
                self._reply(txn, Operation.GET_LIST_OF_ENTRIES, status, ListReply(status, ledger_id, entries))
            case server.InfoRequest(_, fields):
                info = InfoReply(
                    ReplyStatus.EOK,
                    _TOTAL_BYTES if fields & InfoField.TOTAL_DISK_CAPACITY else None,
                    _FREE_BYTES if fields & InfoField.FREE_DISK_SPACE else None,
                )
                self._reply(txn, Operation.GET_BOOKIE_INFO, ReplyStatus.EOK, info)
            case server.AuthRequest(_, plugin):
                # A bookie with no authentication lets everybody in.
                self._reply(txn, Operation.AUTH, ReplyStatus.EOK, AuthReply(plugin, b""))
            case server.StartTlsRequest():
                self._reply(txn, Operation.START_TLS, ReplyStatus.EBADREQ, None)
            case server.UnknownRequest(_, operation):
                self._reply(txn, operation, ReplyStatus.EBADREQ, None)

    def _add(self, request: server.AddRequest) -> None:
        txn, ledger_id, entry_id = request.txn, request.ledger_id, request.entry_id

        def done(status: int) -> None:
            self._reply(txn, Operation.ADD_ENTRY, status, AddReply(status, ledger_id, entry_id))

        self._bookie.add(
            ledger_id,
            entry_id,
            request.master_key,
            request.body,
            done,
            is_recovery=request.recovery,
            is_deferred=bool(request.write_flags & WriteFlag.DEFERRED_SYNC),
            is_urgent=request.priority >= HIGH_PRIORITY,
        )

    def _read(self, request: server.ReadRequest) -> None:
        bookie, ledger_id, entry_id = self._bookie, request.ledger_id, request.entry_id

        def done(found: Found) -> None:
            reply = ReadReply(found.status, ledger_id, found.entry_id, found.body, found.max_lac)
            self._reply(request.txn, Operation.READ_ENTRY, found.status, reply)

        if request.fence:
            bookie.fence(ledger_id, entry_id, request.master_key, done)
        elif request.previous_lac is not None and request.piggyback:
            timeout_s = None if request.timeout_ms is None else request.timeout_ms / 1000
            bookie.long_poll(ledger_id, request.previous_lac, timeout_s, done)
        else:
            bookie.later(bookie.read_delay_s(), lambda: done(bookie.read(ledger_id, entry_id)))


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a read. Without a `body` there is none in the reply; `max_lac` None likewise."""

    status: int
    entry_id: int
    body: bytes | None = None
    max_lac: int | None = None


@dataclass(slots=True)
class _Waiter:
    """A long poll that waits for news."""

    previous_lac: int
    wake: Callable[[], None]
    timer: asyncio.TimerHandle


class ModelBookie:
    """One bookie.

    `is_readonly`: refuses writes, except urgent ones while `takes_urgent_writes`. `failures`: operations
    that are answered with a status, whatever they ask. `read_s`: range of the time a read takes.
    Serve it by `protocol`, on the simulated network or with `loop.create_server` on a real one.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        *,
        sync_s: tuple[float, float] = (0.0005, 0.003),
        read_s: tuple[float, float] = (0.0, 0.0005),
    ) -> None:
        self.is_readonly = False
        self.takes_urgent_writes = True
        self.failures: dict[Operation, ReplyStatus] = {}
        self.read_s = read_s
        self.storage = Storage(loop, rng, sync_s)
        self._loop = loop
        self._rng = rng
        self._waiters: dict[int, list[_Waiter]] = {}
        self._life = 0  # ends with a crash: what was begun before it is not done after it
        self._stopped: list[Callable[[], None]] | None = None  # what a paused process will do

    def protocol(self) -> ModelBookieConnection:
        """A protocol for one new connection."""
        return ModelBookieConnection(self)

    # -- the process

    def run(self, action: Callable[[], None]) -> None:
        """Do `action` now, or when the paused process goes on."""
        if self._stopped is None:
            action()
        else:
            self._stopped.append(action)

    def later(self, delay_s: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Do `action` after a while, if this process still lives then."""
        life = self._life

        def act() -> None:
            if life == self._life:
                self.run(action)

        return self._loop.call_later(delay_s, act)

    def pause(self) -> None:
        """Stop the process (SIGSTOP)."""
        if self._stopped is None:
            self._stopped = []
            self.storage.halt()

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        actions, self._stopped = self._stopped or [], None
        self.storage.go_on()
        for action in actions:
            action()

    def crash(self) -> None:
        """Power off: unsynced writes are lost, synced ones kept."""
        self._end()
        self.storage.crash()

    def shut_down(self) -> None:
        """An orderly end: all writes are kept."""
        self._end()
        self.storage.flush()

    def wipe(self) -> None:
        """Empty the disks of a bookie that does not run."""
        self.storage.wipe()

    def _end(self) -> None:
        self._life += 1
        self._stopped = None
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.timer.cancel()
        self._waiters.clear()

    # -- writes

    def add(
        self,
        ledger_id: int,
        entry_id: int,
        master_key: bytes,
        body: bytes,
        done: Callable[[int], None],
        *,
        is_recovery: bool = False,
        is_deferred: bool = False,
        is_urgent: bool = False,
    ) -> None:
        """Store an entry; answered when it is durable, or at once when `is_deferred`."""
        ledger = self.storage.ledgers.get(ledger_id)
        if self.is_readonly and not (is_urgent and self.takes_urgent_writes):
            done(ReplyStatus.EREADONLY)
        elif ledger is not None and ledger.master_key != master_key:
            done(ReplyStatus.EUA)
        elif ledger is not None and ledger.is_fenced and not is_recovery:
            done(ReplyStatus.EFENCED)
        elif is_deferred:
            self.storage.change(ledger_id, master_key, store_entry(entry_id, body))
            done(ReplyStatus.EOK)
            self._wake(ledger_id)
        else:
            self.storage.change(
                ledger_id,
                master_key,
                store_entry(entry_id, body),
                lambda: self.run(lambda: done(ReplyStatus.EOK)),
            )
            self._wake(ledger_id)

    def write_lac(self, ledger_id: int, master_key: bytes, body: bytes, done: Callable[[int], None]) -> None:
        """Keep an explicit LAC; a fence does not matter to it."""
        ledger = self.storage.ledgers.get(ledger_id)
        if self.is_readonly:
            done(ReplyStatus.EREADONLY)
        elif ledger is not None and ledger.master_key != master_key:
            done(ReplyStatus.EUA)
        else:
            self.storage.change(
                ledger_id, master_key, store_lac(body), lambda: self.run(lambda: done(ReplyStatus.EOK))
            )
            self._wake(ledger_id)

    def force(self, done: Callable[[int], None]) -> None:
        """Answer when everything written so far is durable; any ledger will do."""
        self.storage.force(lambda: self.run(lambda: done(ReplyStatus.EOK)))

    # -- reads

    def read(self, ledger_id: int, entry_id: int) -> Found:
        """An entry, or the last one (-1), with the highest LAC known here."""
        ledger = self.storage.ledgers.get(ledger_id)
        if ledger is None:
            return Found(ReplyStatus.ENOLEDGER, entry_id)
        body = self._body(ledger, entry_id)
        if body is None:
            return Found(ReplyStatus.ENOENTRY, entry_id)
        return Found(ReplyStatus.EOK, entry_id, body, ledger.max_lac)

    def fence(
        self, ledger_id: int, entry_id: int, master_key: bytes | None, done: Callable[[Found], None]
    ) -> None:
        """Refuse ordinary adds from now on, then read; the answer has no LAC beside the entry's own."""
        ledger = self.storage.ledgers.get(ledger_id)
        if master_key is None or (ledger is not None and ledger.master_key != master_key):
            done(Found(ReplyStatus.EUA, entry_id))
            return
        self.storage.change_at_once(ledger_id, master_key, fence)
        self._wake(ledger_id, everybody=True)
        body = self._body(self.storage.ledgers[ledger_id], entry_id)
        if body is None:
            done(Found(ReplyStatus.ENOENTRY, entry_id))
        else:
            self.storage.force(lambda: self.run(lambda: done(Found(ReplyStatus.EOK, entry_id, body))))

    def long_poll(
        self, ledger_id: int, previous_lac: int, timeout_s: float | None, done: Callable[[Found], None]
    ) -> None:
        """Answer when the LAC is beyond `previous_lac`, the ledger is fenced, or the time is over."""
        ledger = self.storage.ledgers.get(ledger_id)
        if ledger is None:
            done(Found(ReplyStatus.ENOLEDGER, LAST_ENTRY))
        elif ledger.max_lac > previous_lac or timeout_s is None:
            done(self._news(ledger_id, previous_lac))
        else:
            waiters = self._waiters.setdefault(ledger_id, [])

            def wake() -> None:
                if waiter not in waiters:
                    return  # news and the end of the time came while the process was stopped
                waiters.remove(waiter)
                waiter.timer.cancel()
                done(self._news(ledger_id, previous_lac))

            waiter = _Waiter(previous_lac, wake, self.later(timeout_s, wake))
            waiters.append(waiter)

    def read_lac(self, ledger_id: int) -> tuple[int, bytes | None, bytes | None]:
        """Status, explicit LAC, last entry; with neither of them ENOENTRY, also for an unknown ledger."""
        ledger = self.storage.ledgers.get(ledger_id)
        last = self._body(ledger, LAST_ENTRY) if ledger is not None else None
        lac = ledger.explicit_lac if ledger is not None else None
        if last is None:
            return (ReplyStatus.ENOENTRY if lac is None else ReplyStatus.EIO), lac, None
        return ReplyStatus.EOK, lac, last

    def entry_ids(self, ledger_id: int) -> list[int] | None:
        """The sorted entries of a ledger; None when it is unknown."""
        ledger = self.storage.ledgers.get(ledger_id)
        return None if ledger is None else sorted(ledger.entries)

    def read_delay_s(self) -> float:
        """How long the next read takes."""
        return self._rng.uniform(*self.read_s)

    def _news(self, ledger_id: int, previous_lac: int) -> Found:
        ledger = self.storage.ledgers[ledger_id]
        if not ledger.entries and ledger.explicit_lac is None:
            return Found(ReplyStatus.ENOENTRY, LAST_ENTRY)
        body = ledger.entries.get(previous_lac + 1) if ledger.max_lac > previous_lac else None
        entry_id = LAST_ENTRY if body is None else previous_lac + 1
        return Found(ReplyStatus.EOK, entry_id, body, ledger.max_lac)

    @staticmethod
    def _body(ledger: StoredLedger, entry_id: int) -> bytes | None:
        wanted = ledger.last_entry_id if entry_id == LAST_ENTRY else entry_id
        return None if wanted is None else ledger.entries.get(wanted)

    def _wake(self, ledger_id: int, *, everybody: bool = False) -> None:
        for waiter in list(self._waiters.get(ledger_id, ())):
            if everybody or self.storage.ledgers[ledger_id].max_lac > waiter.previous_lac:
                waiter.wake()
