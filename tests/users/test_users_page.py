"""The examples of docs/users.md, each in a session of the user that it names, on one database with roles."""

from __future__ import annotations

import re
from pathlib import Path

from herdpy_server.embedded import opened
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.sessions.registry import SessionRegistry
from tests.sessions.session_scripts import Block, Runner

PAGE = Path(__file__).parents[2] / "docs" / "users.md"
assert PAGE.name == "users.md"
EXAMPLE = re.compile(
    r"^```sql\n-- (\w+)\n(.*?)\n```\n(?:```(result|error)\n(.*?)\n```\n)?", re.MULTILINE | re.DOTALL
)
TAG = re.compile(r"(?:SELECT|INSERT 0) \d+|(?:CREATE|ALTER) \w+|GRANT|DROP \w+|\[\w+\]")


def test_the_page_says_what_happens(tmp_path: Path) -> None:
    found = list(EXAMPLE.finditer(PAGE.read_text()))
    assert len(found) == PAGE.read_text().count("```sql")
    with opened(tmp_path / "db") as database:
        registry = SessionRegistry(RoleStore(RoleFile(None)))
        for user, sql, kind, expected in (one.groups() for one in found):
            session = database.session()
            registry.add(session, user=user, database="shop", end=lambda _error: None)
            answers = Runner(database, session).answer(Block(text=sql))
            if kind == "error":
                assert answers[:-1] == [f"ERROR {expected}"]
                continue
            assert not [line for line in answers if line.startswith("ERROR")], answers
            rows = [line for line in answers if not TAG.fullmatch(line)]
            assert rows == [line for line in (expected or "").split("\n") if line]
