"""Where frames come from and go to: a URL, a connection, or SQLAlchemy's engine, connection or session.

All become a driver's connection. What was opened here is committed and closed here; of what the
caller had open, the transaction stays the caller's.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from herdpy.dbapi import Connection, Cursor, InterfaceError, connect

Source = Any  # a URL, a path, a Connection, or SQLAlchemy's Engine, Connection or Session


@contextlib.contextmanager
def opened(source: Source) -> Iterator[Connection]:
    """The driver's connection of ``source``, for a block: committed and closed if it was opened here.

    Raises:
        InterfaceError: it names no database of HerdPy's.
    """
    if isinstance(source, Connection):
        yield source
    elif isinstance(source, str | os.PathLike):
        with connect(source) as connection:
            yield connection
    else:
        with _of_sqlalchemy(source) as connection:
            yield _driver_connection(connection)


@contextlib.contextmanager
def executed(
    query: Any, source: Source, params: Sequence[object] | Mapping[str, object] | None
) -> Iterator[Cursor]:
    """The cursor that has run ``query``: text, or of SQLAlchemy, for whose sources it may be a construct.

    A query that is one word is a table's name, with or without its schema.
    """
    if not isinstance(query, str):
        with _of_sqlalchemy(source) as connection:
            _driver_connection(connection)
            with connection.execute(query, params) as result:
                yield result.cursor
        return
    text = query.strip()
    if text and not any(map(str.isspace, text)):
        text = "SELECT * FROM " + ".".join(quoted(part) for part in text.split("."))
    with opened(source) as own, own.cursor() as cursor:
        yield cursor.execute(text, params)


def quoted(name: str) -> str:
    """``name`` as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _of_sqlalchemy(source: Source) -> Iterator[Any]:
    """SQLAlchemy's connection of an engine (in a transaction of its own), a connection or a session."""
    if "sqlalchemy" not in sys.modules:  # nothing of SQLAlchemy's exists: it need not be installed
        raise _stranger(source)
    from sqlalchemy import Connection as SqlConnection
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    if isinstance(source, Engine):
        with source.begin() as connection:
            yield connection
        return
    if isinstance(source, Session):
        source = source.connection()
    if not isinstance(source, SqlConnection):
        raise _stranger(source)
    if not source.in_transaction():
        source.begin()  # so that its commit() and rollback() are about what happens here
    yield source


def _driver_connection(connection: Any) -> Connection:
    """The driver's connection below one of SQLAlchemy's."""
    found = connection.connection.driver_connection
    if not isinstance(found, Connection):
        raise InterfaceError(
            f"SQLAlchemy's dialect is {connection.dialect.name}, with {type(found).__module__}",
            hint='An engine of HerdPy\'s begins with "herdpy": create_engine("herdpy:///dir").',
        )
    return found


def _stranger(source: object) -> InterfaceError:
    return InterfaceError(
        f"{type(source).__name__} is no database of HerdPy's",
        hint="A URL, a herdpy.Connection, or SQLAlchemy's Engine, Connection or Session.",
    )
