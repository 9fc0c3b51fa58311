"""CREATE, ALTER and DROP of FUNCTION and PROCEDURE, DO and CALL: beside ``object_commands``.

Types and expressions stay texts; what they mean is the planner's to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.lexer import Statement, TokenCursor

PROGRAM_COMMANDS = re.compile(
    r"(?:(?:CREATE(?:\s+OR\s+REPLACE)?|ALTER|DROP)\s+(?:FUNCTION|PROCEDURE|ROUTINE)|DO|CALL)\b", re.IGNORECASE
)
"""What :func:`parse_program_command` knows begins so."""


@dataclass(frozen=True, slots=True)
class ArgumentClause:
    """One argument as it is declared: ``mode`` "i", "o", "b" or "v"; the type's and default's text.

    Attributes:
        has_mode: the mode was said.
    """

    mode: str
    name: str
    type: str
    default: str = ""
    has_mode: bool = False


@dataclass(frozen=True, slots=True)
class ProgramSignature:
    """What DROP and ALTER name; ``arguments`` are None where no list stands."""

    schema: str | None
    name: str
    arguments: tuple[ArgumentClause, ...] | None


@dataclass(frozen=True, slots=True)
class ProgramCommand(Command):
    """One of them; ``name`` is "CREATE FUNCTION", "DROP PROCEDURE", "DO", "CALL".

    Attributes:
        arguments: of CREATE. ``columns``: those of RETURNS TABLE, None where it is not said.
        returns: the type's text; None where RETURNS is not said. ``gives_rows``: SETOF or TABLE.
        settings: what else is said of the function, by words in lower case: "language", "volatility" ...
        source: AS, or DO's program. ``body``: the statement's text behind RETURN.
        signatures: what ALTER and DROP name.
        action: of ALTER: "RENAME", "OWNER", "SET SCHEMA"; ``word`` is the new name.
        call: of CALL, the call as a query.
    """

    arguments: tuple[ArgumentClause, ...] = ()
    columns: tuple[ArgumentClause, ...] | None = None
    returns: str | None = None
    gives_rows: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    source: str | None = None
    signatures: tuple[ProgramSignature, ...] = ()
    action: str = ""
    word: str = ""
    call: Statement | None = None


def parse_program_command(statement: Statement) -> ProgramCommand:
    """Parse a statement that PROGRAM_COMMANDS matches. SqlError 42601, 0A000."""
    cursor = TokenCursor(statement)
    if statement.keyword == "DO":
        command = _do(cursor)
    elif statement.keyword == "CALL":
        return _call(cursor)
    elif statement.keyword == "CREATE":
        command = _create(cursor)
    elif statement.keyword == "ALTER":
        command = _alter(cursor)
    else:
        command = _drop(cursor)
    cursor.done()
    return command


def _do(cursor: TokenCursor) -> ProgramCommand:
    source, language = None, "plpgsql"
    while cursor.peek():
        if cursor.accept("LANGUAGE"):
            language = cursor.value().lower()
        elif source is None:
            source = cursor.string()
        else:
            raise cursor.fail()
    if source is None:
        raise SqlError("42601", "no inline code specified")
    return ProgramCommand("DO", settings=(("language", language),), source=source)


def _call(cursor: TokenCursor) -> ProgramCommand:
    rest = cursor.rest()
    cursor.qualified_name()
    if cursor.peek() != "(":
        raise cursor.fail()
    text = f"SELECT {rest.clean}"
    return ProgramCommand("CALL", call=Statement(text, text, rest.offset - 7, "SELECT"))


def _create(cursor: TokenCursor) -> ProgramCommand:
    options = ("OR REPLACE",) if cursor.accept("OR", "REPLACE") else ()
    kind = cursor.name().upper()
    if kind == "ROUTINE":
        cursor.at -= 1
        raise cursor.fail()
    name = cursor.qualified_name()
    arguments = _arguments(cursor)
    returns, columns, gives_rows = None, None, False
    if kind == "FUNCTION" and cursor.accept("RETURNS"):
        if cursor.accept("TABLE"):
            columns, gives_rows = _arguments(cursor), True
        else:
            gives_rows = cursor.accept("SETOF")
            returns = _text_until(cursor, _is_option)
    settings: dict[str, str] = {}
    while cursor.peek():
        key, value = _option(cursor)
        if key in settings:
            raise SqlError("42601", "conflicting or redundant options")
        settings[key] = value
    source = settings.pop("as", None)
    return ProgramCommand(
        f"CREATE {kind}",
        options=options,
        names=(name,),
        arguments=arguments,
        columns=columns,
        returns=returns,
        gives_rows=gives_rows,
        settings=tuple(settings.items()),
        source=source,
    )


_MODES = {"IN": "i", "OUT": "o", "INOUT": "b", "VARIADIC": "v"}
_OF_TYPES = frozenset(
    {"PRECISION", "VARYING", "WITH", "WITHOUT", "(", "[", ".", "%", "CHARACTER", "CHAR", "DAY", "YEAR",
     "MONTH", "HOUR", "MINUTE", "SECOND", "ARRAY"}
)  # fmt: skip
"""What may follow the first word of a type: that word is no name of an argument then."""


def _arguments(cursor: TokenCursor) -> tuple[ArgumentClause, ...]:
    """(mode name type default, ...)."""
    if not cursor.accept("("):
        raise cursor.fail()
    found: list[ArgumentClause] = []
    while not cursor.accept(")"):
        if found and not cursor.accept(","):
            raise cursor.fail()
        found.append(_argument(cursor))
    return tuple(found)


def _argument(cursor: TokenCursor) -> ArgumentClause:
    mode, has_mode = "i", False
    word = cursor.peek()
    if word in _MODES:
        cursor.at += 1
        has_mode = True
        mode = _MODES[word]
        if word == "IN" and cursor.accept("OUT"):
            mode = "b"
    name = ""
    token = cursor.tokens[cursor.at] if cursor.at < len(cursor.tokens) else None
    following = _ahead(cursor)
    is_name = token is not None and bool(token["word"] or token["ident"])
    if is_name and following not in _NOT_AFTER_NAME and following not in _OF_TYPES:
        name = cursor.name()
        if name in {"in", "out", "inout"} and mode == "i":  # the mode behind the name
            raise cursor.fail()
        if cursor.peek() in _MODES and mode == "i":
            mode = _MODES[cursor.peek()]
            cursor.at += 1
    type_ = _text_until(cursor, lambda word: word in {",", ")", "DEFAULT", "="})
    default = ""
    if cursor.accept("DEFAULT") or cursor.accept("="):
        default = _text_until(cursor, lambda word: word in {",", ")"})
    return ArgumentClause(mode, name, type_, default, has_mode)


_NOT_AFTER_NAME = frozenset({",", ")", "DEFAULT", "=", ""})


def _ahead(cursor: TokenCursor) -> str:
    cursor.at += 1
    found = cursor.peek()
    cursor.at -= 1
    return found


def _text_until(cursor: TokenCursor, ends: Callable[[str], bool]) -> str:
    """The text of the tokens up to one that ``ends``, outside of parentheses. SqlError 42601 for none."""
    begin, depth = cursor.at, 0
    while (word := cursor.peek()) and not (depth == 0 and ends(word)):
        depth += (word in {"(", "["}) - (word in {")", "]"})
        cursor.at += 1
    if cursor.at == begin:
        raise cursor.fail()
    first, last = cursor.tokens[begin], cursor.tokens[cursor.at - 1]
    start = first.end() - len(first.group().lstrip())
    return cursor.statement.clean[start : last.end()]


_OPTIONS = frozenset(
    {"LANGUAGE", "IMMUTABLE", "STABLE", "VOLATILE", "NOT", "LEAKPROOF", "CALLED", "RETURNS", "STRICT",
     "EXTERNAL", "SECURITY", "PARALLEL", "COST", "ROWS", "SUPPORT", "WINDOW", "TRANSFORM", "SET", "AS",
     "RETURN", "BEGIN"}
)  # fmt: skip


def _is_option(word: str) -> bool:
    return word in _OPTIONS


def _option(cursor: TokenCursor) -> tuple[str, str]:
    """What one option says: its key and value."""
    word = cursor.peek()
    if word not in _OPTIONS:
        raise cursor.fail()
    for words, key, value in _FIXED:
        if cursor.accept(*words.split()):
            return key, value
    cursor.at += 1
    if word in {"LANGUAGE", "PARALLEL"}:
        return word.lower(), cursor.value().lower()
    if word in {"COST", "ROWS"}:
        return word.lower(), cursor.value()
    if word == "AS":
        source = cursor.string()
        if cursor.peek() == ",":
            raise SqlError("0A000", "functions in C are not supported")
        return "as", source
    if word in {"RETURN", "BEGIN"}:
        raise SqlError(
            "0A000", "a function's body in standard SQL is not supported", hint="Write AS $$ ... $$."
        )
    if word in {"SUPPORT", "TRANSFORM", "SET"}:
        raise SqlError("0A000", f"{word} of a function is not supported")
    cursor.at -= 1
    raise cursor.fail()


_FIXED = (
    ("IMMUTABLE", "volatility", "i"),
    ("STABLE", "volatility", "s"),
    ("VOLATILE", "volatility", "v"),
    ("NOT LEAKPROOF", "leakproof", ""),
    ("LEAKPROOF", "leakproof", "t"),
    ("CALLED ON NULL INPUT", "strict", ""),
    ("RETURNS NULL ON NULL INPUT", "strict", "t"),
    ("STRICT", "strict", "t"),
    ("EXTERNAL SECURITY INVOKER", "security", ""),
    ("SECURITY INVOKER", "security", ""),
    ("EXTERNAL SECURITY DEFINER", "security", "definer"),
    ("SECURITY DEFINER", "security", "definer"),
    ("WINDOW", "window", "t"),
)


def _signature(cursor: TokenCursor) -> ProgramSignature:
    schema, name = cursor.qualified_name()
    return ProgramSignature(schema, name, _arguments(cursor) if cursor.peek() == "(" else None)


def _drop(cursor: TokenCursor) -> ProgramCommand:
    kind = cursor.name().upper()
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    found = [_signature(cursor)]
    while cursor.accept(","):
        found.append(_signature(cursor))
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return ProgramCommand(f"DROP {kind}", options=tuple(options), signatures=tuple(found))


def _alter(cursor: TokenCursor) -> ProgramCommand:
    kind = cursor.name().upper()
    found = (_signature(cursor),)
    for words, action in (
        (("RENAME", "TO"), "RENAME"),
        (("OWNER", "TO"), "OWNER"),
        (("SET", "SCHEMA"), "SET SCHEMA"),
    ):
        if cursor.accept(*words):
            return ProgramCommand(f"ALTER {kind}", signatures=found, action=action, word=cursor.name())
    if cursor.peek() in {"DEPENDS", "NO"} or cursor.peek() == "RESET":
        raise SqlError("0A000", f"ALTER {kind} ... {cursor.peek()} is not supported")
    settings: dict[str, str] = {}
    while cursor.peek() and not cursor.accept("RESTRICT"):
        key, value = _option(cursor)
        if key in settings:
            raise SqlError("42601", "conflicting or redundant options")
        settings[key] = value
    if not settings or "as" in settings or "language" in settings:
        raise cursor.fail()
    return ProgramCommand(
        f"ALTER {kind}", signatures=found, action="OPTIONS", settings=tuple(settings.items())
    )
