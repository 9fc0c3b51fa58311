"""One client's connection: bytes in, bytes out, and the stage that takes the messages.

The asyncio side of ``pgwire``, above ``context`` and ``frontend``. A connection begins with an
:class:`Opening`, which settles encryption and who the client is, and goes on with a :class:`Conversation`,
which answers its messages. Both are notified when something has arrived, take messages from the inbox, and
put answers into ``out``; the connection writes them in one piece when a pass over the input is over.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final, Protocol, cast

from herdpy.log.wait import Wait
from herdpy_server.pgwire.backend import FatalError, SilentClose, error_response
from herdpy_server.pgwire.frontend import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_server.pgwire.context import PgContext

logger = logging.getLogger("herdpy.pgwire")

FLUSH_BYTES: Final = 8192
"""As PostgreSQL: this much is sent even though the client has not asked for it yet."""


_LINGER_S = 5.0


class ConnectionStage(Protocol):
    """What a connection is at."""

    def advance(self) -> None:
        """Something has arrived, or can go on: take what can be taken."""

    def lost(self) -> None:
        """The client is gone: end what is going on. Called once."""


class ConnectionLost(Exception):  # noqa: N818 - a signal to what runs, reported to nobody
    """The client went away while something waited for it."""


class ClientConnection(asyncio.Protocol):
    """One connection.

    Attributes:
        context: what it shares with the server's other connections.
        out: messages made and not yet written; ``out_bytes`` counts the large ones among them.
        flush: write them when this pass is over.
        is_full: the client does not read what it is sent: make no more.
        is_encrypted: TLS is on.
        eof: the client sends no more.
        peer, peer_port: where the client is; None for a Unix socket.
        write_ahead_bytes: what may wait unread by the client; then nothing more is made for it.
        writes: how often something was written: what was put into ``out`` since can be taken back.
    """

    __slots__ = (
        "_closed",
        "_drained",
        "_opened",
        "_reading",
        "_stage",
        "context",
        "eof",
        "flush",
        "inbox",
        "is_encrypted",
        "is_full",
        "is_lost",
        "out",
        "out_bytes",
        "peer",
        "peer_port",
        "transport",
        "write_ahead_bytes",
        "writes",
    )

    def __init__(
        self,
        context: PgContext,
        opened: Callable[[ClientConnection], ConnectionStage],
        closed: Callable[[ClientConnection], object],
    ) -> None:
        """``opened`` gives the first stage; ``closed`` is called when the connection is gone."""
        self.context = context
        self._opened = opened
        self._closed = closed
        self.inbox = Inbox(context.settings.max_message_bytes)
        self.out: list[bytes] = []
        self.out_bytes = self.writes = 0
        self.flush = False
        self.is_full = False
        self.is_lost = False
        self.is_encrypted = False
        self.eof = False
        self.peer: str | None = None
        self.peer_port: int | None = None
        self.transport: asyncio.Transport
        self._stage: ConnectionStage
        self._drained: Wait[None] | None = None
        self._reading = True
        self.write_ahead_bytes: int = context.settings.write_ahead_bytes

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)  # uvloop's are of no such class
        transport.set_write_buffer_limits(high=self.write_ahead_bytes)
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.peer, self.peer_port = address[:2]
            _no_delay(transport)
        self._stage = self._opened(self)

    def data_received(self, data: bytes) -> None:
        self.inbox.feed(data)
        self._stage.advance()

    def eof_received(self) -> bool:
        """Let what was asked before be answered first, where it can be at once."""
        self.eof = True
        self._stage.advance()
        return False

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.resolve(None)
        else:
            self._stage.advance()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.is_lost = True
        self.out.clear()
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.fail(ConnectionLost())
        self._stage.lost()
        self._closed(self)

    # What stages do.

    def enter(self, stage: ConnectionStage) -> None:
        """Another stage begins."""
        self._stage = stage

    def send(self, data: bytes) -> None:
        """Send a message, with others, when this pass is over."""
        self.out.append(data)
        self.out_bytes += len(data)

    def write(self) -> None:
        """Write what is to be sent, now."""
        out = self.out
        if out and not (self.is_lost or self.transport.is_closing()):
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()
        self.writes += 1
        self.out_bytes = 0
        self.flush = False

    def pass_over(self, *, waiting: bool) -> None:
        """A stage has taken what it could take. ``waiting``: for something else than input."""
        if self.flush or self.out_bytes > FLUSH_BYTES:
            self.write()
        if waiting or self.is_full:
            if self._reading and self.inbox.waiting_bytes > self.context.settings.read_ahead_bytes:
                self._reading = False
                self.transport.pause_reading()
        elif not self._reading and not self.is_lost:
            self._reading = True
            self.transport.resume_reading()

    async def room(self) -> None:
        """Write what is to be sent, and wait until the client has read most of what was.

        Others have their turn meanwhile in any case.

        Raises:
            ConnectionLost: the client went away.
        """
        self.write()
        if self.is_lost:
            raise ConnectionLost
        wait: Wait[None] = Wait()
        if self.is_full:
            self._drained = wait
        else:
            self.context.loop.call_soon(wait.resolve, None)
        await wait
        if self.is_lost:
            raise ConnectionLost

    def refuse(self, error: Exception) -> None:
        """End the connection: with a word for a FatalError, without one for a HangUp."""
        if isinstance(error, FatalError):
            self.send(error_response(error.error, "FATAL"))
            logger.info("%s is refused: %s", self.peer, error, extra={"sqlstate": error.error.sqlstate})
        elif isinstance(error, SilentClose):
            logger.info("%s is cut off: it sent %s", self.peer, error)
        self.close()

    def close(self) -> None:
        """Write what is to be sent, and end the connection."""
        self.write()
        if not self.is_lost:
            self.transport.close()
            self.linger()

    def linger(self) -> None:
        """Give the client some time to read what was written last."""
        if not self.is_lost:
            self.context.loop.call_later(_LINGER_S, self.abort)

    def abort(self) -> None:
        """End the connection now; what the client has not read is lost to it."""
        if not self.is_lost:
            self.transport.abort()


def _no_delay(transport: asyncio.Transport) -> None:
    connected = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
