"""What commands share: a connection, errors of one line, JSON from outside, lists and progress.

Layer 4, under ``cli``.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, NoReturn

import typer

import herdpy
from herdpy_broker import schema
from herdpy_broker.errors import BrokerError, InvalidValueError
from herdpy_broker.submission import Submission
from herdpy_broker.tables import json_lines, table
from herdpy_broker.transactions import Connection

_LONGEST_LINE = 2 << 20
_FIELDS = {one.name for one in fields(Submission)}


def database(url: str | None) -> str:
    """The URL that was given; without one the command ends."""
    return url or refuse("there is no database: give --url, or set HERDPY_URL")


@contextlib.contextmanager
def connected(url: str | None) -> Iterator[Connection]:
    """A connection to the broker; what goes wrong within it ends the command with one line."""
    with failing(), herdpy.connect(database(url), autocommit=True) as connection:
        if not schema.is_there(connection):
            fail("the broker's tables are not there: `herdpy-broker migrate` makes them")
        yield connection


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """What is raised within it ends the command with one line."""
    try:
        yield
    except (InvalidValueError, herdpy.InterfaceError) as error:
        refuse(str(error))
    except (BrokerError, herdpy.Error, OSError) as error:
        fail(str(error))


def fail(text: str) -> NoReturn:
    """End with 1: it failed."""
    _end(1, text)


def refuse(text: str) -> NoReturn:
    """End with 2: it was used wrongly."""
    _end(2, text)


def _end(code: int, text: str) -> NoReturn:
    typer.echo(f"herdpy-broker: {' '.join(text.split())}", err=True)
    raise typer.Exit(code)


def progress(text: str) -> None:
    """Show how far long work is, on a terminal alone."""
    if sys.stderr.isatty():
        typer.echo(f"\r{text} ", nl=False, err=True)


def show(rows: Sequence[Any], names: Sequence[str], *, as_json: bool) -> None:
    """Print dataclasses: the named fields as a table, or all of them as JSON."""
    if as_json:
        if rows:
            typer.echo(json_lines(rows))
    else:
        typer.echo(table(names, [[getattr(row, name) for name in names] for row in rows]))


def parsed(what: str, text: str | None) -> Any:
    """A value that was given as JSON; None where none was given.

    Raises:
        InvalidValueError: it is no JSON.
    """
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{what} is no JSON: {error}") from None


@contextlib.contextmanager
def opened(file: Path) -> Iterator[IO[str]]:
    """A text file; ``-`` is standard input."""
    if str(file) == "-":
        yield sys.stdin
    else:
        with file.open(encoding="utf-8") as found:
            yield found


def batches(lines: IO[str], size: int) -> Iterator[list[Submission]]:
    """The submissions of a file, a JSON object a line, ``size`` at a time; empty lines are passed over.

    Raises:
        InvalidValueError: a line is none; those before it have been given.
    """
    found: list[Submission] = []
    number = 0
    while line := _line(lines, number := number + 1):
        if not line.isspace():
            found.append(_submission(line, number))
        if len(found) == size:
            yield found
            found = []
    if found:
        yield found


def _line(lines: IO[str], number: int) -> str:
    try:
        line = lines.readline(_LONGEST_LINE)
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"line {number} is no UTF-8: {error}") from None
    if len(line) == _LONGEST_LINE:
        raise InvalidValueError(f"line {number} is longer than {_LONGEST_LINE} characters")
    return line


def _submission(line: str, number: int) -> Submission:
    given = parsed(f"line {number}", line)
    if not isinstance(given, dict) or "type" not in given:
        raise InvalidValueError(f"line {number} is no object with a type")
    if unknown := given.keys() - _FIELDS:
        raise InvalidValueError(f"line {number} has unknown fields: {', '.join(sorted(unknown))}")
    after = given.get("after", ())
    if not isinstance(after, list | tuple):
        raise InvalidValueError(f"line {number}: after is a list of ids")
    return Submission(**{**given, "after": tuple(after)})
