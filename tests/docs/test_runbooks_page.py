"""Every section of docs/runbooks.md is followed, step by step, on a cluster of its own ("runbooks.md").

What a reader's disks do by themselves stands in the page as ``<!-- lab: ... -->``, and is done here.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from herdpy.dev import LocalCluster
from herdpy.testing.java import JavaCommand
from tests.docs.test_examples import Block, blocks_of, commands_of, run_command
from tests.replica.replicas import await_leader

PAGE = Path(__file__).parents[2] / "docs" / "runbooks.md"
PATIENCE_S = 150
_STEP = re.compile(r"^<!-- lab: (.*) -->$", re.MULTILINE)


def sections() -> dict[str, tuple[int, str]]:
    """The text of each section of the page, and the line that it begins on."""
    text = PAGE.read_text()
    starts = [*re.finditer(r"^## (.*)$", text, re.MULTILINE)]
    ends = [*(one.start() for one in starts[1:]), len(text)]
    return {
        start[1]: (text[: start.start()].count("\n"), text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    }


def steps(name: str) -> list[tuple[int, str | Block]]:
    """What is done in a section, in order, with its line: commands, and what the lab does."""
    first, text = sections()[name]
    found: list[tuple[int, str | Block]] = [
        (text[: one.start()].count("\n") + 1, one[1]) for one in _STEP.finditer(text)
    ]
    found += [(one.line, one) for one in blocks_of(text) if one.runs and one.language == "console"]
    return [(first + line, step) for line, step in sorted(found, key=lambda one: one[0])]


def run(command: str, expected: str, line: int, environment: dict[str, str]) -> None:
    """One command of the page; output that is left out there ("...") may be any."""
    if expected.strip() == "...":
        expected = ""
    run_command(command, expected, f"{PAGE.name}:{line}", environment, PATIENCE_S)


class Lab:
    """The practice cluster, in the working directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        path = os.pathsep.join([str(directory / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {
            **os.environ,
            "PATH": path,
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }
        self.full: Path | None = None

    @property
    def cluster(self) -> LocalCluster:
        return LocalCluster(self.directory / "c")

    def follow(self, name: str) -> None:
        """Do what a section says."""
        for line, step in steps(name):
            if isinstance(step, str):
                self.does[step](self)
                continue
            for command, expected in commands_of(step):
                run(command, expected, line, self.environment)
                if command.startswith("herdpy dev up"):
                    self._learn()

    def _learn(self) -> None:
        cluster = self.cluster
        bookie = next(one for one in cluster.status().bookies if one.id == "bookie-2")
        self.environment |= {
            "URL": cluster.url,
            "HERDPY_CLUSTER": cluster.bookkeeper_uri,
            "ZOOKEEPER": cluster.zookeeper,
            "BOOKIE_2": bookie.bookie_id,
        }
        await_leader(cluster)
        self._write_script()

    def _write_script(self) -> None:
        """`bookkeeper shell`, as BookKeeper's own script has it."""
        command = JavaCommand(
            "shell",
            "org.apache.bookkeeper.bookie.BookieShell",
            ["-conf", str(self.directory / "c" / "bookie-1" / "bookie.conf")],
            options=("-Xmx128m",),
            writes_archive=False,
        )
        script = self.directory / "bin" / "bookkeeper"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/bash\nshift\nexec {shlex.join(command.argv())} "$@"\n')
        script.chmod(0o755)

    # What disks and people do by themselves.

    def fill_bookie(self) -> None:
        """Its disk has too little room from now on: it stands on a small one."""
        cluster, home = self.cluster, self.directory / "c" / "bookie-2"
        cluster.stop("bookie-2")
        kept = self.directory / "bookie-2"
        home.rename(kept)
        home.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(home)], check=True)
        self.full = home
        subprocess.run(["cp", "-a", f"{kept}/.", str(home)], check=True)
        cluster.start("bookie-2")
        with (home / "other-things").open("wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
            except OSError:
                pass  # it is full

    def drain_bookie(self) -> None:
        (self.directory / "c" / "bookie-2" / "other-things").unlink()

    def delete_open_ledger(self) -> None:
        run(
            "herdpy ledgers rm $(herdpy ledgers ls --json | python3 -c "
            "'import json, sys; print(*[one[\"ledger\"] for one in json.load(sys.stdin)])') --yes",
            "",
            0,
            self.environment,
        )
        for server in ("server-1", "server-2", "server-3"):  # who writes would only notice at the next roll
            self.cluster.stop(server)
        for server in ("server-1", "server-2", "server-3"):
            self.cluster.start(server, wait=False)

    does: ClassVar[dict[str, Callable[[Lab], None]]] = {
        "fill bookie-2": fill_bookie,
        "drain bookie-2": drain_bookie,
        "delete the open ledger": delete_open_ledger,
    }

    def close(self) -> None:
        """Leave nothing behind."""
        if (self.directory / "c").exists():
            self.cluster.down()
        if self.full is not None:
            subprocess.run(["umount", str(self.full)], check=True)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The practice cluster of the page, with its table."""
    monkeypatch.chdir(tmp_path)
    made = Lab(tmp_path)
    try:
        made.follow("The practice cluster")
        yield made
    finally:
        made.close()


SOON = "A bookie's disk is lost"
OTHERS = [name for name in sections() if name not in (SOON, "The practice cluster")]


def test_a_bookies_disk_is_lost(lab: Lab) -> None:
    lab.follow(SOON)


@pytest.mark.soak
@pytest.mark.parametrize("name", OTHERS)
def test_section(name: str, lab: Lab) -> None:
    if "full" in name and os.geteuid():
        pytest.skip("a small disk is mounted, which needs root")
    lab.follow(name)


def test_every_section_of_the_table_is_there() -> None:
    assert len(OTHERS) == 8
    assert all(steps(name) for name in sections())
