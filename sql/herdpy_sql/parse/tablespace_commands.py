"""CREATE, ALTER, DROP and CHECK TABLESPACE: a small parser beside ``commands``.

    CREATE TABLESPACE [IF NOT EXISTS] name [WITH (option = value, ...)]
    ALTER TABLESPACE name SET (option = value, ...) | LEADER node | REPLICAS node, ...
    DROP TABLESPACE [IF EXISTS] name [WITH (FORCE)]
    CHECK TABLESPACE name

The words are PostgreSQL's, the options ours. What comes out has its values checked one by one; whether they
fit together, and whether the nodes are there, is for who carries it out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from herdpy import durations
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.lexer import Statement, TokenCursor

TABLESPACE_COMMANDS = re.compile(r"(?:CREATE|ALTER|DROP|CHECK)\s+TABLESPACE\b", re.IGNORECASE)
"""What :func:`parse_tablespace_command` knows begins so."""

Value = str | int | float | bool | tuple[str, ...] | None

_SIZES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SWITCH = {"on": True, "true": True, "yes": True, "1": True} | dict.fromkeys(
    ("off", "false", "no", "0"), False
)


@dataclass(frozen=True, slots=True)
class TablespaceCommand(Command):
    """One of them; ``options`` has "IF EXISTS", "IF NOT EXISTS", "FORCE".

    Attributes:
        tablespace: its name.
        changes: options said, by name: "leader" (None for no preference), "replicas", "expected_replicas",
            "ensemble", "write_quorum", "ack_quorum", "strict", "retention_bytes", "retention_s",
            "snapshot_url", "snapshot_interval_s", "snapshot_keep", "snapshot_history_s".
    """

    tablespace: str = ""
    changes: tuple[tuple[str, Value], ...] = ()


def parse_tablespace_command(statement: Statement) -> TablespaceCommand:
    """Parse a statement that TABLESPACE_COMMANDS matches. SqlError 42601, 22023, 0A000."""
    cursor = TokenCursor(statement)
    cursor.at += 1
    command = {"CREATE": _create, "ALTER": _alter, "DROP": _drop, "CHECK": _check}[statement.keyword](cursor)
    cursor.done()
    return command


def _create(cursor: TokenCursor) -> TablespaceCommand:
    options = ("IF NOT EXISTS",) if cursor.accept("IF", "NOT", "EXISTS") else ()
    name = cursor.name()
    if cursor.peek() in {"OWNER", "LOCATION"}:
        raise SqlError(
            "0A000",
            f"CREATE TABLESPACE ... {cursor.peek()} is not supported",
            hint="A tablespace is stored in its nodes' data directories: CREATE TABLESPACE name WITH (...).",
            position=cursor.position(),
        )
    changes = _options(cursor) if cursor.accept("WITH") else ()
    return TablespaceCommand("CREATE TABLESPACE", options=options, tablespace=name, changes=changes)


def _alter(cursor: TokenCursor) -> TablespaceCommand:
    name = cursor.name()
    if cursor.accept("SET"):
        changes = _options(cursor)
    elif cursor.accept("LEADER"):
        changes = (("leader", _node(cursor)),)
    elif cursor.accept("REPLICAS"):
        nodes = [one for part in _list(cursor) for one in _nodes(part)]
        changes = (("replicas", tuple(nodes)),)
    elif (word := cursor.peek()) in {"RENAME", "OWNER", "RESET"}:
        raise SqlError("0A000", f"ALTER TABLESPACE ... {word} is not supported", position=cursor.position())
    else:
        raise cursor.fail()
    return TablespaceCommand("ALTER TABLESPACE", tablespace=name, changes=changes)


def _drop(cursor: TokenCursor) -> TablespaceCommand:
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    name = cursor.name()
    if cursor.accept("WITH"):
        if not cursor.accept("(", "FORCE", ")"):
            raise cursor.fail()
        options.append("FORCE")
    return TablespaceCommand("DROP TABLESPACE", options=tuple(options), tablespace=name)


def _check(cursor: TokenCursor) -> TablespaceCommand:
    return TablespaceCommand("CHECK TABLESPACE", tablespace=cursor.name())


def _list(cursor: TokenCursor) -> list[str]:
    found = [cursor.value()]
    while cursor.accept(","):
        found.append(cursor.value())
    return found


def _node(cursor: TokenCursor) -> str | None:
    """A node's id; None for DEFAULT or NONE, which is no preference."""
    if cursor.peek() in {"DEFAULT", "NONE"}:
        cursor.at += 1
        return None
    return cursor.value()


def _nodes(text: str) -> list[str]:
    return [one for part in text.split(",") if (one := part.strip())]


def _options(cursor: TokenCursor) -> tuple[tuple[str, Value], ...]:
    """(name = value, ...), at least one."""
    if not cursor.accept("("):
        raise cursor.fail()
    found: dict[str, Value] = {}
    while True:
        position, name = cursor.position(), cursor.name()
        if name not in _KINDS:
            raise SqlError(
                "22023",
                f'unrecognized parameter "{name}"',
                hint=f"There are {', '.join(sorted(_KINDS))}.",
                position=position,
            )
        key, read = _KINDS[name]
        if key in found:
            raise SqlError("42601", f'parameter "{name}" specified more than once', position=position)
        if not cursor.accept("="):
            raise cursor.fail()
        place = cursor.position()
        if name == "leader":
            found[key] = _node(cursor)
        else:
            text = cursor.value()
            try:
                found[key] = read(text)
            except ValueError as error:
                raise SqlError(
                    "22023",
                    f'invalid value for parameter "{name}": "{text}"',
                    hint=str(error),
                    position=place,
                ) from None
        if cursor.accept(")"):
            return tuple(found.items())
        if not cursor.accept(","):
            raise cursor.fail()


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError("Expected a whole number.")
    return int(text)


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("Expected on or off.")
    return _SWITCH[text.lower()]


def _size(text: str) -> int:
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2].lower() not in _SIZES:
        raise ValueError("Expected bytes, or a size such as '256MB' (kB, MB, GB, TB).")
    return round(float(match[1]) * _SIZES[match[2].lower()])


def _duration(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = durations.microseconds(text.lower(), "s") / 1e6
        if seconds >= 0:
            return seconds
    raise ValueError("Expected seconds, or a duration such as '12h' (us, ms, s, min, h, d).")


_KINDS: dict[str, tuple[str, Callable[[str], Value]]] = {
    "leader": ("leader", str),
    "replicas": ("replicas", lambda text: tuple(_nodes(text))),
    "expected_replicas": ("expected_replicas", _count),
    "ensemble": ("ensemble", _count),
    "write_quorum": ("write_quorum", _count),
    "ack_quorum": ("ack_quorum", _count),
    "strict": ("strict", _switch),
    "retention_bytes": ("retention_bytes", _size),
    "retention": ("retention_s", _duration),
    "snapshot_url": ("snapshot_url", str.strip),
    "snapshot_interval": ("snapshot_interval_s", _duration),
    "snapshot_keep": ("snapshot_keep", _count),
    "snapshot_history": ("snapshot_history_s", _duration),
}
"""The options: the name under which each goes on, and how its text is read."""
