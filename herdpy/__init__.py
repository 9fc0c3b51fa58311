"""HerdPy: a SQL database that is a replicated state machine over a write-ahead log.

This package is what users import: ``herdpy.connect`` and the rest of PEP 249 come from
``herdpy.dbapi``.
"""

from typing import TYPE_CHECKING, Any

import herdpy.compiled  # noqa: F401 - before any module that has a binary
from herdpy._version import __version__

if TYPE_CHECKING:
    from herdpy import rows
    from herdpy.dbapi import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Column,
        Connection,
        ConnectionInfo,
        Cursor,
        DatabaseError,
        DataError,
        Date,
        DateFromTicks,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        Interval,
        Json,
        Jsonb,
        Notice,
        Notification,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        ServerCursor,
        Stream,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
        TransactionStatus,
        Warning,
        apilevel,
        connect,
        paramstyle,
        run_transaction,
        threadsafety,
    )
    from herdpy.pool import Pool, PoolClosed, PoolStats, PoolTimeout

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Column",
    "Connection",
    "ConnectionInfo",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "Json",
    "Jsonb",
    "NotSupportedError",
    "Notice",
    "Notification",
    "OperationalError",
    "Pool",
    "PoolClosed",
    "PoolStats",
    "PoolTimeout",
    "ProgrammingError",
    "ServerCursor",
    "Stream",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionStatus",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "rows",
    "run_transaction",
    "threadsafety",
]


_OF_THE_POOL = {"Pool", "PoolClosed", "PoolStats", "PoolTimeout"}


def __getattr__(name: str) -> Any:
    """Import what is used first (PEP 562): servers and their workers use none of it."""
    from importlib import import_module

    if name == "rows":
        value: Any = import_module("herdpy.rows")
    elif name in __all__:
        value = getattr(import_module("herdpy.pool" if name in _OF_THE_POOL else "herdpy.dbapi"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
