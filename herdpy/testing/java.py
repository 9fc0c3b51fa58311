"""Java and the jars, the command lines of Java programs, and Java programs of one source file.

`jars()` is what the servers need, `delta_jars()` what Spark needs for tables of Delta Lake, `kafka_jars()`
a broker of Kafka, `iceberg_jars()` a REST catalog of Iceberg, `pgjdbc_jars()` PostgreSQL's JDBC driver,
`sqllogictest_jar()` has queries with their results. They are found, or fetched once per machine with Maven
into a cache directory: $HERDPY_CACHE, else $XDG_CACHE_HOME/herdpy, else ~/.cache/herdpy; a lock on a file
there makes one process fetch while others wait, and the mark `.ok` says that a directory is whole.

Command lines have flags for a short start and little memory. The first process of each kind writes the
classes it loaded into an archive in the cache directory when it ends in order, and later ones map that
archive (Java's application class data sharing): a cluster of three bookies is up in 1.9 s instead of 3.2.

A JavaProgram is compiled once, runs with BookKeeper's jars and others that it names, and is spoken to in
lines of JSON.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdpy.testing.errors import KitError, MissingSoftwareError
from herdpy.testing.process import spawn

BOOKKEEPER_VERSION = "4.17.3"
DELTA_VERSION = "4.4.0"  # for Spark 4.2 and Scala 2.13
KAFKA_VERSION = "4.1.1"
ICEBERG_VERSION = "1.11.0"  # the newest with the REST catalog that its own tests use
PGJDBC_VERSION = "42.7.4"
SQLLOGICTEST_VERSION = "0.3"
JAVA_VERSION = 17

_HERE = Path(__file__).parent
_FETCH_TIMEOUT_S = 900.0
_INSTALL = "install Java 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)"


def cache_directory() -> Path:
    """Where what is fetched or compiled is kept between runs; made when it is not there."""
    root = os.environ.get("HERDPY_CACHE")
    if root is None:
        root = os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "herdpy")
    directory = Path(root) / f"bookkeeper-{BOOKKEEPER_VERSION}"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@cache
def java() -> str:
    """The path of a Java of version 17 or newer: $JAVA_HOME's, else the one on the path. MissingSoftwareError
    if none.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        raise MissingSoftwareError(f"no Java was found{f' in JAVA_HOME={home}' if home else ''}: {_INSTALL}")
    said = subprocess.run(
        [found, "-version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    version = re.search(r'version "(\d+)', said.stderr)
    if version is None or int(version[1]) < JAVA_VERSION:
        first = said.stderr.strip().splitlines()[:1]
        raise MissingSoftwareError(
            f"{found} is not Java {JAVA_VERSION} or newer ({' '.join(first)}): {_INSTALL}"
        )
    return found


def jars() -> Path:
    """The directory of BookKeeper's and ZooKeeper's jars; the first call on a machine fetches them (about 95
    MB).

    Raises MissingSoftwareError where Maven is missing or cannot reach a repository.
    """
    return _fetched(
        f"BookKeeper {BOOKKEEPER_VERSION}",
        cache_directory(),
        "pom.xml",
        f"bookkeeper.version={BOOKKEEPER_VERSION}",
    )


def delta_jars() -> Path:
    """The directory of Delta Lake's jars; the first call on a machine fetches them (about 15 MB).

    Raises MissingSoftwareError as ``jars``.
    """
    home = cache_directory().with_name(f"delta-{DELTA_VERSION}")
    home.mkdir(exist_ok=True)
    return _fetched(f"Delta Lake {DELTA_VERSION}", home, "delta-pom.xml", f"delta.version={DELTA_VERSION}")


def kafka_jars() -> Path:
    """The directory of Apache Kafka's jars; the first call on a machine fetches them (about 70 MB).

    Raises MissingSoftwareError as ``jars``.
    """
    home = cache_directory().with_name(f"kafka-{KAFKA_VERSION}")
    home.mkdir(exist_ok=True)
    return _fetched(f"Apache Kafka {KAFKA_VERSION}", home, "kafka-pom.xml", f"kafka.version={KAFKA_VERSION}")


def iceberg_jars() -> Path:
    """The directory of the jars of Iceberg's REST catalog; the first call on a machine fetches them (32 MB).

    Hadoop and a logger are not among them: Spark's jars have both. Raises MissingSoftwareError as ``jars``.
    """
    home = cache_directory().with_name(f"iceberg-{ICEBERG_VERSION}")
    home.mkdir(exist_ok=True)
    version = f"iceberg.version={ICEBERG_VERSION}"
    return _fetched(f"Apache Iceberg {ICEBERG_VERSION}", home, "iceberg-pom.xml", version)


def pgjdbc_jars() -> Path:
    """The directory of PostgreSQL's JDBC driver; the first call on a machine fetches it (about 1 MB).

    Raises MissingSoftwareError as ``jars``.
    """
    home = cache_directory().with_name(f"pgjdbc-{PGJDBC_VERSION}")
    home.mkdir(exist_ok=True)
    return _fetched(f"pgjdbc {PGJDBC_VERSION}", home, "pgjdbc-pom.xml", f"pgjdbc.version={PGJDBC_VERSION}")


def sqllogictest_jar() -> Path:
    """The jar with sqllogictest's files, under test/; the first call on a machine fetches it (about 110 MB).

    Raises MissingSoftwareError as ``jars``.
    """
    home = cache_directory().with_name(f"sqllogictest-{SQLLOGICTEST_VERSION}")
    home.mkdir(exist_ok=True)
    version = f"sqllogictest.version={SQLLOGICTEST_VERSION}"
    directory = _fetched(f"sqllogictest {SQLLOGICTEST_VERSION}", home, "sqllogictest-pom.xml", version)
    return directory / f"sql-logic-test-{SQLLOGICTEST_VERSION}.jar"


def _fetched(what: str, home: Path, pom: str, version: str) -> Path:
    directory = home / "jars"
    if (directory / ".ok").exists():
        return directory
    with (home / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / ".ok").exists():
            _fetch(what, directory, pom, version)
    return directory


def classpath() -> str:
    """The class path of the servers and of Java programs that use BookKeeper."""
    return f"{jars()}/*"


def _fetch(what: str, directory: Path, pom: str, version: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingSoftwareError(f"Maven, which fetches {what}, was not found: {_INSTALL}")
    java()
    print(f"herdpy.testing: fetching {what} into {directory} ...", file=sys.stderr, flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=directory.parent) as scratch:
        shutil.copy(_HERE / pom, f"{scratch}/pom.xml")
        done = subprocess.run(
            [
                maven, "--quiet", "--batch-mode", "--file", f"{scratch}/pom.xml", f"-D{version}",
                "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars",
            ],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_S,
        )  # fmt: skip
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise MissingSoftwareError(f"Maven could not fetch {what}:\n{tail}")
        fetched = Path(scratch) / "jars"
        (fetched / ".ok").touch()
        fetched.rename(directory)
    count = sum(1 for _ in directory.glob("*.jar"))
    print(f"herdpy.testing: {count} jars fetched", file=sys.stderr, flush=True)


_LOGGING = Path(__file__).with_name("logging.xml")

# One collector thread, the quick compiler only, IPv4 only: many small Java processes share one small machine.
_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.security.egd=file:/dev/urandom",
    "-Dio.netty.allocator.numDirectArenas=1",
    "-Dio.netty.allocator.numHeapArenas=1",
    f"-Dlog4j2.configurationFile={_LOGGING}",
    "-Dlog4j2.disableJmx=true",
)
_ENDED_IN_ORDER = (0, 143)  # 143: ended by SIGTERM


def write_configuration(path: Path, values: Mapping[str, object]) -> None:
    """Write a file of ``name=value`` lines, as ZooKeeper and BookKeeper's programs read it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


class JavaCommand:
    """How to run class `main` with BookKeeper's jars; `options` go to the virtual machine and win over the
    kit's.

    `jars_at` is a directory of jars to run with instead of BookKeeper's. `kind` names the archive of classes
    that all commands with the same main class and class path share. With `writes_archive` False an archive
    that is there is used, and none is written: for a process whose end nobody here will see.
    """

    def __init__(
        self,
        kind: str,
        main: str,
        arguments: Sequence[str] = (),
        *,
        options: Sequence[str] = (),
        extra_classpath: Sequence[Path] = (),
        jars_at: Path | None = None,
        writes_archive: bool = True,
    ) -> None:
        whole = classpath() if jars_at is None else f"{jars_at}/*"
        path = ":".join([*map(str, extra_classpath), whole])
        self._tail = ["-cp", path, main, *arguments]
        self._options = tuple(options)
        self._archive = _archive_path(kind, path)
        self._writes_archive = writes_archive
        self._written: Path | None = None

    def argv(self) -> list[str]:
        """The words of the command, for one start: say `ended` when that process has ended."""
        return [java(), *_FLAGS, *self._archive_flags(), *self._options, *self._tail]

    def ended(self, code: int | None) -> None:
        """Take note of how the process ended: the archive that it wrote, if any, is whole when it ended in
        order.
        """
        if self._written is None:
            return
        if code in _ENDED_IN_ORDER and self._written.exists():
            self._written.replace(self._archive)
        else:
            self._written.unlink(missing_ok=True)
            _being_written.discard(self._archive)
        self._written = None

    def run(self, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run the program to its end and return what it printed. Raises subprocess.TimeoutExpired."""
        code = None
        try:
            done = subprocess.run(
                self.argv(),
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
            )
            code = done.returncode
            return done
        finally:
            self.ended(code)

    def _archive_flags(self) -> list[str]:
        if self._archive.exists():
            return [f"-XX:SharedArchiveFile={self._archive}"]
        if (
            not self._writes_archive or self._archive in _being_written
        ):  # one process of a kind is enough: writing costs it a second
            return []
        _being_written.add(self._archive)
        self._written = self._archive.with_suffix(f".{os.getpid()}")
        return [f"-XX:ArchiveClassesAtExit={self._written}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


_being_written: set[Path] = set()


def _archive_path(kind: str, path: str) -> Path:
    """An archive fits one Java and one class path."""
    real = os.path.realpath(java())
    key = hashlib.sha256(f"{real} {os.stat(real).st_mtime_ns} {path}".encode()).hexdigest()[:12]
    return cache_directory() / f"{kind}-{key}.jsa"


# Programs of one source file.

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
    nowhere. `extra_classpath` has directories of jars that it needs beside BookKeeper's.
    """

    def __init__(
        self,
        source: Path,
        *arguments: str,
        java_options: Sequence[str] = (),
        log_path: Path | None = None,
        extra_classpath: Sequence[Path] = (),
    ) -> None:
        self._source = source
        self._extra = extra_classpath
        self._arguments = arguments
        self._options = tuple(java_options)
        self._log_path = log_path or Path(os.devnull)
        self._command: JavaCommand | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._received = bytearray()

    def __enter__(self) -> Self:
        kind = self._source.stem
        classes = [compiled(self._source), *(jar for one in self._extra for jar in sorted(one.glob("*.jar")))]
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
        """End the program: its input ends, and it is killed when it does not end."""
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
