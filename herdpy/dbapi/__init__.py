"""The driver: PEP 249 (DB-API 2.0) for databases in a directory and on servers, with Arrow in and out.

Layer: on top of the engine's sessions (``herdpy_server.sessions``), which it reaches through
``link``, in this process or over the wire; nothing of either is loaded before it is asked for.

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
    """Open the database in a directory, making it when it is not there, or connect to servers.

    Connections of one process to one directory share the database in it; another process cannot
    open it meanwhile. The last one to be closed closes the database. Of servers the one that leads
    is found, and found again when it fails.

    Args:
        url: ``herdpy:///path/to/dir`` (absolute), ``herdpy:dir`` (relative), or a path. Options may
            follow as ``?autocommit=true&create=false``. Servers are
            ``herdpy://user:password@host:port,host2:port2/tablespace``.
        autocommit: each statement is its own transaction, but for what BEGIN and COMMIT enclose.
            Otherwise a transaction begins with the first statement and ends with ``commit()`` or
            ``rollback()``, as PEP 249 wants.
        create: make the database when the directory is missing or empty.
        options: settings of the database, all numbers (``herdpy_server.embedded.DatabaseSettings``
            names them). They count for the first connection to a directory. Of servers:
            ``hosts``, ``user``, ``password``, ``connect_timeout``, ``failover_timeout``,
            ``statement_timeout`` (all in seconds), ``application_name``, ``sslmode`` and its like.

    Raises:
        InterfaceError: the URL or an option is wrong, or ``herdpy[server]`` (``herdpy[remote]``) is
            not installed.
        OperationalError: there is no database, or no server leads (08001), or another process has the
            directory open (55006).
        DatabaseError: the database is damaged; the message says what to do.
    """
    target = _url.parse(url)
    given: dict[str, Any] = {**target.options}
    given.update(options)
    autocommit = autocommit or _url.boolean("autocommit", given.pop("autocommit", False))
    if isinstance(target, _url.Server):
        remote = _remote()
        chosen = remote.remote_options(target, given)
        return Connection(remote.open_link(chosen, autocommit=autocommit), chosen.name)
    create = create and _url.boolean("create", given.pop("create", True))
    from herdpy.dbapi.embedded import open_link

    settings = {name: _url.number(name, value) for name, value in given.items()}
    link = open_link(target.path, create=create, autocommit=autocommit, settings=settings)
    return Connection(link, target.path)


def _remote() -> Any:
    try:
        from herdpy.dbapi import remote
    except ImportError as error:
        if "psycopg" not in str(error) and "pq wrapper" not in str(error):
            raise
        raise InterfaceError(f'servers need psycopg: pip install "herdpy[remote]" ({error})') from error
    return remote


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
    "run_transaction",
    "threadsafety",
]
