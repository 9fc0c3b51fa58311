"""The door of PostgreSQL's protocol: listens, lets connections in, and ends them.

The top of ``pgwire``. Sessions come from :class:`Databases`, and everything runs on their loop. It knows
every connection: those that have not said who they are by age, and sessions by their process number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.pgwire.authority import Authority, LoopbackTrust
from herdpy_server.pgwire.connection import Connection
from herdpy_server.pgwire.conversation import shutting_down
from herdpy_server.pgwire.errors import FatalError
from herdpy_server.pgwire.handlers import KINDS
from herdpy_server.pgwire.opening import Opening
from herdpy_server.pgwire.scram import end_point
from herdpy_server.pgwire.settings import PgSettings
from herdpy_server.sessions.registry import SessionEntry, SessionRegistry
from herdpy_server.sessions.rights import may
from herdpy_sql.rights.held import DATABASE

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.pgwire.startup import Start
    from herdpy_server.serving import Databases
    from herdpy_server.sessions import Session
    from herdpy_server.sessions.passwords import Verifier

logger = logging.getLogger("herdpy.pgwire")

_END_PATIENCE_S = 60.0


class PgServer:
    """PostgreSQL's protocol in front of databases.

    Attributes:
        databases, settings: as given.
        authority: who may come in; may be replaced at any time.
        registry: the sessions by number, for every door, and the roles.
        tls: what TLS connections are made with, None for none; see :meth:`load_tls`.
        binding: what SCRAM binds to TLS connections, None for nothing.
        loop: where everything happens.
        kinds: types of messages that a session takes.
        mock_key: a secret that makes answers about users who are not there.
        is_stopping: sessions end as soon as they are idle.
    """

    def __init__(
        self,
        databases: Databases,
        settings: PgSettings | None = None,
        authority: Authority | None = None,
        registry: SessionRegistry | None = None,
    ) -> None:
        """Without a ``registry`` there are no roles."""
        self.databases = databases
        # An empty registry is false, and a server's own all the same.
        self.registry = SessionRegistry() if registry is None else registry
        self.settings = settings or PgSettings()
        self.authority: Authority = authority or LoopbackTrust(self._verifier)
        self.loop: asyncio.AbstractEventLoop
        self.tls: ssl.SSLContext | None = None
        self.binding: bytes | None = None
        self.kinds = KINDS
        self.mock_key = secrets.token_bytes(32)
        self.is_stopping = False
        self._port = 0
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._addresses: dict[str, int] = {}  # connections of each
        self._openings: dict[Opening, None] = {}  # by age
        self._conversations: set[Conversation] = set()
        self._all_left: asyncio.Event | None = None

    def _verifier(self, user: str) -> Verifier | None:
        store = self.registry.role_store
        return None if store is None else store.verifier(user)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: an address cannot be had, or a file of TLS cannot be read.
        """
        self.loop = asyncio.get_running_loop()
        self.load_tls()
        settings = self.settings
        port = settings.port
        try:
            for address in settings.addresses:
                listener = await self.loop.create_server(
                    lambda: Connection(self),
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
        self._port = port
        logger.info("PostgreSQL's protocol is served on port %d", port)

    async def _listen_unix(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # the data directory is locked: whoever left it is gone
        listener = await self.loop.create_unix_server(
            lambda: Connection(self), str(path), backlog=self.settings.backlog
        )
        self._listeners.append(listener)

    @property
    def port(self) -> int:
        """The port that is listened to, once started."""
        return self._port

    def load_tls(self) -> None:
        """Read the files of TLS, again when they have changed. OSError when they cannot be used."""
        context = self.settings.tls_context()
        binding = None
        if context is not None and self.settings.tls_certificate is not None:
            pem = self.settings.tls_certificate.read_text()
            first = pem[: pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")]
            binding = end_point(ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE") :]))
        self.tls, self.binding = context, binding

    # Connections.

    def opened(self, connection: Connection) -> Opening:
        """A client has connected."""
        if connection.peer is not None:
            self._addresses[connection.peer] = self._addresses.get(connection.peer, 0) + 1
        most = self.settings.max_connections_per_address
        if len(self._openings) >= self.settings.max_starting:
            oldest = next(iter(self._openings))
            del self._openings[oldest]
            oldest.evict()
        opening = Opening(connection)
        self._openings[opening] = None
        if connection.peer is not None and 0 < most < self._addresses[connection.peer]:
            opening.is_crowded = True
        self._connections.add(connection)
        return opening

    def opening_over(self, opening: Opening) -> None:
        """A connection has become a session, or has ended."""
        self._openings.pop(opening, None)

    def closed(self, connection: Connection) -> None:
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

    # Sessions.

    def admit(self, start: Start) -> Session:
        """A session for a client who proved who he is.

        Raises:
            FatalError: 53300 there are too many, 28000 the role may not log in, 42501 it may not connect to
                this database, 57P03 the server is
                going down.
            SqlError: 3D000 there is no such database, 57P03 it cannot be used.
        """
        if self.is_stopping or self.databases.is_closed:
            raise FatalError("57P03", "the database system is shutting down")
        if len(self._conversations) >= self.settings.max_connections:
            raise FatalError("53300", "sorry, too many clients already")
        store = self.registry.role_store
        role = None if store is None else store.get(start.user)
        if role is not None:
            if not role.can_login:
                raise FatalError("28000", f'role "{role.name}" is not permitted to log in')
            most = self.settings.max_connections_per_user
            if not role.is_superuser and 0 < most <= self.registry.of_user(role.name):
                raise FatalError("53300", f'too many connections for role "{role.name}"')
            if not role.is_superuser and 0 <= role.connection_limit <= self.registry.of_user(role.name):
                raise FatalError("53300", f'too many connections for role "{role.name}"')
        session = self.databases.session(start.database)
        standing = self.registry.standings.of_name(start.user)
        if not may(session.tablespace.catalog, DATABASE, "c", standing):
            raise FatalError(
                "42501",
                f'permission denied for database "{start.database}"',
                detail="User does not have CONNECT privilege.",
            )
        return session

    def enter(self, conversation: Conversation, start: Start) -> SessionEntry:
        """A session begins: it has a number from now on."""
        peer = conversation.connection
        entry = self.registry.add(
            conversation.session,
            user=start.user,
            database=start.database,
            end=conversation.terminate,
            address=peer.peer,
            port=peer.peer_port,
        )
        conversation.entry = entry
        conversation.session.settings.tell(
            {
                "max_connections": str(self.settings.max_connections),
                "port": str(self._port),
                "ssl": "off" if self.tls is None else "on",
            }
        )
        conversation.begin_reports()
        self._conversations.add(conversation)
        return entry

    def left(self, conversation: Conversation) -> None:
        """A session has ended."""
        self._conversations.discard(conversation)
        if conversation.entry is not None:
            self.registry.remove(conversation.entry)
        if self._all_left is not None and not self._conversations:
            self._all_left.set()

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self._conversations)

    def cancel(self, pid: int, secret: int) -> None:
        """Cancel what session ``pid`` is doing, if ``secret`` is its."""
        if not self.registry.cancel(pid, secret):
            logger.info("a request to cancel session %d is refused", pid)

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
        self.is_stopping = True
        self._stop_listening()
        for opening in list(self._openings):
            opening.evict()
        for conversation in list(self._conversations):
            if conversation.is_idle:
                conversation.terminate(shutting_down())
        if not await self._sessions_left(graceful_timeout_s):
            for conversation in list(self._conversations):
                conversation.terminate(shutting_down())
            if not await self._sessions_left(_END_PATIENCE_S):
                logger.error("%d sessions did not end", len(self._conversations))
        await asyncio.sleep(0)  # what was written last is on its way
        for connection in list(self._connections):
            connection.linger()

    async def _sessions_left(self, timeout_s: float) -> bool:
        """Wait until there is no session; False when time is up."""
        if not self._conversations:
            return True
        self._all_left = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_left.wait()
        except TimeoutError:
            return not self._conversations
        finally:
            self._all_left = None
        return True
