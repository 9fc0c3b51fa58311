"""A session with any server of a URL, for commands about the cluster: rows as dicts, errors in words.

Not the driver's connection: that looks for the leader, and what these commands ask is answered by whichever
server is there.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    import psycopg

    from herdpy.dbapi.options import RemoteOptions

Row = dict[str, Any]

_CONNECT_TIMEOUT_S = 5
_HOST = re.compile(
    r"host: '([^']*)', port: '([^']*)', hostaddr: '[^']*': (?:connection failed: )?"
    r"(?:connection to server at .*? failed: )?"
)


class ServerSession:
    """One session.

    Attributes:
        connection: psycopg's.
        remarks: the notices and warnings that statements gave, in order.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.remarks: list[dict[str, str | None]] = []
        connection.add_notice_handler(
            lambda told: self.remarks.append(
                {"severity": told.severity, "sqlstate": told.sqlstate, "text": told.message_primary}
            )
        )

    def rows(self, statement: str) -> list[Row]:
        """The rows of a query; none of a statement that has no answer."""
        with self.errors():
            cursor = self.connection.execute(statement.encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in (cursor.fetchall() if names else ())]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """psycopg's errors within are raised as the driver's; CliError when the server has gone."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise _of_driver(error) from error

    def error(self, result: Any) -> Exception:
        """What a result of libpq tells that is one."""
        import psycopg.errors

        return _of_driver(psycopg.errors.error_from_result(result))


def _of_driver(error: psycopg.Error) -> Exception:
    from herdpy.dbapi.errors import class_of

    if error.sqlstate is None:
        return CliError(f"the server went away: {str(error).strip()}", hint="Look with herdpy status.")
    told = error.diag
    return class_of(error.sqlstate)(
        told.message_primary or str(error),
        sqlstate=error.sqlstate,
        detail=told.message_detail,
        hint=told.message_hint,
    )


@contextmanager
def session(url: str, *, leader_of: str | None = None) -> Iterator[ServerSession]:
    """A session with the first server of ``url`` that takes one.

    Args:
        leader_of: the one that leads this tablespace, and no other.

    Raises:
        CliError: the URL makes no sense, or names a directory.
        OperationalError: no server takes one: 08001, 28P01, 3D000 and the like, as ``herdpy.connect``.
    """
    import psycopg

    options = servers_of(url)
    hosts = hosts_now(options)
    given: dict[str, Any] = dict(options.libpq)
    given |= {name: value for name in ("user", "password") if (value := getattr(options, name)) is not None}
    try:
        connection = psycopg.connect(
            host=",".join(host for host, _port in hosts),
            port=",".join(str(port) for _host, port in hosts),
            dbname=leader_of or options.database,
            application_name="herdpy",
            target_session_attrs="any" if leader_of is None else "read-write",
            connect_timeout=max(1, math.ceil(min(options.connect_timeout_s, _CONNECT_TIMEOUT_S))),
            autocommit=True,
            **given,
        )
    except psycopg.OperationalError as error:
        from herdpy.dbapi.remote.leader import refused

        raise refused(str(error), f"no server lets us in: {_told(error)}") from error
    try:
        yield ServerSession(connection)
    finally:
        connection.close()


def servers_of(url: str) -> RemoteOptions:
    """The servers of a URL or a profile. CliError (usage) when it names a directory, or makes no sense."""
    from herdpy.dbapi import address
    from herdpy.dbapi.errors import Error

    try:
        found = address.address_of(url)
    except Error as error:
        raise CliError(error.message, hint=error.hint, code=USAGE) from error
    if not isinstance(found, address.ServersAddress):
        raise CliError(
            "this command is for servers, and the URL names a directory",
            hint="Write herdpy://host:port,host:port/tablespace.",
            code=USAGE,
        )
    return found.options


def hosts_now(options: RemoteOptions) -> list[tuple[str, int]]:
    """The servers, looked up in ZooKeeper where that is what is named. Raises as ``herdpy.connect``."""
    from herdpy.dbapi.remote.hosts import hosts_of

    return hosts_of(options).known(time.monotonic() + options.connect_timeout_s)


def _told(error: Exception) -> str:
    """What libpq said, each thing once: it tells of every host."""
    lines = [line.strip().lstrip("- ") for line in str(error).splitlines()]
    each = [line for line in lines if line.startswith("host:")] or lines
    return "; ".join(dict.fromkeys(_HOST.sub(r"\1:\2: ", line) for line in each if line))


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Text as a string literal."""
    return "'" + text.replace("'", "''") + "'"


def tablespace_of(asked: ServerSession) -> str:
    """The session's tablespace by its name in herdpy.tablespaces: a server that is alone serves any name."""
    names = [str(row["name"]) for row in asked.rows("SELECT name FROM herdpy.tablespaces")]
    (current,) = (str(row["name"]) for row in asked.rows("SELECT current_database() AS name"))
    return current if current in names else names[0]
