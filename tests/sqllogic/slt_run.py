"""A sqllogictest file run on HerdPy, with PostgreSQL as the judge of what HerdPy refuses.

A record is skipped for one of the reasons of ``Reason`` and for no other: the format itself says that it
is not for PostgreSQL, whose language HerdPy speaks; or PostgreSQL, asked over the same rows, refuses it
or answers as HerdPy does. Whatever else is not the expected result is a wrong answer.
"""

from __future__ import annotations

import random
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import psycopg
from slt_records import Record, agrees, records, result

import herdpy

DATABASE = "postgresql"
SCHEMA = "sqllogic"


class Reason(Enum):
    """Why a record is not compared with its result."""

    OTHER_DATABASE = "`onlyif` another database: written in its dialect (DIV, CAST AS SIGNED, IN ())"
    NOT_POSTGRESQL = "`skipif postgresql`: the file's authors say that PostgreSQL differs"
    REFUSED = "PostgreSQL, asked over the same rows, refuses it with the same SQLSTATE"
    NOT_SQL_HERE = "SQLite's own language (REPLACE, its triggers): an error in PostgreSQL, 0A000 here"
    ANSWERED = "PostgreSQL, asked over the same rows, gives HerdPy's answer"
    NOT_SAMPLED = "left out of this run by its seed"


@dataclass
class Tally:
    """What became of a file's records."""

    name: str
    passed: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count another file's, too."""
        self.passed += other.passed
        self.skipped += other.skipped
        self.wrong += other.wrong

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.passed} records pass"]
        lines += [f"  {count} skipped: {reason.value}" for reason, count in self.skipped.most_common()]
        return "\n".join(lines)


class Corpus:
    """The jar's files, by family: the folder they are in, of random/ and index/ the one below."""

    def __init__(self, jar: Any) -> None:
        self._zip = zipfile.ZipFile(jar)
        self.sizes = {i.filename: i.file_size for i in self._zip.infolist() if i.filename.endswith(".test")}
        self.names = sorted(self.sizes)

    def text(self, name: str) -> str:
        """A file's text."""
        return self._zip.read(name).decode(errors="replace")

    def families(self) -> dict[str, list[str]]:
        """Family to names of files."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            parts = name.split("/")[1:]
            family = "select" if len(parts) == 1 else "/".join(parts[:-1][:2])
            found.setdefault(family, []).append(name)
        return found


_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE"})


class Judge:
    """PostgreSQL, asked about what HerdPy refused; what HerdPy has run is run there first."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._behind: list[str] = []
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(f"SET search_path = {SCHEMA}")

    def ran(self, sql: str) -> None:
        """A statement that changed HerdPy's rows or tables."""
        self._behind.append(sql)

    def ask(self, sql: str) -> list[tuple[Any, ...]] | str:
        """PostgreSQL's rows (none where it is no query), or its SQLSTATE."""
        for statement in self._behind:
            self._connection.execute(statement.encode())
        self._behind.clear()
        try:
            cursor = self._connection.execute(sql.encode())
        except psycopg.Error as error:
            return error.sqlstate or ""
        return cursor.fetchall() if cursor.description else []


def run(
    name: str,
    text: str,
    connection: herdpy.Connection,
    judge: Judge,
    *,
    wanted: Callable[[Record], bool] = lambda record: True,
) -> Tally:
    """Run a file's records; of its queries those that are wanted."""
    tally = Tally(name)
    labels: dict[str, list[str]] = {}
    for record in records(text):
        if not record.applies(DATABASE):
            other = any(one != DATABASE for one in record.only)
            tally.skipped[Reason.OTHER_DATABASE if other else Reason.NOT_POSTGRESQL] += 1
        elif record.kind == "halt":
            break
        elif record.kind == "query" and not wanted(record):
            tally.skipped[Reason.NOT_SAMPLED] += 1
        else:
            _one(record, connection, judge, tally, labels)
    return tally


def sampled(rate: float, rng: random.Random) -> Callable[[Record], bool]:
    """Wants this part of the queries."""
    return lambda record: rng.random() < rate


def _one(
    record: Record,
    connection: herdpy.Connection,
    judge: Judge,
    tally: Tally,
    labels: dict[str, list[str]],
) -> None:
    try:
        cursor = connection.execute(record.sql)
    except herdpy.Error as error:
        _refused(record, error, judge, tally)
        return
    if record.kind == "statement":
        if not record.fails:
            judge.ran(record.sql)
            tally.passed += 1
        elif record.sql.split()[0].upper() not in _CHANGES or isinstance(judge.ask(record.sql), str):
            tally.wrong.append(_told(tally, record, "no error"))
        else:  # changes through a view, which SQLite has not
            tally.skipped[Reason.ANSWERED] += 1
        return
    values = result(record, cursor.fetchall())
    if agrees(record, values) and (not record.label or labels.setdefault(record.label, values) == values):
        tally.passed += 1
        return
    theirs = judge.ask(record.sql)
    if not isinstance(theirs, str) and result(record, theirs) == values:
        tally.skipped[Reason.ANSWERED] += 1
    else:
        tally.wrong.append(_told(tally, record, f"{values[:40]}, expected {record.expected[:40]}"))


def _refused(record: Record, error: herdpy.Error, judge: Judge, tally: Tally) -> None:
    """HerdPy refused a record: that is as it must be, as in PostgreSQL, or wrong."""
    if record.fails:
        tally.passed += 1
        return
    theirs = judge.ask(record.sql)
    if theirs == error.sqlstate:
        tally.skipped[Reason.REFUSED] += 1
    elif isinstance(theirs, str) and error.sqlstate == "0A000":
        tally.skipped[Reason.NOT_SQL_HERE] += 1
    else:
        tally.wrong.append(_told(tally, record, f"{error.sqlstate} {error}"))


def _told(tally: Tally, record: Record, what: str) -> str:
    return f"{tally.name}:{record.line}: {record.sql}\n    {what}"
