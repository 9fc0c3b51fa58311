"""Supervisors are found, killed, stopped and woken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from herdpy.drill.control.local import SUPERVISOR, supervisor_of

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()", *sys.argv[1:]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.kill()
child.wait()
"""


@pytest.fixture(params=[SUPERVISOR, "herdpy_server.worker"])
def family(request: pytest.FixtureRequest) -> Iterator[tuple[int, int, str]]:
    """A process with a child that has a word in its command line: both ids, and the word."""
    command = [sys.executable, "-c", PARENT, request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline()), request.param
        parent.communicate("\n")


def test_a_server_and_its_supervisor(family: tuple[int, int, str]) -> None:
    parent, child, word = family
    found = supervisor_of(parent)
    assert (None if found is None else found.pid) == (child if word == SUPERVISOR else None)
    assert supervisor_of(child) is None
