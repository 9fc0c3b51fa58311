"""What a pool was asked for, checked, and what both kinds of pools say and decide alike. Above ``core``."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from herdpy.dbapi.address import Directory, Place, Servers, address_of, missing, open_link
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, InterfaceError, OperationalError, ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.rows import RowFactory
from herdpy.pool.core import Core

logger = logging.getLogger("herdpy.pool")

CLOSE_PATIENCE_S = 5.0
"""How long ``close()`` waits for connections that are lent, when it is not told."""
PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Before servers that cannot be reached are tried again; from the first time on, twice as long each time."""
FILL_PAUSE_S = 5.0
"""Before ``min_size`` connections are tried again in the background."""
_SHORTEST_CONNECT_S = 0.05


class PoolTimeout(OperationalError):  # noqa: N818 - psycopg's name
    """No connection came back in time (53300)."""


class PoolClosed(InterfaceError):  # noqa: N818 - psycopg's name
    """The pool was closed (08003)."""


@dataclass(frozen=True)
class PoolSettings:
    """Sizes and times of a pool, and how its connections are made.

    Attributes:
        address: what they connect to.
        row_factory: of each of them.
    """

    address: Directory | Servers
    row_factory: RowFactory[Any]
    min_size: int
    max_size: int
    timeout_s: float
    max_idle_s: float
    max_lifetime_s: float

    def __post_init__(self) -> None:
        for name in ("min_size", "max_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ProgrammingError(f"{name} is a number of connections, not {value!r}", sqlstate="22023")
        if not 0 <= self.min_size <= self.max_size or self.max_size < 1:
            raise ProgrammingError(
                f"0 <= min_size <= max_size, and 1 <= max_size: not {self.min_size} and {self.max_size}",
                sqlstate="22023",
            )
        for name in ("timeout_s", "max_idle_s", "max_lifetime_s"):
            seconds(name, getattr(self, name))

    def core(self) -> Core[Any]:
        """The state of a new pool."""
        return Core(self.min_size, self.max_size, self.max_idle_s, self.max_lifetime_s)

    def connect(self, left_s: float) -> Connection[Any]:
        """A new connection. Servers are looked for no longer than so many seconds."""
        address = self.address
        if isinstance(address, Servers):
            timeout_s = max(_SHORTEST_CONNECT_S, min(address.options.connect_timeout_s, left_s))
            options = dataclasses.replace(address.options, connect_timeout_s=timeout_s)
            address = dataclasses.replace(address, options=options)
        try:
            return Connection(open_link(address), address.name, self.row_factory)
        except ImportError as error:
            raise missing(error) from error

    def patience(self, timeout_s: float | None) -> float:
        """How long to wait for a connection, in seconds."""
        return self.timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)

    def may_pass(self, error: Error) -> bool:
        """Whether connecting may go well a little later: no server leads at the moment."""
        return isinstance(self.address, Servers) and (error.sqlstate or "")[:2] == "08"

    def too_late(self, waiting: int) -> PoolTimeout:
        """The error for whom nothing came back in time."""
        return PoolTimeout(
            f"no connection came back in time: all {self.max_size} are used",
            sqlstate="53300",
            detail=f"{waiting} more are waiting for one." if waiting else None,
            hint="Hold connections for less long, or make the pool larger (max_size).",
        )


def address(url: Place, options: Mapping[str, Any]) -> Directory | Servers:
    """What the connections of a pool connect to. InterfaceError as from ``herdpy.connect``."""
    try:
        return address_of(url, options)
    except ImportError as error:
        raise missing(error) from error


def seconds(name: str, value: object) -> float:
    """A time that was given, in seconds; infinity is allowed."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value) or value < 0:
        raise ProgrammingError(f"{name} is a number of seconds, not {value!r}", sqlstate="22023")
    return float(value)


def closed() -> PoolClosed:
    """The error of a pool that was closed."""
    return PoolClosed("the pool is closed", sqlstate="08003")


def forked() -> InterfaceError:
    """The error of a pool in a child of the process that made it."""
    return InterfaceError(
        "the pool was made before a fork, in the parent process: make one here", sqlstate="08003"
    )


def foreign() -> ProgrammingError:
    """The error for a connection that is not lent by a pool."""
    return ProgrammingError("the connection is not one that this pool has lent", sqlstate="55000")


def left_open(who: str) -> ProgrammingError:
    """The error for a function of the pool's user that left a transaction open."""
    return ProgrammingError(f"{who} left the connection in a transaction", sqlstate="25001")


def is_open(status: TransactionStatus) -> bool:
    """Whether a connection that comes back is in a transaction."""
    return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
