"""Worlds for the tests of the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.world import PASSWORDS, ROLES, ConsoleWorld
from tests.support.chromium import chromium, tab
from tests.support.server_process import RunningServer

__all__ = ["chromium", "tab"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    """A console whose rules trust this machine and take passwords of others; it has every page."""
    directory = tmp_path_factory.mktemp("console")
    drills = {"drill_directory": str(directory / "drills"), "drill_commands": "commands.toml"}
    made = ConsoleWorld(directory / "data", **drills)
    made.sql(*ROLES)
    yield made
    made.close()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., ConsoleWorld]]:
    """``make_world(rules=..., **console)``: a console that requires passwords."""
    made: list[ConsoleWorld] = []

    def make(rules: Any = PASSWORDS, **console: Any) -> ConsoleWorld:
        made.append(ConsoleWorld(tmp_path / f"data{len(made)}", rules, **console))
        made[-1].sql(*ROLES)
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def console_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that is alone, with the roles of the worlds; this machine is trusted."""
    running = RunningServer(tmp_path_factory.mktemp("console") / "data").ready()
    with running.connect(user="herdpy") as connection:
        for statement in ROLES:
            connection.execute(statement)
    yield running
    running.close()


@pytest.fixture
def console_url(console_server: RunningServer) -> str:
    """Where its console is, with a slash at the end."""
    return f"http://127.0.0.1:{console_server.http_port}/console/"
