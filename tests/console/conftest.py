"""Worlds for the tests of the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.world import PASSWORDS, ConsoleWorld


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    """A console whose rules trust this machine and take passwords of others."""
    made = ConsoleWorld(tmp_path_factory.mktemp("console") / "data")
    made.sql(
        "CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'of boss'",
        "CREATE ROLE ann LOGIN PASSWORD 'of ann'",
        "CREATE ROLE nologin NOLOGIN PASSWORD 'of nologin'",
    )
    yield made
    made.close()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., ConsoleWorld]]:
    """``make_world(rules=..., **console)``: a console that requires passwords."""
    made: list[ConsoleWorld] = []

    def make(rules: Any = PASSWORDS, **console: Any) -> ConsoleWorld:
        made.append(ConsoleWorld(tmp_path / f"data{len(made)}", rules, **console))
        made[-1].sql(
            "CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'of boss'", "CREATE ROLE ann LOGIN PASSWORD 'of ann'"
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
