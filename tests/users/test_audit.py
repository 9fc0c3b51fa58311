"""The audit log: what it has, that it holds no secret, that it turns over, and what happens without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from herdpy_server.config.sections import AuditSection
from herdpy_server.process.audit import AuditLog
from herdpy_sql.errors import SqlError
from tests.pgwire.servers import ThreadServer
from tests.users.conftest import Connect


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def audited(server: ThreadServer, tmp_path: Path) -> Iterator[Path]:
    """The file of a server that tells everything."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditSection(classes=("login", "role", "ddl", "write", "read", "misc"), file=str(path)))
    server.server.registry.auditor = log
    yield path
    server.server.registry.auditor = None
    log.close()


def test_everything_is_told_once_with_who_and_what(audited: Path, connect: Connect) -> None:
    admin = connect("admin")
    for sql in (
        "CREATE TABLE told (a int PRIMARY KEY)",
        "CREATE ROLE spy LOGIN PASSWORD 'hunter2'",
        "GRANT SELECT ON told TO spy",
        "INSERT INTO told VALUES (1)",
        "CHECKPOINT",
    ):
        admin.execute(sql)
    spy = connect("spy")
    for _ in range(3):  # by the shortest way there is
        spy.execute("SELECT a FROM told WHERE a = %s", [1], prepare=True)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        spy.execute("DELETE FROM told")
    admin.execute("SET ROLE spy")
    admin.execute("SELECT count(*) FROM told")
    admin.execute("RESET ROLE")
    admin.execute("DROP TABLE told")
    admin.execute("DROP ROLE spy")
    found = [
        (one["class"], one["event"], one["user"], one.get("role"), one.get("statement", "").split(" ", 1)[0])
        for one in lines(audited)
    ]
    assert found == [
        ("login", "login", "admin", None, ""),
        ("ddl", "statement", "admin", "admin", "CREATE"),
        ("role", "statement", "admin", "admin", "CREATE"),
        ("role", "statement", "admin", "admin", "GRANT"),
        ("write", "statement", "admin", "admin", "INSERT"),
        ("misc", "statement", "admin", "admin", "CHECKPOINT"),
        ("login", "login", "spy", None, ""),
        *[("read", "statement", "spy", "spy", "SELECT")] * 3,
        ("write", "refused", "spy", "spy", "DELETE"),
        ("misc", "statement", "admin", "admin", "SET"),
        ("read", "statement", "admin", "spy", "SELECT"),
        ("misc", "statement", "admin", "spy", "RESET"),
        ("ddl", "statement", "admin", "admin", "DROP"),
        ("role", "statement", "admin", "admin", "DROP"),
    ]
    assert "hunter2" not in audited.read_text()
    assert lines(audited)[10]["sqlstate"] == "42501"
    assert audited.stat().st_mode & 0o777 == 0o600


def test_who_is_refused_is_told(audited: Path, connect: Connect) -> None:
    with pytest.raises(psycopg.OperationalError):
        connect("ann", sslmode="disable")
    (one,) = lines(audited)
    assert (one["event"], one["user"], one["sqlstate"], one["address"]) == (
        "refused",
        "ann",
        "28000",
        "127.0.0.1",
    )


def test_what_cannot_be_told_is_not_done(server: ThreadServer, tmp_path: Path, connect: Connect) -> None:
    folder = tmp_path / "away"
    log = AuditLog(AuditSection(classes=("ddl",), file=str(folder / "audit.jsonl")))
    server.server.registry.auditor = log
    try:
        admin = connect("admin")
        with pytest.raises(psycopg.errors.IoError, match="the audit log cannot be written"):
            admin.execute("CREATE TABLE untold (a int)")
        assert admin.execute("SELECT to_regclass('untold')").fetchone() == (None,)
        folder.mkdir()  # and it is again as soon as it can be
        admin.execute("CREATE TABLE untold (a int)")
        admin.execute("DROP TABLE untold")
        assert (log.lines, log.failures) == (2, 1)
    finally:
        server.server.registry.auditor = None
        log.close()


def test_continue_tells_the_servers_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(AuditSection(classes=("ddl",), file=str(tmp_path / "no" / "file"), on_failure="continue"))
    log.event("ddl", "statement", {})
    assert "the audit log cannot be written" in caplog.text
    with pytest.raises(SqlError):
        AuditLog(AuditSection(classes=("ddl",), file=str(tmp_path / "no" / "file"))).event(
            "ddl", "statement", {}
        )


def test_the_file_turns_over(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditSection(classes=("ddl",), file=str(path), rotate_bytes=4096, keep=2))
    for number in range(100):
        log.event("ddl", "statement", {"number": number, "text": "x" * 100})
    path.rename(tmp_path / "taken")  # by somebody who collects them
    log.event("ddl", "statement", {"number": 100})
    log.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
        "taken",
    ]
    kept = [one["number"] for name in ("audit.jsonl.2", "audit.jsonl.1", "taken", "audit.jsonl")
            for one in lines(tmp_path / name)]  # fmt: skip
    assert kept == list(range(kept[0], 101))
    assert all(one.stat().st_size <= 4096 for one in tmp_path.iterdir())
