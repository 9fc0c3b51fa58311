"""A supervisor as its server sees it: a child process that gets what to attest, and is started again.

Above ``attestation``. Everything is on the loop's thread. The child has a session of its own, so that what is
sent to the server's group does not reach it, and it outlives the server for as long as it takes to attest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys

from herdpy import machine
from herdpy.backoff import Backoff
from herdpy_server.supervisor.attestation import IMPOSSIBLE, INHERITED, RELEASED

_log = logging.getLogger("herdpy.supervisor")

_MODULE = "herdpy_server.supervisor"
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 30.0
_ENDS_WITHIN_S = 1.0


class ParentSupervisor:
    """A supervisor that has started this server as its child, and waits for its end."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe
        os.set_inheritable(pipe, False)
        os.set_blocking(pipe, False)

    @property
    def pid(self) -> int | None:
        """Its process; None when it has ended."""
        return self._pid if os.getppid() == self._pid else None

    def tell(self, line: bytes) -> None:
        """Have it attest that from now on."""
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._pipe, line + b"\n")

    async def close(self) -> None:
        """The session is closed: have nothing attested."""
        self.tell(RELEASED)
        os.close(self._pipe)


def parent_supervisor() -> ParentSupervisor | None:
    """The supervisor that has started this process, if one has; found once, and not by child processes."""
    pid, _, pipe = os.environ.pop(INHERITED, "").partition(":")
    if not pid.isdigit() or not pipe.isdigit() or int(pid) != os.getppid():
        return None
    return ParentSupervisor(int(pid), int(pipe))


class SupervisorProcess:
    """To be made and used on the loop.

    Attributes:
        is_possible: whether this system can tell of a process's end.
    """

    def __init__(self) -> None:
        self.is_possible = True
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._end: int | None = None
        self._ended = asyncio.Event()
        self._said = b""
        self._backoff = Backoff(_FIRST_PAUSE_S, _LAST_PAUSE_S)
        self._started_s = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._is_closing = False

    @property
    def pid(self) -> int | None:
        """The child's process; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child, and from now on another one whenever it has ended."""
        self._restart = None
        self._started_s = self._loop.time()
        self._ended.clear()
        theirs, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        self._write(self._said)  # first: this server may be killed as soon as there is a child
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            self._close_pipe()
            self._later(str(error))
        else:
            self._watch(self._process)
        finally:
            os.close(theirs)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Have its end noticed; where that cannot be, neither can the child notice the server's."""
        try:
            self._end = machine.end_of_process(process.pid)
        except OSError:
            self._end = None
        if self._end is None:
            process.kill()
            self._reap()
            self._give_up()
        else:
            self._loop.add_reader(self._end, self._has_ended)

    def tell(self, line: bytes) -> None:
        """Have this child attest that from now on; so does a child that is started later."""
        self._said = line + b"\n"
        self._write(self._said)

    def _write(self, line: bytes) -> None:
        """A line is shorter than what a pipe takes at once, so it comes whole or not at all."""
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line)
        except BlockingIOError:  # it has read nothing for long: another one may
            if self._process is not None:
                self._process.kill()
        except BrokenPipeError:
            pass  # its end is noticed

    def _has_ended(self) -> None:
        reason = self._reap()
        if reason == IMPOSSIBLE:
            self._give_up()
        elif not self._is_closing:
            self._later(f"status {reason}")

    def _reap(self) -> int:
        """Forget the child, which has ended; its status."""
        process, self._process = self._process, None
        assert process is not None
        if self._end is not None:
            self._loop.remove_reader(self._end)
            os.close(self._end)
            self._end = None
        self._close_pipe()
        status = process.wait()
        assert process.stderr is not None
        with process.stderr as errors:
            if status > 0 and status != IMPOSSIBLE:
                _log.warning("supervisor failed", extra={"reason": _last_line(errors.read())})
        self._ended.set()
        return status

    def _give_up(self) -> None:
        self.is_possible = False
        _log.info("this system does not tell of the end of processes: there is no supervisor")

    def _later(self, reason: str) -> None:
        if self._loop.time() - self._started_s > _LAST_PAUSE_S:
            self._backoff.reset()
        pause_s = self._backoff.pause_s()
        _log.warning("supervisor ended", extra={"reason": reason, "again_s": round(pause_s, 2)})
        self._restart = self._loop.call_later(pause_s, self.start)

    async def close(self) -> None:
        """The session is closed: have nothing attested, and end the child."""
        self._is_closing = True
        if self._restart is not None:
            self._restart.cancel()
        if self._process is None:
            return
        self._write(RELEASED + b"\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await self._ended.wait()
        if self._process is not None:
            self._process.kill()
            await self._ended.wait()


def started() -> SupervisorProcess:
    """A supervisor that runs, as far as this system has such."""
    process = SupervisorProcess()
    process.start()
    return process


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
