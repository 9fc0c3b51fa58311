"""The door of PostgreSQL's protocol: listens, lets connections in, and ends them.

The top of ``pgwire``. Everything runs on the loop of its :class:`ServedDatabase`. It knows every connection:
those that have not said who they are by age, and sessions by their process number.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.pgwire.authority import Authority, LoopbackOnly
from herdpy_server.pgwire.connection import Connection
from herdpy_server.pgwire.conversation import shutting_down
from herdpy_server.pgwire.errors import FatalError
from herdpy_server.pgwire.handlers import KINDS
from herdpy_server.pgwire.opening import Opening
from herdpy_server.pgwire.scram import end_point
from herdpy_server.pgwire.settings import PgSettings

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.pgwire.startup import Start
    from herdpy_server.serving import ServedDatabase
    from herdpy_server.sessions import Session

logger = logging.getLogger("herdpy.pgwire")

_END_PATIENCE_S = 60.0
_MAX_PID = 1 << 22


class PgServer:
    """PostgreSQL's protocol in front of a database.

    Attributes:
        database, settings: as given.
        authority: who may come in; may be replaced at any time.
        tls: what TLS connections are made with, None for none; see :meth:`load_tls`.
        binding: what SCRAM binds to TLS connections, None for nothing.
        loop: where everything happens.
        kinds: types of messages that a session takes.
        mock_key: a secret that makes answers about users who are not there.
        is_stopping: sessions end as soon as they are idle.
    """

    def __init__(
        self,
        database: ServedDatabase,
        settings: PgSettings | None = None,
        authority: Authority | None = None,
    ) -> None:
        self.database = database
        self.settings = settings or PgSettings()
        self.authority: Authority = authority or LoopbackOnly()
        self.loop: asyncio.AbstractEventLoop
        self.tls: ssl.SSLContext | None = None
        self.binding: bytes | None = None
        self.kinds = KINDS
        self.mock_key = secrets.token_bytes(32)
        self.is_stopping = False
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._openings: dict[Opening, None] = {}  # by age
        self._sessions: dict[int, tuple[Conversation, int]] = {}
        self._next_pid = 1
        self._all_left: asyncio.Event | None = None

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
                port = port or self.port
            if settings.unix_directory is not None:
                await self._listen_unix(settings.unix_directory / f".s.PGSQL.{port}")
        except BaseException:
            self._stop_listening()
            raise
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
        """The TCP port that is listened to."""
        return int(self._listeners[0].sockets[0].getsockname()[1])

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
        if len(self._openings) >= self.settings.max_starting:
            oldest = next(iter(self._openings))
            del self._openings[oldest]
            oldest.evict()
        opening = Opening(connection)
        self._openings[opening] = None
        self._connections.add(connection)
        return opening

    def opening_over(self, opening: Opening) -> None:
        """A connection has become a session, or has ended."""
        self._openings.pop(opening, None)

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)

    @property
    def connections(self) -> int:
        """How many connections there are, sessions or not."""
        return len(self._connections)

    # Sessions.

    def check_database(self, name: str) -> None:
        """FatalError 3D000 for a database that is not this one."""
        if self.settings.database not in {None, name}:
            raise FatalError("3D000", f'database "{name}" does not exist')

    def admit(self, start: Start) -> Session:
        """A session for a client who proved who he is.

        Raises:
            FatalError: 53300 there are too many, 57P03 the server is going down.
            SqlError: 57P03, the database is closed.
        """
        del start
        if self.is_stopping:
            raise FatalError("57P03", "the database system is shutting down")
        if len(self._sessions) >= self.settings.max_connections:
            raise FatalError("53300", "sorry, too many clients already")
        return self.database.session()

    def new_pid(self) -> int:
        """A process number that no session has."""
        while True:
            pid, self._next_pid = self._next_pid, self._next_pid % _MAX_PID + 1
            if pid not in self._sessions:
                return pid

    def entered(self, conversation: Conversation, secret: int) -> None:
        """A session has begun."""
        self._sessions[conversation.pid] = (conversation, secret)

    def left(self, conversation: Conversation) -> None:
        """A session has ended."""
        self._sessions.pop(conversation.pid, None)
        if self._all_left is not None and not self._sessions:
            self._all_left.set()

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    def cancel(self, pid: int, secret: int) -> None:
        """Cancel what session ``pid`` is doing, if ``secret`` is its."""
        found = self._sessions.get(pid)
        if found is None or not hmac.compare_digest(found[1].to_bytes(4, "big"), secret.to_bytes(4, "big")):
            logger.info("a request to cancel session %d is refused", pid)
            return
        found[0].session.cancel()

    def terminate(self, pid: int) -> bool:
        """End session ``pid``; False when there is none."""
        found = self._sessions.get(pid)
        if found is None:
            return False
        found[0].terminate(shutting_down())
        return True

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
        for conversation, _ in list(self._sessions.values()):
            if conversation.is_idle:
                conversation.terminate(shutting_down())
        if not await self._sessions_left(graceful_timeout_s):
            for conversation, _ in list(self._sessions.values()):
                conversation.terminate(shutting_down())
            if not await self._sessions_left(_END_PATIENCE_S):
                logger.error("%d sessions did not end", len(self._sessions))
        await asyncio.sleep(0)  # what was written last is on its way
        for connection in list(self._connections):
            connection.linger()

    async def _sessions_left(self, timeout_s: float) -> bool:
        """Wait until there is no session; False when time is up."""
        if not self._sessions:
            return True
        self._all_left = asyncio.Event()
        try:
            await asyncio.wait_for(self._all_left.wait(), timeout_s)
        except TimeoutError:
            return not self._sessions
        finally:
            self._all_left = None
        return True
