"""A pool of connections for threads. Above ``core``, whose rules it calls under its lock.

Who asks makes the connection that he may make, in his own thread. One more thread (``PoolKeeper``) closes
what has expired and keeps ``min_size`` connections; it runs from the first use until the pool is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from herdpy.backoff import Backoff
from herdpy.dbapi import link
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.types import R, RowFactory, tuple_row
from herdpy.pool import core
from herdpy.pool.core import Core, Held, Lent, PoolEnd, PoolRequest, PoolSettings, PoolStats, logger

Tend = Callable[[], float | None]
"""Looks after the pool; in how many seconds to look again (infinity: when called), None for never."""


class PoolKeeper:
    """A thread that calls a method of the pool, when it is time or when somebody asks for it.

    Attributes:
        nudge: have it look now; may be called anywhere, also while an object is collected.
    """

    def __init__(self, tend: weakref.WeakMethod[Tend]) -> None:
        nudges: SimpleQueue[None] = SimpleQueue()
        self.nudge: Callable[[], None] = lambda: nudges.put(None)
        self._thread = threading.Thread(target=_keep, args=(tend, nudges), name="herdpy-pool", daemon=True)

    def start(self) -> None:
        """Begin, with a look at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Wait for its end, which the pool has in store when it is looked at next."""
        self.nudge()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)


def _keep(tend: weakref.WeakMethod[Tend], nudges: SimpleQueue[None]) -> None:
    while True:
        method = tend()
        pause_s = None if method is None else method()
        del method
        if pause_s is None:
            return
        with contextlib.suppress(Empty):
            nudges.get(timeout=None if math.isinf(pause_s) else max(pause_s, 0.001))


_pools: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


class Pool(PoolEnd[Connection[R]]):
    """Connections that are made once and lent many times; for any number of threads.

    Nothing is connected until a connection is asked for, or :meth:`open` is called.

    Args:
        url: as for :func:`herdpy.connect`.
        min_size: how many connections there are at least, once the pool is used.
        max_size: how many there are at most.
        timeout_s: how long to wait for a connection, unless the request gives a time.
        max_idle_s: one that nobody has used for so long is closed, while there are more than ``min_size``.
        max_lifetime_s: one that is so old (or up to a tenth less) is closed when nobody uses it.
        check: called with a connection before it is lent again; when it raises, another one is taken.
        configure: called with each new connection.
        reset: called with each connection that comes back, outside a transaction; when it raises, that is
            logged, and the connection is closed.
        autocommit: as for :func:`herdpy.connect`.
        row_factory: as for :func:`herdpy.connect`.
        options: as for :func:`herdpy.connect`.

    Raises:
        ProgrammingError: 22023, sizes or times that cannot be.
        InterfaceError: no HerdPy URL.
    """

    _SHOWN_AS = "herdpy.Pool"

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        min_size: int = 1,
        max_size: int = 10,
        *,
        timeout_s: float = 30.0,
        max_idle_s: float = 600.0,
        max_lifetime_s: float = 3600.0,
        check: Callable[[Connection[R]], object] | None = None,
        configure: Callable[[Connection[R]], object] | None = None,
        reset: Callable[[Connection[R]], object] | None = None,
        autocommit: bool = False,
        row_factory: RowFactory[R] | None = None,
        **options: Any,
    ) -> None:
        place = core.pool_address(url, {**options, "autocommit": autocommit or None})
        factory: RowFactory[Any] = row_factory or tuple_row
        keeper = PoolKeeper(weakref.WeakMethod(self._tend))
        self._settings = PoolSettings(
            place, factory, min_size, max_size, timeout_s, max_idle_s, max_lifetime_s
        )
        self._core: Core[Connection[R]] = self._settings.core()
        self._lent: Lent[Connection[R]] = Lent(keeper.nudge)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # there are fewer connections
        self._check, self._configure, self._reset = check, configure, reset
        self._keeper = keeper
        self._is_kept = False
        self._look_at = math.inf
        self._pid = os.getpid()
        _pools.add(self)

    # Lending.

    @contextlib.contextmanager
    def connection(self, timeout_s: float | None = None) -> Iterator[Connection[R]]:
        """``with pool.connection() as conn:`` lends one for a block.

        The block's end commits, an exception rolls back; the connection goes back to the pool. Raises what
        :meth:`getconn` and ``commit()`` raise.
        """
        connection = self.getconn(timeout_s)
        try:
            yield connection
            if not connection.closed:
                connection.commit()
        finally:
            self._give_back(connection, is_expected=True)

    def getconn(self, timeout_s: float | None = None) -> Connection[R]:
        """A connection, which must be given to :meth:`putconn`. Who asks first is served first.

        Raises:
            PoolTimeout: 53300, none came back in time.
            PoolClosed: 08003.
            OperationalError: none could be made: 08001 no server leads by then, and its like.
        """
        self._refuse_fork()
        deadline = time.monotonic() + self._settings.patience(timeout_s)
        while True:
            held = self._take(deadline)
            if self._is_fit(held):
                return held.connection

    def putconn(self, connection: Connection[R]) -> None:
        """Give a connection back. What it has not committed is rolled back."""
        self._refuse_fork()
        self._give_back(connection, is_expected=False)

    def _take(self, deadline: float) -> Held[Connection[R]]:
        woken = threading.Event()
        with self._lock:
            self._settle()
            ask: PoolRequest[Connection[R]] = self._core.ask(time.monotonic(), woken.set)
        try:
            if ask.is_in_line:
                self._start_keeper()
            while ask.is_in_line and not woken.wait(max(0.0, deadline - time.monotonic())):
                with self._lock:
                    if self._core.leave(ask, time.monotonic()):
                        raise self._settings.too_late(len(self._core.line))
        except BaseException:  # such as Ctrl-C: what he got meanwhile goes to the next one
            self._decline(ask)
            raise
        if ask.is_refused:
            raise core.closed_error()
        held = ask.held or self._make(deadline)
        with self._lock:
            self._settle()
            self._lent.add(held)
        return held

    def _give_back(self, connection: Connection[R], *, is_expected: bool) -> None:
        """Make a connection fit for the next one, or close it.

        ``is_expected``: a block has ended, with an exception where a transaction is open.
        """
        with self._lock:
            self._settle()
            if connection not in self._lent:
                raise core.foreign_error()
        if not self._is_reset(connection, is_expected=is_expected):
            self._discard(connection)
            return
        with self._lock:
            held = self._lent.remove(connection)
            kept = self._core.put(held, time.monotonic())
            is_sooner = kept and self._core.next_look() < self._look_at
        if not kept:
            self._end(connection)
        elif not self._is_kept:
            self._start_keeper()
        elif is_sooner:
            self._keeper.nudge()

    # Looking after it.

    def open(self, timeout_s: float | None = None) -> None:
        """Make ``min_size`` connections now (or one), and say so when one cannot be made, as getconn does."""
        deadline = time.monotonic() + self._settings.patience(timeout_s)
        with contextlib.ExitStack() as lent:
            for _ in range(max(1, self._settings.min_size)):
                lent.callback(self.putconn, self.getconn(max(0.0, deadline - time.monotonic())))

    def stats(self) -> PoolStats:
        """How many connections there are, and what was done with them."""
        with self._lock:
            self._settle()
            return self._core.stats()

    def _start_keeper(self) -> None:
        with self._lock:
            is_kept, self._is_kept = self._is_kept or self._core.is_closed, True
        if not is_kept:
            self._keeper.start()

    def _tend(self) -> float | None:
        """Close what has expired, make what is missing; in the keeper's thread."""
        with self._lock:
            self._settle()
            gone = self._core.expired(time.monotonic())
        for held in gone:
            self._close(held.connection)
        again_s = math.inf if self._fill() else core.FILL_PAUSE_S
        with self._lock:
            if self._core.is_closed:
                return None
            now = time.monotonic()
            self._look_at = min(self._core.next_look(), now + again_s)
            return max(0.0, self._look_at - now)

    # Making.

    def _make(self, deadline: float) -> Held[Connection[R]]:
        """Make one that there is leave for. While no server leads, it is tried again until the deadline."""
        backoff = Backoff(core.PAUSE_S, core.LONGEST_PAUSE_S)
        try:
            while True:
                try:
                    connection = self._connect(deadline - time.monotonic())
                    break
                except Error as error:
                    may_pass = self._settings.may_pass(error) and not self._core.is_closed
                    if not may_pass or time.monotonic() + backoff.next_s > deadline:
                        raise
                time.sleep(backoff.pause_s())
        except BaseException:
            with self._lock:
                self._core.counts.failed += 1
                self._lose(lent=False)
            raise
        with self._lock:
            held = self._core.made(connection, time.monotonic())
            is_closed = self._core.is_closed
        if is_closed:
            self._end(connection)
            raise core.closed_error()
        return held

    def _connect(self, left_s: float) -> Connection[R]:
        connection: Connection[R] = self._settings.connect(left_s)
        try:
            if self._configure is not None:
                self._configure(connection)
            if core.is_open(connection.info.transaction_status):
                raise core.left_open_error("configure")
        except BaseException:
            connection.close()
            raise
        return connection

    def _fill(self) -> bool:
        """Make as many as there should be at least. False when one could not be made."""
        while True:
            with self._lock:
                if not self._core.may_fill():
                    return True
            try:
                connection = self._connect(self._settings.timeout_s)
            except Exception as error:  # noqa: BLE001 - nobody has asked for it; who asks will hear
                logger.warning("a connection could not be made: %s", error)
                with self._lock:
                    self._core.counts.failed += 1
                    self._lose(lent=False)
                return False
            with self._lock:
                now = time.monotonic()
                kept = self._core.put(self._core.made(connection, now), now)
            if not kept:
                self._end(connection)

    def _decline(self, ask: PoolRequest[Connection[R]]) -> None:
        """Who asked does not want it any more."""
        refused: Connection[R] | None = None
        with self._lock:
            now = time.monotonic()
            if ask.is_in_line:
                self._core.leave(ask, now)
            elif ask.may_make:
                self._lose(lent=False)
            elif ask.held is not None and not self._core.put(ask.held, now):
                refused = ask.held.connection
        if refused is not None:
            self._end(refused)

    # Judging.

    def _is_fit(self, held: Held[Connection[R]]) -> bool:
        """Whether a connection can be lent. Otherwise it is given up."""
        connection = held.connection
        fit = not connection.closed
        if fit and self._check is not None and not held.is_new:
            try:
                self._check(connection)
                fit = self._is_clean(connection)
            except Error as error:
                logger.info("a connection did not pass its check: %s", error)
                fit = False
            except BaseException:
                self._discard(connection)
                raise
        if not fit:
            self._discard(connection)
        return fit

    def _is_reset(self, connection: Connection[R], *, is_expected: bool) -> bool:
        """Whether a connection that came back can be lent again."""
        try:
            fit = not connection.closed and self._is_clean(connection, is_counted=not is_expected)
            if fit and self._reset is not None:
                self._reset(connection)
                fit = self._is_clean(connection)
        except Exception as error:  # noqa: BLE001 - his who gave it back it is no longer
            logger.warning("a connection that came back is closed", exc_info=error)
            return False
        except BaseException:
            self._discard(connection)
            raise
        return fit

    def _is_clean(self, connection: Connection[R], *, is_counted: bool = False) -> bool:
        """Roll back what is open, and undo what its user changed; False when it is of no use any more."""
        status = connection.info.transaction_status
        if core.is_open(status):
            with self._lock:
                self._core.counts.rolled_back += is_counted
            connection.rollback()
            status = connection.info.transaction_status
        if status != TransactionStatus.IDLE:
            return False
        if connection.autocommit != self._settings.address.autocommit:
            connection.autocommit = self._settings.address.autocommit
        connection.row_factory = self._settings.row_factory
        return True

    # Giving up.

    def _discard(self, connection: Connection[R]) -> None:
        """It is of no use: the next in line makes another."""
        with self._lock:
            self._lent.remove(connection)
            self._core.counts.broken += 1
        self._end(connection)

    def _end(self, connection: Connection[R]) -> None:
        """Close one that was lent."""
        try:
            self._close(connection)
        finally:
            with self._lock:
                self._lose(lent=True)

    def _close(self, connection: Connection[Any]) -> None:
        try:
            connection.close()
        except Error as error:
            logger.warning("a connection could not be closed well: %s", error)

    def _settle(self) -> None:
        """Connections that were forgotten are no more; under the lock."""
        if forgotten := self._lent.forgotten():
            self._core.settle(forgotten, time.monotonic())
            self._changed.notify_all()

    def _lose(self, *, lent: bool) -> None:
        """One is no more; under the lock."""
        self._core.lost(time.monotonic(), lent=lent)
        self._changed.notify_all()

    # The end.

    def close(self, timeout_s: float = core.CLOSE_PATIENCE_S) -> int:
        """Lend no more, and close the connections; those that are lent when they come back.

        Waits for these, no longer than ``timeout_s``. Who waits for a connection gets PoolClosed.

        Returns:
            How many were still lent, or being made, then.
        """
        deadline = time.monotonic() + core.seconds_of("timeout_s", timeout_s)
        if self._is_forked:
            return 0
        with self._lock:
            idle = self._core.close()
        for held in idle:
            self._close(held.connection)
        with self._lock:
            self._settle()
            while self._core.size and (left_s := deadline - time.monotonic()) > 0:
                self._changed.wait(left_s)
                self._settle()
            still = self._core.size
        if self._is_kept:
            self._keeper.stop(max(1.0, deadline - time.monotonic()))
        _pools.discard(self)
        return still

    def __enter__(self) -> Self:
        self._refuse_fork()
        self._refuse_closed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warn_of(self.close())

    def _abandon(self, idle: list[Connection[R]]) -> None:
        self._keeper.nudge()
        for connection in idle:
            link.abandon(connection)


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close(0)


atexit.register(_at_exit)
