"""The sessions of one server: who gets one, which there are, and how all of them end.

Above ``conversation``, below ``opening``, which asks for a session, and ``server``, which ends them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from herdpy_server.pgwire.backend import FatalError
from herdpy_server.pgwire.conversation import Conversation, shutting_down
from herdpy_server.roles.permissions import may
from herdpy_server.serving.driver import EmptyWait
from herdpy_sql.rights.held import DATABASE
from herdpy_sql.system.state import TlsUse

if TYPE_CHECKING:
    from herdpy_server.pgwire.connection import ClientConnection
    from herdpy_server.pgwire.context import PgContext
    from herdpy_server.pgwire.frontend import StartupMessage
    from herdpy_server.sessions import Session
    from herdpy_server.sessions.registry import SessionEntry

logger = logging.getLogger("herdpy.pgwire")

_END_PATIENCE_S = 60.0


class SessionAdmission:
    """Admits clients to sessions.

    Attributes:
        conversations: those that have begun and not ended.
    """

    def __init__(self, context: PgContext) -> None:
        self.conversations: set[Conversation] = set()
        self._context = context
        self._all_left = EmptyWait(self.conversations)

    def admit(self, start: StartupMessage) -> Session:
        """A session for a client that has proved its role.

        Raises:
            FatalError: as :func:`session_for`; 53300 there are too many.
            SqlError: 3D000 there is no such database, 57P03 it cannot be used.
        """
        context = self._context
        check_open(context)
        if len(self.conversations) >= context.settings.max_connections:
            raise FatalError("53300", "sorry, too many clients already")
        return session_for(context, start.user, start.database)

    def enter(self, conversation: Conversation, start: StartupMessage) -> SessionEntry:
        """A session begins: it has a number from now on."""
        context = self._context
        peer, origin = conversation.connection, conversation.origin
        entry = context.registry.add(
            conversation.session,
            user=start.user,
            database=start.database,
            end=conversation.terminate,
            address=peer.peer if origin is None else origin.address,
            port=peer.peer_port if origin is None else origin.port,
            tls=_tls_of(peer),
        )
        conversation.entry = entry
        conversation.session.settings.set_shown(
            {
                "max_connections": str(context.settings.max_connections),
                "port": str(context.port),
                "ssl": "off" if context.tls is None else "on",
            }
        )
        conversation.begin_reports()
        conversation.session.settings.on_standby = conversation.report_now
        self.conversations.add(conversation)
        return entry

    def left(self, conversation: Conversation) -> None:
        """A session has ended."""
        self.conversations.discard(conversation)
        if conversation.entry is not None:
            self._context.registry.remove(conversation.entry)
        if self._all_left.event is not None and not self.conversations:
            self._all_left.event.set()

    def cancel(self, pid: int, secret: int) -> None:
        """Cancel what session ``pid`` is doing, if ``secret`` is its."""
        if not self._context.registry.cancel(pid, secret):
            logger.info("a request to cancel session %d is refused", pid)

    async def end_all(self, graceful_timeout_s: float) -> None:
        """End all sessions, and wait until they have ended. The context says already that the server stops.

        Idle sessions end at once, others when their transaction does, or with 57P01 after the time.
        """
        for conversation in list(self.conversations):
            if conversation.is_idle:
                conversation.terminate(shutting_down())
        if not await self._all_left.wait(graceful_timeout_s):
            for conversation in list(self.conversations):
                conversation.terminate(shutting_down())
            if not await self._all_left.wait(_END_PATIENCE_S):
                logger.error("%d sessions did not end", len(self.conversations))


def session_for(context: PgContext, user: str, database: str) -> Session:
    """A session for a client of any door, once it has proved its role; to be registered by the caller.

    Raises:
        FatalError: 53300 the role has too many, 28000 it may not log in, 42501 it may not connect to this
            database, 57P03 the server is going down.
        SqlError: 3D000 there is no such database, 57P03 it cannot be used.
    """
    check_open(context)
    check_role(context, user)
    session = context.databases.session(database)
    effective_role = context.registry.effective_roles.of_name(user)
    if not may(session.tablespace.catalog, DATABASE, "c", effective_role):
        raise FatalError(
            "42501",
            f'permission denied for database "{database}"',
            detail="User does not have CONNECT privilege.",
        )
    session.settings.set_shown({"is_superuser": "on" if effective_role.is_superuser else "off"})
    return session


def begin_settings(
    context: PgContext, session: Session, start: StartupMessage, *, is_forwarded: bool
) -> None:
    """What a session begins with: its role's settings, and the client's, which win over them.

    A role's setting that is of no use any more is a warning. A forwarded session has what it has begun with
    at its node. SqlError as ``Settings.start_with``.
    """
    settings = session.settings
    if is_forwarded:
        settings.start_as_role(start.settings().items())
        return
    store = context.registry.role_store
    role = None if store is None else store.get(start.user)
    wrong = settings.start_as_role(() if role is None else role.settings)
    for name, value in start.settings().items():
        settings.start_with(name, value.strip("'") if name == "client_encoding" else value)
    for error in wrong:
        session.notice("WARNING", error.sqlstate, error.message)


def check_open(context: PgContext) -> None:
    """FatalError 57P03 when the server is going down."""
    if context.is_stopping or context.databases.is_closed:
        raise FatalError("57P03", "the database system is shutting down")


def check_role(context: PgContext, user: str) -> None:
    """FatalError when a role of this name may not log in, or has too many sessions."""
    registry = context.registry
    store = registry.role_store
    role = None if store is None else store.get(user)
    if role is None:
        return
    if not role.can_login:
        raise FatalError("28000", f'role "{role.name}" is not permitted to log in')
    if role.is_superuser:
        return
    count = registry.of_user(role.name)
    most = context.settings.max_connections_per_user
    if 0 < most <= count or 0 <= role.connection_limit <= count:
        raise FatalError("53300", f'too many connections for role "{role.name}"')


def _tls_of(connection: ClientConnection) -> TlsUse | None:
    """How a connection is encrypted; None: it is not."""
    used = connection.transport.get_extra_info("ssl_object") if connection.is_encrypted else None
    if used is None:
        return None
    name, _protocol, bits = used.cipher()
    return TlsUse(used.version(), name, bits)
