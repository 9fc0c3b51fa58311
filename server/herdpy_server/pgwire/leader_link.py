"""A follower's connection to the leader, for one session that it forwards: bytes, and how it begins.

Below ``forwarding``; ``forwarded`` is the other end. Messages of PostgreSQL's protocol go out as they are
given and come in whole. The connection begins in a task; afterwards everything is synchronous, and a caller
that waits for messages leaves a ``Wait`` behind (:attr:`LeaderLink.wake`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import struct
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from herdpy.log.wait import Wait
from herdpy_server.pgwire.backend import message
from herdpy_server.pgwire.forwarded import FOLLOWER, LEADER, SIGNATURE_BYTES
from herdpy_server.pgwire.frontend import FORWARD_CODE, NONCE_BYTES
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.pgwire.context import Forwarding
    from herdpy_server.tablespace.cluster import LeaderPlace

_PACKET: Final = struct.Struct(">II")
_SSL_REQUEST: Final = _PACKET.pack(8, 80877103)
_CANCEL: Final = struct.Struct(">IIII")
_HEAD: Final = struct.Struct(">BI")
_CONNECT_S = 3.0
_FULL_BYTES = 1 << 20
"""So much of the leader's may wait for the client; then it is not read any more."""


class LeaderLink(asyncio.Protocol):
    """One connection.

    Attributes:
        place: the leader, and the term in which it leads.
        messages: what has come and nobody has taken.
        wake: is resolved when something comes, when there is room again, and at the end.
        is_lost: nothing more comes. ``is_full``: the leader does not read: give it no more.
        known: the names of prepared statements that the leader has as the session has them; ``outdated``: of
            others, which must be closed before they are used again.
        settings: those of the client's session that the leader has, as of ``revision``.
    """

    def __init__(self, place: LeaderPlace) -> None:
        self.place = place
        self.messages: deque[bytes] = deque()
        self.wake: Wait[None] | None = None
        self.is_lost = self.is_full = False
        self.known: set[str] = set()
        self.outdated: set[str] = set()
        self.settings: Mapping[str, str] = {}
        self.revision = -1
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._is_raw = True  # no messages yet, but the answer to a wish for TLS
        self._waiting_bytes = 0
        self._is_paused = False
        self._key = (0, 0)

    # Its beginning.

    async def open(self, forwarding: Forwarding, start: Mapping[str, Any]) -> None:
        """Connect, prove that this is a node, and begin a session there.

        Args:
            start: whose session it is; see ``ForwardChallenge.answered``.

        Raises:
            OSError: the leader cannot be reached, or is none of this cluster.
            SqlError: what it says against the session.
        """
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._connect(forwarding)
                await self._prove(forwarding, json.dumps(start).encode())
                await self._begun()
        except BaseException:
            self.abort()
            raise

    async def _connect(self, forwarding: Forwarding) -> None:
        loop, place = asyncio.get_running_loop(), self.place
        await loop.create_connection(lambda: self, place.host, place.port)
        tls = forwarding.tls()
        if tls is not None:
            self.send(_SSL_REQUEST)
            while not self._buffer:
                await self._more()
            if bytes(self._buffer) != b"S":
                raise OSError(f"node {place.node} does not offer TLS")
            self._buffer.clear()
            assert self._transport is not None
            started = await loop.start_tls(self._transport, self, tls, server_hostname=place.host)
            self._transport = cast(asyncio.Transport, started)
        self._is_raw = False

    async def _prove(self, forwarding: Forwarding, start: bytes) -> None:
        own = secrets.token_bytes(NONCE_BYTES)
        self.send(_PACKET.pack(8 + NONCE_BYTES, FORWARD_CODE) + own)
        question = await self._next()
        theirs, proof = question[5 : 5 + NONCE_BYTES], question[5 + NONCE_BYTES :]
        secret = forwarding.secret
        is_leader = len(proof) == SIGNATURE_BYTES and secret.is_signed(proof, LEADER, own, theirs)
        signature = secret.signature(FOLLOWER, own, theirs, start)
        if question[:1] != b"h" or not is_leader or signature is None:
            raise OSError(f"node {self.place.node} does not have the secret of this cluster")
        self.send(message(b"h", signature + start))

    async def _begun(self) -> None:
        while True:
            found = await self._next()
            if found[:1] == b"E":
                raise refusal(found)
            if found[:1] == b"K":
                self._key = struct.unpack_from(">II", found, 5)
            if found[:1] == b"Z":
                return

    async def _next(self) -> bytes:
        while not self.messages:
            await self._more()
        return self.take()

    async def _more(self) -> None:
        """Wait until something comes. OSError: nothing does any more."""
        if self.is_lost:
            raise OSError(f"node {self.place.node} has ended the connection")
        wait: Wait[None] = Wait()
        self.wake = wait
        await wait

    # Its use.

    def send(self, data: bytes) -> None:
        """Send that; nothing happens where the connection is lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def take(self) -> bytes:
        """The next message that has come."""
        found = self.messages.popleft()
        self._waiting_bytes -= len(found)
        if self._is_paused and self._waiting_bytes < _FULL_BYTES // 2 and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return found

    def abort(self) -> None:
        """End the connection now; the leader rolls back what is open there."""
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()

    async def cancel(self, forwarding: Forwarding) -> None:
        """Have the leader cancel what it does for this session; by a connection of its own."""
        other = LeaderLink(self.place)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await other._connect(forwarding)
                other.send(_CANCEL.pack(16, 80877102, *self._key))
                while not other.is_lost:
                    await other._more()
        except OSError:  # TimeoutError among them
            return
        finally:
            other.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_raw:
            self._cut()
        self._wake()

    def _cut(self) -> None:
        buffer, at, size = self._buffer, 0, len(self._buffer)
        while size - at >= _HEAD.size:
            _kind, length = _HEAD.unpack_from(buffer, at)
            stop = at + 1 + length
            if length < 4:
                self.abort()
                return
            if stop > size:
                break
            self.messages.append(bytes(buffer[at:stop]))
            self._waiting_bytes += stop - at
            at = stop
        if at:
            del buffer[:at]
        if self._waiting_bytes > _FULL_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.is_lost = True
        self._wake()

    def _wake(self) -> None:
        wake, self.wake = self.wake, None
        if wake is not None:
            wake.resolve(None)


def error_fields(error: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse, by their one-letter codes."""
    parts = error[5:].split(b"\0")
    return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in parts if part}


def refusal(error: bytes) -> SqlError:
    """An ErrorResponse as the error that it is."""
    fields = error_fields(error)
    return SqlError(
        fields.get("C", "XX000"), fields.get("M", ""), detail=fields.get("D"), hint=fields.get("H")
    )
