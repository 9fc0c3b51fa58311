"""One statement run on HerdPy and on PostgreSQL, and their answers compared.

Rows are compared as PostgreSQL's text of each value, with the columns' names and type OIDs, the count of
rows, or the SQLSTATE.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import psycopg

import herdpy
from herdpy_sql.types import Base
from herdpy_sql.values import to_text


@dataclass
class Statement:
    """A statement of a session.

    Attributes:
        params: of each parameter the type it was made for, and its text or None.
        ordered: rows come in an order that the statement fixes wholly.
        loose: several rows may fail in several ways: which is reported (of classes 22 and 23) is open.
        typed: HerdPy gets Python objects for its parameters, not texts.
    """

    sql: str
    params: list[tuple[str, str | None]] = field(default_factory=list)
    ordered: bool = False
    loose: bool = False
    typed: bool = False

    def script(self) -> str:
        """As a line that can be pasted."""
        return f"{self.sql};" + (f"  -- {[text for _, text in self.params]}" if self.params else "")


@dataclass
class Answer:
    """What a statement gave: column names, type OIDs and rows of text, the count, or a SQLSTATE."""

    names: list[str] = field(default_factory=list)
    oids: list[int] = field(default_factory=list)
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    count: int = -1
    state: str = ""
    message: str = ""

    def __str__(self) -> str:
        if self.state:
            return f"ERROR {self.state} {self.message}"
        shown = self.rows if len(self.rows) < 30 else [*self.rows[:30], "..."]
        return f"{list(zip(self.names, self.oids, strict=True))} {shown} count {self.count}"


def same(one: Answer, other: Answer, statement: Statement, *, names: bool = True) -> bool:
    """Whether two answers agree."""
    if one.state or other.state:
        if statement.loose and {one.state[:2], other.state[:2]} <= {"22", "23"}:
            return True
        if (
            statement.loose
            and "22" in {one.state[:2], other.state[:2]}
            and not max(one.count, other.count, 0)
        ):
            return True
        return one.state == other.state
    if one.count != other.count or one.oids != other.oids or (names and one.names != other.names):
        return False
    if statement.ordered:
        return one.rows == other.rows
    return sorted(one.rows, key=str) == sorted(other.rows, key=str)


def on_herdpy(connection: herdpy.Connection, statement: Statement) -> Answer:
    """Ask HerdPy, through the driver."""
    from diff_values import python

    given = [python(t, text) if statement.typed else text for t, text in statement.params]
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, given or None)
            return read(cursor)
    except herdpy.Error as error:
        return Answer(state=error.sqlstate or "?????", message=error.message)


def read(cursor: Any) -> Answer:
    """The answer that a HerdPy cursor holds."""
    result = cursor._result
    if result.columns is None:
        return Answer(count=max(result.rowcount, 0))
    shown = [str if c.type.base is Base.INTERVAL else to_text(c.type) for c in result.columns]
    rows = [
        tuple(None if v is None else show(v) for v, show in zip(row, shown, strict=True))
        for row in result.rows
    ]
    if not any(cell is not None and cell.endswith(" BC") for row in rows for cell in row):
        assert len(cursor.fetchall()) == len(rows)  # Python has no such dates
    names = [column.name for column in result.columns]
    return Answer(names, [column.type.oid for column in result.columns], rows, max(result.rowcount, 0))


def texts_on_herdpy(connection: herdpy.Connection, sql: str) -> Answer:
    """Ask HerdPy; every value is its text as a cast gives it, those that Python cannot have included."""
    with connection.cursor() as cursor:
        try:
            result = cursor.execute(sql)._result
        except herdpy.Error as error:
            return Answer(state=error.sqlstate or "?????", message=error.message)
        shown = [to_text(column.type) for column in result.columns]
        rows = [
            tuple(None if v is None else f(v) for v, f in zip(row, shown, strict=True)) for row in result.rows
        ]
    return Answer([c.name for c in result.columns], [c.type.oid for c in result.columns], rows, len(rows))


def on_postgres(connection: psycopg.Connection[Any], statement: Statement) -> Answer:
    """Ask PostgreSQL, with text parameters whose types it infers."""
    params = [None if text is None else text.encode() for _, text in statement.params]
    result = connection.pgconn.exec_params(statement.sql.encode(), params)
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
        return Answer(
            state=state,
            message=(result.error_message or "").strip()
            if isinstance(result.error_message, str)
            else result.error_message.decode().strip(),
        )
    names = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
    oids = [result.ftype(i) for i in range(result.nfields)]
    rows = [
        tuple(None if (v := result.get_value(r, i)) is None else v.decode() for i in range(result.nfields))
        for r in range(result.ntuples)
    ]
    return Answer(names, oids, rows, result.command_tuples or 0)


def report(script: list[Statement], last: Statement, ours: Answer, theirs: Answer, seed: str) -> str:
    """What failed, as a script to paste."""
    lines = [statement.script() for statement in script]
    return "\n".join([
        f"HERDPY_SEED={seed}", *lines, f"--- then: {last.script()}", f"ours:   {ours}", f"theirs: {theirs}",
        json.dumps([text for _, text in last.params]),
    ])  # fmt: skip
