"""The command lines of Java programs: flags for a short start and little memory, and the jars on the class
path.

A start is mostly the loading of classes. The first process of each kind writes what it loaded into an archive
in the cache directory when it ends in order, and later ones map that archive (Java's application class data
sharing): a cluster of three bookies is up in 1.9 s instead of 3.2, at 3.0 s of processor time instead of 5.1.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from herdpy.testing.jars import cache_directory, classpath, java

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
_ENDED_IN_ORDER = (0, 143)  # 143: told so by SIGTERM


def write_configuration(path: Path, values: Mapping[str, object]) -> None:
    """Write a file of ``name=value`` lines, as ZooKeeper and BookKeeper's programs read it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


class JavaCommand:
    """How to run class `main` with BookKeeper's jars; `options` go to the virtual machine and win over the
    kit's.

    `kind` names the archive of classes that all commands with the same main class and class path share. With
    `writes_archive` False an archive that is there is used, and none is written: for a process whose end
    nobody here will see.
    """

    def __init__(
        self,
        kind: str,
        main: str,
        arguments: Sequence[str] = (),
        *,
        options: Sequence[str] = (),
        extra_classpath: Sequence[Path] = (),
        writes_archive: bool = True,
    ) -> None:
        path = ":".join([*map(str, extra_classpath), classpath()])
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
