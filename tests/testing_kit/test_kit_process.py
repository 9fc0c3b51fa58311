"""Children: started and watched, their port checked, and never outliving the process that started them."""

import signal
import socket
import subprocess
import sys
import threading

import pytest

from herdpy.testing import PortTakenError, StartError
from herdpy.testing.process import Child, PortReservation, await_until, listener_inodes, owns_socket
from tests.testing_kit.kit_programs import DEAF, LISTENER, SLEEPER, await_end, python, state


@pytest.fixture
def reservation():
    made = PortReservation()
    yield made
    made.close()


@pytest.fixture
def child(tmp_path):
    """Makes children that are killed after the test."""
    made = []

    def make(code, *arguments):
        made.append(Child(f"child {len(made)}", python(code, *arguments), tmp_path / f"log{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def says(child, word):
    assert await_until(lambda: child.log_path.exists() and word in child.log_path.read_text(), 20)


def test_child_listens_on_its_reserved_port(child, reservation):
    server = child(LISTENER, reservation.port)
    server.start()
    server.await_listening("127.0.0.1", reservation.port, 20)
    assert owns_socket(server.pid, listener_inodes("127.0.0.1", reservation.port))
    server.kill()
    assert not server.is_running
    assert not listener_inodes("127.0.0.1", reservation.port)


def test_reserved_port_is_kept_over_a_restart_and_given_to_nobody_else(child, reservation):
    server = child(LISTENER, reservation.port)
    for _ in range(2):
        server.start()
        server.await_listening("127.0.0.1", reservation.port, 20)
        server.kill()
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", reservation.port))  # as whoever looks for a free port does


def test_port_stolen_by_another_process_is_noticed(child, reservation):
    thief = child(LISTENER, reservation.port)
    thief.start()
    thief.await_listening("127.0.0.1", reservation.port, 20)
    late = child(SLEEPER)  # runs, and never gets the port: a connection would succeed all the same
    late.start()
    with pytest.raises(
        PortTakenError, match=r"child 1: port \d+ of 127\.0\.0\.1 is listened on by another process"
    ):
        late.await_listening("127.0.0.1", reservation.port, 20)
    refused = child(LISTENER, reservation.port)
    refused.start()
    with pytest.raises(PortTakenError, match="child 2"):
        refused.await_listening("127.0.0.1", reservation.port, 20)


def test_failed_start_shows_the_end_of_the_log(child, reservation):
    broken = child("print('one line'); raise SystemExit('the reason')")
    broken.start()
    with pytest.raises(StartError, match=r"ended with 1 instead of listening(.|\n)*the reason"):
        broken.await_listening("127.0.0.1", reservation.port, 20)


def test_server_that_never_listens_is_not_waited_for_forever(child, reservation):
    silent = child(SLEEPER)
    silent.start()
    with pytest.raises(StartError, match=r"did not listen on 127\.0\.0\.1:\d+ within 0\.1 s"):
        silent.await_listening("127.0.0.1", reservation.port, 0.1)


def test_pause_and_resume(child):
    sleeper = child(SLEEPER)
    sleeper.start()
    says(sleeper, "sleeping")
    for _ in range(2):
        sleeper.pause()
        assert state(sleeper.pid) == "T"
        sleeper.pause()
        sleeper.resume()
        assert await_until(lambda: state(sleeper.pid) == "S", 20)


def test_pausing_what_has_ended_does_nothing(child):
    sleeper = child(SLEEPER)
    sleeper.start()
    says(sleeper, "sleeping")
    sleeper._signal(signal.SIGKILL)
    sleeper.pause()
    assert sleeper.kill() == -signal.SIGKILL
    sleeper.pause()


def test_terminate_ends_a_paused_process(child):
    sleeper = child(SLEEPER)
    sleeper.start()
    says(sleeper, "sleeping")
    sleeper.pause()
    assert sleeper.terminate() == -signal.SIGTERM


def test_terminate_kills_what_does_not_listen_to_it(child):
    deaf = child(DEAF)
    deaf.start()
    says(deaf, "deaf")
    assert deaf.terminate(0.1) == -signal.SIGKILL


def test_child_outlives_the_thread_that_started_it(child):
    server = child(SLEEPER)

    def work():
        server.start()
        says(server, "sleeping")  # so that the signal is set while the thread still lives

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert await_end([server.pid], 0.3) == [server.pid]


def test_killed_parent_takes_its_children_along(tmp_path):
    code = (
        "import sys, signal; from pathlib import Path; from herdpy.testing.process import Child\n"
        f"argv = [sys.executable, '-I', '-c', {SLEEPER!r}]\n"
        "children = [Child('c', argv, Path(sys.argv[1]) / str(i)) for i in (1, 2)]\n"
        "for child in children: child.start()\n"
        "print(*(child.pid for child in children), flush=True)\n"
        "signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert await_until(lambda: all((tmp_path / name).read_text() for name in ("1", "2")), 20)
        parent.kill()
    assert len(pids) == 2
    assert await_end(pids) == []
