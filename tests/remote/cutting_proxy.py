"""A TCP proxy that cuts connections at a chosen message: before it reaches the server, or after."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_LENGTH = struct.Struct(">i")


class Cut(Exception):  # noqa: N818 - what is to be done, not a failure
    """The connection is to end here."""


class CuttingProxy:
    """Between clients and a server.

    Attributes:
        watch: called with ("client" or "server", message type) before each message is passed on; it may
            raise :class:`Cut` to end the connection instead, and returns whether to end it right after.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.watch: Callable[[str, bytes], bool] = lambda side, kind: False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(self._pump, "client", client, server)
                self._start(self._pump, "server", server, client)

    def _pump(self, side: str, source: socket.socket, sink: socket.socket) -> None:
        """Pass on messages one by one; a client's first one has no type."""
        try:
            stream = source.makefile("rb")
            with stream:
                opening = side == "client"
                while True:
                    kind = b"" if opening else stream.read(1)
                    head = stream.read(4)
                    if len(head) < 4:
                        break
                    body = stream.read(_LENGTH.unpack(head)[0] - 4)
                    opening = False
                    after = self.watch(side, kind)
                    sink.sendall(kind + head + body)
                    if after:
                        raise Cut
        except Cut:
            self.cuts += 1
        except (OSError, ValueError):
            pass
        for one in (source, sink):
            # What was passed on arrives, and nothing else does.
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)
