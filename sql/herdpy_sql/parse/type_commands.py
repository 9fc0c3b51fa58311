"""CREATE TYPE ... AS ENUM, ALTER TYPE and DROP TYPE: a small parser beside ``object_commands``.

Grammar: PostgreSQL 15 manual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.cursor import TokenCursor
from herdpy_sql.parse.object_commands import qualified

if TYPE_CHECKING:
    from herdpy_sql.parse.lexer import Statement

TYPE_COMMANDS = re.compile(r"(?:CREATE|ALTER|DROP)\s+TYPE\b", re.IGNORECASE)
"""What :func:`parse_type_command` knows begins so."""


@dataclass(frozen=True, slots=True)
class TypeCommand(Command):
    """One of them; ``names`` are the types that it is about.

    Attributes:
        action: of ALTER: "ADD VALUE", "RENAME VALUE", "RENAME", "SET SCHEMA", "OWNER".
        labels: of CREATE the labels in order; of ADD VALUE the new one, of RENAME VALUE the old and the new.
        place: of ADD VALUE "BEFORE" or "AFTER", "" for the end; ``neighbour`` is the label it says.
    """

    action: str = ""
    labels: tuple[str, ...] = ()
    place: str = ""
    neighbour: str = ""


def parse_type_command(statement: Statement) -> TypeCommand:
    """Parse a statement that TYPE_COMMANDS matches. SqlError 42601, or 0A000 for types of other kinds."""
    cursor = TokenCursor(statement)
    cursor.name()  # TYPE
    keyword = statement.keyword
    if keyword == "CREATE":
        command = _create(cursor)
    elif keyword == "ALTER":
        command = _alter(cursor)
    else:
        command = _drop(cursor)
    cursor.done()
    return command


def _label(cursor: TokenCursor) -> str:
    if not cursor.peek().startswith("'"):
        raise cursor.fail()
    return cursor.value()


def _create(cursor: TokenCursor) -> TypeCommand:
    name = qualified(cursor)
    if not cursor.accept("AS", "ENUM"):
        raise SqlError("0A000", "CREATE TYPE of anything but an ENUM is not supported")
    if not cursor.accept("("):
        raise cursor.fail()
    labels: list[str] = []
    while not cursor.accept(")"):
        if labels and not cursor.accept(","):
            raise cursor.fail()
        labels.append(_label(cursor))
    return TypeCommand("CREATE TYPE", names=(name,), labels=tuple(labels))


def _alter(cursor: TokenCursor) -> TypeCommand:
    names = (qualified(cursor),)
    if cursor.accept("ADD", "VALUE"):
        options = ("IF NOT EXISTS",) if cursor.accept("IF", "NOT", "EXISTS") else ()
        label, place, neighbour = _label(cursor), cursor.peek(), ""
        if place in {"BEFORE", "AFTER"}:
            cursor.at += 1
            neighbour = _label(cursor)
        else:
            place = ""
        return TypeCommand(
            "ALTER TYPE", "", None, options, None, names, (), "ADD VALUE", (label,), place, neighbour
        )
    if cursor.accept("RENAME", "VALUE"):
        old = _label(cursor)
        if not cursor.accept("TO"):
            raise cursor.fail()
        return TypeCommand("ALTER TYPE", names=names, action="RENAME VALUE", labels=(old, _label(cursor)))
    for words, action in (
        (("RENAME", "TO"), "RENAME"),
        (("SET", "SCHEMA"), "SET SCHEMA"),
        (("OWNER", "TO"), "OWNER"),
    ):
        if cursor.accept(*words):
            return TypeCommand("ALTER TYPE", names=names, action=action, labels=(cursor.name(),))
    raise cursor.fail()


def _drop(cursor: TokenCursor) -> TypeCommand:
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    names = [qualified(cursor)]
    while cursor.accept(","):
        names.append(qualified(cursor))
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return TypeCommand("DROP TYPE", options=tuple(options), names=tuple(names))
