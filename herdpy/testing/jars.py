"""Java and the jars: found, or fetched once per machine with Maven into a cache directory.

`jars()` is what the servers stand on, `delta_jars()` what Spark needs for tables of Delta Lake,
`sqllogictest_jar()` has queries with their results. The cache is
$HERDPY_CACHE, else $XDG_CACHE_HOME/herdpy, else ~/.cache/herdpy; a lock on a file there makes one process
fetch while others wait, and the mark `.ok` says that a directory is whole.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from herdpy.testing.errors import MissingSoftwareError

BOOKKEEPER_VERSION = "4.17.3"
DELTA_VERSION = "4.4.0"  # for Spark 4.2 and Scala 2.13
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
