"""Running a transaction again when it had bad luck: deadlocks, lost leaders, lost connections.

``Attempts`` decides, for ``herdpy.aio`` too; whoever asks it does the waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from herdpy.backoff import Backoff
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.types import R

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
_LOST = frozenset({"08001", "08006"})
"""The connection was lost, or there was none."""


class Lender(Protocol[R]):
    """A pool of connections."""

    def getconn(self) -> Connection[R]: ...
    def putconn(self, connection: Connection[R]) -> None: ...


class Attempts:
    """How often, and how long, a transaction is tried.

    Args:
        most: so many attempts; None for no limit.
        timeout_s: no new attempt begins after this.
    """

    def __init__(self, most: int | None, timeout_s: float) -> None:
        if most is not None and (not isinstance(most, int) or most < 1):
            raise ProgrammingError(f"attempts is a number of at least 1, not {most!r}", sqlstate="22023")
        self._left = most
        self._until = time.monotonic() + timeout_s
        self._backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=0.5)

    def pause(self, error: Error) -> float:
        """How many seconds to wait before the next attempt; ``error`` is raised when there is to be none."""
        if self._left is not None:
            self._left -= 1
        if (
            not may_run_again(error)
            or self._left == 0
            or time.monotonic() + self._backoff.next_s > self._until
        ):
            raise error
        return self._backoff.pause_s()


def run_transaction(
    where: Connection[R] | Lender[R],
    function: Callable[[Connection[R]], T],
    *,
    attempts: int | None = None,
    timeout_s: float = 60.0,
) -> T:
    """Run ``function(connection)`` as one transaction, and again as long as that may help.

    It is committed when the function returns, and rolled back when it raises. It is run again after an
    error whose outcome is "not done" and that is ``retryable`` (40001, 40P01 and their like) or a lost
    connection; so what the function does besides SQL should be fit to be done twice. What became of a commit
    whose answer was lost is learnt; where it cannot be, 08007 is raised, never tried again.

    Args:
        where: a connection that is in no transaction, or a pool, which lends one for each attempt.
        attempts: so many at most; without, no limit.
        timeout_s: no new attempt begins after this.

    Returns:
        What the function returned when its work was committed.
    """
    tries = Attempts(attempts, timeout_s)
    while True:
        try:
            if isinstance(where, Connection):
                return _once(where, function)
            connection = where.getconn()
            try:
                return _once(connection, function)
            finally:
                where.putconn(connection)
        except Error as error:
            if isinstance(where, Connection) and where.closed:
                raise
            pause_s = tries.pause(error)
        time.sleep(pause_s)


def may_run_again(error: Error) -> bool:
    """Whether nothing of a transaction was done, and the same may well succeed when it is run again."""
    return error.outcome == "not done" and (error.retryable or error.sqlstate in _LOST)


def begins_outside(connection: Any) -> None:
    """ProgrammingError when a connection is in a transaction already."""
    if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
        raise ProgrammingError("run_transaction begins outside a transaction", sqlstate="25001")


def _once(connection: Connection[R], function: Callable[[Connection[R]], T]) -> T:
    begins_outside(connection)
    if connection.autocommit:
        with connection.transaction():
            return function(connection)
    try:
        answer = function(connection)
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise
    connection.commit()
    return answer
