"""Units of work: in the caller's transaction, or in one of their own that is repeated when that helps.

Layer 0 of the broker: every function of layer 1 that changes something passes through ``transaction``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import herdpy

Connection = herdpy.Connection[Any]
"""A connection of the public driver: in autocommit, or within a transaction of the caller."""

APPLICATION = "herdpy-broker"
"""The application name of the broker's own connections, by which a server shows them."""

T = TypeVar("T")

RETRIED_FOR_S = 60.0
"""No new attempt of a transaction begins after this."""


def transaction(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Run ``work(connection)`` as a part of the caller's transaction, or else as one of its own.

    Its own is repeated after a deadlock and after a lost leader. The caller's is the caller's to repeat.
    A submission or a claim is never a single statement in autocommit: when a leader is lost, the driver finds
    out what became of a COMMIT, and the rows that the statements returned are known already.

    Raises:
        herdpy.OperationalError: 08007 when the outcome of the commit is unknown; the driver's others.
    """
    if is_within(connection):
        return work(connection)
    return herdpy.run_transaction(connection, work, timeout_s=RETRIED_FOR_S)


def all_or_nothing(connection: Connection, work: Callable[[Connection], T]) -> T:
    """``transaction``, but what fails in the caller's transaction is undone up to a savepoint."""
    if not is_within(connection):
        return transaction(connection, work)
    if connection.info.transaction_status == herdpy.TransactionStatus.IDLE:
        return _first(connection, work)
    with connection.transaction():
        return work(connection)


def _first(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Run what begins the caller's transaction, without autocommit: there is nothing before it to keep."""
    try:
        return work(connection)
    except BaseException:
        connection.rollback()
        raise


def is_within(connection: Connection) -> bool:
    """Whether a statement that runs now belongs to a transaction of the caller."""
    status = connection.info.transaction_status
    return not connection.autocommit or status in (
        herdpy.TransactionStatus.INTRANS,
        herdpy.TransactionStatus.INERROR,
    )
