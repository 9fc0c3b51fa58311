"""Scripts of several sessions whose transactions overlap, readable as documentation.

A line ``A> sql`` is a statement of session A; under it is its answer: rows, a tag or an error, or ``waits``.
``A: ...`` is the answer of a statement that has waited, after the line that ended its waiting. ``## level``
begins the script anew, on fresh tables, with transactions of that level: BEGIN says it by ``{level}``.
``#`` begins prose; ``#! differs`` says that PostgreSQL is known to give another answer below it, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.errors import SqlError
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from herdpy_server.embedded import Database
    from herdpy_server.sessions import Result, Session

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
SETUP = (
    "DROP TABLE IF EXISTS test",
    "CREATE TABLE test (id int PRIMARY KEY, value int)",
    "CREATE INDEX test_value ON test (value)",
    "INSERT INTO test VALUES (1, 10), (2, 20)",
)


@dataclass
class Section:
    """A script at one level: what each session is asked, in order, and all that is answered."""

    level: str
    prose: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return any(line.startswith("#! differs") for line in self.lines)


class Party(Protocol):
    """Sessions by name, that are asked statements."""

    def ask(self, name: str, sql: str) -> list[str] | None:
        """The lines of the answer; None: the statement waits."""

    def finished(self) -> list[tuple[str, list[str]]]:
        """Statements that have waited and are done now: names and answers."""

    def close(self) -> None:
        """End all sessions."""


def read_script(path: Path) -> tuple[list[str], list[Section]]:
    """The prose at the head, and the sections."""
    head: list[str] = []
    sections: list[Section] = []
    for line in path.read_text().rstrip("\n").split("\n"):
        if line.startswith("## "):
            sections.append(Section(line.removeprefix("## ")))
        elif not sections:
            head.append(line)
        else:
            sections[-1].lines.append(line)
            if line[1:3] == "> ":
                sections[-1].steps.append((line[0], line[3:]))
    return head, sections


def play(section: Section, party: Party) -> list[str]:
    """The lines of a section as ``party`` answers now. Prose stays before its statement."""
    lines: list[str] = []
    level = section.level.upper()
    for line in section.lines:
        if line.startswith("#") or not line:
            lines.append(line)
        elif line[1:3] == "> ":
            lines.append(line)
            answer = party.ask(line[0], line[3:].replace("{level}", level))
            lines += ["waits"] if answer is None else answer
            for name, late in party.finished():
                lines += [f"{name}: {one}" for one in late]
    return lines


def render(head: list[str], sections: list[tuple[Section, list[str]]]) -> str:
    """The file."""
    lines = list(head)
    for section, given in sections:
        lines += [f"## {section.level}", *given]
    return "\n".join(lines) + "\n"


class Herd:
    """Sessions of ours, stepped by hand: a statement that waits for a lock stays where it is."""

    def __init__(self, database: Database, engine: str = "auto") -> None:
        self._database = database
        self._engine = engine
        self._sessions: dict[str, Session] = {}
        self._waiting: dict[str, tuple[Coroutine[Any, Any, Result], LockWait]] = {}
        session = database.session()
        for sql in SETUP:
            database.run(session.execute(sql))

    def ask(self, name: str, sql: str) -> list[str] | None:
        if name not in self._sessions:
            self._sessions[name] = session = self._database.session()
            self._database.run(session.execute(f"SET herdpy.engine = {self._engine}"))
        return self._step(name, self._sessions[name].execute(sql))

    def _step(self, name: str, statement: Coroutine[Any, Any, Result]) -> list[str] | None:
        try:
            while True:
                wait = statement.send(None)
                if isinstance(wait, LockWait):
                    wait.look()  # all others wait, or are done: time passes
                if isinstance(wait, LockWait) and not wait.done():
                    self._waiting[name] = statement, wait
                    return None
                wait.block()
        except StopIteration as stop:
            return _lines(stop.value)
        except SqlError as error:
            return [f"ERROR {error.sqlstate} {error.message}"]

    def finished(self) -> list[tuple[str, list[str]]]:
        done = []
        while ready := [name for name, (_, wait) in self._waiting.items() if wait.done()]:
            for name in sorted(ready):
                answer = self._step(name, self._waiting.pop(name)[0])
                if answer is not None:
                    done.append((name, answer))
        return done

    def close(self) -> None:
        for statement, _wait in self._waiting.values():
            statement.close()
        for session in self._sessions.values():
            self._database.run(session.close())


def _lines(answer: Result) -> list[str]:
    if answer.columns is None:
        return [answer.tag]
    texts = [to_text(column.type) for column in answer.columns]
    return [
        " ".join(
            "NULL" if value is None else str(text(value)) for text, value in zip(texts, row, strict=True)
        )
        for row in answer.rows
    ] or ["nothing"]
