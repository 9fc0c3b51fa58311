"""Texts of SQL run for the editor, statement by statement, and their answers as a grid shows them.

Above ``gateway``, below the editor's page. Data passes so: a text becomes the session's statements, each
answer the first of its rows as PostgreSQL's text, and an error where in the text it is. A text is one
implicit transaction, as psql's ``-c`` has it, unless it says BEGIN; a block that is open at its end is rolled
back, since the session ends with the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from herdpy_server.sessions.waits import CANCELLED
from herdpy_server.wire.formats import encoder
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base
from herdpy_sql.values.styles import Style

if TYPE_CHECKING:
    from herdpy_server.console.gateway import PageSession
    from herdpy_server.sessions import Session, SimpleQuery
    from herdpy_server.sessions.block import SessionNotice
    from herdpy_server.sessions.result import Result
    from herdpy_sql.plan import OutputColumn

PLAN = "QUERY PLAN"
"""The one column of EXPLAIN, whose documents are shown whole."""
CELL_CHARACTERS = 2000
_ANSWER_CHARACTERS = 4_000_000
"""A grid stops there, as it does at its number of rows."""
_NUMBERS = frozenset(
    {Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC, Base.REAL, Base.DOUBLE}  # to the right
)
_LINE_CHARACTERS = 160


class GridColumn(NamedTuple):
    """A column of a grid: its name, its type's name, and whether it holds numbers."""

    name: str
    type: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class GridAnswer:
    """The answer to one statement.

    Attributes:
        tag: PostgreSQL's command tag.
        columns: None when the statement gives no rows.
        rows: the first of them, as text; None is NULL. ``is_complete``: there are no more.
        took_s: how long it took.
        notices: what the session had to say besides.
        text: the statement.
    """

    tag: str
    columns: tuple[GridColumn, ...] | None
    rows: list[tuple[str | None, ...]]
    is_complete: bool
    took_s: float
    notices: Sequence[SessionNotice]
    text: str

    @property
    def is_query(self) -> bool:
        """Whether it gives rows when it is run again, and changes nothing."""
        return self.columns is not None and self.tag.startswith("SELECT ")


@dataclass(frozen=True, slots=True)
class PlaceOfError:
    """Where an error is.

    Attributes:
        offset: in the text that was run, from 0.
        line: its line, from 1.
        before, at, after: of that line, which may be cut at both ends.
    """

    offset: int
    line: int
    before: str
    at: str
    after: str


@dataclass(slots=True)
class TextAnswer:
    """The answers to a text.

    Attributes:
        error: of the statement after those that were answered.
        place: where in the text it is.
        ended: what became of the transaction, where that is not plain.
    """

    answers: list[GridAnswer] = field(default_factory=list)
    error: SqlError | None = None
    place: PlaceOfError | None = None
    ended: str = ""


async def run_text(session: PageSession, sql: str, max_rows: int) -> TextAnswer:
    """Run every statement of ``sql``; errors are in the answer, the cancellation of the task among them."""
    found = TextAnswer()
    own = session.session
    had_block = False
    try:
        query = own.simple_query(sql)
        while (answer := await session.drive(_step(own, query, max_rows))) is not None:
            found.answers.append(answer)
            had_block = own.transaction is not None and not own.implicit
    except asyncio.CancelledError:
        found.error = SqlError("57014", CANCELLED)
        own.abort()
        had_block = had_block or own.failed
    except SqlError as error:
        found.error = error
        found.place = place_of(sql, error.position)
        had_block = had_block or own.failed
    if had_block and (own.transaction is not None or own.failed):
        found.ended = "The transaction was open at the end of the text, and was rolled back."
    elif found.error is not None and found.answers and _is_undone(found.answers):
        found.ended = "All statements of the text were one transaction, which was rolled back."
    return found


def _is_undone(answers: Sequence[GridAnswer]) -> bool:
    """Whether the statements before an error were in its implicit transaction: nothing ended one since."""
    return not answers[-1].tag.startswith(("COMMIT", "ROLLBACK"))


async def _step(session: Session, query: SimpleQuery, max_rows: int) -> GridAnswer | None:
    began = perf_counter()
    answer = await query.step()
    if answer is None:
        return None
    if answer.copy is not None:
        session.abort()
        raise SqlError(
            "0A000",
            "COPY from or to the client is not possible here",
            hint="Download an answer as CSV or Arrow, or use psql.",
        )
    rows, is_complete = await _first_rows(session, answer, max_rows)
    notices, session.notices = list(session.notices), []
    columns = None if answer.columns is None else tuple(map(_column, answer.columns))
    took_s = perf_counter() - began
    return GridAnswer(answer.tag, columns, rows, is_complete, took_s, notices, session.text)


def _column(column: OutputColumn) -> GridColumn:
    kind = column.type
    return GridColumn(column.name, str(kind), kind.element is None and kind.base in _NUMBERS)


async def _first_rows(
    session: Session, answer: Result, max_rows: int
) -> tuple[list[tuple[str | None, ...]], bool]:
    if answer.columns is None:
        return [], True
    write = _writer(answer.columns, session.settings.style)
    stream = answer.stream
    if stream is None:
        rows, is_whole = write(answer.part(0, min(answer.length, max_rows)))
        return rows, is_whole and answer.length <= max_rows
    rows = []
    commits, room = stream.commits, True
    try:
        while room and (piece := await stream.next()) is not None:
            more, room = write(piece.part(0, min(piece.length, max_rows + 1 - len(rows))))
            rows += more
            room = room and len(rows) <= max_rows
    finally:
        stream.close()
    if not room:
        rows = rows[:max_rows]
        answer.rowcount = len(rows)
        if commits and session.implicit:
            await session.commit()
    return rows, room


def _writer(
    columns: Sequence[OutputColumn], style: Style
) -> Callable[[Result], tuple[list[tuple[str | None, ...]], bool]]:
    """What makes text of rows, until a grid is full; whether it is not."""
    encoders = [encoder(column.type, False, style) for column in columns]
    most = _ANSWER_CHARACTERS if columns[0:1] and columns[0].name == PLAN else CELL_CHARACTERS
    used = 0

    def cell(encode: Callable[[Any], bytes], value: Any) -> str | None:
        nonlocal used
        if value is None:
            return None
        text = encode(value).decode("utf-8", "replace")
        if len(text) > most:
            text = f"{text[:most]}… ({len(text)} characters)"
        used += len(text)
        return text

    def write(part: Result) -> tuple[list[tuple[str | None, ...]], bool]:
        rows: list[tuple[str | None, ...]] = []
        for row in part.rows:
            if used > _ANSWER_CHARACTERS:
                return rows, False
            rows.append(tuple(map(cell, encoders, row)))
        return rows, True

    return write


def place_of(sql: str, position: int | None) -> PlaceOfError | None:
    """The place of an error at the 1-based character ``position`` of ``sql``."""
    if position is None or not 0 < position <= len(sql) + 1:
        return None
    offset = position - 1
    begin = sql.rfind("\n", 0, offset) + 1
    end = sql.find("\n", offset)
    end = len(sql) if end < 0 else end
    begin, left = max(begin, offset - _LINE_CHARACTERS // 2), begin
    stop = min(end, offset + _LINE_CHARACTERS // 2)
    word = offset
    while word < stop and (sql[word].isalnum() or sql[word] == "_"):
        word += 1
    word = max(word, min(offset + 1, stop))
    before = ("…" if begin > left else "") + sql[begin:offset]
    after = sql[word:stop] + ("…" if stop < end else "")
    return PlaceOfError(offset, sql.count("\n", 0, offset) + 1, before, sql[offset:word], after)


async def copied(session: PageSession, sql: str) -> AsyncIterator[bytes]:
    """The data of one ``COPY ... TO STDOUT``, piece by piece, as it would be in a file.

    Raises:
        SqlError: as the statement does, also after the first piece.
    """
    statements = session.session.plans.statements(sql)
    if len(statements) != 1:
        raise SqlError("42601", "only one query can be downloaded")
    answer = await session.drive(_begun(session.session, sql))
    source = answer.copy
    assert source is not None
    try:
        while (data := await session.drive(source.next())) is not None:  # type: ignore[attr-defined]
            yield _payloads(data)
        await session.drive(source.finish())  # type: ignore[attr-defined]
    finally:
        source.close()  # type: ignore[attr-defined]


async def _begun(session: Session, sql: str) -> Result:
    answer = await session.simple_query(sql).step()
    if answer is None or answer.copy is None or not hasattr(answer.copy, "next"):
        session.abort()
        raise SqlError("0A000", "this is no query whose rows could be downloaded")
    return answer


def _payloads(messages: bytes) -> bytes:
    """What CopyData messages carry: each is a byte, its length with itself in four, and data."""
    view = memoryview(messages)
    parts, at = [], 0
    while at < len(view):
        stop = at + 1 + int.from_bytes(view[at + 1 : at + 5], "big")
        parts.append(view[at + 5 : stop])
        at = stop
    return b"".join(parts)
