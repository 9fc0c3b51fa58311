"""`herdpy server` as a process of its own, for tests: started, read by its log, signalled, left nowhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from herdpy.testing.process import spawn

PATIENCE_S = 60.0


OWN_PROGRAM = (sys.executable, "-m", "herdpy.cli")
"""The command `herdpy` of this environment."""


def server_command(*arguments: object, program: Sequence[str] = OWN_PROGRAM) -> list[str]:
    """The command line of a server."""
    return [*program, "server", *map(str, arguments)]


class RunningServer:
    """A server on free ports, whose log is JSON.

    Attributes:
        lines: what it has printed so far, line by line.
    """

    def __init__(
        self, data: Path, *arguments: object, program: Sequence[str] = OWN_PROGRAM, **environment: str
    ) -> None:
        """Start it; :meth:`ready` waits until it serves."""
        free = ["--port", "0", "--set", "http.port=0", "--set", "grpc.port=0", "--log-format", "json"]
        self.data = data
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._over = False
        self._connections: list[psycopg.Connection[Any]] = []
        command = server_command("--data", data, *free, *arguments, program=program)
        self.process = spawn(command, stdout=subprocess.PIPE, environment=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready: dict[str, Any] = {}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.decode().rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    # What it says.

    def records(self) -> list[dict[str, Any]]:
        """Its log so far; fails when a line is no JSON object."""
        return [json.loads(line) for line in list(self.lines)]

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool] | str) -> dict[str, Any]:
        """The first record of the log that is wanted (a text: its message begins so), once it is there."""

        def find() -> dict[str, Any] | None:
            for record in self.records():
                if record["message"].startswith(wanted) if isinstance(wanted, str) else wanted(record):
                    return record
            return None

        with self._changed:
            self._changed.wait_for(lambda: find() is not None or self._over, PATIENCE_S)
        found = find()
        assert found is not None, f"{wanted} was not logged:\n" + "\n".join(self.lines)
        return found

    def ready(self) -> RunningServer:
        """Wait until it serves."""
        self._ready = self.wait_for("ready")
        return self

    # Using it.

    @property
    def port(self) -> int:
        """The port of PostgreSQL's protocol."""
        return int(self._ready["postgres_port"])

    @property
    def grpc_port(self) -> int:
        """The port of gRPC."""
        return int(self._ready["grpc_port"])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        """A psycopg connection, in autocommit mode unless said otherwise; closed with the server."""
        given = {"host": "127.0.0.1", "user": "ann", "dbname": "test", "autocommit": True, **more}
        connection = psycopg.connect(port=self.port, **given)
        self._connections.append(connection)
        return connection

    @property
    def http_port(self) -> int:
        """The port of its HTTP pages."""
        port: int = self._ready["http_port"]
        return port

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._ready['http_port']}{path}", headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def wait_for_metric(self, line: str) -> None:
        """Return when the metrics have this line; fails when they do not for long."""
        until = time.monotonic() + PATIENCE_S
        while line not in (found := self.get("/metrics")[1]).splitlines():
            assert time.monotonic() < until, f"no {line} in\n{found}"
            time.sleep(0.02)

    # Ending it.

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def stop(self) -> int:
        """End it at once, as Ctrl-C does; its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGINT)
        return self.wait()

    def close(self) -> None:
        """Leave nothing of it."""
        for connection in self._connections:
            connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
