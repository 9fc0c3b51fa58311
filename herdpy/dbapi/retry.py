"""Running a transaction again when it had bad luck: deadlocks, lost leaders, lost connections."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, ProgrammingError
from herdpy.dbapi.link import TransactionStatus

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0


def run_transaction(
    connection: Connection, function: Callable[[Connection], T], *, timeout_s: float = 60.0
) -> T:
    """Run ``function(connection)`` as one transaction, and again as long as that may help.

    It is committed when the function returns, and rolled back when it raises. It is run again after an
    error that is ``retryable`` and whose outcome is "not done"; so what the function does besides SQL should
    be fit to be done twice. An outcome that is not known is raised, never tried again.

    Args:
        connection: one that is in no transaction.
        timeout_s: no new attempt begins after this.

    Returns:
        What the function returned when its work was committed.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise ProgrammingError("run_transaction begins outside a transaction", sqlstate="25001")
    until = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return _once(connection, function)
        except Error as error:
            again = error.retryable and error.outcome == "not done"
            if not again or connection.closed or time.monotonic() + pause_s > until:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _once(connection: Connection, function: Callable[[Connection], T]) -> T:
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
