"""What stands in for the things that Linux has alone: by itself, and under a database without them."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy import machine
from tests.docs.test_examples import ROOT
from tests.support.server_process import RunningServer

LESS = Path(__file__).parent / "less_than_linux"


@pytest.fixture
def less() -> dict[str, str]:
    """The environment of a process, and of those that it starts, on a system that is not Linux."""
    path = os.pathsep.join([str(LESS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """A file that is open."""
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def test_a_sync_reaches_the_disk_where_fsync_does_not(
    monkeypatch: pytest.MonkeyPatch, descriptor: int
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: asked.append(("full", command)))
    monkeypatch.setattr(os, "fsync", lambda fd: asked.append(("fsync", fd)))
    monkeypatch.delattr(os, "fdatasync")
    machine.sync_all(descriptor)
    machine.sync_data(descriptor)
    assert asked == [("full", 51), ("full", 51)]


@pytest.mark.parametrize(("number", "falls_back"), [(errno.ENOTSUP, True), (errno.EIO, False)])
def test_a_file_system_without_that_sync(
    monkeypatch: pytest.MonkeyPatch, descriptor: int, number: int, falls_back: bool
) -> None:
    def refuse(_fd: int, _command: int) -> None:
        raise OSError(number, "refused")

    synced: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(os, "fsync", synced.append)
    if falls_back:
        machine.sync_all(descriptor)
        assert synced == [descriptor]
    else:
        with pytest.raises(OSError, match="refused"):
            machine.sync_all(descriptor)
        assert synced == []


def test_on_linux_the_builtins_are_taken() -> None:
    assert machine.FDATASYNC is os.fdatasync
    assert machine.FSYNC is os.fsync


def test_the_clock_runs_on() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= machine.boot_time_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


CHILD = """
import os, sys
from herdpy.machine import end_with_parent
end_with_parent(int(sys.argv[1]))
os.write(1, b"%d\\n" % os.getpid())
import time
while True: time.sleep(60)
"""
PARENT = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
sys.stdin.read()
"""


def test_a_process_ends_with_its_parent(less: dict[str, str]) -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=less) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        handle = os.pidfd_open(child)
        parent.kill()
        assert parent.stdout.read() == b""  # both have closed it
        os.close(handle)


DATABASE = """
import os, sys
assert not hasattr(os, "fdatasync") and not hasattr(os, "pidfd_open")
import herdpy
with herdpy.connect("herdpy:garden") as conn:
    if sys.argv[1] == "write":
        conn.execute("CREATE TABLE plant (id INT PRIMARY KEY, name TEXT)")
        conn.execute("INSERT INTO plant SELECT i, 'n' || i FROM generate_series(1, 20000) AS s (i)")
        conn.commit()
        os._exit(9)
    print(conn.execute("SELECT count(*), max(name) FROM plant WHERE id % 2 = 0").fetchone())
    conn.execute("CHECKPOINT")
"""


def test_a_directory_survives_there(less: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", DATABASE]
    done = subprocess.run(
        [*command, "write"], cwd=tmp_path, env=less, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (9, "")
    done = subprocess.run(
        [*command, "read"], cwd=tmp_path, env=less, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(10000, 'n9998')\n"


def test_a_server_and_its_workers_run_there(less: dict[str, str], tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data", PYTHONPATH=less["PYTHONPATH"])
    try:
        with server.ready().connect() as conn:
            conn.execute("CREATE TABLE plant (id INT PRIMARY KEY, name TEXT)")
            conn.execute("INSERT INTO plant SELECT i, 'n' || i FROM generate_series(1, 20000) AS s (i)")
            question = "SELECT count(*), max(name) FROM plant WHERE id % 2 = 0"
            assert conn.execute(question).fetchone() == (10000, "n9998")
            workers = [int(pid) for pid in children_of(server.pid)]
            assert workers
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            server.wait_for(lambda record: "SIGKILL" in str(record))
            assert conn.execute(question).fetchone() == (10000, "n9998")
        assert server.stop() == 0
    finally:
        server.close()


def children_of(pid: int) -> list[str]:
    """The processes that a process has started and that have not ended."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.soak
@pytest.mark.parametrize("area", ["tests/log", "tests/store", "tests/workers", "tests/dbapi", "tests/server"])
def test_the_tests_of_an_area_pass_there(less: dict[str, str], area: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", area]
    done = subprocess.run(
        command, cwd=ROOT, env=less, capture_output=True, text=True, timeout=3000, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
