"""Scripts of what one session is asked and what it answers, readable as documentation.

Blocks are separated by blank lines. Lines that start with ``>`` are one text of a simple query. Lines that
start with ``|`` are statements of a pipeline (parse, bind, describe, execute each), where ``|`` alone is a
Sync; the block's end is one too. The lines under them are the answers: for every statement its notices, its
rows under the names of the columns, its command tag or error; at each end the transaction's status in
brackets. ``#`` begins prose; ``#! differs`` says that PostgreSQL is known to answer the next block in another
way, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from herdpy_server.embedded import Database
    from herdpy_server.sessions import Result, Session

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
SYNC = ""


@dataclass
class Block:
    """What is asked, with its expected answer; prose alone has neither ``text`` nor ``pipeline``."""

    prose: list[str] = field(default_factory=list)
    text: str | None = None
    pipeline: list[str] | None = None
    expected: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return any(line.startswith("#! differs") for line in self.prose)


def read_script(path: Path) -> list[Block]:
    blocks = []
    for chunk in path.read_text().strip("\n").split("\n\n"):
        block = Block()
        asked: list[str] = []
        for line in chunk.split("\n"):
            if line.startswith("#") and not asked:
                block.prose.append(line)
            elif line[:1] in {">", "|"} and not block.expected:
                asked.append(line)
            else:
                block.expected.append(line)
        if asked and asked[0].startswith(">"):
            block.text = "\n".join(line[1:].removeprefix(" ") for line in asked)
        elif asked:
            block.pipeline = [line[1:].strip() for line in asked] + [SYNC]
        blocks.append(block)
    return blocks


def render(blocks: list[Block], answer: Callable[[Block], list[str]]) -> str:
    """The script with the answers that ``answer`` gives now."""
    parts = []
    for block in blocks:
        lines = list(block.prose)
        if block.text is not None:
            lines += [f"> {line}".rstrip() for line in block.text.split("\n")]
        elif block.pipeline is not None:
            lines += [f"| {line}".rstrip() for line in block.pipeline[:-1]]
        if block.text is not None or block.pipeline is not None:
            lines += answer(block)
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


class Runner:
    """Asks a session of ours."""

    def __init__(self, database: Database, session: Session | None = None) -> None:
        self.run = database.run
        self.session = session or database.session()

    def answer(self, block: Block) -> list[str]:
        if block.text is not None:
            return self._simple(block.text)
        assert block.pipeline is not None
        return self._pipelined(block.pipeline)

    def _simple(self, text: str) -> list[str]:
        lines: list[str] = []
        try:
            query = self.session.simple_query(text)
            if query.is_empty:
                lines.append("EMPTY")
            while (answer := self.run(query.step())) is not None:
                lines += self._notices() + _lines(answer)
        except SqlError as error:
            lines += [*self._notices(), _error(error)]
        assert self.session.sync_now()
        return [*lines, f"[{self.session.status}]"]

    def _pipelined(self, statements: list[str]) -> list[str]:
        lines: list[str] = []
        skipping = False
        for at, sql in enumerate(statements):
            try:
                if sql == SYNC:
                    skipping = False
                    if not self.session.sync_now():
                        self.run(self.session.sync())
                    lines += [*self._notices(), f"[{self.session.status}]"]
                elif skipping:
                    lines.append("SKIPPED")
                else:
                    answer = self._execute(sql, ends=statements[at + 1] == SYNC)
                    lines += self._notices() + _lines(answer)
            except SqlError as error:
                lines += [*self._notices(), _error(error)]
                skipping = True
        return lines

    def _execute(self, sql: str, *, ends: bool) -> Result:
        session = self.session
        session.parse("", sql)
        session.bind("", "")
        described = session.describe_portal("").columns
        answer = self.run(session.execute_portal("", ends=ends))
        assert answer.columns == described, "the rows are not as they were described"
        return answer

    def _notices(self) -> list[str]:
        notices, self.session.notices[:] = list(self.session.notices), []
        return [f"{one.severity} {one.sqlstate} {one.message}" for one in notices]


def _lines(answer: Result) -> list[str]:
    if answer.columns is None:
        return [answer.tag or "EMPTY"]
    texts = [to_text(column.type) for column in answer.columns]
    lines = [" | ".join(column.name for column in answer.columns)]
    for row in answer.rows:
        cells = [
            "NULL" if value is None else str(text(value)) or "''"
            for text, value in zip(texts, row, strict=True)
        ]
        lines.append(" | ".join(cells))
    return [*(line.rstrip() for line in lines), answer.tag]


def _error(error: SqlError) -> str:
    return f"ERROR {error.sqlstate} {error.message}"
