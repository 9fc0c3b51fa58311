"""A TCP proxy that breaks connections off after so many bytes from the server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable


class CuttingProxy:
    """Listens on a free loopback port and passes on, in threads of its own.

    Args:
        port: of the server.
        limits: for one connection after the other, how many bytes it may bring from the server; those
            after the last are not cut.
    """

    def __init__(self, port: int, limits: Iterable[int]) -> None:
        self._target = port
        self._limits = iter(limits)
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            limit = next(self._limits, None)
            for arguments in ((client, server, None), (server, client, limit)):
                thread = threading.Thread(target=self._pour, args=arguments, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pour(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                passed += len(data)
                if limit is not None and passed > limit:
                    self.cuts += 1
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)
