"""pgjdbc: the program that uses it, and a door for it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import java, pgjdbc_jars
from tests.support.relay import Relay
from tests.support.server_process import PATIENCE_S

HERE = Path(__file__).parent / "java"
_RUN_TIMEOUT_S = 150.0


def run(port: int, database: str, classes: Path, *properties: str) -> list[str]:
    """What the program prints, run against a server; its classes are compiled into ``classes``."""
    try:
        virtual_machine = Path(java())
        path = f"{pgjdbc_jars()}/*"
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    if not (classes / "PgJdbc.class").exists():
        compiler = shutil.which("javac") or str(virtual_machine.with_name("javac"))
        _checked([compiler, "-cp", path, "-d", str(classes), str(HERE / "PgJdbc.java")])
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8"]
    url = f"jdbc:postgresql://127.0.0.1:{port}/{database}"
    program = [str(virtual_machine), *flags, "-Dstdout.encoding=UTF-8", "-cp", f"{classes}:{path}"]
    return _checked([*program, "PgJdbc", url, *properties]).splitlines()


def _checked(command: list[str]) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_RUN_TIMEOUT_S
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
