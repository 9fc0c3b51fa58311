"""What programs may know about a connection. Beside ``connection``, which gives it as ``connection.info``."""

from __future__ import annotations

from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.shared_link import SharedLink


class ConnectionInfo:
    """What is known about a connection, under psycopg's names."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedLink) -> None:
        self._shared = shared

    @property
    def transaction_status(self) -> TransactionStatus:
        """IDLE, INTRANS, INERROR (only rollback helps), or UNKNOWN once closed."""
        return self._shared.link.status()

    @property
    def commit_position(self) -> str | None:
        """The position of the connection's newest commit in the log ("12:345"), as far as a server told it.

        None: there was none, or the database is in a directory.
        """
        return getattr(self._shared.link, "commit_position", None)

    @property
    def dbname(self) -> str:
        """The directory of the database."""
        return self._shared.name
