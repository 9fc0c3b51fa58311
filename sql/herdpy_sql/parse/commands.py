"""The statements that are not queries, writes or definitions: a small parser of their own.

Transaction control, settings, CHECKPOINT and EXPLAIN have fixed words and no expressions, so a list of
tokens and a cursor are enough. The result is a :class:`Command`; the planner makes of it what the session
carries out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import TABLE_MODES
from herdpy_sql.parse.alter_table import AlterAction
from herdpy_sql.parse.cursor import TokenCursor
from herdpy_sql.parse.lexer import Statement

COMMANDS = frozenset(
    [
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "RESET",
        "SHOW",
        "CHECKPOINT",
        "EXPLAIN",
        "TRUNCATE",
        "LOCK",
    ]
)
"""The first words that :func:`parse_command` knows."""


@dataclass(frozen=True, slots=True)
class Command:
    """A statement of fixed words.

    Attributes:
        name: "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK TO", "SET", "RESET",
            "SHOW", "CHECKPOINT", "EXPLAIN", "TRUNCATE", "DROP TABLE", "DROP INDEX".
        argument: the savepoint or setting concerned, folded; "" for none, "all" for RESET/SHOW ALL; of
            BEGIN, its other name if it was called so.
        value: the new value of a setting as text; None for DEFAULT.
        options: isolation level and the like, in capitals; of SET, "LOCAL"; of EXPLAIN, "ANALYZE", "JSON";
            of DROP, "IF EXISTS", "CASCADE".
        inner: the statement that EXPLAIN explains.
        names: (schema or None, name) of what is dropped, truncated or altered.
        actions: of ALTER TABLE.
    """

    name: str
    argument: str = ""
    value: str | None = None
    options: tuple[str, ...] = ()
    inner: Statement | None = field(default=None)
    names: tuple[tuple[str | None, str], ...] = ()
    actions: tuple[AlterAction, ...] = ()


def parse_command(statement: Statement) -> Command:
    """Parse a statement whose keyword is in COMMANDS. SqlError 42601."""
    cursor = TokenCursor(statement)
    command = _PARSERS[statement.keyword](cursor)
    if command.name != "EXPLAIN":
        cursor.done()
    return command


def _modes(cursor: TokenCursor) -> tuple[str, ...]:
    """Transaction modes: isolation level, READ ONLY and so on."""
    found: list[str] = []
    while cursor.peek():
        for words in _MODES:
            if cursor.accept(*words.split()):
                found.append(words)
                break
        else:
            raise cursor.fail()
        cursor.accept(",")
    return tuple(found)


_MODES = (
    "ISOLATION LEVEL SERIALIZABLE",
    "ISOLATION LEVEL REPEATABLE READ",
    "ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL READ UNCOMMITTED",
    "READ WRITE",
    "READ ONLY",
    "NOT DEFERRABLE",
    "DEFERRABLE",
)


def _begin(cursor: TokenCursor) -> Command:
    if cursor.statement.keyword == "START":
        if not cursor.accept("TRANSACTION"):
            raise cursor.fail()
        return Command("BEGIN", "START TRANSACTION", options=_modes(cursor))
    if not cursor.accept("WORK"):
        cursor.accept("TRANSACTION")
    return Command("BEGIN", options=_modes(cursor))


def _ending(name: str, cursor: TokenCursor) -> Command:
    if not cursor.accept("WORK"):
        cursor.accept("TRANSACTION")
    if not cursor.accept("AND"):
        return Command(name)
    chained = not cursor.accept("NO")
    if not cursor.accept("CHAIN"):
        raise cursor.fail()
    return Command(name, options=("CHAIN",) if chained else ())


def _commit(cursor: TokenCursor) -> Command:
    return _ending("COMMIT", cursor)


def _rollback(cursor: TokenCursor) -> Command:
    mark = cursor.at
    if not cursor.accept("WORK"):
        cursor.accept("TRANSACTION")
    if cursor.statement.keyword == "ROLLBACK" and cursor.accept("TO"):
        cursor.accept("SAVEPOINT")
        return Command("ROLLBACK TO", cursor.name())
    cursor.at = mark
    return _ending("ROLLBACK", cursor)


def _savepoint(cursor: TokenCursor) -> Command:
    return Command("SAVEPOINT", cursor.name())


def _release(cursor: TokenCursor) -> Command:
    cursor.accept("SAVEPOINT")
    return Command("RELEASE", cursor.name())


def _setting_name(cursor: TokenCursor) -> str:
    if cursor.accept("TIME", "ZONE"):
        return "timezone"
    if cursor.accept("SESSION", "AUTHORIZATION"):
        return "session_authorization"
    if cursor.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    name = cursor.name()
    while cursor.accept("."):
        name += "." + cursor.name()
    return name


def _set(cursor: TokenCursor) -> Command:
    if cursor.accept("TRANSACTION"):
        return Command("SET", "transaction", options=_modes(cursor))
    if cursor.accept("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        return Command("SET", "session characteristics", options=_modes(cursor))
    if cursor.accept("CONSTRAINTS"):
        return _constraints(cursor)
    local = cursor.accept("LOCAL")
    options = ("LOCAL",) if local else ()
    if not local:
        cursor.accept("SESSION")
    if cursor.accept("AUTHORIZATION") or cursor.accept("SESSION", "AUTHORIZATION"):
        value = None if cursor.accept("DEFAULT") else cursor.value()
        return Command("SET", "session_authorization", value, options)
    if cursor.accept("ROLE"):
        value = "none" if cursor.accept("NONE") else cursor.value()
        return Command("SET", "role", value, options)
    if cursor.accept("TIME", "ZONE"):
        name = "timezone"
    elif cursor.accept("NAMES"):
        name = "client_encoding"
    else:
        name = _setting_name(cursor)
        if not (cursor.accept("TO") or cursor.accept("=")):
            raise cursor.fail()
    if cursor.accept("DEFAULT"):
        return Command("SET", name, None, options)
    values = [cursor.value()]
    while cursor.accept(","):
        values.append(cursor.value())
    if name == "search_path":
        values = [f'"{value.replace(chr(34), chr(34) * 2)}"' for value in values]
    return Command("SET", name, ", ".join(values), options)


def _constraints(cursor: TokenCursor) -> Command:
    """SET CONSTRAINTS ALL | name, ... DEFERRED | IMMEDIATE."""
    names: list[tuple[str | None, str]] = []
    if not cursor.accept("ALL"):
        while True:
            name = cursor.name()
            names.append((name, cursor.name()) if cursor.accept(".") else (None, name))
            if not cursor.accept(","):
                break
    for option in ("DEFERRED", "IMMEDIATE"):
        if cursor.accept(option):
            return Command("SET CONSTRAINTS", options=(option,), names=tuple(names))
    raise cursor.fail()


def _reset(cursor: TokenCursor) -> Command:
    return Command("RESET", _setting_name(cursor))


def _show(cursor: TokenCursor) -> Command:
    return Command("SHOW", _setting_name(cursor))


def _checkpoint(cursor: TokenCursor) -> Command:
    del cursor
    return Command("CHECKPOINT")


def _explain(cursor: TokenCursor) -> Command:
    options: list[str] = []
    if cursor.accept("("):
        while not cursor.accept(")"):
            options += _explain_option(cursor)
            if not cursor.accept(",") and cursor.peek() != ")":
                raise cursor.fail()
    else:
        if cursor.accept("ANALYZE"):
            options.append("ANALYZE")
        cursor.accept("VERBOSE")
    if cursor.at >= len(cursor.tokens):
        raise cursor.fail()
    token = cursor.tokens[cursor.at]
    outer = cursor.statement
    text = token.group().lstrip()
    start = token.end() - len(text)
    inner = Statement(
        text=outer.clean[start:],
        clean=outer.clean[start:],
        offset=outer.position(start) - 1,
        keyword=text.upper(),
    )
    return Command("EXPLAIN", options=tuple(options), inner=inner)


def _explain_option(cursor: TokenCursor) -> list[str]:
    name = cursor.name()
    on = True
    if name == "format":
        form = cursor.name()
        if form not in {"text", "json"}:
            raise SqlError("0A000", f"EXPLAIN format {form} is not supported")
        return ["JSON"] if form == "json" else []
    if cursor.peek() not in {",", ")"}:
        on = cursor.value().lower() in {"true", "on", "1"}
    if name in {"verbose", "costs", "buffers", "timing", "summary", "settings", "wal"}:
        return []
    if name != "analyze":
        raise SqlError("42601", f'unrecognized EXPLAIN option "{name}"')
    return ["ANALYZE"] if on else []


def _names(cursor: TokenCursor) -> tuple[tuple[str | None, str], ...]:
    found: list[tuple[str | None, str]] = []
    while True:
        name = cursor.name()
        found.append((name, cursor.name()) if cursor.accept(".") else (None, name))
        if not cursor.accept(","):
            return tuple(found)


def _drop(cursor: TokenCursor) -> Command:
    kind = cursor.name().upper()
    options = []
    if cursor.accept("CONCURRENTLY"):
        pass
    if cursor.accept("IF", "EXISTS"):
        options.append("IF EXISTS")
    names = _names(cursor)
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return Command(f"DROP {kind}", options=tuple(options), names=names)


def _truncate(cursor: TokenCursor) -> Command:
    cursor.accept("TABLE")
    cursor.accept("ONLY")
    names = _names(cursor)
    options = []
    if cursor.accept("RESTART", "IDENTITY"):
        options.append("RESTART IDENTITY")
    else:
        cursor.accept("CONTINUE", "IDENTITY")
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return Command("TRUNCATE", options=tuple(options), names=names)


def _lock(cursor: TokenCursor) -> Command:
    cursor.accept("TABLE")
    names = _names(cursor)
    mode = "ACCESS EXCLUSIVE"
    if cursor.accept("IN"):
        mode = next((words for words in TABLE_MODES if cursor.accept(*words.split(), "MODE")), "")
        if not mode:
            raise cursor.fail()
    return Command("LOCK", mode, options=("NOWAIT",) if cursor.accept("NOWAIT") else (), names=names)


_PARSERS = {
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _release,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "CHECKPOINT": _checkpoint,
    "EXPLAIN": _explain,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "LOCK": _lock,
}
