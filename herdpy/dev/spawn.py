"""A process that may outlive the one that starts it, and that never runs without being written down.

Between the start of a process and the note that it was started, whoever starts it may be killed; then nobody
would ever find the process. So the process waits before it becomes the program, until it is let go.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from herdpy.dev.identity import ProcessIdentity
from herdpy.testing.ports import PortReservation
from herdpy.testing.process import by_lasting_thread

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
