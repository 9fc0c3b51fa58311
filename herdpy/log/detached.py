"""A log that another process writes: where it is, and its ledgers, read without any server.

Above ``bookkeeper``, ``staging`` and ``published``; imported by itself. A LogAddress can be sent to other
processes (a job's tasks, a backup's process); ``opened`` gives ledgers of BookKeeper or of a directory's
files. Calls block, for threads that have nothing else to do. Nothing is fenced or written, and nothing beyond
the last add confirmed is given.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from herdpy.bookkeeper import BookKeeper, BookKeeperError, ClientSettings
from herdpy.log import (
    ChainError,
    CorruptLedgerError,
    LogClosedError,
    LogEntry,
    LogTrimmedError,
    LogUnavailableError,
)
from herdpy.log.bookkeeper import FollowedLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.log.bookkeeper.walk import walk
from herdpy.log.file_ledger import BLOCK_BYTES, NOTHING, Confirmed, FileLedgerReader, ledger_path
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerListState, position_before
from herdpy.log.log_cursor import LedgerPlaces, LogCursor
from herdpy.log.lsn import LSN
from herdpy.log.records import StagedPart
from herdpy.log.staging import read_part
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

if TYPE_CHECKING:
    from herdpy.log.published import SnapshotRef


@dataclass(frozen=True, slots=True)
class LogAddress:
    """A log in ledgers of BookKeeper, or in the files of a directory. It can be pickled.

    Attributes:
        tablespace: its name, under which snapshots are published.
        log_id: the log's own identity (hex); empty: take whatever log is there.
        zookeeper: "host:port,host:port", empty where the log is in files.
        ledgers_root: the znode under which BookKeeper keeps its metadata.
        list_path: the znode with the ledger list.
        password: of the ledgers.
        directory: of the log's files (``log`` in a database's directory), empty where it is in BookKeeper.
        snapshot_url: where snapshots of the tablespace are published, any URL of fsspec; empty: nowhere.
        zookeeper_access: how ZooKeeper is talked to.
    """

    tablespace: str
    log_id: str = ""
    zookeeper: str = ""
    ledgers_root: str = "/ledgers"
    list_path: str = ""
    password: bytes = field(default=b"", repr=False)
    directory: str = ""
    snapshot_url: str = ""
    zookeeper_access: ZooKeeperAccess = IN_THE_CLEAR

    def __post_init__(self) -> None:
        if bool(self.directory) == bool(self.zookeeper and self.list_path):
            raise ValueError(
                "a log is either in a directory or in ledgers that ZooKeeper and a list's path lead to"
            )

    @classmethod
    def of_database(
        cls, path: str | os.PathLike[str], *, tablespace: str = "herdpy", snapshot_url: str = ""
    ) -> LogAddress:
        """The log that the embedded database in the directory ``path`` has now; nameless where there is none.

        Raises CorruptLedgerError where its list is damaged.
        """
        log = os.path.join(path, "log")
        state = FileLedgerList(log, OsFiles()).read()
        log_id = state.log_id if state is not None else ""
        return cls(tablespace, log_id, directory=log, snapshot_url=snapshot_url)

    def newest_snapshot(self, upto: LSN, time_us: int | None = None) -> SnapshotRef | None:
        """The newest published snapshot of this log that holds nothing after ``upto`` and ``time_us``.

        None: there is none, or nothing is published. Raises as ``herdpy.log.published.newest``.
        """
        if not self.snapshot_url:
            return None
        from herdpy.log.published import newest  # it needs pyarrow, and most processes have no use for it

        return newest(self.snapshot_url, self.tablespace, upto, time_us, self.log_id or None)

    def oldest_snapshot(self, after: LSN, upto: LSN) -> SnapshotRef | None:
        """The oldest published snapshot of this log from ``after`` to ``upto``; None as ``newest_snapshot``.

        Raises DamagedSnapshotError, PlaceError.
        """
        from herdpy.log.published import load, snapshots

        found = snapshots(self.snapshot_url, self.tablespace) if self.snapshot_url else []
        between = (ref for ref in reversed(found) if after <= ref.lsn <= upto)
        return next((ref for ref in between if self.log_id in ("", load(ref).log_id)), None)

    def __str__(self) -> str:
        where = self.directory or f"zk://{self.zookeeper}{self.list_path}"
        return f"the log of tablespace {self.tablespace} ({where})"


T = TypeVar("T")
_AT_ONCE_BYTES = 4 << 20
_HANDFULS_AHEAD = 2


class LoopThread:
    """The loop. Its methods are for other threads than its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncIterator[T], size: Callable[[T], int]) -> Generator[T, None, None]:
        """What ``source`` gives; it is closed at the end, also when the taker stops early.

        Args:
            size: bytes of an item, by which what is fetched ahead is bounded.
        """
        pump = self.run(_Pump.start(source, size))
        try:
            while (items := pump.out.get()) is not None:
                if isinstance(items, BaseException):
                    raise items
                self._loop.call_soon_threadsafe(pump.room.release)
                yield from items
        finally:
            self.run(pump.stop())

    def close(self) -> None:
        """End the loop; nothing may run on it any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Pump(Generic[T]):
    """A task that takes items out of a generator and puts handfuls of them where a thread waits."""

    task: asyncio.Task[None]

    def __init__(self, source: AsyncIterator[T], size: Callable[[T], int]) -> None:
        self._source, self._size = source, size
        self.out: SimpleQueue[list[T] | BaseException | None] = SimpleQueue()
        self.room = asyncio.Semaphore(_HANDFULS_AHEAD)

    @classmethod
    async def start(cls, source: AsyncIterator[T], size: Callable[[T], int]) -> _Pump[T]:
        pump = cls(source, size)
        pump.task = asyncio.create_task(pump._run())
        return pump

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    async def _run(self) -> None:
        items: list[T] = []
        total = 0
        try:
            async for item in self._source:
                items.append(item)
                total += self._size(item)
                if total >= _AT_ONCE_BYTES:
                    await self._put(items)
                    items, total = [], 0
        except BaseException as error:  # noqa: BLE001 - who waits raises it
            self.out.put(items)  # what came before the error comes before it
            self.out.put(error)
            return
        await self._put(items)
        self.out.put(None)

    async def _put(self, items: list[T]) -> None:
        await self.room.acquire()
        self.out.put(items)


_IDLE_S = 30.0
_LEDGER_PATIENCE_S = 30.0
_ZOOKEEPER_TIMEOUT_S = 10.0


class BookieLedgers:
    """One log, followed. Use ``opened``."""

    def __init__(self, address: LogAddress, shared: _Shared, log: FollowedLog) -> None:
        self._address, self._shared, self._log = address, shared, log

    @classmethod
    @contextmanager
    def opened(cls, address: LogAddress) -> Generator[BookieLedgers, None, None]:
        """The log at the address; LogUnavailableError when ZooKeeper does not answer."""
        with _client(address) as shared:
            settings = LedgerLogSettings(
                tablespace=address.tablespace, password=address.password, read_patience_s=_LEDGER_PATIENCE_S
            )
            bk = shared.bk
            log = FollowedLog(bk, ZnodeLedgerList(bk.znodes, address.list_path), settings)
            try:
                yield cls(address, shared, log)
            finally:
                shared.loop.run(log.close())

    def state(self) -> LedgerListState:
        return self._shared.loop.run(self._log.refresh())

    def confirmed(self) -> LSN:
        return self._shared.loop.run(self._log.position())

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        return self._shared.loop.iterate(_entries(self._log, after, upto), lambda entry: entry.size)

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        pieces = read_part(self._shared.bk, self._address.password, part, patience_s=_LEDGER_PATIENCE_S)
        return self._shared.loop.iterate(pieces, len)


async def _entries(log: FollowedLog, after: LSN, upto: LSN) -> AsyncGenerator[LogEntry, None]:
    async with aclosing(walk(log, after, upto)) as runs:
        async for run in runs:
            for _, entry in run:
                yield entry


class _Shared:
    """A client on its loop, and how many use it."""

    def __init__(self, zookeeper: str, ledgers_root: str, access: ZooKeeperAccess) -> None:
        self.loop = LoopThread("herdpy-log-reader")
        self.uses = 0
        self.idle: threading.Timer | None = None
        try:
            self.bk = self.loop.run(_connected(zookeeper, ledgers_root, access))
        except BaseException:
            self.loop.close()
            raise

    def close(self) -> None:
        try:
            self.loop.run(self.bk.close())
        finally:
            self.loop.close()


async def _connected(zookeeper: str, ledgers_root: str, access: ZooKeeperAccess) -> BookKeeper:
    settings = ClientSettings(zookeeper_timeout_s=_ZOOKEEPER_TIMEOUT_S, zookeeper_access=access)
    bk = BookKeeper(f"zk://{zookeeper}{ledgers_root}", settings=settings)
    try:
        await bk.open()
    except BookKeeperError as error:
        raise LogUnavailableError(f"BookKeeper at zk://{zookeeper}{ledgers_root}: {error}") from error
    return bk


_ClientKey = tuple[str, str, ZooKeeperAccess]
_clients: dict[_ClientKey, _Shared] = {}
_guard = threading.Lock()
_inherited: list[object] = []


@contextmanager
def _client(address: LogAddress) -> Generator[_Shared, None, None]:
    """The process's client of a cluster."""
    key = (address.zookeeper, address.ledgers_root, address.zookeeper_access)
    with _guard:
        shared = _clients.get(key)
        if shared is None:
            shared = _clients[key] = _Shared(*key)
        shared.uses += 1
        if shared.idle is not None:
            shared.idle.cancel()
            shared.idle = None
    try:
        yield shared
    finally:
        with _guard:
            shared.uses -= 1
            if not shared.uses and _clients.get(key) is shared:
                shared.idle = threading.Timer(_IDLE_S, _close_if_idle, (key, shared))
                shared.idle.daemon = True
                shared.idle.start()


def _close_if_idle(key: _ClientKey, shared: _Shared) -> None:
    with _guard:
        if shared.uses or _clients.get(key) is not shared:
            return
        del _clients[key]
    shared.close()


def close_clients() -> None:
    """Close the clients that nobody uses, at once; at the process's end it happens by itself."""
    with _guard:
        unused = [(key, shared) for key, shared in _clients.items() if not shared.uses]
        for key, shared in unused:
            del _clients[key]
            if shared.idle is not None:
                shared.idle.cancel()
    for _, shared in unused:
        shared.close()


def _in_child() -> None:
    """A forked worker has none of the threads: what it inherited is left alone, and it connects itself."""
    global _clients, _guard
    _inherited.append(_clients)
    _clients, _guard = {}, threading.Lock()


atexit.register(close_clients)
os.register_at_fork(after_in_child=_in_child)


_file_places: dict[tuple[str, str], LedgerPlaces] = {}
"""By directory and log: a stream opens the log again and again, and goes on where it was."""


class DirectoryLedgers:
    """The ledgers of a directory as they were when ``confirmed`` was asked last, or when this was made."""

    def __init__(self, address: LogAddress) -> None:
        """Raises CorruptLedgerError, LogClosedError (there is no log)."""
        self._address = address
        self._files = OsFiles()
        self._list = FileLedgerList(address.directory, self._files)
        self._look()
        key = (address.directory, self._state.log_id)
        self._places = _file_places.setdefault(key, LedgerPlaces())

    def _look(self) -> None:
        while True:
            self._state = self._read_list()
            try:
                self._confirmed = self._witnessed(self._state)
                return
            except CorruptLedgerError:
                # Closed, or trimmed, between the look at the list and at the file?
                if self._read_list().version == self._state.version:
                    raise

    def state(self) -> LedgerListState:
        return self._state

    def confirmed(self) -> LSN:
        self._look()
        return self._confirmed.lac

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        cursor = LogCursor(self._files, self._address.directory, self._view, after, self._places)
        try:
            while (entry := cursor.next(upto)) is not None:
                yield entry
        except CorruptLedgerError as error:
            base = self._read_list().base
            if error.ledger_id is not None and error.ledger_id <= base.ledger_id:
                raise LogTrimmedError(
                    f"the entries after {after} were trimmed meanwhile, the log begins after {base}"
                ) from error
            raise
        finally:
            cursor.close()

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        path = ledger_path(self._address.directory, part.ledger_id)
        raise CorruptLedgerError(part.ledger_id, None, path, "a log in files stages no rows in ledgers")

    def _view(self) -> tuple[Confirmed, LedgerListState]:
        return self._confirmed, self._state

    def _read_list(self) -> LedgerListState:
        state = self._list.read()
        if state is None:
            raise LogClosedError(f"{self._address} is not there: there is no file {self._list.path}")
        return state

    def _witnessed(self, state: LedgerListState) -> Confirmed:
        """How far the ledger that is open may be read."""
        end, _ = state.settled_end
        if not state.ledgers or state.ledgers[-1].closed:
            return NOTHING._replace(lac=end)
        ledger_id = state.ledgers[-1].ledger_id
        path = ledger_path(self._address.directory, ledger_id)
        reader = FileLedgerReader(self._files, path, ledger_id, state.log_id)
        try:
            slot = reader.slot
        finally:
            reader.close()
        if slot is None or slot.entry_id < 0:
            return Confirmed(ledger_id, BLOCK_BYTES, end)
        return Confirmed(ledger_id, slot.end, LSN(ledger_id, slot.entry_id))


_GLANCE_S = 0.02
_CONFIRM_PATIENCE_S = 15.0


class LogLedgers(Protocol):
    """An open log, for reading. Errors are those of ``herdpy.log``."""

    def state(self) -> LedgerListState:
        """The ledger list as it is now."""

    def confirmed(self) -> LSN:
        """The newest entry that is confirmed (the LAC); the base of a log without entries."""

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        """The entries after ``after`` to ``upto``, which must be known to be confirmed; each is checked
        against the one before it."""

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        """The bytes of a load's staged rows, in pieces; only known to be right when all were given."""


@contextmanager
def opened(address: LogAddress) -> Generator[LogLedgers, None, None]:
    """The log at an address, closed again afterwards.

    Raises:
        LogUnavailableError: ZooKeeper or the bookies did not answer in time.
        LogClosedError: there is no log, or another one than the address names.
    """
    if address.directory:
        files = DirectoryLedgers(address)
        _check_identity(address, files)
        yield files
        return
    with BookieLedgers.opened(address) as bookies:
        _check_identity(address, bookies)
        yield bookies


def confirmed_from(ledgers: LogLedgers, least: LSN) -> LSN:
    """The newest entry that is confirmed, once that is ``least`` or later.

    A leader knows that an entry is durable before readers do: they learn it with its next entry, or on a
    cadence when it is idle. Whoever knows of ``least`` from a server waits for that here.

    Raises LogUnavailableError when the log's readers do not learn it within 15 s.
    """
    late_s = time.monotonic() + _CONFIRM_PATIENCE_S
    while (lsn := ledgers.confirmed()) < least:
        if time.monotonic() > late_s:
            raise LogUnavailableError(
                f"a server has applied {least}, and {_CONFIRM_PATIENCE_S:g} s later only {lsn} is confirmed"
            )
        time.sleep(_GLANCE_S)  # another process writes it: there is nothing to await
    return lsn


def _check_identity(address: LogAddress, ledgers: LogLedgers) -> None:
    state = ledgers.state()
    if not state.version:
        raise LogClosedError(f"{address} is not there: it has no ledger list")
    if address.log_id and state.log_id != address.log_id:
        raise LogClosedError(
            f"{address} is another log than the one requested ({state.log_id}, not {address.log_id}):"
            " the tablespace was dropped and made again"
        )


def predecessor(state: LedgerListState, lsn: LSN) -> LSN:
    """The position before an entry of the log; ChainError when its ledger is not in the list."""
    before = position_before(state, lsn)
    if before is not None:
        return before
    raise ChainError(f"{lsn} is not in the log: its ledger is not in the list")
