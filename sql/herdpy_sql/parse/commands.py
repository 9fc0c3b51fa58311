"""The statements that are not queries, writes or definitions: a small parser of their own.

Transaction control, settings, prepared statements, cursors, CHECKPOINT and EXPLAIN have fixed words and no
expressions, so a list of tokens and a cursor are enough. The result is a :class:`Command`, of which the
planner makes what the session carries out; a statement within it is its ``inner``. DESCRIBE, SHOW TABLES
and the like, as clients of other databases ask, become queries over information_schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import TABLE_MODES
from herdpy_sql.parse.lexer import Statement, TokenCursor
from herdpy_sql.quoting import quote_ident


@dataclass(frozen=True, slots=True)
class AlterAction:
    """One action of ALTER TABLE.

    Attributes:
        kind: "ADD COLUMN", "ADD CONSTRAINT", "DROP COLUMN", "ALTER TYPE", "SET DEFAULT" and so on.
        name: of the column or constraint that it is about.
        text: the rest as SQL: a column's or constraint's definition, a type, an expression, a new name.
        using: the expression of USING; of ATTACH and DETACH PARTITION the schema of the partition.
        options: "IF EXISTS", "IF NOT EXISTS", "CASCADE", "CONCURRENTLY", "FINALIZE".
    """

    kind: str
    name: str = ""
    text: str = ""
    using: str = ""
    options: frozenset[str] = frozenset()


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
        actions: of ALTER TABLE, and of ALTER INDEX.
        listed_columns: of VACUUM and ANALYZE, the columns in parentheses after each of the names.
    """

    name: str
    argument: str = ""
    value: str | None = None
    options: tuple[str, ...] = ()
    inner: Statement | None = field(default=None)
    names: tuple[tuple[str | None, str], ...] = ()
    actions: tuple[AlterAction, ...] = ()
    listed_columns: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True)


def parse_command(statement: Statement) -> Command:
    """Parse a statement whose keyword is in COMMANDS, or DROP TABLE or INDEX. SqlError 42601."""
    cursor = TokenCursor(statement)
    command = _PARSERS[statement.keyword](cursor)
    if command.inner is None or command.name == "EXECUTE":
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


def setting_name(cursor: TokenCursor) -> str:
    """The setting that RESET and SHOW are about, folded; "all" for ALL."""
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
    name = set_name(cursor)
    return Command("SET", name, set_value(cursor, name), options)


def set_name(cursor: TokenCursor) -> str:
    """The setting that SET is about, folded; what comes next is TO, = or FROM CURRENT, or is the value."""
    if cursor.accept("TIME", "ZONE"):
        return "timezone"
    if cursor.accept("NAMES"):
        return "client_encoding"
    name = setting_name(cursor)
    if not (cursor.accept("TO") or cursor.accept("=")) and cursor.peek() != "FROM":
        raise cursor.fail()
    return name


def set_value(cursor: TokenCursor, name: str) -> str | None:
    """What comes after :func:`set_name`: the value as text, None for DEFAULT."""
    if cursor.accept("DEFAULT"):
        return None
    if cursor.accept("FROM"):  # CURRENT, which roles alone may have
        raise cursor.fail()
    if name == "timezone" and cursor.accept("LOCAL"):
        return None
    if name == "timezone" and cursor.accept("INTERVAL"):
        return _interval_value(cursor)
    values = [cursor.value()]
    while cursor.accept(","):
        values.append(cursor.value())
    if name == "search_path":
        values = [f'"{value.replace(chr(34), chr(34) * 2)}"' for value in values]
    return ", ".join(values)


def _interval_value(cursor: TokenCursor) -> str:
    """The rest of ``INTERVAL '-08:00' HOUR TO MINUTE``, as the setting of a time zone has it."""
    text = f"interval '{cursor.value()}'"
    if cursor.accept("HOUR") and cursor.accept("TO") and not cursor.accept("MINUTE"):
        raise cursor.fail()
    return text


def _constraints(cursor: TokenCursor) -> Command:
    """SET CONSTRAINTS ALL | name, ... DEFERRED | IMMEDIATE."""
    names = () if cursor.accept("ALL") else cursor.qualified_names()
    for option in ("DEFERRED", "IMMEDIATE"):
        if cursor.accept(option):
            return Command("SET CONSTRAINTS", options=(option,), names=names)
    raise cursor.fail()


def _reset(cursor: TokenCursor) -> Command:
    return Command("RESET", setting_name(cursor))


def _show(cursor: TokenCursor) -> Command:
    return Command("SHOW", setting_name(cursor))


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
        if cursor.accept("VERBOSE"):
            options.append("VERBOSE")
    return Command("EXPLAIN", options=tuple(options), inner=cursor.rest())


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
    if name in {"costs", "buffers", "timing", "summary", "settings", "wal"}:
        return []
    if name not in {"analyze", "verbose"}:
        raise SqlError("42601", f'unrecognized EXPLAIN option "{name}"')
    return [name.upper()] if on else []


def _drop(cursor: TokenCursor) -> Command:
    kind = cursor.name().upper()
    options = []
    if cursor.accept("CONCURRENTLY"):
        pass
    if cursor.accept("IF", "EXISTS"):
        options.append("IF EXISTS")
    names = cursor.qualified_names()
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return Command(f"DROP {kind}", options=tuple(options), names=names)


def _truncate(cursor: TokenCursor) -> Command:
    cursor.accept("TABLE")
    options = ["ONLY"] if cursor.accept("ONLY") else []
    names = cursor.qualified_names()
    if cursor.accept("RESTART", "IDENTITY"):
        options.append("RESTART IDENTITY")
    else:
        cursor.accept("CONTINUE", "IDENTITY")
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return Command("TRUNCATE", options=tuple(options), names=names)


def _undrop(cursor: TokenCursor) -> Command:
    if not cursor.accept("TABLE"):
        raise cursor.fail()
    name = cursor.qualified_name()
    renamed = cursor.name() if cursor.accept("RENAME", "TO") else ""
    return Command("UNDROP TABLE", argument=renamed, names=(name,))


def _lock(cursor: TokenCursor) -> Command:
    cursor.accept("TABLE")
    names = cursor.qualified_names()
    mode = "ACCESS EXCLUSIVE"
    if cursor.accept("IN"):
        mode = next((words for words in TABLE_MODES if cursor.accept(*words.split(), "MODE")), "")
        if not mode:
            raise cursor.fail()
    return Command("LOCK", mode, options=("NOWAIT",) if cursor.accept("NOWAIT") else (), names=names)


_PREPARABLE = frozenset({"SELECT", "VALUES", "WITH", "TABLE", "INSERT", "UPDATE", "DELETE", "("})
_QUERIES = frozenset({"SELECT", "VALUES", "WITH", "TABLE", "("})
_ONE = {
    "NEXT": ("FORWARD", 1),
    "PRIOR": ("BACKWARD", 1),
    "FIRST": ("ABSOLUTE", 1),
    "LAST": ("ABSOLUTE", -1),
}


def _rest(cursor: TokenCursor, allowed: frozenset[str]) -> Statement:
    """What follows as a statement of its own; its first word must be one of ``allowed``."""
    if cursor.peek() not in allowed:
        raise cursor.fail()
    return cursor.rest()


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


def _listen(cursor: TokenCursor) -> Command:
    return Command("LISTEN", cursor.name())


def _unlisten(cursor: TokenCursor) -> Command:
    if cursor.accept("*"):
        return Command("UNLISTEN", options=("ALL",))
    return Command("UNLISTEN", cursor.name())


def _notify(cursor: TokenCursor) -> Command:
    channel = cursor.name()
    return Command("NOTIFY", channel, cursor.string() if cursor.accept(",") else "")


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
    "UNDROP": _undrop,
    "EXPLAIN": _explain,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "LOCK": _lock,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": _close,
    "DISCARD": _discard,
    "LISTEN": _listen,
    "UNLISTEN": _unlisten,
    "NOTIFY": _notify,
}
COMMANDS = frozenset(_PARSERS) - {"DROP"}
"""The first words that :func:`parse_command` knows, of every statement that begins so."""


_ASKED = re.compile(
    r"(?:DESCRIBE|DESC)\s+(?!\s*$)|SHOW\s+(?:TABLES|DATABASES|SCHEMAS|COLUMNS|VIEWS)\b", re.IGNORECASE
)
_MINE = "table_schema NOT IN ('pg_catalog', 'information_schema', 'herdpy')"
_LISTS = {
    "TABLES": "SELECT table_schema, table_name FROM information_schema.tables"
    f" WHERE {_MINE} AND table_type <> 'VIEW' ORDER BY table_schema, table_name",
    "VIEWS": "SELECT table_schema, table_name AS view_name FROM information_schema.tables"
    f" WHERE {_MINE} AND table_type = 'VIEW' ORDER BY table_schema, table_name",
    "DATABASES": "SELECT datname AS database_name FROM pg_catalog.pg_database ORDER BY datname",
    "SCHEMAS": "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name",
}


def described(statement: Statement) -> Statement:
    """The query that such a statement stands for; any other statement as it is. SqlError 42601."""
    if statement.keyword not in {"DESCRIBE", "DESC", "SHOW"} or not _ASKED.match(statement.clean):
        return statement
    cursor = TokenCursor(statement)
    if statement.keyword == "SHOW":
        what = cursor.name().upper()
        if what != "COLUMNS":
            cursor.done()
            return _query(_LISTS[what])
        if not cursor.accept("FROM"):
            raise cursor.fail()
    else:
        cursor.accept("TABLE")
    name = cursor.name()
    schema = None
    if cursor.accept("."):
        schema, name = name, cursor.name()
    cursor.done()
    where = f"attrelid = {_text((f'{quote_ident(schema)}.' if schema else '') + quote_ident(name))}::regclass"
    return _query(
        "SELECT attname AS column_name, format_type(atttypid, atttypmod) AS data_type,"
        " CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,"
        " (SELECT adbin FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum) AS column_default"
        f" FROM pg_attribute WHERE {where} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )


def _query(text: str) -> Statement:
    return Statement(text, text, 0, "SELECT")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
