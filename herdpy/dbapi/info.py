"""What programs may know about a connection. Beside ``connection``, which gives it as ``connection.info``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy.dbapi.link import TransactionStatus

if TYPE_CHECKING:
    from herdpy.dbapi.connection import Connection


class ConnectionInfo:
    """What is known about a connection, under psycopg's names."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    @property
    def transaction_status(self) -> TransactionStatus:
        """IDLE, INTRANS, INERROR (only rollback helps), or UNKNOWN once closed."""
        return self._connection._link.status()

    @property
    def commit_position(self) -> str | None:
        """The position of the connection's newest commit in the log ("12:345"), as far as a server told it.

        None: there was none, or the database is in a directory.
        """
        return getattr(self._connection._link, "commit_position", None)

    @property
    def dbname(self) -> str:
        """The directory of the database."""
        return self._connection._name
