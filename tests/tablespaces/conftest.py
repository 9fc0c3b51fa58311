"""One cluster of four servers and one bookie for all these tests; the bookies are not what is tested here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from herdpy.dev import LocalCluster
from tests.tablespaces.world import World

SETTINGS = {
    "cluster.replace_after_s": 1.0,
    "storage.checkpoint_interval_s": 0.1,
    "storage.flashback_bytes": 4 << 20,  # so little that a test can write more, for the past to go
}


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The cluster; a test that stops a server of it starts it again."""
    directory = tmp_path_factory.mktemp("tablespaces") / "c"
    with LocalCluster(directory, servers=4, bookies=1, server_settings=SETTINGS) as running:
        world = World(running)
        world.await_nodes()
        world.spread("herdpy")  # by itself it lies on three of the four, and tests connect to each
        yield world


@pytest.fixture
def made(world: World) -> Iterator[Callable[..., str]]:
    """``made("WITH (...)")``: a tablespace of a name of its own, dropped at the end of the test."""
    names: list[str] = []

    def make(options: str = "") -> str:
        name = f"t_{secrets.token_hex(4)}"
        names.append(name)
        world.run(f"CREATE TABLESPACE {name} {options}")
        return name

    yield make
    for name in names:
        world.run(f"DROP TABLESPACE IF EXISTS {name}")


@pytest.fixture
def run_command() -> Callable[..., Any]:
    """``run_command("status", url, ..., code=0)``: a command of ``herdpy``, run in this process."""
    from typer.testing import CliRunner

    from herdpy.cli.app import app

    def invoke(*arguments: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{result.exit_code}: {result.stdout}\n{result.stderr}"
        return result

    return invoke
