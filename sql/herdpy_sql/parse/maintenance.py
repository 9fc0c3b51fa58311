"""ALTER TABLE and INDEX, REINDEX, CLUSTER, VACUUM and ANALYZE: fixed words.

Read with the cursor of ``commands``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.alter_table import parse_actions
from herdpy_sql.parse.commands import Command

if TYPE_CHECKING:
    from herdpy_sql.parse.cursor import TokenCursor

MAINTENANCE = frozenset({"ALTER", "REINDEX", "CLUSTER", "VACUUM", "ANALYZE", "ANALYSE"})
"""The first words that :func:`parse_maintenance` knows."""

_VACUUM_WORDS = frozenset({"FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"})
_VACUUM_OPTIONS = _VACUUM_WORDS | {
    "DISABLE_PAGE_SKIPPING", "SKIP_LOCKED", "INDEX_CLEANUP", "PROCESS_TOAST", "TRUNCATE", "PARALLEL",
}  # fmt: skip


def parse_maintenance(cursor: TokenCursor) -> Command:
    """Parse a statement whose keyword is in MAINTENANCE. SqlError 42601, 0A000."""
    keyword = cursor.statement.keyword
    parse = _STATEMENTS.get(keyword)
    command = parse(cursor) if parse is not None else _vacuum(cursor, keyword)
    cursor.done()
    return command


def _table_name(cursor: TokenCursor) -> tuple[str | None, str]:
    name = cursor.name()
    return (name, cursor.name()) if cursor.accept(".") else (None, name)


def _vacuum(cursor: TokenCursor, keyword: str) -> Command:
    name = "VACUUM" if keyword == "VACUUM" else "ANALYZE"
    options: list[str] = []
    if cursor.accept("("):
        while True:
            word = cursor.name().upper()
            if word not in _VACUUM_OPTIONS:
                raise SqlError("42601", f'unrecognized {name} option "{word.lower()}"')
            if cursor.peek() not in {",", ")"}:
                if cursor.value().upper() not in {"FALSE", "OFF", "0"}:
                    options.append(word)
            else:
                options.append(word)
            if not cursor.accept(","):
                break
        if not cursor.accept(")"):
            raise cursor.fail()
    while (cursor.peek() in _VACUUM_WORDS and name == "VACUUM") or cursor.peek() == "VERBOSE":
        options.append(cursor.name().upper())
    names = []
    if cursor.peek():
        while True:
            names.append(_table_name(cursor))
            if cursor.accept("("):
                _columns(cursor)
            if not cursor.accept(","):
                break
    return Command(name, options=tuple(options), names=tuple(names))


def _columns(cursor: TokenCursor) -> list[str]:
    """Names up to the closing parenthesis."""
    found = [cursor.name()]
    while cursor.accept(","):
        found.append(cursor.name())
    if not cursor.accept(")"):
        raise cursor.fail()
    return found


def _alter(cursor: TokenCursor) -> Command:
    """ALTER TABLE name action, ...; or ALTER INDEX name RENAME TO name."""
    if cursor.accept("INDEX"):
        return _alter_index(cursor)
    if not cursor.accept("TABLE"):
        raise _unsupported(cursor, f"ALTER {cursor.peek()}")
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    cursor.accept("ONLY")
    table = _table_name(cursor)
    cursor.accept("*")
    return Command("ALTER TABLE", options=options, names=(table,), actions=parse_actions(cursor))


def _alter_index(cursor: TokenCursor) -> Command:
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    index = _table_name(cursor)
    if cursor.accept("RENAME", "TO"):
        return Command("ALTER INDEX", cursor.name(), options=options, names=(index,))
    if cursor.accept("SET", "(") or cursor.accept("RESET", "("):  # there is nothing to be set
        while cursor.peek() not in {")", ""}:
            cursor.at += 1
        if not cursor.accept(")"):
            raise cursor.fail()
        return Command("ALTER INDEX", options=options, names=(index,))
    raise _unsupported(cursor, f"ALTER INDEX ... {cursor.peek()}")


def _reindex(cursor: TokenCursor) -> Command:
    """REINDEX [(options)] {INDEX | TABLE | SCHEMA | DATABASE | SYSTEM} [CONCURRENTLY] name."""
    if cursor.accept("("):
        while True:
            word = cursor.name().upper()
            if word not in {"VERBOSE", "CONCURRENTLY", "TABLESPACE"}:
                raise SqlError("42601", f'unrecognized REINDEX option "{word.lower()}"')
            if cursor.peek() not in {",", ")"}:
                cursor.value()
            if not cursor.accept(","):
                break
        if not cursor.accept(")"):
            raise cursor.fail()
    for kind in ("INDEX", "TABLE", "SCHEMA", "DATABASE", "SYSTEM"):
        if cursor.accept(kind):
            cursor.accept("CONCURRENTLY")
            names = (_table_name(cursor),) if cursor.peek() else ()
            if not names and kind in {"INDEX", "TABLE", "SCHEMA"}:
                raise cursor.fail()
            return Command("REINDEX", kind, names=names)
    raise cursor.fail()


def _cluster(cursor: TokenCursor) -> Command:
    """CLUSTER [VERBOSE] [table [USING index]]: the names are the table's and the index's."""
    cursor.accept("VERBOSE")
    if not cursor.peek():
        return Command("CLUSTER")
    names = [_table_name(cursor)]
    if cursor.accept("USING"):
        names.append((names[0][0], cursor.name()))
    return Command("CLUSTER", names=tuple(names))


_STATEMENTS = {"ALTER": _alter, "REINDEX": _reindex, "CLUSTER": _cluster}


def _unsupported(cursor: TokenCursor, what: str) -> SqlError:
    return SqlError("0A000", f"{what.strip()} is not supported", position=cursor.statement.offset + 1)
