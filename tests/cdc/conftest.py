"""A database in a directory to follow, runs of ``herdpy changes``, and a broker of Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.log.lsn import LSN
from herdpy.testing.kafka import KafkaBroker
from herdpy_spark.log import LogAddress, end

COMMAND = [sys.executable, "-m", "herdpy.cli", "changes"]


class Changes:
    """``herdpy changes`` on one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A run that goes on."""
        argv = [*COMMAND, str(self._directory), *arguments]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Its standard output; its standard error where it is to fail."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == code, err.decode()
        return (err if code else out).decode()

    def lines(self, *arguments: str) -> list[Any]:
        """The lines of its standard output."""
        return [json.loads(line) for line in self.run(*arguments).splitlines()]


@pytest.fixture
def changes(tmp_path: Path) -> Changes:
    return Changes(tmp_path / "db")


def _await_readers(directory: Path, connection: herdpy.Connection[Any]) -> None:
    """Until readers of the log's files can know what the connection committed: up to a second later."""
    row = connection.execute("SELECT herdpy.commit_position()").fetchone()
    if row is None or row[0] is None:
        return
    committed, address = LSN.parse(row[0]), LogAddress.of_database(str(directory))
    while end(address) < committed:
        time.sleep(0.02)


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Run statements in the database."""
    with herdpy.connect(str(tmp_path / "db"), autocommit=True) as connection:

        def execute(*statements: str) -> list[tuple[Any, ...]]:
            for statement in statements:
                cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
            _await_readers(tmp_path / "db", connection)
            return rows

        yield execute


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker; each test has topics of its own, and leaves it running."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
