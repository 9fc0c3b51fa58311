"""The driver: PEP 249 (DB-API 2.0) for databases in a directory, with Arrow in and out.

Layer: on top of the engine's sessions (``herdpy_server.sessions``), which it reaches through
``link``; nothing of the engine is loaded before a directory is opened.

    connect -> Connection -> Cursor -> Link -> Session

DESIGN.md beside this file says why it is as it is.
"""

from __future__ import annotations

import os
from typing import Any

from herdpy.dbapi import url as _url
from herdpy.dbapi.connection import Connection, ConnectionInfo
from herdpy.dbapi.cursor import Cursor
from herdpy.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Column,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 2
paramstyle = "pyformat"


def connect(
    url: str | os.PathLike[str], autocommit: bool = False, *, create: bool = True, **options: Any
) -> Connection:
    """Open the database in a directory, making it when it is not there.

    Connections of one process to one directory share the database in it; another process cannot
    open it meanwhile. The last one to be closed closes the database.

    Args:
        url: ``herdpy:///path/to/dir`` (absolute), ``herdpy:dir`` (relative), or a path. Options may
            follow as ``?autocommit=true&create=false``.
        autocommit: each statement is its own transaction, but for what BEGIN and COMMIT enclose.
            Otherwise a transaction begins with the first statement and ends with ``commit()`` or
            ``rollback()``, as PEP 249 wants.
        create: make the database when the directory is missing or empty.
        options: settings of the database, all numbers (``herdpy_server.embedded.DatabaseSettings``
            names them). They count for the first connection to a directory.

    Raises:
        InterfaceError: the URL or an option is wrong, or ``herdpy[server]`` is not installed.
        NotSupportedError: the URL names a server.
        OperationalError: there is no database (08001) or another process has it open (55006).
        DatabaseError: the database is damaged; the message says what to do.
    """
    from herdpy.dbapi.embedded import open_link

    target = _url.parse(url)
    given: dict[str, Any] = {**target.options}
    given.update(options)
    autocommit = autocommit or _url.boolean("autocommit", given.pop("autocommit", False))
    create = create and _url.boolean("create", given.pop("create", True))
    settings = {name: _url.number(name, value) for name, value in given.items()}
    link = open_link(target.path, create=create, autocommit=autocommit, settings=settings)
    return Connection(link, target.path)


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
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionStatus",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
