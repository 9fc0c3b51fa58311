"""The driver: PEP 249 (DB-API 2.0) for databases in a directory and on servers, with Arrow in and out.

Layer: on top of the engine's sessions (``herdpy_server.sessions``), which it reaches through
``link``, in this process or over the wire; nothing of either is loaded before it is asked for.

    connect -> Connection -> Cursor -> Link -> Session

DESIGN.md beside this file says why it is as it is.
"""

from __future__ import annotations

import os
from typing import Any

from herdpy.codec.kinds import Interval
from herdpy.dbapi.address import address_of, missing, open_link
from herdpy.dbapi.connection import Connection, ConnectionInfo, Cursor, ServerCursor, Stream
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
from herdpy.dbapi.link import Notice, Notification, TransactionStatus
from herdpy.dbapi.retry import run_transaction
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
    Json,
    Jsonb,
    R,
    RowFactory,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    tuple_row,
)

apilevel = "2.0"
threadsafety = 2
paramstyle = "pyformat"


def connect(
    url: str | os.PathLike[str] | None = None,
    autocommit: bool = False,
    *,
    create: bool = True,
    row_factory: RowFactory[R] = tuple_row,  # type: ignore[assignment]
    **options: Any,
) -> Connection[R]:
    """Open the database in a directory, making it when it is not there, or connect to servers.

    Connections of one process to one directory share the database in it; another process cannot
    open it meanwhile. The last one to be closed closes the database. Of servers the one that leads
    is found, and found again when it fails.

    Args:
        url: ``herdpy:///path/to/dir`` (absolute), ``herdpy:dir`` (relative), or a path. Options may
            follow as ``?autocommit=true&create=false``. Servers are
            ``herdpy://user:password@host:port,host2:port2/tablespace``, or are looked up in ZooKeeper:
            ``herdpy+zk://zk1:2181,zk2:2181/root?tablespace=name``. ``@name`` is a profile. None: the
            environment's ``HERDPY_URL``.
        autocommit: each statement is its own transaction, but for what BEGIN and COMMIT enclose.
            Otherwise a transaction begins with the first statement and ends with ``commit()`` or
            ``rollback()``, as PEP 249 wants.
        create: make the database when the directory is missing or empty.
        row_factory: what makes the rows of its cursors (``herdpy.rows``).
        options: settings of the database, all numbers (``herdpy_server.embedded.DatabaseSettings``
            names them). They count for the first connection to a directory. Of servers, and partly of
            directories, those of ``herdpy.dbapi.options``: ``user``, ``password``, ``connect_timeout``,
            ``statement_timeout`` (in seconds), ``read_level``, ``application_name``, ``sslmode`` ...

    Raises:
        InterfaceError: the URL or an option is wrong, or what it needs is not installed: the database
            (``herdpydb``), kazoo (the extra ``zk``).
        OperationalError: there is no database, or no server leads (08001), or another process has the
            directory open (55006).
        DatabaseError: the database is damaged; the message says what to do.
    """
    if autocommit:
        options["autocommit"] = True
    if not create:
        options["create"] = False
    try:
        address = address_of(url, options)
        link = open_link(address)
    except ImportError as error:
        raise missing(error) from error
    return Connection(link, address.name, row_factory)


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
    "ProgrammingError",
    "ServerCursor",
    "Stream",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionStatus",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "run_transaction",
    "threadsafety",
]
