"""One worker as its server sees it: a process, the link to it, and the exchange that it is busy with.

Above ``exchange``, below ``scheduler``. Everything is on the loop's thread. Its pidfd shows the end of the
process, whatever it died of. The link's socket has callbacks of the loop rather than a transport: they work
at once, without a task, and a worker's results are not read while nobody wants them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec

from herdpy import machine
from herdpy.log.wait import OwnWait
from herdpy_server.workers.exchange import WorkerExchange, WorkerProgress
from herdpy_server.workers.messages import (
    BeginQuestion,
    CancelQuestion,
    Frame,
    Splitter,
    WorkerLogRecord,
    WorkerStarted,
    frame,
    read_by_server,
)

_READ_BYTES = 1 << 18
_HIGH_BYTES = 1 << 20
logger = logging.getLogger("herdpy.workers")
KILL_AFTER_S = 3.0
"""A worker that does not end a cancelled question in this time is killed."""
STALLED_AFTER_S = 1.0
"""A worker that has waited so long for who takes its answer leaves its place to another."""
_STDERR_BYTES = 1 << 16
_MODULE = "herdpy_server.workers.child"
_numbers = count(1)


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


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker is started with.

    Attributes:
        store: the directory of LMDB's environment.
        spill: a directory; each worker has one of its own in it.
    """

    store: Path
    spill: Path
    niceness: int
    threads: int
    memory_bytes: int
    query_memory_bytes: int
    column_cache_bytes: int
    segment_bytes: int


class WorkerOwner(Protocol):
    """Who has the worker; called from the loop."""

    def started(self, worker: WorkerProcess) -> None:
        """It may be asked."""

    def free(self, worker: WorkerProcess, exchange: WorkerExchange) -> None:
        """It may be asked again: it is done with this."""

    def stalled(self, worker: WorkerProcess) -> None:
        """Whoever asked it does not take what it has made."""

    def died(self, worker: WorkerProcess) -> None:
        """Its process has ended."""


class WorkerDiedError(Exception):
    """The worker's process ended while it was asked."""


class WorkerProcess:
    """A worker.

    Attributes:
        pid: its process.
        is_started: it said that it may be asked.
        is_stalled: it has waited for a while until somebody takes what it has made.
        is_long: it has computed one answer for so long that another may work in its place.
        is_retired: it was retired, or said that it will end.
        tables: those of which it keeps columns.
        exchange: the question that it is busy with.
        free_since: when it became free; answered: how many questions it has answered.
        reason: what it died of.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: WorkerStart, owner: WorkerOwner) -> None:
        """Start it. OSError when the machine has no room for a process."""
        self._loop = loop
        self._owner = owner
        self.number = next(_numbers)
        self.is_started = self.is_retired = self.is_stalled = self.is_long = False
        self._stalling: asyncio.TimerHandle | None = None
        self.tables: frozenset[int] = frozenset()
        self.exchange: WorkerExchange | None = None
        self.free_since = time.monotonic()
        self.answered = 0
        self.reason = ""
        self.spill = start.spill / f"worker-{os.getpid()}-{self.number}"
        ours, theirs = socket_pair()
        try:
            self._process = _spawn(start, self.spill, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        try:
            self._end = machine.end_of_process(self.pid)
        except OSError:
            ours.close()
            _given_up(self._process)
            raise
        self._link = WorkerLink(loop, ours, self._received, self._lost)
        if self._end is not None:
            loop.add_reader(self._end, self._ended)
        assert self._process.stderr is not None
        self._stderr = self._process.stderr.fileno()
        os.set_blocking(self._stderr, False)
        loop.add_reader(self._stderr, self._log_stderr)

    # Questions.

    def begin(self, exchange: WorkerExchange) -> None:
        """Begin a question. WorkerDiedError when it has gone meanwhile."""
        assert self.exchange is None
        if self._process.returncode is not None:
            raise WorkerDiedError(self.reason)
        self.exchange = exchange
        self._link.send(BeginQuestion(exchange.number))

    def begin_again(self, exchange: WorkerExchange) -> None:
        """Open a newer state of LMDB for the same question."""
        exchange.begun()
        self._link.send(BeginQuestion(exchange.number))

    def send(self, message: msgspec.Struct) -> None:
        """Send a message."""
        self._link.send(message)

    async def room(self) -> None:
        """Return when it has taken enough of what was sent."""
        await self._link.room()

    def pause(self) -> None:
        """Read no more of it; it waits."""
        self._link.pause()
        if self._stalling is None:
            self._stalling = self._loop.call_later(STALLED_AFTER_S, self._stalled)

    def read(self) -> None:
        """Read again."""
        self._link.read()
        self.is_stalled = False
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    def _stalled(self) -> None:
        self.is_stalled = True
        self._owner.stalled(self)

    def abandoned(self, exchange: WorkerExchange) -> None:
        """Nobody waits for the answer any more."""
        self._link.send(CancelQuestion(exchange.number))
        if exchange.at is WorkerProgress.READY:
            exchange.finished()
        else:
            self._loop.call_later(KILL_AFTER_S, self._insist, exchange)

    def _insist(self, exchange: WorkerExchange) -> None:
        if exchange.at is not WorkerProgress.OVER and self._process.returncode is None:
            logger.warning("worker %d does not end a cancelled query: killed", self.pid)
            self.kill()

    def over(self, exchange: WorkerExchange) -> None:
        """It has said its last word about it."""
        self.exchange = None
        self.tables = frozenset(exchange.tables) or self.tables
        self.answered += 1
        self.free_since = time.monotonic()
        self._owner.free(self, exchange)

    # What it says.

    def _received(self, frame: Frame) -> None:
        head, body = frame
        try:
            message: Any = read_by_server(head)
        except msgspec.MsgspecError as error:
            logger.error("worker %d is killed: it sent a message that cannot be read: %s", self.pid, error)
            self.kill()
            return
        if isinstance(message, WorkerStarted):
            self.is_started = True
            self._owner.started(self)
        elif isinstance(message, WorkerLogRecord):
            of_worker = logging.getLogger(message.logger)
            of_worker.log(message.level, "%s", message.text, extra={"worker": self.pid})
        elif self.exchange is not None and message.number == self.exchange.number:
            if getattr(message, "last", False):
                self.is_retired = True
            self.exchange.received(message, body)

    def _log_stderr(self) -> None:
        """Something came on its standard error, where only what goes badly wrong is written."""
        try:
            data = os.read(self._stderr, _STDERR_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._stderr)
            if self._end is None:  # only its end closes it
                self._loop.call_soon(self._ended)
            return
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                logger.warning("%s", line, extra={"worker": self.pid})

    # Its end.

    def retire(self) -> None:
        """Let it end: its socket is closed, which it cannot overlook."""
        self.is_retired = True
        self._link.close()

    def kill(self) -> None:
        """End it now."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    def _lost(self) -> None:
        """It closed its end, so it is ending; or it never will."""
        if not self.is_retired:
            self.kill()

    def _ended(self) -> None:
        self.read()
        if self._end is not None:
            self._loop.remove_reader(self._end)
            os.close(self._end)
            self._log_stderr()
        self._link.drain()
        code = self._process.wait()
        self.reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._loop.remove_reader(self._stderr)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._link.close()
        shutil.rmtree(self.spill, ignore_errors=True)
        exchange, self.exchange = self.exchange, None
        self._owner.died(self)
        if exchange is not None:
            exchange.died(WorkerDiedError(self.reason))


def _given_up(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def _spawn(start: WorkerStart, spill: Path, theirs: Any) -> subprocess.Popen[bytes]:
    given = {
        "parent": os.getpid(),
        "descriptor": theirs.fileno(),
        "store": str(start.store),
        "spill": str(spill),
        "niceness": start.niceness,
        "threads": start.threads,
        "memory_bytes": start.memory_bytes,
        "query_memory_bytes": start.query_memory_bytes,
        "column_cache_bytes": start.column_cache_bytes,
        "segment_bytes": start.segment_bytes,
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE, json.dumps(given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OPENBLAS_NUM_THREADS": "1",  # nothing here multiplies matrices
        },
    )
