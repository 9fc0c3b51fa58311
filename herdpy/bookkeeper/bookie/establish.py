"""Making a connection usable: connect, TLS if asked for, authentication if asked for.

Used by the handle, once for each connection: it gets a `BookieConnection` that is ready for requests, or an
error that says which step failed. All steps together have `connect_timeout_s`.

Format: START_TLS (proto/BookieRequestProcessor.java) and AUTH (proto/AuthHandler.java) of BookKeeper.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from herdpy.bookkeeper.bookie.auth import AuthProvider, authenticate
from herdpy.bookkeeper.bookie.connection import BookieConnection, Frame
from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.errors import AuthenticationError, BookieUnavailableError, ProtocolError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire import requests
from herdpy.bookkeeper.wire.replies import AuthReply, Reply, parse_reply
from herdpy.bookkeeper.wire.status import Operation, ReplyStatus


class Handshake:
    """Owner of a connection until it is ready: one request at a time, each answered before the next.

    `step` is what is being done, for error messages; `under_tls`: nothing in the clear can arrive any more.
    """

    def __init__(self, next_txn: Callable[[], int]) -> None:
        self.step = "connecting"
        self.under_tls = False
        self._next_txn = next_txn
        self._answer: asyncio.Future[Frame] | None = None
        self._failure: Exception | None = None

    def frames_received(self, frames: list[Frame]) -> None:
        """One frame, and only when one was asked for."""
        try:
            for frame in frames:
                if self.under_tls and _is_complaint_about_tls(frame):
                    continue
                if self._answer is None or self._answer.done():
                    raise ProtocolError("the bookie spoke without being asked")
                self._answer.set_result(frame)
        except ProtocolError as error:
            self._fail(error)

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Nothing was added yet."""
        self._fail(ProtocolError("the bookie spoke without being asked"))

    def frame_malformed(self, error: ProtocolError) -> None:
        """End the handshake."""
        self._fail(error)

    def connection_ended(self, error: Exception | None) -> None:
        """End the handshake."""
        self._fail(BookieUnavailableError(f"the connection was lost while {self.step}"))

    def writing_paused(self, paused: bool) -> None:
        """Nothing to do: a handshake writes little."""

    def check(self) -> None:
        """Raise what has gone wrong so far, if anything."""
        if self._failure is not None:
            raise self._failure

    async def ask(
        self, connection: BookieConnection, operation: Operation, encode: Callable[[int], bytes]
    ) -> Reply:
        """Send one request and await its reply."""
        self.check()
        txn = self._next_txn()
        self._answer = asyncio.get_running_loop().create_future()
        try:
            connection.write([encode(txn)])
            reply = parse_reply(await self._answer)
            self.check()
        finally:
            self._answer = None
        if reply.txn != txn or reply.operation != operation:
            raise ProtocolError(f"the bookie answered something else while {self.step}")
        return reply

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _is_complaint_about_tls(frame: Frame) -> bool:
    """Whether a bookie says once more, under TLS, that TLS failed.

    One that authenticates by SASL says so after each handshake that authenticated nobody by itself, and goes
    on (proto/BookieRequestProcessor.java; seen with 4.17.3): SASL's turn is only now.
    """
    reply = parse_reply(frame)
    return reply.operation == Operation.START_TLS and reply.status != ReplyStatus.EOK


async def establish(
    address: tuple[str, int], settings: ClientSettings, next_txn: Callable[[], int], metrics: BookieMetrics
) -> BookieConnection:
    """A connection ready for requests; whoever gets it makes itself its owner at once.

    Raises BookieUnavailableError (no connection in time, refused, lost), AuthenticationError (the bookie or
    we refuse TLS or the credentials) or ProtocolError.
    """
    handshake = Handshake(next_txn)
    connection = BookieConnection(settings.max_frame_bytes, metrics, handshake)
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await _connect(connection, address)
            if settings.tls is not None:
                await _start_tls(connection, handshake, settings.tls, address[0])
            if settings.auth is not None:
                await _authenticate(connection, handshake, settings.auth, address[0])
        handshake.check()
    except TimeoutError as error:
        connection.abort()
        silent = f"no answer within {settings.connect_timeout_s:g} s while {handshake.step}"
        if handshake.step == "authenticating":
            silent += " (a bookie may reject credentials by staying silent)"
        raise BookieUnavailableError(silent) from error
    except BaseException:
        connection.abort()
        raise
    return connection


async def _connect(connection: BookieConnection, address: tuple[str, int]) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: connection, *address)
    except OSError as error:
        raise BookieUnavailableError(f"cannot connect: {error}") from error


async def _start_tls(
    connection: BookieConnection, handshake: Handshake, context: ssl.SSLContext, host: str
) -> None:
    handshake.step = "starting TLS"
    reply = await handshake.ask(connection, Operation.START_TLS, requests.start_tls)
    if reply.status != ReplyStatus.EOK:
        raise AuthenticationError(f"the bookie refuses TLS (status {reply.status})")
    handshake.under_tls = True
    try:
        await connection.start_tls(context, host)
    except ssl.SSLError as error:
        raise AuthenticationError(f"TLS failed: {error}") from error
    except OSError as error:
        raise BookieUnavailableError(f"the connection was lost while starting TLS: {error}") from error


async def _authenticate(
    connection: BookieConnection, handshake: Handshake, provider: AuthProvider, host: str
) -> None:
    handshake.step = "authenticating"

    async def ask(plugin: str, payload: bytes) -> tuple[int, AuthReply | None]:
        reply = await handshake.ask(
            connection, Operation.AUTH, lambda txn: requests.auth(txn, plugin, payload)
        )
        return reply.status, reply.body if isinstance(reply.body, AuthReply) else None

    await authenticate(provider, host, ask)
