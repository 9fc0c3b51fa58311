"""A Java program of one source file, compiled once, run against BookKeeper's jars, and spoken to in lines of
JSON.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdpy.testing.errors import KitError, MissingSoftwareError
from herdpy.testing.java import JavaCommand, cache_directory, classpath, java
from herdpy.testing.process import spawn

_COMPILE_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0
_OLD_S = 86_400.0
_READ_BYTES = 1 << 20
_MAX_ANSWER_BYTES = 256 << 20


class JavaProgramError(KitError):
    """What the program answered instead of a result. `name` is the exception's class in Java."""

    def __init__(self, name: str, message: str, code: int | None) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.code = code
        """BookKeeper's return code (``BKException``), None for other exceptions."""


class JavaProgram:
    """The class with the name of the file `source`, run with `arguments`; a context manager, started on
    entry.

    A request is one line of JSON on its standard input, an answer one line on its standard output; an answer
    with the field ``error`` becomes a JavaProgramError. Standard error goes to the file `log_path`, or
    nowhere.
    """

    def __init__(
        self,
        source: Path,
        *arguments: str,
        java_options: Sequence[str] = (),
        log_path: Path | None = None,
    ) -> None:
        self._source = source
        self._arguments = arguments
        self._options = tuple(java_options)
        self._log_path = log_path or Path(os.devnull)
        self._command: JavaCommand | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._received = bytearray()

    def __enter__(self) -> Self:
        kind = self._source.stem
        classes = [compiled(self._source)]
        self._command = JavaCommand(
            kind, kind, self._arguments, options=self._options, extra_classpath=classes
        )
        with self._log_path.open("ab") as log:
            self._process = spawn(
                self._command.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def request(self, operation: str, *, timeout_s: float = 60.0, **fields: object) -> dict[str, Any]:
        """Send one request and wait for its answer. Raises JavaProgramError, TimeoutError, KitError when it
        ended.
        """
        self.send(operation, **fields)
        return self.answer(timeout_s=timeout_s)

    def send(self, operation: str, **fields: object) -> None:
        """Send a request without waiting: answers come in the order of requests."""
        line = json.dumps({"op": operation, **fields}).encode() + b"\n"
        pipe = self._running().stdin
        if pipe is not None:
            pipe.write(line)
            pipe.flush()

    def answer(self, *, timeout_s: float = 60.0) -> dict[str, Any]:
        """The next answer. Raises as `request` does."""
        found: dict[str, Any] = json.loads(self._line(timeout_s))
        if "error" in found:
            raise JavaProgramError(found["error"], found.get("message", ""), found.get("code"))
        return found

    @property
    def pid(self) -> int:
        """The process's id. Raises KitError when it does not run."""
        return self._running().pid

    def kill(self) -> None:
        """End the program at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._finish()

    def stop(self) -> None:
        """End the program: it is told by the end of its input, and killed when it does not obey."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._finish()

    def _finish(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        if self._command is not None:
            self._command.ended(code)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise KitError(f"{self._source.stem} does not run")
        return self._process

    def _line(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        pipe = self._running().stdout
        if pipe is None:
            raise KitError(f"{self._source.stem} has no output")
        searched = 0
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while (end := self._received.find(b"\n", searched)) < 0:
                searched = len(self._received)
                if searched > _MAX_ANSWER_BYTES:
                    raise KitError(f"an answer of {self._source.stem} is too long")
                if not selector.select(deadline - time.monotonic()):
                    raise TimeoutError(f"{self._source.stem} did not answer within {timeout_s:g} s")
                chunk = os.read(pipe.fileno(), _READ_BYTES)
                if not chunk:
                    raise KitError(f"{self._source.stem} ended; see {self._log_path}")
                self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line


def compiled(source: Path) -> Path:
    """The jar with the classes of `source`, compiled unless the same text was before. Raises KitError.

    A jar, because Java archives loaded classes of jars only.
    """
    compiler = Path(java()).with_name("javac")
    found = str(compiler) if compiler.exists() else shutil.which("javac")
    if found is None:
        raise MissingSoftwareError("javac was not found (Debian: apt-get install openjdk-17-jdk-headless)")
    key = hashlib.sha256(source.read_bytes() + classpath().encode()).hexdigest()[:16]
    home = cache_directory()
    jar = home / f"{source.stem}-{key}.jar"
    with (home / "compile.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=home) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            for old in home.glob(f"{source.stem}-*"):  # jars and archives of earlier texts, not those in use
                if time.time() - old.stat().st_mtime > _OLD_S:
                    old.unlink()
            _compile(found, source, Path(scratch), jar)
    return jar


def _compile(compiler: str, source: Path, scratch: Path, jar: Path) -> None:
    classes = scratch / "classes"
    done = subprocess.run(
        [compiler, "-nowarn", "-cp", classpath(), "-d", str(classes), str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMPILE_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise KitError(f"{source} does not compile:\n{done.stderr}")
    made = scratch / jar.name
    with zipfile.ZipFile(made, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    made.replace(jar)
