"""pgjdbc: its jar, fetched once per machine with Maven, the program that uses it, and a door for it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import cache_directory, java
from tests.support.relay import Relay
from tests.support.server_process import PATIENCE_S

HERE = Path(__file__).parent / "java"
VERSION = "42.7.4"
_FETCH_TIMEOUT_S = 150.0


def jars() -> Path:
    """The directory of the driver's jars; skips the test where they cannot be fetched."""
    home = cache_directory().parent / f"pgjdbc-{VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "jars").exists():
            _fetch(home)
    return home / "jars"


def _fetch(home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven, which fetches pgjdbc, is not installed")
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=home) as scratch:
        shutil.copy(HERE / "pom.xml", scratch)
        done = subprocess.run(
            [
                maven, "--quiet", "--batch-mode", "--file", f"{scratch}/pom.xml",
                f"-Dpgjdbc.version={VERSION}", "dependency:copy-dependencies",
                "-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars",
            ],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_S,
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip(f"Maven cannot fetch pgjdbc: {(done.stdout + done.stderr).strip()[-300:]}")
        (Path(scratch) / "jars").rename(home / "jars")


def run(port: int, database: str, classes: Path, *properties: str) -> list[str]:
    """What the program prints, run against a server; its classes are compiled into ``classes``."""
    try:
        virtual_machine = Path(java())
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    path = f"{jars()}/*"
    if not (classes / "PgJdbc.class").exists():
        compiler = shutil.which("javac") or str(virtual_machine.with_name("javac"))
        _checked([compiler, "-cp", path, "-d", str(classes), str(HERE / "PgJdbc.java")])
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8"]
    url = f"jdbc:postgresql://127.0.0.1:{port}/{database}"
    program = [str(virtual_machine), *flags, "-Dstdout.encoding=UTF-8", "-cp", f"{classes}:{path}"]
    return _checked([*program, "PgJdbc", url, *properties]).splitlines()


def _checked(command: list[str]) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_FETCH_TIMEOUT_S
    )
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    return printed


@contextlib.contextmanager
def door_to(path: str) -> Iterator[int]:
    """A free TCP port that leads to a Unix socket: Java knows no others, and the PostgreSQL has no port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    relay = Relay(lambda: asyncio.open_unix_connection(path))
    try:
        asyncio.run_coroutine_threadsafe(relay.start(), loop).result(PATIENCE_S)
        yield relay.port
    finally:
        asyncio.run_coroutine_threadsafe(relay.close(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
