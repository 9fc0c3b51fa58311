"""docs/tour.md: the functions that it names are there, and a server calls them in that order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import psycopg

from herdpy_server.pgwire import PgSettings
from tests.pgwire.servers import ThreadServer

ROOT = Path(__file__).parents[2]
_STEP = re.compile(r"^\| (\d+) \| .* \| `([\w/.]+\.py)::([\w.]+)` \|$", re.MULTILINE)
_NAMED = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
_OF_BOOKIES = range(9, 12)
_OF_FOLLOWERS = (15,)

Place = tuple[str, str]


def page() -> str:
    return (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def defined(path: Path) -> set[str]:
    """The functions of a file, as ``Class.method`` or ``function``."""
    found: set[str] = set()

    def look(code: CodeType) -> None:
        for one in code.co_consts:
            if isinstance(one, CodeType):
                found.add(one.co_qualname)
                look(one)

    look(compile(path.read_text(encoding="utf-8"), str(path), "exec"))
    return found


def test_every_function_is_there() -> None:
    named = _NAMED.findall(page())
    assert len(named) >= 17
    missing = [(path, name) for path, name in named if name not in defined(ROOT / path)]
    assert missing == []


def test_there_are_fifteen_steps() -> None:
    assert [int(number) for number, _, _ in _STEP.findall(page())] == list(range(1, 16))


class Calls:
    """The functions of ours that a thread calls, in order."""

    def __init__(self) -> None:
        self.seen: list[Place] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            self.seen.append((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))


def followed(connection: psycopg.Connection[Any], server: ThreadServer) -> list[Place]:
    """What the server's loop calls for a prepared INSERT."""
    connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT)")
    for key in (1, 2):  # prepared with the first, and known with the second
        connection.execute("INSERT INTO account VALUES (%s, %s)", (key, "Ada"), prepare=True)
    calls = Calls()
    server.look(lambda: sys.setprofile(calls))
    try:
        connection.execute("INSERT INTO account VALUES (%s, %s)", (7, "Ada"), prepare=True)
    finally:
        server.look(lambda: sys.setprofile(None))
    return calls.seen


def test_a_server_takes_the_steps_in_this_order(tmp_path: Path) -> None:
    server = ThreadServer(tmp_path / "db", PgSettings(port=0))
    try:
        where = f"host=127.0.0.1 port={server.port} dbname=x user=herdpy"
        with psycopg.connect(where, autocommit=True) as connection:
            seen = followed(connection, server)
    finally:
        server.close()
    steps = [
        (path, name)
        for number, path, name in _STEP.findall(page())
        if int(number) not in (*_OF_BOOKIES, *_OF_FOLLOWERS)
    ]
    assert len(steps) == 11
    calls = iter(seen)
    missed = [step for step in steps if step not in calls]  # each is looked for behind the one before it
    assert missed == []
