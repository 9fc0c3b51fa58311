"""No password of a role is told: not by a log at any level, not by pg_stat_activity, not by an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy_server.process.logs import JsonFormatter, TextFormatter
from herdpy_server.process.statements import StatementStatistics
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import SYNC, Wire, bind, execute, parse, query

SECRET = "s3cr3t-Wort"
STATEMENTS = [
    f"CREATE ROLE a PASSWORD '{SECRET}'",
    f"CREATE ROLE a PASSWORD '{SECRET}'",  # it is there
    f"create user b login encrypted  password /* {SECRET} */ '{SECRET}' superuser",
    f"ALTER ROLE a VALID UNTIL '2030-01-01'PASSWORD'{SECRET}'",
    f"ALTER ROLE a PASSWORD E'{SECRET}'",
    f"ALTER ROLE a PASSWORD $${SECRET}$$",
    f"ALTER ROLE a PASSWORD $x${SECRET}$x$ NOSUPERUSER",
    f"ALTER ROLE nobody PASSWORD '{SECRET}'",
    f"SELECT 1; ALTER USER a PASSWORD '{SECRET}'; SELECT 1 / 0",
    f"-- a comment\nALTER USER a WITH PASSWORD\n'{SECRET}'",
    f"ALTER ROLE a PASSWORD '{SECRET}",  # its end is missing
    f"ALTER ROLE a PASSWORD '{SECRET}' NONSENSE",
    f'ALTER ROLE a PASSWORD "{SECRET}"',
    f"ALTER ROLE a CONNECTION LIMIT x PASSWORD '{SECRET}'",
    f"CREATE ROLE \"password '\" PASSWORD '{SECRET}'",
    f"EXPLAIN ALTER ROLE a PASSWORD '{SECRET}'",
]


class Lines(logging.Handler):
    """Every line of the log, as text and as JSON."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [TextFormatter().format(record), JsonFormatter().format(record)]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, logger = Lines(), logging.getLogger("herdpy")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def telling(tmp_path: Path) -> Iterator[ThreadServer]:
    """A server that tells of every statement."""
    with thread_server(tmp_path / "data") as server:
        server.database.observer = StatementStatistics(slow_s=0, slow_chars=100_000).observe
        yield server


def test_passwords_are_nowhere(telling: ThreadServer, lines: list[str]) -> None:
    with Wire(telling.address) as wire, Wire(telling.address) as other:
        wire.start()
        other.start()
        seen: list[bytes] = []
        for statement in STATEMENTS:
            for messages in ([query(statement)], [parse(statement), bind(), execute(), SYNC]):
                replies = wire.ask(*messages)
                seen += [one.body for one in replies]
                seen += [one.body for one in other.ask(query("SELECT query FROM pg_stat_activity"))]
    assert any(b"PASSWORD" in one for one in seen), "the activity shows nothing"
    assert sum("slow statement" in line for line in lines) > len(STATEMENTS)
    for told in (*lines, *(one.decode("utf-8", "replace") for one in seen)):
        assert SECRET not in told
