"""A process that is started is written down before it becomes its program, or it never does."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from herdpy.dev.process import ProcessIdentity, spawn_waiting
from herdpy.testing.process import PortReservation, await_until

SAY = ["/bin/sh", "-c", "echo here; pwd; exec sleep 1000"]
STARTER = """
import signal, sys
from pathlib import Path
from herdpy.dev.process import spawn_waiting
home = Path(sys.argv[1])
spawned = spawn_waiting(
    ["/bin/sh", "-c", "echo here; exec sleep 1000"], directory=home, log_path=home / "log", environment={},
    dies_with_us=sys.argv[2] == "dies", reservations=())
if sys.argv[3] == "go":
    spawned.go()
print(spawned.identity.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def spawn(tmp_path):
    """Spawns SAY; what runs is killed at the end."""
    identities = []

    def begin(*, environment=None, reservations=()):
        spawned = spawn_waiting(
            SAY,
            directory=tmp_path,
            log_path=tmp_path / "log",
            environment=environment or {},
            dies_with_us=True,
            reservations=reservations,
        )
        identities.append(spawned.identity)
        return spawned

    yield begin
    for identity in identities:
        identity.send(signal.SIGKILL)
        assert identity.await_end(20)


@pytest.fixture
def starter(tmp_path):
    """A process that spawns one, which is let go or not, and is to die with it or not."""
    identities = []

    def begin(*words):
        with subprocess.Popen(
            [sys.executable, "-c", STARTER, tmp_path, *words], stdout=subprocess.PIPE, text=True
        ) as process:
            identities.append(ProcessIdentity.of(int(process.stdout.readline())))
            if "go" in words:
                assert says(tmp_path, "here")
            process.kill()
        return identities[-1]

    yield begin
    for identity in identities:
        identity.send(signal.SIGKILL)
        assert identity.await_end(20)


def says(tmp_path, word):
    return await_until(lambda: word in (tmp_path / "log").read_text(), 20)


def test_process_that_is_let_go_becomes_its_program(spawn, tmp_path):
    with spawn() as spawned:
        spawned.go()
    assert says(tmp_path, f"here\n{tmp_path}\n")
    assert spawned.identity.is_running
    assert os.getsid(spawned.identity.pid) == spawned.identity.pid


def test_process_that_is_not_let_go_ends(spawn, tmp_path):
    with spawn() as spawned:
        assert spawned.identity.is_running
    assert spawned.identity.await_end(20)
    assert (tmp_path / "log").read_text() == ""


def test_process_ends_when_its_starter_is_killed_before_it_is_let_go(starter, tmp_path):
    assert starter("lives", "waits").await_end(20)
    assert (tmp_path / "log").read_text() == ""


def test_process_that_was_let_go_outlives_its_starter(starter):
    assert starter("lives", "go").is_running


def test_process_that_shall_dies_with_its_starter(starter):
    assert starter("dies", "go").await_end(20)


def bind(port):
    """Take the port as whoever wants a free one does."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))


def test_process_keeps_the_ports_that_were_reserved(spawn):
    with contextlib.closing(PortReservation()) as reservation:
        port = reservation.port
        with spawn(reservations=[reservation]) as spawned:
            spawned.go()
    with pytest.raises(OSError, match="Address already in use"):
        bind(port)
    spawned.identity.send(signal.SIGKILL)
    assert spawned.identity.await_end(20)
    bind(port)
