"""A process is signalled only while it is the one that was meant."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from herdpy.dev.process import ProcessIdentity
from herdpy.testing.process import await_until

THREADS = """
import signal, threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def other():
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_process_is_known_again_while_it_lives(other):
    identity = ProcessIdentity.of(other.pid)
    assert identity.is_running
    assert identity == ProcessIdentity.of(other.pid)
    assert identity.send(signal.SIGKILL)
    assert identity.await_end(20)
    assert not identity.is_running
    assert not identity.send(signal.SIGKILL)


def test_child_that_ended_is_waited_for_and_its_end_known(other):
    identity = ProcessIdentity.of(other.pid)
    identity.send(signal.SIGTERM)
    assert identity.await_end(20)
    assert not identity.is_running
    assert identity.exit_code() == -signal.SIGTERM
    with pytest.raises(ChildProcessError):
        os.waitpid(other.pid, os.WNOHANG)


@pytest.mark.parametrize("change", [{"start_ticks": 17}, {"boot_id": "another"}])
def test_process_that_only_has_the_same_id_is_left_alone(other, change):
    stranger = replace(ProcessIdentity.of(other.pid), **change)
    assert not stranger.is_running
    assert not stranger.send(signal.SIGKILL)
    assert not stranger.pause()
    assert stranger.await_end(0)
    assert other.poll() is None


def test_process_whose_id_a_thread_has_now_has_ended(other):
    gone = threading.Event()
    thread = threading.Thread(target=gone.wait)
    thread.start()
    try:
        was = replace(ProcessIdentity.of(other.pid), pid=thread.native_id)
        assert not was.send(signal.SIGKILL)
        assert was.await_end(0.0)
    finally:
        gone.set()
        thread.join()


def test_zombie_of_another_parent_has_ended():
    code = (
        "import os, sys\n"
        "pid = os.fork()\n"
        "if not pid: sys.stdin.read(1); os._exit(0)\n"
        "print(pid, flush=True); os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"
        "print('zombie', flush=True); os.read(0, 2)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as parent:
        identity = ProcessIdentity.of(int(parent.stdout.readline()))
        assert identity.is_running
        parent.stdin.write("x")
        parent.stdin.flush()
        assert parent.stdout.readline() == "zombie\n"
        assert not identity.is_running
        assert not identity.send(signal.SIGTERM)
        assert identity.await_end(0)


def test_paused_process_stands_still_with_all_its_threads(other):
    identity = ProcessIdentity.of(other.pid)
    assert not identity.is_paused
    assert identity.pause()
    assert identity.is_paused
    assert identity.is_running
    identity.send(signal.SIGCONT)
    assert await_until(lambda: not identity.is_paused, 20)


def test_there_is_no_identity_without_a_process(other):
    other.kill()
    other.wait()
    with pytest.raises(ProcessLookupError, match=f"no process {other.pid}"):
        ProcessIdentity.of(other.pid)
