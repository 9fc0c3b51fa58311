"""The door of PostgreSQL's protocol: listens, lets connections in, and ends them.

The top of ``pgwire``. Sessions come from :class:`Databases`, and everything runs on their loop. It knows
every connection, those that have not said who they are by age; ``admission`` knows the sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from herdpy_server.pgwire.admission import SessionAdmission
from herdpy_server.pgwire.connection import ClientConnection
from herdpy_server.pgwire.context import PgContext
from herdpy_server.pgwire.opening import Opening

if TYPE_CHECKING:
    from pathlib import Path

    from herdpy_server.pgwire.authentication import Authority
    from herdpy_server.pgwire.context import PgSettings
    from herdpy_server.serving import Databases
    from herdpy_server.sessions.registry import SessionRegistry

logger = logging.getLogger("herdpy.pgwire")


class PgServer:
    """PostgreSQL's protocol in front of databases.

    Attributes:
        context: what its connections share, as given; settings and authority may be replaced there.
        admission: its sessions.
    """

    def __init__(
        self,
        databases: Databases,
        settings: PgSettings | None = None,
        authority: Authority | None = None,
        registry: SessionRegistry | None = None,
    ) -> None:
        """Without a ``registry`` there are no roles."""
        self.context = PgContext(databases, settings, authority, registry)
        self.admission = SessionAdmission(self.context)
        self._listeners: list[asyncio.Server] = []
        self._connections: set[ClientConnection] = set()
        self._addresses: dict[str, int] = {}  # connections of each
        self._openings: dict[Opening, None] = {}  # by age

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: an address cannot be had, or a file of TLS cannot be read.
        """
        context = self.context
        context.loop = asyncio.get_running_loop()
        context.load_tls()
        settings = context.settings
        port = settings.port
        try:
            for address in settings.addresses:
                listener = await context.loop.create_server(
                    self._connection,
                    None if address == "*" else address,
                    port,
                    backlog=settings.backlog,
                )
                self._listeners.append(listener)
                port = port or int(listener.sockets[0].getsockname()[1])
            if settings.unix_directory is not None:
                await self._listen_unix(settings.unix_directory / f".s.PGSQL.{port}")
        except BaseException:
            self._stop_listening()
            raise
        context.port = port
        logger.info("PostgreSQL's protocol is served on port %d", port)

    async def _listen_unix(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # the data directory is locked: whoever left it is gone
        context = self.context
        listener = await context.loop.create_unix_server(
            self._connection, str(path), backlog=context.settings.backlog
        )
        self._listeners.append(listener)

    @property
    def port(self) -> int:
        """The port that is listened to, once started."""
        return self.context.port

    @property
    def registry(self) -> SessionRegistry:
        """The sessions by number, for every door, and the roles."""
        return self.context.registry

    # Connections.

    def _connection(self) -> ClientConnection:
        return ClientConnection(self.context, self._opened, self._closed)

    def _opened(self, connection: ClientConnection) -> Opening:
        """A client has connected."""
        settings = self.context.settings
        if connection.peer is not None:
            self._addresses[connection.peer] = self._addresses.get(connection.peer, 0) + 1
        most = settings.max_connections_per_address
        if len(self._openings) >= settings.max_starting:
            oldest = next(iter(self._openings))
            del self._openings[oldest]
            oldest.evict()
        opening = Opening(connection, self.admission, self._opening_over)
        self._openings[opening] = None
        if connection.peer is not None and 0 < most < self._addresses[connection.peer]:
            opening.is_crowded = True
        self._connections.add(connection)
        return opening

    def _opening_over(self, opening: Opening) -> None:
        """A connection has become a session, or has ended."""
        self._openings.pop(opening, None)

    def _closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        if connection in self._connections and connection.peer is not None:
            left = self._addresses[connection.peer] - 1
            if left:
                self._addresses[connection.peer] = left
            else:
                del self._addresses[connection.peer]
        self._connections.discard(connection)

    @property
    def connections(self) -> int:
        """How many connections there are, sessions or not."""
        return len(self._connections)

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self.admission.conversations)

    # Stopping.

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def stop(self, graceful_timeout_s: float = 0.0) -> None:
        """Let nobody in, end sessions, and wait until they have ended.

        Idle sessions end at once, others when their transaction does.

        Args:
            graceful_timeout_s: how long transactions may go on before they are ended with 57P01. A
                commit under way is always answered.
        """
        self.context.is_stopping = True
        self._stop_listening()
        for opening in list(self._openings):
            opening.evict()
        await self.admission.end_all(graceful_timeout_s)
        await asyncio.sleep(0)  # what was written last is on its way
        for connection in list(self._connections):
            connection.linger()
