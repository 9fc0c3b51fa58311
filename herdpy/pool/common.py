"""What both kinds of pools say and decide alike. Above ``core``, below ``sync`` and ``herdpy.aio.pool``.

Their settings, checked; how a connection is made; their errors; and how a pool ends (``PoolEnd``).
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from herdpy.dbapi.address import DirectoryAddress, ServersAddress, UrlOrPath, address_of, missing, open_link
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, InterfaceError, OperationalError, ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.rows import RowFactory
from herdpy.pool.core import Core

logger = logging.getLogger("herdpy.pool")

CLOSE_PATIENCE_S = 5.0
"""How long ``close()`` waits for connections that are lent, when it is not told."""
PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Before servers that cannot be reached are tried again: at first, and at most (``Backoff``)."""
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

    address: DirectoryAddress | ServersAddress
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
        if isinstance(address, ServersAddress):
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
        return isinstance(self.address, ServersAddress) and (error.sqlstate or "")[:2] == "08"

    def too_late(self, waiting: int) -> PoolTimeout:
        """The error for whom nothing came back in time."""
        return PoolTimeout(
            f"no connection came back in time: all {self.max_size} are used",
            sqlstate="53300",
            detail=f"{waiting} more are waiting for one." if waiting else None,
            hint="Hold connections for less long, or make the pool larger (max_size).",
        )


def address(url: UrlOrPath, options: Mapping[str, Any]) -> DirectoryAddress | ServersAddress:
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


C = TypeVar("C")


class PoolEnd(Generic[C]):
    """The half of a pool that neither lends nor waits.

    It is for the process that made it: in a child of that one it must not be used, and its end does nothing.
    """

    _SHOWN_AS: ClassVar[str]
    _core: Core[C]
    _pid: int

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.is_closed

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if self.closed else f"{core.lent} of {core.size} lent, at most {core.max_size}"
        return f"<{self._SHOWN_AS} [{state}] at {id(self):#x}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is None or core.is_closed or self._is_forked:
            return
        shown = repr(self)
        core.is_closed = True
        self._abandon([held.connection for held in core.idle])
        if core.size:
            _warn(f"{shown} was deleted without being closed", ResourceWarning)

    def _abandon(self, idle: list[C]) -> None:
        """The pool is being collected, wherever that is: have these closed, without waiting."""
        raise NotImplementedError

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _refuse_fork(self) -> None:
        if self._is_forked:
            raise forked()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise closed()

    def _tell_of(self, still: int) -> None:
        """A block has ended, and closed the pool, while so many connections are lent."""
        if still:
            logger.warning("%r was closed, but for %d connections that are still used", self, still)
