"""No password of a role is shown: not by a log, the audit log, pg_stat_activity, an error, or any file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.logging_lines import JsonFormatter, TextFormatter
from herdpy_server.config.sections import AuditSection
from herdpy_server.process.audit import AuditLog
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
        server.database.observer_of = StatementStatistics(slow_s=0, slow_chars=100_000).of_session
        classes = ("login", "role", "ddl", "write", "read", "misc")
        log = AuditLog(
            AuditSection(classes=classes, file=str(tmp_path / "audit.jsonl"), statement_chars=100_000)
        )
        server.server.registry.auditor = log
        yield server
        log.close()


def test_passwords_are_nowhere(telling: ThreadServer, lines: list[str], tmp_path: Path) -> None:
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
    audit = (tmp_path / "audit.jsonl").read_text()
    assert audit.count("PASSWORD") > len(STATEMENTS)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    for text in (*lines, *(one.decode("utf-8", "replace") for one in seen)):
        assert SECRET not in text
