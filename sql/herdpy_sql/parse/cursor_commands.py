"""PREPARE and EXECUTE, cursors, DISCARD: statements that name what a session keeps.

Beside ``commands``, with the same cursor over tokens and the same result, a :class:`Command`. A statement
within the statement is its ``inner``; EXECUTE's arguments are the outputs of an inner SELECT.
"""

from __future__ import annotations

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.cursor import TokenCursor
from herdpy_sql.parse.lexer import Statement

_PREPARABLE = frozenset({"SELECT", "VALUES", "WITH", "TABLE", "INSERT", "UPDATE", "DELETE", "("})
_QUERIES = frozenset({"SELECT", "VALUES", "WITH", "TABLE", "("})
_ONE = {
    "NEXT": ("FORWARD", 1),
    "PRIOR": ("BACKWARD", 1),
    "FIRST": ("ABSOLUTE", 1),
    "LAST": ("ABSOLUTE", -1),
}


def parse_cursor_command(statement: Statement) -> Command:
    """Parse a statement whose keyword is in CURSOR_COMMANDS. SqlError 42601."""
    cursor = TokenCursor(statement)
    command = _PARSERS[statement.keyword](cursor)
    if command.inner is None or command.name == "EXECUTE":
        cursor.done()
    return command


def _rest(cursor: TokenCursor, allowed: frozenset[str]) -> Statement:
    """What follows as a statement of its own; its first word must be one of ``allowed``."""
    if cursor.peek() not in allowed:
        raise cursor.fail()
    token = cursor.tokens[cursor.at]
    outer = cursor.statement
    text = token.group().lstrip()
    start = token.end() - len(text)
    rest = outer.clean[start:]
    return Statement(rest, rest, outer.position(start) - 1, text.upper())


def _prepare(cursor: TokenCursor) -> Command:
    if cursor.accept("TRANSACTION"):
        raise SqlError("0A000", "PREPARE TRANSACTION is not supported", position=cursor.statement.offset + 1)
    name = cursor.name()
    types: tuple[str, ...] = ()
    if cursor.accept("("):
        types = _types(cursor)
    if not cursor.accept("AS"):
        raise cursor.fail()
    return Command("PREPARE", name, options=types, inner=_rest(cursor, _PREPARABLE))


def _types(cursor: TokenCursor) -> tuple[str, ...]:
    """The texts of types in a list, up to its closing parenthesis."""
    found: list[str] = []
    depth, start = 0, cursor.at
    while True:
        token = cursor.peek()
        if not token:
            raise cursor.fail()
        if depth == 0 and token in {",", ")"}:
            if start == cursor.at:
                raise cursor.fail()
            first, last = cursor.tokens[start], cursor.tokens[cursor.at - 1]
            found.append(cursor.statement.clean[first.start() : last.end()].strip())
            start = cursor.at + 1
            if token == ")":
                cursor.at += 1
                return tuple(found)
        depth += (token == "(") - (token == ")")
        cursor.at += 1


def _execute(cursor: TokenCursor) -> Command:
    name = cursor.name()
    if not cursor.accept("("):
        return Command("EXECUTE", name)
    start = cursor.tokens[cursor.at].start() if cursor.at < len(cursor.tokens) else 0
    if cursor.peek() == ")":
        raise cursor.fail()
    depth = 1
    while depth:
        token = cursor.peek()
        if not token:
            raise cursor.fail()
        depth += (token == "(") - (token == ")")
        cursor.at += 1
    outer = cursor.statement
    arguments = outer.clean[start : cursor.tokens[cursor.at - 1].end() - 1]
    text = f"SELECT {arguments}"
    return Command(
        "EXECUTE", name, inner=Statement(text, text, outer.position(start) - 1 - len("SELECT "), "SELECT")
    )


def _deallocate(cursor: TokenCursor) -> Command:
    cursor.accept("PREPARE")
    if cursor.accept("ALL"):
        return Command("DEALLOCATE", options=("ALL",))
    return Command("DEALLOCATE", cursor.name())


def _declare(cursor: TokenCursor) -> Command:
    name = cursor.name()
    options: list[str] = []
    while not cursor.accept("CURSOR"):
        for words in ("BINARY", "INSENSITIVE", "ASENSITIVE", "NO SCROLL", "SCROLL"):
            if cursor.accept(*words.split()):
                options.append(words)
                break
        else:
            raise cursor.fail()
    if cursor.accept("WITH", "HOLD"):
        options.append("WITH HOLD")
    else:
        cursor.accept("WITHOUT", "HOLD")
    if not cursor.accept("FOR"):
        raise cursor.fail()
    for one, other in (("SCROLL", "NO SCROLL"), ("INSENSITIVE", "ASENSITIVE")):
        if one in options and other in options:
            raise SqlError("42P11", f"cannot specify both {one} and {other}")
    return Command("DECLARE", name, options=tuple(options), inner=_rest(cursor, _QUERIES))


def _fetch(cursor: TokenCursor) -> Command:
    """The direction is in ``options``, the count in ``value``: None for ALL."""
    direction, count = "FORWARD", "1"
    word = cursor.peek()
    if word in _ONE and _goes_on(cursor):
        cursor.at += 1
        direction, one = _ONE[word]
        count = str(one)
    elif word in {"ABSOLUTE", "RELATIVE"} and _goes_on(cursor):
        cursor.at += 1
        direction, count = word, _count(cursor)
    elif word in {"FORWARD", "BACKWARD"} and _goes_on(cursor):
        cursor.at += 1
        direction = word
        if cursor.accept("ALL"):
            return _of(cursor, direction, None)
        if _is_number(cursor):
            count = _count(cursor)
    elif word == "ALL" and _goes_on(cursor):
        cursor.at += 1
        return _of(cursor, direction, None)
    elif _is_number(cursor):
        count = _count(cursor)
    return _of(cursor, direction, count)


def _of(cursor: TokenCursor, direction: str, count: str | None) -> Command:
    if not cursor.accept("FROM"):
        cursor.accept("IN")
    return Command(cursor.statement.keyword, cursor.name(), count, (direction,))


def _goes_on(cursor: TokenCursor) -> bool:
    """Whether the next word is not the last one, and so not the cursor's name."""
    return cursor.at + 1 < len(cursor.tokens)


def _is_number(cursor: TokenCursor) -> bool:
    return cursor.peek()[:1] in set("0123456789+-") and bool(cursor.peek())


def _count(cursor: TokenCursor) -> str:
    sign = ""
    while cursor.peek() in {"+", "-"}:
        sign = "-" if (cursor.peek() == "-") != (sign == "-") else ""
        cursor.at += 1
    text = cursor.peek()
    if not text.lstrip("+-").isdecimal():
        raise cursor.fail()
    if abs(int(text)) > 2**31 - 1:
        raise cursor.fail()
    cursor.at += 1
    return str(int(sign + "1") * int(text))


def _close(cursor: TokenCursor) -> Command:
    if cursor.accept("ALL"):
        return Command("CLOSE", options=("ALL",))
    return Command("CLOSE", cursor.name())


def _discard(cursor: TokenCursor) -> Command:
    for words, what in (("ALL", "ALL"), ("PLANS", "PLANS"), ("SEQUENCES", "SEQUENCES"), ("TEMP", "TEMP")):
        if cursor.accept(words):
            return Command("DISCARD", options=(what,))
    if cursor.accept("TEMPORARY"):
        return Command("DISCARD", options=("TEMP",))
    raise cursor.fail()


def _unlisten(cursor: TokenCursor) -> Command:
    if not cursor.accept("*"):
        cursor.name()
    return Command("UNLISTEN")


_PARSERS = {
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": _close,
    "DISCARD": _discard,
    "UNLISTEN": _unlisten,
}

CURSOR_COMMANDS = frozenset(_PARSERS)
"""The first words that :func:`parse_cursor_command` knows."""
