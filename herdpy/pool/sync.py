"""A pool of connections for threads: its face. Above ``sync_making``.

Who asks makes the connection that he may make, in his own thread. One more thread (``keeper``) closes what
has expired and keeps ``min_size`` connections; it runs from the first use until the pool is closed.
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
from types import TracebackType
from typing import Any, Self

from herdpy.dbapi import lifetime
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.rows import R, RowFactory, tuple_row
from herdpy.pool import settings
from herdpy.pool.core import Held, PoolRequest, PoolStats
from herdpy.pool.ending import Ending
from herdpy.pool.keeper import PoolKeeper
from herdpy.pool.lent import Lent
from herdpy.pool.settings import PoolSettings
from herdpy.pool.sync_making import Making

_pools: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


class Pool(Making[R], Ending[Connection[R]]):
    """Connections that are made once and lent many times; for any number of threads.

    Nothing is connected until a connection is asked for, or :meth:`open` is called.

    Args:
        url: as for :func:`herdpy.connect`.
        min_size, max_size: how many connections there are at least, once it is used, and at most.
        timeout_s: how long to wait for a connection, unless told when it is asked for.
        max_idle_s: one that nobody has used for so long is closed, while there are more than ``min_size``.
        max_lifetime_s: one that is so old (or up to a tenth less) is closed when nobody uses it.
        check: called with a connection before it is lent again; when it raises, another one is taken.
        configure: called with each new connection.
        reset: called with each connection that comes back, outside a transaction; when it raises, that is
            logged, and the connection is closed.
        autocommit, row_factory, options: as for :func:`herdpy.connect`.

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
        place = settings.address(url, {**options, "autocommit": autocommit or None})
        factory: RowFactory[Any] = row_factory or tuple_row
        keeper = PoolKeeper(weakref.WeakMethod(self._tend))
        super().__init__(
            PoolSettings(place, factory, min_size, max_size, timeout_s, max_idle_s, max_lifetime_s),
            Lent(keeper.nudge),
            check=check,
            configure=configure,
            reset=reset,
        )
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
            raise settings.closed()
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
                raise settings.foreign()
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
        again_s = math.inf if self._fill() else settings.FILL_PAUSE_S
        with self._lock:
            if self._core.is_closed:
                return None
            now = time.monotonic()
            self._look_at = min(self._core.next_look(), now + again_s)
            return max(0.0, self._look_at - now)

    # The end.

    def close(self, timeout_s: float = settings.CLOSE_PATIENCE_S) -> int:
        """Lend no more, and close the connections; those that are lent when they come back.

        Waits for these, no longer than ``timeout_s``. Who waits for a connection gets PoolClosed.

        Returns:
            How many were still lent, or being made, then.
        """
        deadline = time.monotonic() + settings.seconds("timeout_s", timeout_s)
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
        self._tell_of(self.close())

    def _abandon(self, idle: list[Connection[R]]) -> None:
        self._keeper.nudge()
        for connection in idle:
            lifetime.abandon(connection)


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close(0)


atexit.register(_at_exit)
