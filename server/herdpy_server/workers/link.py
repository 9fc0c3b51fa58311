"""The server's end of the socket to a worker, on the loop. Above ``frames``.

Callbacks of the loop rather than a transport: they work at once, without a task, and a worker's results
are not read while nobody wants them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from herdpy.log.wait import OwnWait
from herdpy_server.workers.frames import Frame, Splitter, frame

_READ_BYTES = 1 << 18
_HIGH_BYTES = 1 << 20


class WorkerLink:
    """One end. ``received`` gets each frame; ``lost`` is called once, when the other end is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        end: socket.socket,
        received: Callable[[Frame], object],
        lost: Callable[[], object],
    ) -> None:
        end.setblocking(False)
        self._loop = loop
        self._socket = end
        self._received = received
        self._lost = lost
        self._splitter = Splitter()
        self._out: deque[memoryview] = deque()
        self._out_bytes = 0
        self._room: OwnWait[None] | None = None
        self._is_open = True
        self._is_reading = False
        self.read()

    # Reading.

    def read(self) -> None:
        """Read what comes."""
        if self._is_open and not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._socket, self._readable)

    def pause(self) -> None:
        """Leave it to the kernel, and so to who sends, to wait."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        for one in self._splitter.feed(data):
            self._received(one)

    def drain(self) -> None:
        """Take what the other end had sent before it went."""
        while self._is_open:
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError:
                return
            if not data:
                return
            for one in self._splitter.feed(data):
                self._received(one)

    # Sending.

    def send(self, message: msgspec.Struct) -> None:
        """Send a message, now or when there is room; to who is gone, not at all."""
        if not self._is_open:
            return
        for piece in frame(message):
            self._out.append(memoryview(piece))
            self._out_bytes += len(piece)
        self._write()

    async def room(self) -> None:
        """Return when what waits to be sent is little enough."""
        while self._is_open and self._out_bytes > _HIGH_BYTES:
            self._room = OwnWait()
            await self._room

    def _write(self) -> None:
        sent_all = False
        try:
            while self._out:
                count = self._socket.send(self._out[0])
                self._out_bytes -= count
                if count == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][count:]
            sent_all = True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end()
            return
        if sent_all:
            self._loop.remove_writer(self._socket)
        else:
            self._loop.add_writer(self._socket, self._write)
        if self._out_bytes <= _HIGH_BYTES:
            self._let_in()

    def _let_in(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.resolve(None)

    # Its end.

    def _end(self) -> None:
        if self._is_open:
            self.close()
            self._loop.call_soon(self._lost)  # never from inside of who sends

    def close(self) -> None:
        """Close it; ``lost`` is not called."""
        if not self._is_open:
            return
        self.pause()
        self._loop.remove_writer(self._socket)
        self._is_open = False
        with contextlib.suppress(OSError):
            self._socket.close()
        self._out.clear()
        self._let_in()


def socket_pair() -> tuple[Any, Any]:
    """(the server's end, the worker's end)."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
