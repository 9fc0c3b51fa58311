"""Connecting to a bookie: when to connect and when to leave it alone, TLS, and authentication.

Between the handle, which wants a connection, and asyncio. From the top of the file: `authenticate` is the
exchange of tokens with which a new connection begins, if the bookie asks for one; `establish` connects, asks
for TLS and authenticates if asked for, and gives a BookieConnection that is ready for requests, or an error
that says which step failed, all steps together within `connect_timeout_s`; the Connector makes one attempt at
a time, with a pause after each failure. On demand only: nothing here runs while nobody asks.

Format: START_TLS (proto/BookieRequestProcessor.java) and AUTH (proto/AuthHandler.java, auth/) of BookKeeper.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

from herdpy.backoff import Backoff
from herdpy.bookkeeper.auth_provider import AuthExchange, AuthProvider
from herdpy.bookkeeper.bookie.connection import BookieConnection, Frame
from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.errors import (
    AuthenticationError,
    BookieUnavailableError,
    BookKeeperError,
    ProtocolError,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire import requests
from herdpy.bookkeeper.wire.replies import AuthReply, Reply, parse_reply
from herdpy.bookkeeper.wire.status import Operation, ReplyStatus

__all__ = ["MAX_ROUNDS", "NO_AUTHENTICATION_PLUGIN", "AuthExchange", "AuthProvider", "authenticate"]

NO_AUTHENTICATION_PLUGIN = "AuthDisabledPlugin"
"""The plugin named by a bookie that authenticates nobody (auth/AuthProviderFactoryFactory.java)."""

MAX_ROUNDS = 16
"""Tokens sent before the exchange is given up: more than any mechanism needs, and not for ever."""


async def authenticate(
    provider: AuthProvider, host: str, ask: Callable[[str, bytes], Awaitable[tuple[int, AuthReply | None]]]
) -> None:
    """Run one exchange to its end; `ask(plugin, payload)` sends a token and gives status and reply.

    Returns also when the bookie says that it authenticates nobody. Raises AuthenticationError when the bookie
    refuses, runs another plugin, or does not come to an end.
    """
    exchange = provider.exchange(host)
    payload = exchange.start()
    for _ in range(MAX_ROUNDS):
        status, reply = await ask(provider.plugin, payload)
        if status != ReplyStatus.EOK or reply is None:
            raise AuthenticationError(f"the bookie refused to authenticate this client (status {status})")
        if reply.plugin == NO_AUTHENTICATION_PLUGIN:
            return
        if reply.plugin != provider.plugin:
            raise AuthenticationError(f"the bookie answered with the plugin {reply.plugin[:100]!r}")
        answer = exchange.respond(reply.payload)
        if answer is None:
            return
        payload = answer
    raise AuthenticationError(f"authentication did not end within {MAX_ROUNDS} rounds")


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
                    raise ProtocolError("the bookie sent a message that was not requested")
                self._answer.set_result(frame)
        except ProtocolError as error:
            self._fail(error)

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Nothing was added yet."""
        self._fail(ProtocolError("the bookie sent a message that was not requested"))

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


log = logging.getLogger("herdpy.bookkeeper.bookie")


class Connector:
    """Makes the connections of one bookie.

    `resolve(bookie_id)` is asked for host and port at each attempt, for a bookie may have moved. Ends in
    `ready(connection)` or `failed(error)`, each called from a task of its own; after `failed` it pauses.
    """

    def __init__(
        self,
        bookie_id: str,
        settings: ClientSettings,
        resolve: Callable[[str], tuple[str, int]],
        next_txn: Callable[[], int],
        metrics: BookieMetrics,
        backoff: Backoff,
        clock: Callable[[], float],
        ready: Callable[[BookieConnection], None],
        failed: Callable[[BookKeeperError], None],
    ) -> None:
        self._bookie_id = bookie_id
        self._settings = settings
        self._resolve = resolve
        self._next_txn = next_txn
        self._metrics = metrics
        self._backoff = backoff
        self._clock = clock
        self._ready = ready
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._retry_at_s = clock()

    @property
    def is_connecting(self) -> bool:
        """Whether an attempt is under way."""
        return self._task is not None

    @property
    def pause_left_s(self) -> float:
        """How long no attempt will be begun yet, after a failure; 0: not at all."""
        return max(0.0, self._retry_at_s - self._clock())

    def start(self, now_s: float) -> bool:
        """Begin an attempt unless one is under way; False while pausing after a failure."""
        if self._task is None:
            if now_s < self._retry_at_s:
                return False
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._attempt(), name=f"connect to bookie {self._bookie_id}")
        return True

    def pause(self) -> None:
        """A connection failed, or was of no use: no attempt for a while."""
        self._retry_at_s = self._clock() + self._backoff.pause_s()

    def reset(self) -> None:
        """A connection was of use: the next failure is the first again."""
        self._backoff.reset()

    def cancel(self) -> None:
        """Give up the attempt under way, without telling anyone."""
        if self._task is not None:
            self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until no attempt is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _attempt(self) -> None:
        try:
            connection = await establish(
                self._resolve(self._bookie_id), self._settings, self._next_txn, self._metrics
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, who waits for this connection must be told
            self._task = None
            self._metrics.connection_failures += 1
            self.pause()
            self._failed(self._named(error))
            return
        self._task = None
        self._metrics.connections += 1
        log.info("connected", extra={"bookie": self._bookie_id})
        self._ready(connection)

    def _named(self, error: Exception) -> BookKeeperError:
        if isinstance(error, BookKeeperError):
            log.warning("cannot connect", extra={"bookie": self._bookie_id, "error": str(error)})
            return error
        log.error("cannot connect", exc_info=error, extra={"bookie": self._bookie_id})
        unexpected = BookieUnavailableError(f"cannot connect: {error!r}")
        unexpected.__cause__ = error
        return unexpected
