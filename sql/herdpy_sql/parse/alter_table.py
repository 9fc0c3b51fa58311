"""ALTER TABLE: its actions, read with the cursor of ``commands``; definitions and expressions stay text.

What sqlglot reads well (a column's definition, a constraint, an expression) is cut out as text up to the
comma that ends the action, and parsed when the action is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_sql.parse.cursor import TokenCursor

_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"})


@dataclass(frozen=True, slots=True)
class AlterAction:
    """One action of ALTER TABLE.

    Attributes:
        kind: "ADD COLUMN", "ADD CONSTRAINT", "DROP COLUMN", "ALTER TYPE", "SET DEFAULT" and so on.
        name: of the column or constraint that it is about.
        text: the rest as SQL: a column's or constraint's definition, a type, an expression, a new name.
        using: the expression of USING.
        options: "IF EXISTS", "IF NOT EXISTS", "CASCADE".
    """

    kind: str
    name: str = ""
    text: str = ""
    using: str = ""
    options: frozenset[str] = frozenset()


def parse_actions(cursor: TokenCursor) -> tuple[AlterAction, ...]:
    """The actions after the table's name. SqlError 42601, 0A000."""
    if cursor.accept("RENAME"):
        return (_rename(cursor),)
    if cursor.accept("SET", "SCHEMA"):
        return (AlterAction("SET SCHEMA", cursor.name()),)
    found = [_action(cursor)]
    while cursor.accept(","):
        found.append(_action(cursor))
    return tuple(found)


def _rename(cursor: TokenCursor) -> AlterAction:
    if cursor.accept("TO"):
        return AlterAction("RENAME TO", text=cursor.name())
    if cursor.accept("CONSTRAINT"):
        kind = "RENAME CONSTRAINT"
    else:
        cursor.accept("COLUMN")
        kind = "RENAME COLUMN"
    name = cursor.name()
    if not cursor.accept("TO"):
        raise cursor.fail()
    return AlterAction(kind, name, cursor.name())


def _action(cursor: TokenCursor) -> AlterAction:
    for words, read in _READERS:
        if cursor.accept(*words):
            return read(cursor)
    if not cursor.peek():
        raise cursor.fail()
    raise _unsupported(cursor, f"ALTER TABLE ... {cursor.peek()}")


def _add(cursor: TokenCursor) -> AlterAction:
    if cursor.peek() in _CONSTRAINTS:
        label = cursor.name() if cursor.accept("CONSTRAINT") else ""
        if cursor.peek() not in _CONSTRAINTS:
            raise cursor.fail()
        return AlterAction("ADD CONSTRAINT", label, text_to_comma(cursor))
    cursor.accept("COLUMN")
    options = {"IF NOT EXISTS"} if cursor.accept("IF", "NOT", "EXISTS") else set()
    mark = cursor.at
    name = cursor.name()
    cursor.at = mark
    return AlterAction("ADD COLUMN", name, text_to_comma(cursor), options=frozenset(options))


def _drop(cursor: TokenCursor) -> AlterAction:
    constraint = cursor.accept("CONSTRAINT")
    if not constraint:
        cursor.accept("COLUMN")
    options = {"IF EXISTS"} if cursor.accept("IF", "EXISTS") else set()
    name = cursor.name()
    if cursor.accept("CASCADE"):
        options.add("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return AlterAction("DROP CONSTRAINT" if constraint else "DROP COLUMN", name, options=frozenset(options))


def _alter(cursor: TokenCursor) -> AlterAction:
    if cursor.accept("CONSTRAINT"):
        return AlterAction("ALTER CONSTRAINT", cursor.name(), text_to_comma(cursor))
    cursor.accept("COLUMN")
    name = cursor.name()
    if cursor.accept("SET", "DATA", "TYPE") or cursor.accept("TYPE"):
        kind = text_to_comma(cursor, "USING")
        using = text_to_comma(cursor) if cursor.accept("USING") else ""
        return AlterAction("ALTER TYPE", name, kind, using)
    if cursor.accept("SET", "DEFAULT"):
        return AlterAction("SET DEFAULT", name, text_to_comma(cursor))
    for kind in ("DROP DEFAULT", "SET NOT NULL", "DROP NOT NULL"):
        if cursor.accept(*kind.split()):
            return AlterAction(kind, name)
    for kind in ("DROP EXPRESSION", "DROP IDENTITY"):
        if cursor.accept(*kind.split()):
            options = {"IF EXISTS"} if cursor.accept("IF", "EXISTS") else set()
            return AlterAction(kind, name, options=frozenset(options))
    for word in ("STATISTICS", "STORAGE", "COMPRESSION"):
        if cursor.accept("SET", word):
            cursor.value()
            return AlterAction("STORAGE", name)
    if cursor.accept("SET", "(") or cursor.accept("RESET", "("):
        return _storage(cursor)
    for words in (("ADD", "GENERATED"), ("SET", "GENERATED"), ("RESTART",), ("SET",)):
        if cursor.accept(*words):
            cursor.at -= len(words)
            return AlterAction("ALTER IDENTITY", name, text_to_comma(cursor))
    raise cursor.fail()


def _storage(cursor: TokenCursor) -> AlterAction:
    """What stands in the parentheses after SET or RESET: known parameters without a meaning here."""
    start = cursor.at
    while cursor.peek() not in {")", ""}:
        cursor.at += 1
    text = _between(cursor, start, cursor.at)
    if not cursor.accept(")"):
        raise cursor.fail()
    return AlterAction("STORAGE", text=text)


def _nothing(cursor: TokenCursor) -> AlterAction:
    return AlterAction("STORAGE")


def _tablespace(cursor: TokenCursor) -> AlterAction:
    cursor.name()
    return AlterAction("STORAGE")


def _owner(cursor: TokenCursor) -> AlterAction:
    return AlterAction("OWNER TO", cursor.name())


def _validate(cursor: TokenCursor) -> AlterAction:
    return AlterAction("VALIDATE CONSTRAINT", cursor.name())


def _identity(cursor: TokenCursor) -> AlterAction:
    """FULL | DEFAULT, after REPLICA IDENTITY."""
    for kind in ("FULL", "DEFAULT"):
        if cursor.accept(kind):
            return AlterAction("REPLICA IDENTITY", kind)
    if cursor.peek() in {"NOTHING", "USING"}:
        raise SqlError(
            "0A000",
            f"REPLICA IDENTITY {cursor.peek()} is not supported",
            hint="A row is known by its primary key (DEFAULT), or the log has all of it as it was (FULL).",
        )
    raise cursor.fail()


_READERS: tuple[tuple[tuple[str, ...], Callable[[TokenCursor], AlterAction]], ...] = (
    (("ADD",), _add),
    (("DROP",), _drop),
    (("ALTER",), _alter),
    (("VALIDATE", "CONSTRAINT"), _validate),
    (("OWNER", "TO"), _owner),
    (("REPLICA", "IDENTITY"), _identity),
    (("SET", "("), _storage),
    (("RESET", "("), _storage),
    (("SET", "LOGGED"), _nothing),
    (("SET", "UNLOGGED"), _nothing),
    (("SET", "WITHOUT", "CLUSTER"), _nothing),
    (("SET", "WITHOUT", "OIDS"), _nothing),
    (("CLUSTER", "ON"), _tablespace),
)


def text_to_comma(cursor: TokenCursor, *words: str) -> str:
    """The text up to the comma that ends the action, or up to one of ``words`` outside of parentheses."""
    start, depth = cursor.at, 0
    while token := cursor.peek():
        if depth == 0 and (token == "," or token in words):
            break
        depth += (token in "([") - (token in ")]")
        cursor.at += 1
    if cursor.at == start:
        raise cursor.fail()
    return _between(cursor, start, cursor.at)


def _between(cursor: TokenCursor, start: int, end: int) -> str:
    if start == end:
        return ""
    first, last = cursor.tokens[start], cursor.tokens[end - 1]
    return cursor.statement.clean[first.start() : last.end()].strip()


def _unsupported(cursor: TokenCursor, what: str) -> SqlError:
    return SqlError("0A000", f"{what.strip()} is not supported", position=cursor.statement.offset + 1)
