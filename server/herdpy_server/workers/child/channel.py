"""A worker's connection with its server. The bottom of the child.

A thread reads, so that a cancel is heard while a question is being answered, and so that the process ends
at once when its server does: the kernel closes the other end however that came about. What is sent is sent
by the main thread and blocks while the server does not take it: that is the back-pressure of results.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
import time
from typing import Any

import msgspec

from herdpy_server.workers.messages import (
    CancelQuestion,
    Splitter,
    ToWorker,
    WorkerLogRecord,
    frame,
    read_by_worker,
)
from herdpy_sql.columnar.engine import Interrupt

_READ_BYTES = 1 << 18
_AGAIN_S = 0.02


class Channel:
    """The connection, from the descriptor that was inherited."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._sending = threading.Lock()
        self._messages: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._number = self._cancelled = 0
        self._interrupt: Interrupt | None = None
        self._running = threading.Lock()
        threading.Thread(target=self._read, name="worker-channel", daemon=True).start()

    def next(self) -> ToWorker:
        """The next message, once there is one."""
        return self._messages.get()

    def send(self, message: msgspec.Struct, body: Any = b"") -> None:
        """Send a message; any thread may."""
        with self._sending:
            try:
                for piece in frame(message, body):
                    self._socket.sendall(piece)
            except OSError:
                os._exit(0)  # the server is gone

    @contextlib.contextmanager
    def cancellable(self, number: int) -> Any:
        """Within the block a Cancel of question ``number`` calls the interrupt that is given."""
        interrupt = Interrupt()
        with self._running:
            self._number, self._interrupt = number, interrupt
            if self._cancelled == number:
                interrupt.cancel()
        try:
            yield interrupt
        finally:
            with self._running:
                self._interrupt = None

    def _read(self) -> None:
        splitter = Splitter()
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError:
                data = b""
            if not data:
                os._exit(0)
            for head, _ in splitter.feed(data):
                message = read_by_worker(head)
                if isinstance(message, CancelQuestion):
                    self._cancel(message.number)
                self._messages.put(message)

    def _cancel(self, number: int) -> None:
        with self._running:
            self._cancelled = number
            interrupt = self._interrupt if self._number == number else None
        if interrupt is not None:
            interrupt.cancel()
            again = threading.Thread(target=self._insist, args=(interrupt,), daemon=True)
            again.start()

    def _insist(self, interrupt: Interrupt) -> None:
        """DuckDB forgets an interrupt that comes in the instant before it starts."""
        while self._interrupt is interrupt:
            interrupt.cancel()
            time.sleep(_AGAIN_S)


class ChannelHandler(logging.Handler):
    """Hands records to the server's log."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._channel.send(WorkerLogRecord(record.levelno, record.name, text))
