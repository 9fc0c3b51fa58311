"""What ZooKeeper, bookies and auto recovery have in common: a Java process with a directory, a place and a
port.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from herdpy.testing.errors import StartError
from herdpy.testing.java import JavaCommand
from herdpy.testing.network import LOOPBACK, ServerPlace
from herdpy.testing.process import Child, PortReservation

START_TIMEOUT_S = 60.0


class JavaServer:
    """A Java server that keeps its directory and its port over restarts.

    Context manager: started on entry where the subclass says so, closed (stopped, port given back) at the
    end.
    """

    def __init__(
        self, name: str, directory: Path, *, place: ServerPlace = LOOPBACK, fixed_port: int | None = None
    ) -> None:
        self.name = name
        self.directory = directory
        self.place = place
        directory.mkdir(parents=True, exist_ok=True)
        self._reservation = PortReservation(place.address) if place.is_shared and fixed_port is None else None
        port = self._reservation.port if self._reservation is not None else fixed_port
        if port is None:
            raise ValueError("a server in a network namespace needs a port")
        self.port = port
        self.address = place.address
        self._child: Child | None = None
        self._command: JavaCommand | None = None

    @property
    def hostport(self) -> str:
        """``address:port``, where clients reach the server."""
        return f"{self.address}:{self.port}"

    @property
    def log_path(self) -> Path:
        """The file that the server logs to; it is appended to when the server starts again."""
        return self.directory / "log"

    @property
    def pid(self) -> int | None:
        """The process's id, None when it does not run."""
        return self._child.pid if self._child is not None else None

    @property
    def is_running(self) -> bool:
        """Whether the process runs (a paused one does)."""
        return self._child is not None and self._child.is_running

    def kill(self) -> None:
        """End the process as a crash does (SIGKILL); its data stays."""
        if self._child is not None:
            self._ended(self._child.kill())

    def stop(self) -> None:
        """Let the process end in order (SIGTERM) and wait for it; its data stays."""
        if self._child is not None:
            self._ended(self._child.terminate())

    def ask_to_stop(self) -> None:
        """Begin `stop` without waiting."""
        if self._child is not None:
            self._child.ask_to_end()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open, nobody answers."""
        if self._child is not None:
            self._child.pause()

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        if self._child is not None:
            self._child.resume()

    def cut(self, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Lose what is sent to this server, what it sends, or both. NetworkUnavailableError on loopback."""
        self.place.cut(incoming=incoming, outgoing=outgoing)

    def heal(self) -> None:
        """Undo `cut`."""
        self.place.heal()

    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return self._child.log_tail() if self._child is not None else "(never started)"

    def close(self) -> None:
        """Stop the server and give its port back. May be called twice."""
        try:
            self.stop()
        finally:
            if self._reservation is not None:
                self._reservation.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(self, command: JavaCommand) -> None:
        """Start the Java process; the caller waits until it is ready."""
        if self.is_running:
            return
        self.kill()  # nothing is left to kill: how it ended is taken note of
        self._command = command
        self._child = Child(self.name, [*self.place.prefix, *command.argv()], self.log_path)
        self._child.start()

    def _await_listening(self) -> None:
        if self._child is not None:
            try:
                self._child.await_listening(self.address, self.port, START_TIMEOUT_S)
            except StartError:
                self.kill()
                raise

    def _ended(self, code: int | None) -> None:
        if self._command is not None:
            self._command.ended(code)
            self._command = None
