"""ALTER TABLE, VACUUM and ANALYZE: fixed words and names, read with the cursor of ``commands``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command

if TYPE_CHECKING:
    from herdpy_sql.parse.cursor import Cursor

MAINTENANCE = frozenset({"ALTER", "VACUUM", "ANALYZE", "ANALYSE"})
"""The first words that :func:`parse_maintenance` knows."""

_VACUUM_WORDS = frozenset({"FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"})
_VACUUM_OPTIONS = _VACUUM_WORDS | {
    "DISABLE_PAGE_SKIPPING", "SKIP_LOCKED", "INDEX_CLEANUP", "PROCESS_TOAST", "TRUNCATE", "PARALLEL",
}  # fmt: skip


def parse_maintenance(cursor: Cursor) -> Command:
    """Parse a statement whose keyword is in MAINTENANCE. SqlError 42601, 0A000."""
    keyword = cursor.statement.keyword
    command = _alter(cursor) if keyword == "ALTER" else _vacuum(cursor, keyword)
    cursor.done()
    return command


def _table_name(cursor: Cursor) -> tuple[str | None, str]:
    name = cursor.name()
    return (name, cursor.name()) if cursor.accept(".") else (None, name)


def _vacuum(cursor: Cursor, keyword: str) -> Command:
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


def _columns(cursor: Cursor) -> list[str]:
    """Names up to the closing parenthesis."""
    found = [cursor.name()]
    while cursor.accept(","):
        found.append(cursor.name())
    if not cursor.accept(")"):
        raise cursor.fail()
    return found


def _alter(cursor: Cursor) -> Command:
    """ALTER TABLE name ADD [CONSTRAINT name] PRIMARY KEY | UNIQUE (columns), or REPLICA IDENTITY."""
    if not cursor.accept("TABLE"):
        raise _unsupported(cursor, f"ALTER {cursor.peek()}")
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    cursor.accept("ONLY")
    table = _table_name(cursor)
    if cursor.accept("REPLICA", "IDENTITY"):
        return _identity(cursor, table, options)
    if not cursor.accept("ADD"):
        raise _unsupported(cursor, f"ALTER TABLE ... {cursor.peek()}")
    label = cursor.name() if cursor.accept("CONSTRAINT") else ""
    if cursor.accept("PRIMARY", "KEY"):
        kind = "PRIMARY KEY"
    elif cursor.accept("UNIQUE"):
        kind = "UNIQUE"
    elif cursor.accept("FOREIGN", "KEY"):
        raise SqlError("0A000", "FOREIGN KEY constraints are not supported")
    else:
        raise _unsupported(cursor, f"ALTER TABLE ... ADD {cursor.peek()}")
    if not cursor.accept("("):
        raise cursor.fail()
    columns = _columns(cursor)
    if cursor.accept("WITH", "("):  # storage parameters of the index: there is nothing to be set
        while cursor.peek() not in {")", ""}:
            cursor.at += 1
        if not cursor.accept(")"):
            raise cursor.fail()
    return Command(
        "ALTER TABLE", label, None, (kind, *options), names=(table, *((None, column) for column in columns))
    )


def _identity(cursor: Cursor, table: tuple[str | None, str], options: list[str]) -> Command:
    """FULL | DEFAULT, after REPLICA IDENTITY."""
    for kind in ("FULL", "DEFAULT"):
        if cursor.accept(kind):
            return Command("ALTER TABLE", "", None, (f"REPLICA IDENTITY {kind}", *options), names=(table,))
    if cursor.peek() in {"NOTHING", "USING"}:
        raise SqlError(
            "0A000",
            f"REPLICA IDENTITY {cursor.peek()} is not supported",
            hint="A row is known by its primary key (DEFAULT), or the log has all of it as it was (FULL).",
        )
    raise cursor.fail()


def _unsupported(cursor: Cursor, what: str) -> SqlError:
    return SqlError("0A000", f"{what.strip()} is not supported", position=cursor.statement.offset + 1)
