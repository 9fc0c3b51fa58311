"""From a connection's first byte to its session: encryption, version, who the client is, first settings.

The first stage of a :class:`ClientConnection`; above ``admission``, which gives it the session.
It waits for TLS's handshake and the client alone. Its time is limited as a whole, so that those who never say
who they are go again.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from functools import partial
from typing import TYPE_CHECKING

from herdpy_server.pgwire import backend
from herdpy_server.pgwire.admission import SessionAdmission, begin_settings
from herdpy_server.pgwire.authentication import (
    BOUND,
    PLAIN,
    REJECT,
    SCRAM,
    ScramExchange,
    common_name,
    no_such_user,
)
from herdpy_server.pgwire.backend import FatalError, SilentClose
from herdpy_server.pgwire.conversation import Conversation
from herdpy_server.pgwire.forwarded import (
    MAX_START_BYTES,
    ForwardChallenge,
    forwarded_handlers,
)
from herdpy_server.pgwire.forwarded_client import ForwardedClient
from herdpy_server.pgwire.frontend import (
    CONTEXT,
    PASSWORD,
    PROTOCOL,
    CancelRequest,
    ForwardRequest,
    GssRequest,
    SslRequest,
    StartupMessage,
    SubscribeRequest,
    packet_length,
    read_packet,
    string,
)
from herdpy_server.pgwire.queries import HANDLERS
from herdpy_server.pgwire.streams import cursor_form
from herdpy_server.pgwire.traced_queries import traced
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_server.pgwire.connection import ClientConnection

logger = logging.getLogger("herdpy.pgwire")

_MAX_PASSWORD_BYTES = 4096
_LEADS_WITHIN_S = 2.0
"""A node that was elected is waited for so long."""
_LOOK_S = 0.01
_NOT_NOW = "57P03"
"""As an answer to the authentication it makes libpq try the next host; afterwards it would not."""


class Opening:
    """What has been settled so far.

    Attributes:
        is_crowded: there are too many connections from its address; it is refused once it says who it is.
    """

    __slots__ = (
        "_admission",
        "_challenge",
        "_connection",
        "_exchange",
        "_is_refused",
        "_origin",
        "_start",
        "_timer",
        "_tls",
        "_when_over",
        "_wishes",
        "is_crowded",
    )

    def __init__(
        self, connection: ClientConnection, admission: SessionAdmission, over: Callable[[Opening], object]
    ) -> None:
        """``over`` is called once the connection has become a session, or has ended."""
        self._connection = connection
        self._admission = admission
        self._when_over = over
        self._start: StartupMessage | None = None
        self._is_refused = False
        self.is_crowded = False
        self._exchange: ScramExchange | None = None
        self._challenge: ForwardChallenge | None = None
        self._origin: ForwardedClient | None = None
        self._tls: asyncio.Task[None] | None = None
        self._wishes: set[type] = set()  # for encryption: each can be had once
        context = connection.context
        self._timer = context.loop.call_later(context.settings.startup_timeout_s, self._late)

    # Taking what comes.

    def advance(self) -> None:
        """Take the packets that are here."""
        connection = self._connection
        try:
            while self._tls is None and not (connection.is_lost or self._is_refused):
                if self._start is None:
                    if not (self._packet() if self._challenge is None else self._prove()):
                        break
                elif not self._answer():
                    break
        except (FatalError, SilentClose) as error:
            self._refuse(error)
            return
        except SqlError as error:
            self._refuse(FatalError.of(error))
            return
        if connection.eof and self._tls is None:
            connection.close()
        elif not connection.is_lost:
            connection.pass_over(waiting=False)

    def lost(self) -> None:
        """The client is gone."""
        self._over()
        if self._tls is not None:
            self._tls.cancel()

    def _late(self) -> None:
        if self._start is None:
            self._connection.abort()
        else:
            self._refuse(FatalError("57014", "canceling authentication due to timeout"))

    def evict(self) -> None:
        """Make room for another: too many have not said who they are."""
        self._refuse(FatalError("53300", "sorry, too many clients already"))

    def _refuse(self, error: Exception) -> None:
        self._over()
        self._is_refused = True
        if isinstance(error, FatalError) and self._start is not None:
            try:
                self._record_event("refused", error.error.sqlstate)
            except SqlError:
                logger.error("a refusal is not in the audit log")
        self._connection.refuse(error)

    def _record_event(self, event: str, sqlstate: str = "") -> None:
        """Write it to the audit log. SqlError 58030 where that fails."""
        connection, start = self._connection, self._start
        auditor = connection.context.registry.auditor
        if auditor is None or start is None:
            return
        fields: dict[str, object] = {
            "user": start.user,
            "database": start.database,
            "address": connection.peer or "[local]",
            "tls": connection.is_encrypted,
        }
        if self._origin is not None:
            fields |= {"address": self._origin.address or "[local]", "node": self._origin.node}
        if sqlstate:
            fields["sqlstate"] = sqlstate
        auditor.event("login", event, fields)

    def _over(self) -> None:
        self._timer.cancel()
        self._when_over(self)

    # Start-up packets.

    def _packet(self) -> bool:
        """Take one packet; False when there is none, or nothing comes after it."""
        connection = self._connection
        inbox = connection.inbox
        waiting = inbox.peek()
        if len(waiting) < 4:
            return False
        packet = inbox.take(packet_length(waiting))
        if packet is None:
            return False
        wish = read_packet(packet)
        if isinstance(wish, SslRequest | GssRequest):
            self._encryption(wish)
            return True
        if isinstance(wish, CancelRequest):
            self._admission.cancel(wish.pid, wish.secret)
            self._refuse(SilentClose("a cancel request"))
            return False
        if isinstance(wish, SubscribeRequest):
            self._subscribe(wish)
            return False
        if isinstance(wish, ForwardRequest):
            self._question(wish)
            return True
        self._begin(wish)
        return True

    def _question(self, wish: ForwardRequest) -> None:
        """Another node wants to forward a session: it must prove that it is one. SilentClose: not here."""
        connection = self._connection
        context = connection.context
        if context.settings.tls_required and not connection.is_encrypted:
            raise SilentClose("a forwarded session without encryption")
        if context.forwarding is None:
            raise SilentClose("a forwarded session, and this server is in no cluster")
        self._challenge = challenge = ForwardChallenge(context.forwarding.secret, wish.nonce)
        connection.inbox.kinds = frozenset({CONTEXT})
        connection.inbox.max_message_bytes = MAX_START_BYTES
        connection.send(challenge.question())
        connection.flush = True

    def _prove(self) -> bool:
        """Take the proof; False when it is not here. FatalError 28000: it proves nothing."""
        assert self._challenge is not None
        inbox = self._connection.inbox
        message = inbox.next()
        if message is None:
            return False
        _kind, at, stop = message
        start, self._origin = self._challenge.answered(inbox.data[at:stop])
        self._start = start
        inbox.kinds = frozenset()  # nothing more comes before the session has begun
        self._enter_as_leader(self._connection.context.loop.time() + _LEADS_WITHIN_S)
        return False

    def _enter_as_leader(self, until_s: float) -> None:
        """Begin a forwarded session, once this node leads: it may be about to. FatalError 57P03: not yet."""
        connection, start = self._connection, self._start
        context = connection.context
        assert start is not None
        assert context.forwarding is not None
        if context.forwarding.leads(start.database):
            self._enter()
        elif context.loop.time() > until_s:
            raise FatalError(_NOT_NOW, "this node does not lead the database")
        elif not connection.is_lost:
            context.loop.call_later(_LOOK_S, self._look_again, until_s)

    def _look_again(self, until_s: float) -> None:
        try:
            self._enter_as_leader(until_s)
        except FatalError as error:
            self._refuse(error)
        except SqlError as error:
            self._refuse(FatalError.of(error))

    def _subscribe(self, wish: SubscribeRequest) -> None:
        """The connection takes a stream that a call has offered. SilentClose: there is none like that."""
        connection = self._connection
        context = connection.context
        if context.settings.tls_required and not connection.is_encrypted:
            raise SilentClose("a ticket without encryption")
        subscription = context.subscriptions.claim(wish.ticket)
        if subscription is None:
            raise SilentClose("a ticket for nothing")
        self._over()
        connection.enter(subscription)
        subscription.begin(connection)

    def _encryption(self, wish: SslRequest | GssRequest) -> None:
        connection = self._connection
        if type(wish) in self._wishes or connection.is_encrypted:
            code = 5679 if isinstance(wish, SslRequest) else 5680
            raise FatalError(
                "0A000", f"unsupported frontend protocol 1234.{code}: server supports 3.0 to 3.0"
            )
        self._wishes.add(type(wish))
        context = connection.context.tls
        if isinstance(wish, GssRequest) or context is None or connection.peer is None:
            connection.out.append(b"N")
            connection.write()
            return
        if connection.inbox.peek():
            raise FatalError(
                "08P01",
                "received unencrypted data after SSL request",
                detail="This could be either a client-software bug or evidence of an attempted "
                "man-in-the-middle attack.",
            )
        connection.transport.pause_reading()  # what comes now is the handshake's
        connection.out.append(b"S")
        connection.write()
        self._tls = connection.context.loop.create_task(self._start_tls())

    async def _start_tls(self) -> None:
        connection = self._connection
        context = connection.context
        assert context.tls is not None
        try:
            transport = await context.loop.start_tls(
                connection.transport,
                connection,
                context.tls,
                server_side=True,
                ssl_handshake_timeout=context.settings.startup_timeout_s,
            )
        except (OSError, EOFError) as error:  # ssl.SSLError is an OSError
            logger.info("TLS with %s failed: %s", connection.peer, error)
            self._tls = None
            connection.abort()
            return
        self._tls = None
        if transport is None or connection.is_lost:
            return
        connection.transport = transport
        transport.set_write_buffer_limits(high=connection.write_ahead_bytes)
        connection.is_encrypted = True
        self.advance()

    # Who it is.

    def _begin(self, start: StartupMessage) -> None:
        connection = self._connection
        context = connection.context
        minor = PROTOCOL & 0xFFFF
        if start.minor > minor or start.unknown:
            connection.out.append(backend.negotiate_protocol_version(PROTOCOL, start.unknown))
        self._start = start
        if self.is_crowded:
            raise FatalError("53300", f"too many connections from address {connection.peer}")
        method = context.authority.method(start.user, connection.peer)
        if context.settings.tls_required and not connection.is_encrypted and connection.peer is not None:
            method = REJECT
        if method == REJECT:
            raise FatalError(
                "28000",
                f'no rule lets user "{start.user}" in from host "{connection.peer or "[local]"}", '
                f"{'TLS' if connection.is_encrypted else 'no encryption'}",
            )
        self._check_certificate(context.authority.certificate(start.user, connection.peer))
        if method == SCRAM:
            connection.inbox.kinds = frozenset({PASSWORD})
            connection.inbox.max_message_bytes = _MAX_PASSWORD_BYTES
            bound = [BOUND] if connection.is_encrypted and context.binding else []
            connection.send(backend.authentication_sasl([*bound, PLAIN]))
            connection.flush = True
        else:
            self._enter()

    def _check_certificate(self, wanted: str) -> None:
        """FatalError 28000 unless the client has shown the certificate that a rule asks for."""
        connection, start = self._connection, self._start
        assert start is not None
        if not wanted:
            return
        found = connection.transport.get_extra_info("peercert") if connection.is_encrypted else None
        if not found:
            raise FatalError("28000", "connection requires a valid client certificate")
        if wanted == "verify-full" and common_name(found) != start.user:
            raise FatalError("28000", f'certificate authentication failed for user "{start.user}"')

    def _answer(self) -> bool:
        """Take one message of the authentication; False when there is none."""
        connection = self._connection
        inbox = connection.inbox
        if PASSWORD not in inbox.kinds:
            return False  # it is over
        try:
            message = inbox.next()
        except FatalError as error:
            raise FatalError("08P01", f"expected SASL response, {error}") from None
        if message is None:
            return False
        _kind, at, stop = message
        if stop - at > _MAX_PASSWORD_BYTES:  # the inbox looks more closely only at what is much longer
            raise FatalError("08P01", f"expected SASL response, a message of {stop - at} bytes is too long")
        body = inbox.data[at:stop]
        if self._exchange is None:
            self._first(body)
        else:
            self._final(body)
        connection.flush = True
        return True

    def _first(self, body: bytes) -> None:
        connection, start = self._connection, self._start
        assert start is not None
        context = connection.context
        mechanism, at = string(body, 0, len(body))
        offered = connection.is_encrypted and context.binding is not None
        if mechanism != PLAIN and not (mechanism == BOUND and offered):
            raise FatalError("08P01", "client selected an invalid SASL authentication mechanism")
        if len(body) < at + 4:
            raise FatalError("08P01", "insufficient data left in message")
        (length,) = struct.unpack_from(">i", body, at)
        first = body[at + 4 :]
        if length != len(first):
            raise FatalError("08P01", "malformed SASL initial response")
        verifier = context.authority.verifier(start.user) or no_such_user(start.user, context.mock_key)
        self._exchange = ScramExchange(mechanism, verifier, binding=context.binding, offered=offered)
        connection.send(backend.authentication_sasl_continue(self._exchange.first(first)))

    def _final(self, body: bytes) -> None:
        connection, start, exchange = self._connection, self._start, self._exchange
        assert start is not None
        assert exchange is not None
        proof = exchange.final(body)
        if proof is None:
            raise FatalError("28P01", f'password authentication failed for user "{start.user}"')
        connection.send(backend.authentication_sasl_final(proof))
        self._enter()

    def _enter(self) -> None:
        """Begin the session."""
        connection, start = self._connection, self._start
        assert start is not None
        context = connection.context
        try:
            session = self._admission.admit(start)
        except SqlError as error:
            if error.sqlstate != _NOT_NOW:
                connection.send(backend.AUTHENTICATION_OK)
            raise
        connection.send(backend.AUTHENTICATION_OK)
        begin_settings(context, session, start, is_forwarded=self._origin is not None)
        self._record_event("login")
        handlers = HANDLERS if context.tracer is None else traced(session, context.tracer, start.database)
        if self._origin is not None:
            handlers = forwarded_handlers(handlers)
        conversation = Conversation(connection, session, handlers, self._admission.left)
        conversation.origin = self._origin
        session.cursor_form = partial(cursor_form, conversation)
        entry = self._admission.enter(conversation, start)
        if self._origin is not None:
            session.is_forwarded = True
            session.sequences.pid = self._origin.pid or entry.pid
        self._over()
        conversation.notify()
        for name, value in conversation.reported.values.items():
            connection.out.append(backend.parameter_status(name, value))
        connection.out.append(backend.backend_key_data(entry.pid, entry.secret))
        connection.inbox.kinds = frozenset(handlers)
        connection.inbox.max_message_bytes = context.settings.max_message_bytes
        connection.enter(conversation)
        conversation.ready()
        connection.write()
        conversation.advance()
