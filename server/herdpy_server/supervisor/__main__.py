"""python -m herdpy_server.supervisor PID: wait for the end of the server that started this, and attest it.

The pipe from the server brings an ``Attestation`` a line, the last of which holds, and the line ``released``
when there is nothing to attest. The kernel alone says that the server has ended, by its pidfd: that the pipe
ends proves nothing. Until then nothing is sent to ZooKeeper, because a session that is taken up is lost to
its owner.

python -m herdpy_server.supervisor run COMMAND ARGUMENT...: start a server as a child, and attest its end. For
containers: if their first process ends, the kernel kills all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys

import msgspec

from herdpy import machine
from herdpy.bookkeeper.errors import BookKeeperError
from herdpy_server.child_process import stay_ready
from herdpy_server.supervisor.attestation import IMPOSSIBLE, INHERITED, RELEASED, Attestation, attest

_READ_BYTES = 1 << 16
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_BY_SIGNAL = 128
"""A process that a signal ended has, for shells, this status and the signal's number."""


class Input:
    """What the server has said by the pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.is_open = True
        self.is_released = False
        self._rest = b""
        self._last = b""
        os.set_blocking(pipe, False)

    def read(self) -> None:
        """Take what is there."""
        while self.is_open:
            try:
                data = os.read(self.pipe, _READ_BYTES)
            except BlockingIOError:
                return
            self.is_open = bool(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.is_released = self.is_released or RELEASED in lines
            self._last = lines[-1] if lines else self._last

    @property
    def last(self) -> Attestation | None:
        """What is to be attested, if there is anything."""
        if self.is_released or not self._last:
            return None
        return msgspec.json.decode(self._last, type=Attestation)

    def until(self, end: int) -> None:
        """Take what comes until the process has ended, or there is nothing to attest."""
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.register(self.pipe, select.POLLIN)
        while not self.is_released:
            if any(ready == end for ready, _event in poll.poll()):
                break
            self.read()
            if not self.is_open:
                poll.unregister(self.pipe)
        self.read()


def end_of(pid: int) -> int | None:
    """A descriptor that is readable once that process has ended; None: this is not to be had."""
    try:
        return machine.end_of_process(pid)
    except OSError:
        return None


def await_end(parent: int) -> Attestation | None:
    """What is to be attested once that process, which started this one, has ended."""
    said = Input(sys.stdin.fileno())
    end = end_of(parent)
    if os.getppid() != parent:
        said.read()
    elif end is None:
        sys.exit(IMPOSSIBLE)
    else:  # alive after the descriptor was opened: so that is the parent's
        said.until(end)
    return said.last


def run(command: list[str]) -> int:
    """Start a server, pass signals on, and attest its end; its status, as shells have it. Raises OSError."""
    pipe, theirs = os.pipe()
    child = subprocess.Popen(
        command, pass_fds=[theirs], env={**os.environ, INHERITED: f"{os.getpid()}:{theirs}"}
    )
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _frame: child.send_signal(number))
    os.close(theirs)
    stay_ready()  # not before: the server would have inherited it
    said, end = Input(pipe), end_of(child.pid)
    if end is not None:
        said.until(end)
    status = child.wait()
    tell_cluster(said.last)
    return status if status >= 0 else _BY_SIGNAL - status


def tell_cluster(ended: Attestation | None) -> None:
    """Attest that, if there is anything to attest, as far as ZooKeeper can be reached."""
    if ended is not None:
        with contextlib.suppress(BookKeeperError, TimeoutError):
            asyncio.run(attest(ended))


def main(arguments: list[str]) -> int:
    """Its life; its exit status."""
    if arguments[0] == "run":
        return run(arguments[1:])
    stay_ready()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    tell_cluster(await_end(int(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
