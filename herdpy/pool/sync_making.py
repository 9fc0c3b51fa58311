"""How a pool for threads makes connections, judges and gives them up. Below ``sync``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic

from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.rows import R
from herdpy.pool import settings
from herdpy.pool.core import Core, Held, PoolRequest
from herdpy.pool.lent import Lent
from herdpy.pool.settings import PoolSettings, logger


class Making(Generic[R]):
    """The connections of a pool, one by one. Its state changes under ``_lock``, where nothing waits."""

    def __init__(
        self,
        wanted: PoolSettings,
        lent: Lent[Connection[R]],
        *,
        check: Callable[[Connection[R]], object] | None,
        configure: Callable[[Connection[R]], object] | None,
        reset: Callable[[Connection[R]], object] | None,
    ) -> None:
        self._settings = wanted
        self._core: Core[Connection[R]] = wanted.core()
        self._lent = lent
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # there are fewer connections
        self._check, self._configure, self._reset = check, configure, reset

    # Making.

    def _make(self, deadline: float) -> Held[Connection[R]]:
        """Make one that there is leave for. While no server leads, it is tried again until the deadline."""
        pause_s = settings.PAUSE_S
        try:
            while True:
                try:
                    connection = self._connect(deadline - time.monotonic())
                    break
                except Error as error:
                    may_pass = self._settings.may_pass(error) and not self._core.is_closed
                    if not may_pass or time.monotonic() + pause_s > deadline:
                        raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, settings.LONGEST_PAUSE_S)
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
            raise settings.closed()
        return held

    def _connect(self, left_s: float) -> Connection[R]:
        connection: Connection[R] = self._settings.connect(left_s)
        try:
            if self._configure is not None:
                self._configure(connection)
            if settings.is_open(connection.info.transaction_status):
                raise settings.left_open("configure")
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
        if settings.is_open(status):
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
