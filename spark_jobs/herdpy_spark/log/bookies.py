"""A log in ledgers of BookKeeper, read from the bookies themselves. Nothing is fenced, nothing written.

One client serves all readers of the same cluster in this process (a Python worker of Spark reads partition
after partition) and is closed when it has not been used for a while.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager

from herdpy.bookkeeper import BookKeeper, BookKeeperError, ClientSettings
from herdpy.log import LSN, LogEntry, LogUnavailableError
from herdpy.log.bookkeeper import FollowedLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.log.bookkeeper.walk import walk
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.records import StagedPart
from herdpy.log.staging import read_part
from herdpy_spark.log.address import LogAddress
from herdpy_spark.log.loop import LoopThread

_IDLE_S = 30.0
_PATIENCE_S = 30.0
_ZOOKEEPER_TIMEOUT_S = 10.0


class BookieLedgers:
    """One log, followed. Use ``opened``."""

    def __init__(self, address: LogAddress, shared: _Shared, log: FollowedLog) -> None:
        self._address, self._shared, self._log = address, shared, log

    @classmethod
    @contextmanager
    def opened(cls, address: LogAddress) -> Generator[BookieLedgers, None, None]:
        """The log at the address; LogUnavailableError when ZooKeeper does not answer."""
        with _client(address.zookeeper, address.ledgers_root) as shared:
            settings = LedgerLogSettings(
                tablespace=address.tablespace, password=address.password, read_patience_s=_PATIENCE_S
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
        pieces = read_part(self._shared.bk, self._address.password, part, patience_s=_PATIENCE_S)
        return self._shared.loop.iterate(pieces, len)


async def _entries(log: FollowedLog, after: LSN, upto: LSN) -> AsyncGenerator[LogEntry, None]:
    async with aclosing(walk(log, after, upto)) as entries:
        async for _, entry in entries:
            yield entry


class _Shared:
    """A client on its loop, and how many use it."""

    def __init__(self, zookeeper: str, ledgers_root: str) -> None:
        self.loop = LoopThread("herdpy-log-reader")
        self.uses = 0
        self.idle: threading.Timer | None = None
        try:
            self.bk = self.loop.run(_connected(zookeeper, ledgers_root))
        except BaseException:
            self.loop.close()
            raise

    def close(self) -> None:
        try:
            self.loop.run(self.bk.close())
        finally:
            self.loop.close()


async def _connected(zookeeper: str, ledgers_root: str) -> BookKeeper:
    settings = ClientSettings(zookeeper_timeout_s=_ZOOKEEPER_TIMEOUT_S)
    bk = BookKeeper(f"zk://{zookeeper}{ledgers_root}", settings=settings)
    try:
        await bk.open()
    except BookKeeperError as error:
        raise LogUnavailableError(f"BookKeeper at zk://{zookeeper}{ledgers_root}: {error}") from error
    return bk


_clients: dict[tuple[str, str], _Shared] = {}
_guard = threading.Lock()
_inherited: list[object] = []


@contextmanager
def _client(zookeeper: str, ledgers_root: str) -> Generator[_Shared, None, None]:
    """The process's client of a cluster."""
    key = (zookeeper, ledgers_root)
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


def _close_if_idle(key: tuple[str, str], shared: _Shared) -> None:
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
