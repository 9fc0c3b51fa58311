"""A server process: its port, its start and signals; it never outlives the process that started it.

A port is reserved as long as its server lives: a socket bound with SO_REUSEADDR that never listens. Linux
lets a second socket with that option (Java sets it on every server socket) bind the port and listen, but
gives the port to nobody who asks for a free one, so that a killed server finds its port again. `owns_socket`
tells who has it (proc(5), /proc/net/tcp).

Children die with their parent by prctl(PR_SET_PDEATHSIG), which the small program `_launch.py` sets before it
becomes the server: no preexec_fn, which runs Python between fork and exec and can deadlock where other
threads hold locks. The kernel sends that signal when the *thread* that started the child ends, so one thread
of this process that never ends starts every child. `await_until` is the one place of the testing kit that
polls.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Protocol, TypeVar

from herdpy.testing.errors import PortTakenError, StartError

_LISTEN = "0A"


class PortReservation:
    """A port of `address` that no other process is given while this object is open: a free one, or `port`.

    Raises OSError when somebody listens on that port, or has bound it without SO_REUSEADDR.
    """

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
        except OSError:
            self._socket.close()
            raise
        self.address = address
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        """The socket's descriptor: a process that inherits it keeps the reservation."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the port back. May be called twice."""
        self._socket.close()


def listener_inodes(address: str, port: int, process: int | str = "self") -> frozenset[str]:
    """The inodes of the sockets that listen on `address`:`port`, or on it at every address, in the network of
    `process`.

    Several when they share the port. A process that has ended has no network: none.
    """
    wanted = {socket.inet_aton(address), b"\0\0\0\0"}
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
        except OSError:  # no IPv6, or the process has just ended
            continue
        for line in lines:
            fields = line.split()
            host, _, port_text = fields[1].partition(":")
            if fields[3] == _LISTEN and int(port_text, 16) == port and _ipv4(host) in wanted:
                inodes.add(fields[9])
    return frozenset(inodes)


def owns_socket(pid: int, inodes: frozenset[str]) -> bool:
    """Whether process `pid` has one of the sockets `inodes` open."""
    names = {f"socket:[{inode}]" for inode in inodes}
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                try:
                    if os.readlink(entry.path) in names:
                        return True
                except FileNotFoundError:  # closed meanwhile
                    continue
    except (FileNotFoundError, PermissionError):
        return False
    return False


def _ipv4(hexadecimal: str) -> bytes | None:
    """The IPv4 address in a table's notation (words in host order), None for an address that is IPv6 only."""
    words = [struct.pack("=I", int(hexadecimal[at : at + 8], 16)) for at in range(0, len(hexadecimal), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return raw
    if raw == bytes(16):
        return bytes(4)
    return raw[12:] if raw[:12] == bytes(10) + b"\xff\xff" else None


# Processes.

POLL_INTERVAL_S = 0.02


def await_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether `condition` became true within `timeout_s`; what it raises ends the wait."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


T = TypeVar("T")

_LAUNCH = str(Path(__file__).with_name("_launch.py"))
_LOG_TAIL_LINES = 25
_LOG_TAIL_BYTES = 16_384


class Child:
    """A process that dies with this one.

    `argv` is what is run, `log_path` the file its output is appended to. Not safe for use by several threads
    at once.
    """

    def __init__(
        self, name: str, argv: Sequence[str], log_path: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log_path = log_path
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; does nothing when it runs already."""
        if self.is_running:
            return
        with self.log_path.open("ab") as log:
            self._process = spawn(self.argv, stdout=log, environment=self._environment)

    @property
    def pid(self) -> int | None:
        """The process's id, None when it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended; a paused one runs."""
        return self._process is not None and self._process.poll() is None

    def await_listening(self, address: str, port: int, timeout_s: float) -> None:
        """Wait until this process, and not another, listens on the port.

        Raises PortTakenError when another has it, StartError when the process ended or the time is over.
        """

        await_listening(self, address, port, timeout_s)

    def ending(self) -> str:
        """How the process ended, for a message."""
        code = self._process.returncode if self._process is not None else None
        return "was not started" if code is None else f"ended with {code} instead of listening"

    def log_tail(self) -> str:
        """The last lines that the process wrote."""
        return log_tail(self.log_path)

    def pause(self) -> None:
        """Stop the process from running (SIGSTOP): its connections stay open and nobody answers.

        Returns when every thread of it stands still: one that was just running could still answer before.
        """
        self._signal(signal.SIGSTOP)
        await_until(self._stands_still, 10.0)

    def resume(self) -> None:
        """Let a paused process run again (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def kill(self) -> int | None:
        """End the process at once (SIGKILL), as a crash does; its exit code, None without a process."""
        self._signal(signal.SIGKILL)
        return self._reap(None)

    def terminate(self, timeout_s: float = 30.0) -> int | None:
        """Ask the process to end (SIGTERM), even when paused; kill it after `timeout_s`. The exit code."""
        self.ask_to_end()
        try:
            return self._reap(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def ask_to_end(self) -> None:
        """Send SIGTERM and do not wait, so that several processes can end at the same time."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # does nothing when the process has ended

    def _stands_still(self) -> bool:
        """Whether every thread is stopped, or has ended: the kernel reports the last one."""
        if self._process is None or self._process.returncode is not None:
            return True
        events = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT  # left for others to hear
        try:
            return os.waitid(os.P_PID, self._process.pid, events) is not None
        except ChildProcessError:
            return True  # ended, and heard of by another thread just now

    def _reap(self, timeout_s: float | None) -> int | None:
        if self._process is None:
            return None
        code = self._process.wait(timeout_s)
        self._process = None
        return code


class Watched(Protocol):
    """A process that somebody waits for."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def pid(self) -> int | None:
        """Its id, None when it does not run."""

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""

    def ending(self) -> str:
        """How it ended."""

    def log_tail(self) -> str:
        """The last lines that it wrote."""


def await_listening(process: Watched, address: str, port: int, timeout_s: float) -> None:
    """Wait until that process, and not another, listens on the port; see `Child.await_listening`."""

    def settled() -> bool:
        return not process.is_running or bool(listener_inodes(address, port, process.pid or "self"))

    in_time = await_until(settled, timeout_s)
    inodes = listener_inodes(address, port, process.pid or "self")
    if process.pid is not None and owns_socket(process.pid, inodes):
        return
    if inodes:
        taken = f"{process.name}: port {port} of {address} is listened on by another process"
        raise PortTakenError(f"{taken}\n{process.log_tail()}")
    why = f"did not listen on {address}:{port} within {timeout_s:g} s" if not in_time else process.ending()
    raise StartError(f"{process.name} {why}\n{process.log_tail()}")


def log_tail(path: Path) -> str:
    """The last lines of a process's log, under a line that names the file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return f"(no log {path})"
    return "\n".join([f"--- end of {path}", *text.splitlines()[-_LOG_TAIL_LINES:]])


def by_lasting_thread(start: Callable[[], T]) -> T:
    """What `start` returns, run by the thread that lives as long as this process: a child that asks to be
    killed at its parent's end is not killed when the caller's thread ends.
    """
    return _starter().run(start)


def spawn(
    argv: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.STDOUT,
    stdin: int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A Popen of `argv` that is killed when this process ends, however it ends."""
    command = [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), *argv]
    environ = {**os.environ, **(environment or {})}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, env=environ, start_new_session=True
        )

    return by_lasting_thread(start)


class _Starter:
    """The thread that starts every child, and lives as long as the process."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pid = os.getpid()
        threading.Thread(target=self._serve, name="herdpy-testing-starter", daemon=True).start()

    @property
    def is_mine(self) -> bool:
        """Whether the thread is in this process: a fork has no threads but its own."""
        return self._pid == os.getpid()

    def run(self, start: Callable[[], T]) -> T:
        result: Future[T] = Future()

        def work() -> None:
            try:
                result.set_result(start())
            except (OSError, ValueError) as error:
                result.set_exception(error)

        self._work.put(work)
        return result.result()

    def _serve(self) -> None:
        while True:
            self._work.get()()


_lock = threading.Lock()
_the_starter: _Starter | None = None


def _starter() -> _Starter:
    global _the_starter
    with _lock:
        if _the_starter is None or not _the_starter.is_mine:
            _the_starter = _Starter()
        return _the_starter
