"""`herdpy dev` as a process of its own, and ways to look at what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from herdpy.dev.directory import ClusterState
from herdpy.dev.process import ProcessIdentity
from herdpy.testing.process import await_until

PATIENCE_S = 60.0


def command(*words: object) -> list[str]:
    """The words of a command."""
    return [sys.executable, "-P", "-m", "herdpy.cli", "dev", *map(str, words)]


def dev(*words: object, code: int = 0) -> str:
    """What a command prints on standard output, or on standard error when it shall fail."""
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def dev_json(*words: object) -> Any:
    """What a command prints with --json."""
    return json.loads(dev(*words, "--json"))


@contextmanager
def begun(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A command under way; killed if it has not ended."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*words), stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def state_of(directory: Path) -> ClusterState:
    """What is written down."""
    return ClusterState.load(directory / "cluster.json") or ClusterState()


def await_process(directory: Path, name: str) -> ProcessIdentity:
    """The process of that name, once it is written down."""

    def found() -> list[ProcessIdentity]:
        members = state_of(directory).members
        return [one.process for one in members if one.name == name and one.process is not None]

    assert await_until(lambda: bool(found()), PATIENCE_S), f"{name} was not started"
    return found()[0]


def processes_of(directory: Path) -> dict[int, str]:
    """The processes, by id, that were given the directory and have not ended."""
    mine = os.fsencode(directory)
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(path.parent.name)
        try:
            words = path.read_bytes()
        except OSError:  # ended meanwhile
            continue
        if mine in words and pid != os.getpid():
            found[pid] = words.replace(b"\0", b" ").decode(errors="replace")
    return found
