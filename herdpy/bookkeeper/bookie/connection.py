"""A TCP connection to a bookie, from connecting to frames: when to connect, TLS, authentication.

Between asyncio's transport and the handle. BookieConnection turns bytes into whole frames and back, for
whoever owns it: first the handshake, then the handle (`handle.Bookie`), which lives longer than any
connection; it works on asyncio's and uvloop's loops alike. `establish` connects, asks for TLS and
authenticates (`authenticate` exchanges the tokens) if asked for, and gives a connection that is ready for
requests, or an error that says which step failed, all steps together within `connect_timeout_s`. The
Connector makes one attempt at a time, with a pause after each failure; nothing runs while nobody asks.

Format: START_TLS (proto/BookieRequestProcessor.java) and AUTH (proto/AuthHandler.java, auth/) of BookKeeper.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, cast

from herdpy.backoff import Backoff
from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.errors import (
    AuthenticationError,
    BookieUnavailableError,
    BookKeeperError,
    ProtocolError,
)
from herdpy.bookkeeper.settings import AuthProvider, ClientSettings
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.messages import AuthReply, Reply, parse_reply
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus

Frame = bytes

WRITE_BYTES = 256 * 1024
"""Frames are joined into writes of about this size (a larger frame goes alone)."""

BUFFER_HIGH_BYTES = 1024 * 1024
"""When the transport holds so much unsent, no more is handed to it until it is down to a quarter."""


class ConnectionOwner(Protocol):
    """Receives what happens on a connection. Called from the event loop only."""

    def frames_received(self, frames: list[Frame]) -> None:
        """Whole frames arrived, without their length prefix."""

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Frames arrived that say that these adds succeeded."""

    def frame_malformed(self, error: ProtocolError) -> None:
        """What arrived is no frame; nothing after it can be understood."""

    def connection_ended(self, error: Exception | None) -> None:
        """The connection is gone; None when it was closed in order."""

    def writing_paused(self, paused: bool) -> None:
        """The transport's buffer is full, or has room again."""


class BookieConnection(asyncio.Protocol):
    """The protocol object of one connection.

    `writable` is False while the transport's buffer is full; `is_open` turns False for good at the end.
    """

    def __init__(self, max_frame_bytes: int, metrics: BookieMetrics, owner: ConnectionOwner) -> None:
        self.owner = owner
        self.writable = False
        self.is_open = False
        self._max_frame_bytes = max_frame_bytes
        self._metrics = metrics
        self._splitter = FrameSplitter(max_frame_bytes)
        self._transport: asyncio.Transport | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._use(cast("asyncio.Transport", transport))  # uvloop's are not of asyncio's classes
        self.is_open = True
        self.writable = True

    def data_received(self, data: bytes) -> None:
        """Cut into frames and hand them on."""
        if not self.is_open:
            return
        self._metrics.bytes_received += len(data)
        try:
            txns, frames = self._splitter.feed_answers(data)
        except ProtocolError as error:
            self.owner.frame_malformed(error)
            return
        if txns:
            self.owner.adds_acknowledged(txns)
        if frames and self.is_open:
            self.owner.frames_received(frames)

    def pause_writing(self) -> None:
        """Called by the transport when its buffer is full."""
        self.writable = False
        self.owner.writing_paused(True)

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room again."""
        self.writable = self.is_open
        if self.is_open:
            self.owner.writing_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport at the end, once."""
        if self.is_open:
            self.is_open = False
            self.writable = False
            self.owner.connection_ended(exc)

    # What the owner calls.

    def write(self, frames: list[bytes]) -> list[bytes]:
        """Hand whole frames to the transport, joined; gives back those that it has no room for.

        The transport may call `pause_writing` before this returns.
        """
        transport = self._transport
        assert transport is not None
        metrics = self._metrics
        size_bytes = sum(map(len, frames))
        if size_bytes <= WRITE_BYTES:
            transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
            metrics.writes += 1
            metrics.frames_sent += len(frames)
            metrics.bytes_sent += size_bytes
            return []
        start = 0
        while start < len(frames) and self.writable:
            end = start + 1
            size_bytes = len(frames[start])
            while end < len(frames) and size_bytes + len(frames[end]) <= WRITE_BYTES:
                size_bytes += len(frames[end])
                end += 1
            transport.write(frames[start] if end == start + 1 else b"".join(frames[start:end]))
            metrics.writes += 1
            metrics.bytes_sent += size_bytes
            start = end
        metrics.frames_sent += start
        return frames[start:]

    async def start_tls(self, context: ssl.SSLContext, server_hostname: str) -> None:
        """Speak TLS from here on.

        What came in the clear and was not yet a whole frame is dropped: it must not be taken for something
        that was said under TLS. Raises ssl.SSLError and ConnectionError.
        """
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(self._max_frame_bytes)
        upgraded = await loop.start_tls(self._transport, self, context, server_hostname=server_hostname)
        if upgraded is None or not self.is_open:
            raise BookieUnavailableError("the connection was lost during the TLS handshake")
        self._use(upgraded)

    def abort(self) -> None:
        """End the connection now, dropping what is unsent. The owner is not called."""
        self.is_open = False
        self.writable = False
        if self._transport is not None:
            self._transport.abort()

    def _use(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=BUFFER_HIGH_BYTES, low=BUFFER_HIGH_BYTES // 4)
        self._transport = transport


# Connecting.

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
    reply = await handshake.ask(connection, Operation.START_TLS, messages.start_tls)
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
            connection, Operation.AUTH, lambda txn: messages.auth(txn, plugin, payload)
        )
        return reply.status, reply.body if isinstance(reply.body, AuthReply) else None

    await authenticate(provider, host, ask)


log = logging.getLogger("herdpy.bookkeeper.bookie")


@dataclass(frozen=True, slots=True)
class BookieContext:
    """What a bookie's handle and its connections are made with.

    Attributes:
        resolve: gives host and port of a bookie's id; called for each attempt, for a bookie may have moved.
        next_txn: gives the ids of requests.
        metrics: where everything is counted.
        rng: spreads the pauses between attempts.
        clock: seconds, of the loop.
    """

    bookie_id: str
    settings: ClientSettings
    resolve: Callable[[str], tuple[str, int]]
    next_txn: Callable[[], int]
    metrics: BookieMetrics
    rng: random.Random
    clock: Callable[[], float]


class Connector:
    """Makes the connections of one bookie.

    Ends in `ready(connection)` or `failed(error)`, each called from a task of its own; after `failed` it
    pauses.
    """

    def __init__(
        self,
        context: BookieContext,
        ready: Callable[[BookieConnection], None],
        failed: Callable[[BookKeeperError], None],
    ) -> None:
        settings = context.settings
        self._context = context
        self._backoff = Backoff(settings.backoff_first_s, settings.backoff_max_s, context.rng)
        self._clock = context.clock
        self._ready = ready
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._retry_at_s = self._clock()

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
            self._task = loop.create_task(
                self._attempt(), name=f"connect to bookie {self._context.bookie_id}"
            )
        return True

    def pause(self) -> None:
        """A connection failed, or was of no use: no attempt for a while."""
        self._retry_at_s = self._clock() + self._backoff.pause_s()

    def reset(self) -> None:
        """A connection was of use: the next failure is the first again."""
        self._backoff.reset()

    def forget_failures(self) -> None:
        """The bookie has started anew: an attempt may be begun at once."""
        self._backoff.reset()
        self._retry_at_s = self._clock()

    def cancel(self) -> None:
        """Give up the attempt under way, without telling anyone."""
        if self._task is not None:
            self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until no attempt is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _attempt(self) -> None:
        made_with = self._context
        try:
            address = made_with.resolve(made_with.bookie_id)
            connection = await establish(address, made_with.settings, made_with.next_txn, made_with.metrics)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is reported to who waits for this connection
            self._task = None
            self._context.metrics.connection_failures += 1
            self.pause()
            self._failed(self._named(error))
            return
        self._task = None
        self._context.metrics.connections += 1
        log.info("connected", extra={"bookie": self._context.bookie_id})
        self._ready(connection)

    def _named(self, error: Exception) -> BookKeeperError:
        if isinstance(error, BookKeeperError):
            log.warning("cannot connect", extra={"bookie": self._context.bookie_id, "error": str(error)})
            return error
        log.error("cannot connect", exc_info=error, extra={"bookie": self._context.bookie_id})
        unexpected = BookieUnavailableError(f"cannot connect: {error!r}")
        unexpected.__cause__ = error
        return unexpected
