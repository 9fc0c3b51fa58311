"""COPY: its two syntaxes, the present one with options in parentheses and the one from before 9.0.

A parser of its own, like ``commands``: words come from a ``TokenCursor``, a :class:`CopyStatement` goes to
the planner. Grammar: PostgreSQL 15 manual, COPY; and HerdPy's own ``COPY PARAMETERS OF 'statement' FROM
STDIN``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.lexer import Statement, TokenCursor

Option = str | tuple[str, ...] | None
"""An option's value: text, a list of names ("*" alone: all), or None when only its name was given."""

_FILE_HINT = "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."


@dataclass(frozen=True, slots=True)
class CopyStatement:
    """A COPY as it was written.

    Attributes:
        is_from: FROM STDIN; else TO STDOUT.
        table: (schema or None, name), or None when ``query`` is copied.
        columns: those listed; None without a list.
        query: the statement in parentheses.
        parameters_of: the text of the statement whose parameters are copied (HerdPy's own).
        options: name in small letters, value and position in the text, in the order given.
    """

    is_from: bool
    table: tuple[str | None, str] | None
    columns: tuple[str, ...] | None
    query: Statement | None
    options: tuple[tuple[str, Option, int], ...] = field(default=())
    parameters_of: str | None = None


def parse_copy(statement: Statement) -> CopyStatement:
    """Parse COPY. SqlError 42601; 42501 for files and programs, which a server's clients may not touch."""
    cursor = TokenCursor(statement)
    options: list[tuple[str, Option, int]] = []
    if _comes(cursor, "BINARY") and not _comes(cursor, "BINARY", "FROM"):
        options.append(("format", "binary", cursor.position()))
        cursor.accept("BINARY")
    query = table = columns = parameters_of = None
    if cursor.accept("PARAMETERS", "OF"):
        parameters_of = cursor.string()
    elif cursor.peek() == "(":
        query = _query(cursor)
    else:
        name = cursor.name()
        table = (name, cursor.name()) if cursor.accept(".") else (None, name)
        if cursor.peek() == "(":
            columns = _names(cursor)
    is_from = cursor.accept("FROM")
    if not is_from and (parameters_of is not None or not cursor.accept("TO")):
        raise cursor.fail()
    if is_from and query is not None:
        cursor.at -= 1
        raise cursor.fail()
    _endpoint(cursor, is_from=is_from)
    if cursor.accept("DELIMITERS") or cursor.accept("USING", "DELIMITERS"):
        options.append(("delimiter", cursor.string(), cursor.position()))
    cursor.accept("WITH")
    if cursor.peek() == "(":
        options += _options(cursor)
    else:
        options += _old_options(cursor)
    if is_from and cursor.peek() == "WHERE":
        raise SqlError("0A000", "COPY FROM ... WHERE is not supported", position=cursor.position())
    cursor.done()
    return CopyStatement(is_from, table, columns, query, tuple(options), parameters_of)


def _comes(cursor: TokenCursor, *words: str) -> bool:
    mark = cursor.at
    found = cursor.accept(*words)
    cursor.at = mark
    return found


def _query(cursor: TokenCursor) -> Statement:
    """The statement in the parentheses that come next."""
    start = cursor.at
    depth = 0
    while cursor.at < len(cursor.tokens):
        word = cursor.peek()
        depth += (word == "(") - (word == ")")
        cursor.at += 1
        if depth == 0:
            break
    else:
        raise cursor.fail()
    outer = cursor.statement
    low, high = cursor.tokens[start].end(), cursor.tokens[cursor.at - 1].end() - 1
    text = outer.clean[low:high]
    inner = text.strip()
    if not inner:
        cursor.at -= 1
        raise cursor.fail()
    low += len(text) - len(text.lstrip())
    word = inner.split(None, 1)[0].upper() if inner[0].isalpha() else inner[0]
    return Statement(inner, inner, outer.position(low) - 1, word.split("(")[0] or "(")


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    """A list of names in parentheses."""
    cursor.accept("(")
    found = [cursor.name()]
    while cursor.accept(","):
        found.append(cursor.name())
    if not cursor.accept(")"):
        raise cursor.fail()
    return tuple(found)


def _endpoint(cursor: TokenCursor, *, is_from: bool) -> None:
    """STDIN or STDOUT, either of which PostgreSQL takes for both directions."""
    if cursor.accept("STDIN") or cursor.accept("STDOUT"):
        return
    direction = "from" if is_from else "to"
    if cursor.accept("PROGRAM"):
        cursor.string()
        raise SqlError(
            "42501",
            "must be superuser or have privileges of the pg_execute_server_program role to COPY "
            f"{direction} an external program",
            hint=_FILE_HINT,
        )
    cursor.string()
    role = "pg_read_server_files" if is_from else "pg_write_server_files"
    raise SqlError(
        "42501",
        f"must be superuser or have privileges of the {role} role to COPY {direction} a file",
        hint=_FILE_HINT,
    )


def _options(cursor: TokenCursor) -> list[tuple[str, Option, int]]:
    """(name [value], ...)"""
    cursor.accept("(")
    found: list[tuple[str, Option, int]] = []
    while True:
        position = cursor.position()
        name = cursor.name()
        value: Option = None
        if cursor.peek() == "(":
            value = _names(cursor)
        elif cursor.accept("*"):
            value = ("*",)
        elif cursor.peek() not in {",", ")"}:
            value = cursor.value()
        found.append((name, value, position))
        if cursor.accept(")"):
            return found
        if not cursor.accept(","):
            raise cursor.fail()


def _old_options(cursor: TokenCursor) -> list[tuple[str, Option, int]]:
    """The words that options were before they had parentheses."""
    found: list[tuple[str, Option, int]] = []
    while cursor.peek() not in {"", "WHERE"}:
        position = cursor.position()
        if cursor.accept("BINARY") or cursor.accept("CSV"):
            found.append(("format", cursor.tokens[cursor.at - 1].group().strip().lower(), position))
        elif cursor.accept("HEADER") or cursor.accept("FREEZE"):
            found.append((cursor.tokens[cursor.at - 1].group().strip().lower(), None, position))
        elif cursor.accept("FORCE"):
            found.append((*_force(cursor), position))
        elif cursor.accept("ENCODING"):
            found.append(("encoding", cursor.string(), position))
        else:
            name = cursor.peek().lower()
            if name not in {"delimiter", "null", "quote", "escape"}:
                raise cursor.fail()
            cursor.at += 1
            cursor.accept("AS")
            found.append((name, cursor.string(), position))
    return found


def _force(cursor: TokenCursor) -> tuple[str, Option]:
    if cursor.accept("QUOTE"):
        if cursor.accept("*"):
            return "force_quote", ("*",)
        name = "force_quote"
    elif cursor.accept("NOT", "NULL"):
        name = "force_not_null"
    elif cursor.accept("NULL"):
        name = "force_null"
    else:
        raise cursor.fail()
    columns = [cursor.name()]
    while cursor.accept(","):
        columns.append(cursor.name())
    return name, tuple(columns)
