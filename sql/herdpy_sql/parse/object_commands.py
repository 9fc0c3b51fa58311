"""CREATE, ALTER, DROP of SEQUENCE, SCHEMA, VIEW, TYPE, TABLESPACE, EXTENSION, COMMENT ON: above ``commands``.

The words are PostgreSQL's; a tablespace's options are ours. What comes out has its values checked one by
one; whether they fit together, and what they name is there, is the planner's and the session's to judge.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy import options
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.command_tags import object_kind
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.lexer import QualifiedName, Statement, TokenCursor
from herdpy_sql.quoting import quote_ident

OBJECT_COMMANDS = re.compile(
    r"(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?(?:TEMP(?:ORARY)?\s+)?(?:RECURSIVE\s+)?"
    r"(?:SEQUENCE|SCHEMA|VIEW)\b|COMMENT\s+ON\b|(?:CREATE|DROP)\s+EXTENSION\b",
    re.IGNORECASE,
)
"""What :func:`parse_object_command` knows begins so."""

Option = int | str | bool | None | tuple[str, ...]

_COMMENTED = (
    "TABLE",
    "VIEW",
    "INDEX",
    "SEQUENCE",
    "COLUMN",
    "CONSTRAINT",
    "SCHEMA",
    "TYPE",
    "DATABASE",
    "ROLE",
    "TABLESPACE",
    "EXTENSION",
)


@dataclass(frozen=True, slots=True)
class ObjectCommand(Command):
    """One of them; ``name`` is "CREATE SEQUENCE", "COMMENT" ...; ``names`` what it is about.

    Attributes:
        action: of ALTER, what is done: "RENAME", "SET SCHEMA", "OWNER", "OPTIONS", "RENAME COLUMN"; of
            COMMENT what is commented on: "TABLE", "COLUMN" ...
        settings: options of a sequence by their names in lower case; None is NO MINVALUE, NO MAXVALUE.
        columns: the names of a view's columns.
        words: names besides: of RENAME the new one; of COMMENT the parts of the name.
        text: the comment; None takes it away.
        query: of a view.
    """

    action: str = ""
    settings: tuple[tuple[str, Option], ...] = ()
    columns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    text: str | None = None
    query: Statement | None = field(default=None)

    @property
    def is_temporary(self) -> bool:
        """Whether it says that what it makes is the session's own."""
        return "TEMPORARY" in self.options or any(schema == "pg_temp" for schema, _name in self.names)


def parse_object_command(statement: Statement) -> ObjectCommand:
    """Parse a statement that OBJECT_COMMANDS matches. SqlError 42601, 0A000."""
    cursor = TokenCursor(statement)
    if statement.keyword == "COMMENT":
        command = _comment(cursor)
    else:
        options = _words_before(cursor) if statement.keyword == "CREATE" else []
        kind = cursor.peek()
        if kind not in _CREATED:
            raise cursor.fail()
        cursor.at += 1
        if statement.keyword == "DROP":
            command = _drop(cursor, kind)
        elif statement.keyword == "ALTER":
            command = _alter(cursor, kind)
        else:
            command = _CREATED[kind](cursor, options)
    if command.query is None:
        cursor.done()
    return command


def _create_extension(cursor: TokenCursor, options: list[str]) -> ObjectCommand:
    """CREATE EXTENSION; of its options PostgreSQL, too, makes nothing where the extension is there."""
    if options:
        raise cursor.fail()
    if cursor.accept("IF", "NOT", "EXISTS"):
        options.append("IF NOT EXISTS")
    name = cursor.name()
    cursor.accept("WITH")
    while cursor.peek():
        if cursor.accept("SCHEMA") or cursor.accept("VERSION"):
            cursor.at += 1
        elif not cursor.accept("CASCADE"):
            raise cursor.fail()
    return ObjectCommand("CREATE EXTENSION", options=tuple(options), names=((None, name),))


def _words_before(cursor: TokenCursor) -> list[str]:
    options = []
    if cursor.accept("OR", "REPLACE"):
        options.append("OR REPLACE")
    scoped = cursor.accept("GLOBAL") or cursor.accept("LOCAL")
    if cursor.accept("TEMP") or cursor.accept("TEMPORARY"):
        options.append("TEMPORARY")
    elif scoped:
        raise cursor.fail()
    if cursor.accept("RECURSIVE"):
        options.append("RECURSIVE")
    return options


def _create_sequence(cursor: TokenCursor, options: list[str]) -> ObjectCommand:
    if "OR REPLACE" in options or "RECURSIVE" in options:
        raise cursor.fail()
    if cursor.accept("IF", "NOT", "EXISTS"):
        options.append("IF NOT EXISTS")
    name = cursor.qualified_name()
    return ObjectCommand(
        "CREATE SEQUENCE", options=tuple(options), names=(name,), settings=sequence_options(cursor)
    )


def sequence_options(cursor: TokenCursor) -> tuple[tuple[str, Option], ...]:
    """The options of a sequence, to the end. SqlError 42601 for one said twice."""
    found: dict[str, Option] = {}
    while cursor.peek() and cursor.peek() != ")":
        name, value = sequence_option(cursor)
        if name in found:
            raise SqlError("42601", "conflicting or redundant options")
        found[name] = value
    return tuple(found.items())


def sequence_option(cursor: TokenCursor) -> tuple[str, Option]:
    """One option of a sequence: its name and its value."""
    if cursor.accept("NO"):
        word = cursor.name()
        if word == "cycle":
            return "cycle", False
        if word in {"minvalue", "maxvalue"}:
            return word, None
        raise cursor.fail()
    word = cursor.peek()
    if word == "AS":
        cursor.at += 1
        return "as", cursor.name()
    if word == "OWNED":
        cursor.at += 1
        if not cursor.accept("BY"):
            raise cursor.fail()
        parts = [cursor.name()]
        while cursor.accept("."):
            parts.append(cursor.name())
        return "owned", tuple(parts)
    if word == "CYCLE":
        cursor.at += 1
        return "cycle", True
    if word == "RESTART":
        cursor.at += 1
        cursor.accept("WITH")
        following = cursor.peek()
        return "restart", _whole(cursor) if following[:1] in set("+-0123456789") and following else None
    fillers = {"INCREMENT": "BY", "START": "WITH"}
    if word not in {"INCREMENT", "START", "MINVALUE", "MAXVALUE", "CACHE"}:
        raise cursor.fail()
    cursor.at += 1
    cursor.accept(fillers.get(word, ""))
    return word.lower(), _whole(cursor)


def _whole(cursor: TokenCursor) -> int:
    text = cursor.peek()
    try:
        value = int(text)
    except ValueError:
        raise cursor.fail() from None
    cursor.at += 1
    return value


_SELF = frozenset({"CURRENT_USER", "CURRENT_ROLE"})


def _create_schema(cursor: TokenCursor, options: list[str]) -> ObjectCommand:
    if options:
        raise cursor.fail()
    if cursor.accept("IF", "NOT", "EXISTS"):
        options.append("IF NOT EXISTS")
    name = owner = ""
    if cursor.peek() != "AUTHORIZATION":
        name = cursor.name()
    if cursor.accept("AUTHORIZATION"):
        if cursor.peek() in _SELF:  # whose it is anyway
            if not name:
                raise SqlError("0A000", f"CREATE SCHEMA AUTHORIZATION {cursor.peek()} needs a name, too")
            cursor.at += 1
        else:
            owner = cursor.name()
    if cursor.peek():
        raise SqlError("0A000", "CREATE SCHEMA with schema elements is not supported")
    return ObjectCommand(
        "CREATE SCHEMA",
        options=tuple(options),
        names=((None, name or owner),),
        words=(owner,) if owner else (),
    )


def _create_view(cursor: TokenCursor, options: list[str]) -> ObjectCommand:
    name = cursor.qualified_name()
    columns: list[str] = []
    if cursor.accept("("):
        columns.append(cursor.name())
        while cursor.accept(","):
            columns.append(cursor.name())
        if not cursor.accept(")"):
            raise cursor.fail()
    elif "RECURSIVE" in options:
        raise cursor.fail()
    if cursor.peek() == "WITH":
        raise SqlError("0A000", "CREATE VIEW ... WITH (...) is not supported")
    if not cursor.accept("AS") or not cursor.peek():
        raise cursor.fail()
    query, check = _query(cursor)
    if check:
        options.append(check)
    if "RECURSIVE" in options:
        query = _recursive(name[1], columns, query)
    return ObjectCommand(
        "CREATE VIEW", options=tuple(options), names=(name,), columns=tuple(columns), query=query
    )


def _recursive(name: str, columns: list[str], query: Statement) -> Statement:
    """What CREATE RECURSIVE VIEW is short for: the query of WITH RECURSIVE that bears the view's name."""
    listed = ", ".join(map(quote_ident, columns))
    called = quote_ident(name)
    before = f"WITH RECURSIVE {called} ({listed}) AS ("
    text = f"{before}{query.text}) SELECT {listed} FROM {called}"
    return Statement(text, text, query.offset - len(before), "WITH")


_CHECK_OPTION = re.compile(r"\bWITH\s+(?:(CASCADED|LOCAL)\s+)?CHECK\s+OPTION\s*\Z", re.IGNORECASE)


def _query(cursor: TokenCursor) -> tuple[Statement, str]:
    """The rest of the statement, and what WITH CHECK OPTION at its end says."""
    token = cursor.tokens[cursor.at]
    outer = cursor.statement
    start = token.end() - len(token.group().lstrip())
    text = outer.clean[start:]
    match = _CHECK_OPTION.search(text)
    check = ""
    if match is not None:
        text, check = text[: match.start()], f"CHECK {(match[1] or 'CASCADED').upper()}"
    word = re.match(r"\w+|.", text)
    assert word is not None
    return Statement(text, text, outer.position(start) - 1, word.group().upper()), check


def _drop(cursor: TokenCursor, kind: str) -> ObjectCommand:
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    names = cursor.qualified_names()
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return ObjectCommand(f"DROP {kind}", options=tuple(options), names=names)


def _alter(cursor: TokenCursor, kind: str) -> ObjectCommand:
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    names = (cursor.qualified_name(),)
    command = f"ALTER {kind}"
    if cursor.accept("RENAME", "TO"):
        return ObjectCommand(command, options=options, names=names, action="RENAME", words=(cursor.name(),))
    if cursor.accept("OWNER", "TO"):
        return ObjectCommand(command, options=options, names=names, action="OWNER", words=(cursor.name(),))
    if kind != "SCHEMA" and cursor.accept("SET", "SCHEMA"):
        return ObjectCommand(
            command, options=options, names=names, action="SET SCHEMA", words=(cursor.name(),)
        )
    if kind == "VIEW" and cursor.accept("RENAME"):
        cursor.accept("COLUMN")
        before = cursor.name()
        if not cursor.accept("TO"):
            raise cursor.fail()
        words = (before, cursor.name())
        return ObjectCommand(command, options=options, names=names, action="RENAME COLUMN", words=words)
    if kind == "SEQUENCE" and cursor.peek():
        settings = sequence_options(cursor)
        return ObjectCommand(command, options=options, names=names, action="OPTIONS", settings=settings)
    if kind == "VIEW" and cursor.peek() in {"ALTER", "SET", "RESET"}:
        raise SqlError("0A000", f"ALTER VIEW ... {cursor.peek()} is not supported")
    raise cursor.fail()


def _comment(cursor: TokenCursor) -> ObjectCommand:
    """COMMENT ON kind name IS 'text' | NULL."""
    if not cursor.accept("ON"):
        raise cursor.fail()
    kind = next((one for one in _COMMENTED if cursor.accept(one)), None)
    if kind is None:
        kind = object_kind(cursor.statement.clean[cursor.tokens[cursor.at - 1].end() :])
        if kind is None:
            raise cursor.fail()
        raise SqlError("0A000", f"COMMENT ON {kind} is not supported")
    words = [cursor.name()]
    while cursor.accept("."):
        words.append(cursor.name())
    names: tuple[QualifiedName, ...] = ()
    if kind == "CONSTRAINT":
        if not cursor.accept("ON"):
            raise cursor.fail()
        names = (cursor.qualified_name(),)
    if not cursor.accept("IS"):
        raise cursor.fail()
    text = None if cursor.accept("NULL") else cursor.string()
    return ObjectCommand("COMMENT", names=names, action=kind, words=tuple(words), text=text)


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
        command = _create_type(cursor)
    elif keyword == "ALTER":
        command = _alter_type(cursor)
    else:
        command = _drop_type(cursor)
    cursor.done()
    return command


def _create_type(cursor: TokenCursor) -> TypeCommand:
    name = cursor.qualified_name()
    if not cursor.accept("AS", "ENUM"):
        raise _other_type(cursor)
    if not cursor.accept("("):
        raise cursor.fail()
    labels: list[str] = []
    while not cursor.accept(")"):
        if labels and not cursor.accept(","):
            raise cursor.fail()
        labels.append(cursor.string())
    return TypeCommand("CREATE TYPE", names=(name,), labels=tuple(labels))


def _other_type(cursor: TokenCursor) -> SqlError:
    """0A000 for the kinds of types that PostgreSQL has beside enums, else the syntax error."""
    for words, shown in (
        (("AS", "RANGE"), "range types (CREATE TYPE ... AS RANGE)"),
        (("AS", "("), "composite types (CREATE TYPE ... AS (...))"),
        (("(",), "base types (CREATE TYPE ... (...))"),
    ):
        if cursor.accept(*words):
            return SqlError("0A000", f"{shown} is not supported")
    return cursor.fail() if cursor.peek() else SqlError("0A000", "shell types (CREATE TYPE) is not supported")


def _alter_type(cursor: TokenCursor) -> TypeCommand:
    names = (cursor.qualified_name(),)
    if cursor.accept("ADD", "VALUE"):
        options = ("IF NOT EXISTS",) if cursor.accept("IF", "NOT", "EXISTS") else ()
        label, place, neighbour = cursor.string(), cursor.peek(), ""
        if place in {"BEFORE", "AFTER"}:
            cursor.at += 1
            neighbour = cursor.string()
        else:
            place = ""
        return TypeCommand(
            "ALTER TYPE", "", None, options, None, names, (), "ADD VALUE", (label,), place, neighbour
        )
    if cursor.accept("RENAME", "VALUE"):
        old = cursor.string()
        if not cursor.accept("TO"):
            raise cursor.fail()
        return TypeCommand("ALTER TYPE", names=names, action="RENAME VALUE", labels=(old, cursor.string()))
    for words, action in (
        (("RENAME", "TO"), "RENAME"),
        (("SET", "SCHEMA"), "SET SCHEMA"),
        (("OWNER", "TO"), "OWNER"),
    ):
        if cursor.accept(*words):
            return TypeCommand("ALTER TYPE", names=names, action=action, labels=(cursor.name(),))
    raise cursor.fail()


def _drop_type(cursor: TokenCursor) -> TypeCommand:
    options = ["IF EXISTS"] if cursor.accept("IF", "EXISTS") else []
    names = cursor.qualified_names()
    if cursor.accept("CASCADE"):
        options.append("CASCADE")
    else:
        cursor.accept("RESTRICT")
    return TypeCommand("DROP TYPE", options=tuple(options), names=names)


TABLESPACE_COMMANDS = re.compile(r"(?:CREATE|ALTER|DROP|CHECK)\s+TABLESPACE\b", re.IGNORECASE)
"""What :func:`parse_tablespace_command` knows begins so."""

Value = str | int | float | bool | tuple[str, ...] | None


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
    command = {
        "CREATE": _create_tablespace,
        "ALTER": _alter_tablespace,
        "DROP": _drop_tablespace,
        "CHECK": _check,
    }[statement.keyword](cursor)
    cursor.done()
    return command


def _create_tablespace(cursor: TokenCursor) -> TablespaceCommand:
    options = ("IF NOT EXISTS",) if cursor.accept("IF", "NOT", "EXISTS") else ()
    name = cursor.name()
    if cursor.peek() in {"OWNER", "LOCATION"}:
        raise SqlError(
            "0A000",
            f"CREATE TABLESPACE ... {cursor.peek()} is not supported",
            hint="A tablespace is stored in its nodes' data directories: CREATE TABLESPACE name WITH (...).",
            position=cursor.position(),
        )
    changes = _tablespace_options(cursor) if cursor.accept("WITH") else ()
    return TablespaceCommand("CREATE TABLESPACE", options=options, tablespace=name, changes=changes)


def _alter_tablespace(cursor: TokenCursor) -> TablespaceCommand:
    name = cursor.name()
    if cursor.accept("SET"):
        changes = _tablespace_options(cursor)
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


def _drop_tablespace(cursor: TokenCursor) -> TablespaceCommand:
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


def _tablespace_options(cursor: TokenCursor) -> tuple[tuple[str, Value], ...]:
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
    try:
        return options.boolean(text)
    except ValueError:
        raise ValueError("Expected on or off.") from None


def _size(text: str) -> int:
    with contextlib.suppress(ValueError):
        if "_" not in text:
            return options.size_bytes(text, options.POSTGRES_SIZES)
    raise ValueError("Expected bytes, or a size such as '256MB' (kB, MB, GB, TB).")


def _duration(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = options.microseconds(text.lower(), "s") / 1e6
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


_CREATED: dict[str, Callable[[TokenCursor, list[str]], ObjectCommand]] = {
    "SEQUENCE": _create_sequence,
    "SCHEMA": _create_schema,
    "VIEW": _create_view,
    "EXTENSION": _create_extension,
}
