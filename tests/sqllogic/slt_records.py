"""The records of a sqllogictest file: statements and queries, each with what is said of it.

The format is that of https://www.sqlite.org/sqllogictest (About): records parted by blank lines, before
each ``skipif`` and ``onlyif`` lines that name the databases it is not, or only, for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")


@dataclass(slots=True)
class Record:
    """One record.

    Attributes:
        line: where its first line stands in the file.
        kind: "statement", "query" or "halt".
        sql: its text.
        fails: the statement must fail.
        types: of a query's columns: I, R, T.
        sort: "nosort", "rowsort" or "valuesort".
        label: queries of one label have one result.
        expected: the lines of the result, or the one line of its hash.
        only, skip: databases that it is only for, and not for.
    """

    line: int
    kind: str
    sql: str = ""
    fails: bool = False
    types: str = ""
    sort: str = "nosort"
    label: str = ""
    expected: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)

    def applies(self, database: str) -> bool:
        """Whether the record is for this database."""
        return database not in self.skip and all(one == database for one in self.only)


def records(text: str) -> Iterator[Record]:
    """All records of a file's text, in order."""
    only: list[str] = []
    skip: list[str] = []
    lines = text.split("\n")
    n = 0
    while n < len(lines):
        line = lines[n].rstrip()
        n += 1
        if not line or line.startswith("#"):
            continue
        words = line.split("#")[0].split()
        if words[0] in {"skipif", "onlyif"}:
            (skip if words[0] == "skipif" else only).append(words[1])
            continue
        if words[0] == "hash-threshold":
            continue
        record = Record(n, words[0], only=only, skip=skip)
        only, skip = [], []
        if record.kind == "statement":
            record.fails = words[1] == "error"
        elif record.kind == "query":
            record.types = words[1]
            record.sort = words[2] if len(words) > 2 else "nosort"
            record.label = words[3] if len(words) > 3 else ""
        elif record.kind != "halt":
            raise ValueError(f"line {n}: {line!r} is no record")
        if record.kind != "halt":
            n = _body(lines, n, record)
        yield record


def _body(lines: list[str], n: int, record: Record) -> int:
    """Read the text and the result of a record; where it ends."""
    sql = []
    while n < len(lines) and lines[n].strip() and lines[n].rstrip() != "----":
        sql.append(lines[n].rstrip())
        n += 1
    record.sql = "\n".join(sql)
    if n < len(lines) and lines[n].rstrip() == "----":
        n += 1
        while n < len(lines) and lines[n] != "":
            record.expected.append(lines[n].rstrip("\r"))
            n += 1
    return n


def shown(value: object, type_: str) -> str:
    """A value as the format has it in a column of a type."""
    if value is None:
        return "NULL"
    if type_ == "I":
        return str(_whole(value) if isinstance(value, str) else int(value))  # type: ignore[call-overload]
    if type_ == "R":
        return f"{float(value):.3f}"  # type: ignore[arg-type]
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return "".join(c if " " <= c <= "~" else "@" for c in text) or "(empty)"


def _whole(text: str) -> int:
    """The number that a text begins with, as SQLite reads a text where a number was asked for; else 0."""
    found = re.match(r"\s*[-+]?\d+", text)
    return int(found[0]) if found else 0


def result(record: Record, rows: list[tuple[object, ...]]) -> list[str]:
    """The values of a query's rows, one a line, in the record's order."""
    cells = [[shown(value, type_) for value, type_ in zip(row, record.types, strict=True)] for row in rows]
    if record.sort == "rowsort":
        cells.sort()
    flat = [cell for row in cells for cell in row]
    if record.sort == "valuesort":
        flat.sort()
    return flat


def agrees(record: Record, values: list[str]) -> bool:
    """Whether these values are the record's result."""
    if len(record.expected) == 1 and (found := HASHED.fullmatch(record.expected[0])):
        return len(values) == int(found[1]) and digest(values) == found[2]
    return values == record.expected


def digest(values: list[str]) -> str:
    """The format's hash of a result."""
    return hashlib.md5("".join(f"{value}\n" for value in values).encode(), usedforsecurity=False).hexdigest()
