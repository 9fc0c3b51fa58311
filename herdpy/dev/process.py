"""A process of a local cluster: which one it is for good, how it is started, and how it is waited for.

A process id alone names another process after a while. Linux says in /proc/<pid>/stat (proc(5), field 22)
when a process started, in clock ticks since the machine did; with the boot's own id that is a name which no
other process has (ProcessIdentity). Before a signal the process is held by a descriptor (pidfd_open(2)) and
then compared, and the signal goes through the descriptor: it cannot reach another process that was given
the id in between.

A process may outlive the one that starts it, and it never runs without being written down. Between the
start of a process and the note that it was started, whoever starts it may be killed; then nobody would ever
find the process. So `spawn_waiting` makes a process that waits before it becomes the program, until it is
let go.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from herdpy.testing.process import PortReservation, await_until, by_lasting_thread, log_tail

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START_TICKS = 0, 19  # of the fields behind the name
_STOPPED = "Tt"
_STOP_TIMEOUT_S = 10.0
_NO_PROCESS = {errno.ESRCH, errno.ENOENT, errno.EINVAL}
"""Nothing has the id, or a thread has it now (ENOENT; EINVAL before Linux 6.15)."""

_exit_codes: dict[ProcessIdentity, int] = {}


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, for good. `start_ticks` is when it started, in clock ticks after the boot `boot_id`."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The process that has the id now. Raises ProcessLookupError."""
        fields = _stat(Path(f"/proc/{pid}/stat"))
        if fields is None:
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid, int(fields[_START_TICKS]), _BOOT_ID.read_text().strip())

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended; a paused one runs, one that waits for its parent has ended."""
        with self._held() as handle:
            return handle is not None

    @property
    def is_paused(self) -> bool:
        """Whether every thread of the process is stopped."""
        if not self.is_running:
            return False
        tasks = list(Path(f"/proc/{self.pid}/task").glob("*/stat"))
        states = [fields[_STATE] for fields in map(_stat, tasks) if fields is not None]
        return bool(states) and all(state in _STOPPED for state in states)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to the process, and to no other; False when it has ended."""
        with self._held() as handle:
            if handle is None:
                return False
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return False
            return True

    def pause(self) -> bool:
        """Stop the process (SIGSTOP) and return when all its threads stand still; False when it has ended."""
        if not self.send(signal.SIGSTOP):
            return False
        await_until(lambda: self.is_paused or not self.is_running, _STOP_TIMEOUT_S)
        return self.is_paused

    def await_end(self, timeout_s: float) -> bool:
        """Whether the process ended within that time; it is waited for if it is a child of this one."""
        with self._held() as handle:
            if handle is None:
                return True
            if not _has_ended(handle, timeout_s):
                return False
            self._reap()
            return True

    def exit_code(self) -> int | None:
        """How the process ended, if it was a child of this one (minus the signal's number), else None."""
        return _exit_codes.get(self)

    @contextmanager
    def _held(self) -> Iterator[int | None]:
        """A descriptor of the process while it lives, None when it has ended."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError as error:
            if error.errno not in _NO_PROCESS:
                raise
            yield None
            return
        try:
            if not self._is_this():
                yield None
            elif _has_ended(handle, 0.0):
                self._reap()
                yield None
            else:
                yield handle
        finally:
            os.close(handle)

    def _is_this(self) -> bool:
        """Whether the process that has the id now, ended or not, is the one that is meant."""
        fields = _stat(Path(f"/proc/{self.pid}/stat"))
        same_start = fields is not None and int(fields[_START_TICKS]) == self.start_ticks
        return same_start and self.boot_id == _BOOT_ID.read_text().strip()

    def _reap(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # another's child, or reaped by another thread
            return
        if pid:
            _exit_codes[self] = os.waitstatus_to_exitcode(status)


def _has_ended(handle: int, timeout_s: float) -> bool:
    """Whether all threads of the process end within that time, be it waited for by its parent or not."""
    ends = select.poll()  # select(2) knows the first 1,024 descriptors only
    ends.register(handle, select.POLLIN)
    return bool(ends.poll(timeout_s * 1000))


def _stat(path: Path) -> list[str] | None:
    """The fields behind the name, which may itself hold blanks and brackets; None without such a process."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


class MemberProcess:
    """The process `identity` of the member `name`, whose output goes to `log_path`."""

    def __init__(self, name: str, identity: ProcessIdentity, log_path: Path) -> None:
        self.name = name
        self.identity = identity
        self._log_path = log_path

    @property
    def pid(self) -> int | None:
        """The process's id, None when it has ended."""
        return self.identity.pid if self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.identity.is_running

    def ending(self) -> str:
        """How the process ended, as far as that is known here."""
        code = self.identity.exit_code()
        return "ended while it started" if code is None else f"ended with {code} while it started"

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return log_tail(self._log_path)


_BECOME = str(Path(__file__).with_name("_become.py"))
_STANDARD_OUTPUT, _STANDARD_ERROR = 1, 2


class Spawned:
    """A process that has begun and waits; a context manager. Leaving it without `go` ends the process."""

    def __init__(self, identity: ProcessIdentity, gate: int) -> None:
        self.identity = identity
        self._gate = open(gate, "wb", buffering=0)  # noqa: SIM115 closed on exit

    def go(self) -> None:
        """Let the process become its program."""
        self._gate.write(b"!")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.close()


def spawn_waiting(
    argv: Sequence[str],
    *,
    directory: Path,
    log_path: Path,
    environment: Mapping[str, str],
    dies_with_us: bool,
    reservations: Sequence[PortReservation] = (),
) -> Spawned:
    """Begin a process in a session of its own, with its output appended to a file; without `argv` one that
    does nothing.

    `dies_with_us`: it is killed when this process ends. It inherits `reservations`, which last as long as it
    does.
    """
    gate_out, gate_in = os.pipe()
    try:
        kept = [gate_out, *(reservation.fileno() for reservation in reservations)]
        parent = os.getpid() if dies_with_us else 0
        words = [sys.executable, "-I", "-S", _BECOME, *map(str, (parent, gate_out, directory)), *argv]
        append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, _STANDARD_OUTPUT, str(log_path), append, 0o644),
            (os.POSIX_SPAWN_DUP2, _STANDARD_OUTPUT, _STANDARD_ERROR),
            # Onto itself: the descriptor is not closed in the child (posix_spawn_file_actions_adddup2).
            *((os.POSIX_SPAWN_DUP2, one, one) for one in kept),
        ]

        def start() -> int:
            return os.posix_spawn(
                sys.executable,
                words,
                dict(environment),
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
            )

        return Spawned(ProcessIdentity.of(by_lasting_thread(start)), gate_in)
    except BaseException:
        os.close(gate_in)
        raise
    finally:
        os.close(gate_out)
