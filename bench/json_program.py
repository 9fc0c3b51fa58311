"""A program of a benchmark in a process of its own: a line of JSON asks it, a line of JSON is its answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from herdpy.testing.process import spawn


class JsonProgram:
    """A context manager: the process is started on entry, and ends at the end of its standard input."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._command, self._environment = command, environment

    def __enter__(self) -> Self:
        self._process = spawn(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None,
            environment=self._environment,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def ask(self, request: Mapping[str, object]) -> None:
        """Send a request without waiting."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises RuntimeError when it is an error, or the program has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line or '{"error": "the program ended"}')
        if "error" in found:
            raise RuntimeError(": ".join(str(found[name]) for name in ("error", "message") if name in found))
        return found
