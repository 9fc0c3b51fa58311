"""ALTER TABLE and INDEX, REINDEX, CLUSTER, VACUUM and ANALYZE: fixed words, read with a token cursor.

Of ALTER TABLE what sqlglot reads well (a column's definition, a constraint, an expression) is cut out as
text up to the comma that ends the action, and parsed when the action is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.command_tags import command_tag
from herdpy_sql.parse.commands import AlterAction, Command
from herdpy_sql.parse.partition_clauses import pass_bound

if TYPE_CHECKING:
    from herdpy_sql.parse.lexer import TokenCursor


MAINTENANCE = frozenset({"ALTER", "REINDEX", "CLUSTER", "VACUUM", "ANALYZE", "ANALYSE"})
"""The first words that :func:`parse_maintenance` knows."""

_VACUUM_WORDS = frozenset({"FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"})
_MAX_PARALLEL = 1024
_REINDEX_OPTIONS = frozenset({"VERBOSE", "CONCURRENTLY", "TABLESPACE"})
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


def _vacuum(cursor: TokenCursor, keyword: str) -> Command:
    name = "VACUUM" if keyword == "VACUUM" else "ANALYZE"
    options = [word for word, given in _options(cursor, name, _VACUUM_OPTIONS).items() if given]
    while (cursor.peek() in _VACUUM_WORDS and name == "VACUUM") or cursor.peek() == "VERBOSE":
        options.append(cursor.name().upper())
    names: list[tuple[str | None, str]] = []
    columns: list[tuple[str, ...]] = []
    if cursor.peek():
        while True:
            names.append(cursor.qualified_name())
            columns.append(tuple(_columns(cursor)) if cursor.accept("(") else ())
            if not cursor.accept(","):
                break
    return Command(name, options=tuple(options), names=tuple(names), listed_columns=tuple(columns))


def _options(cursor: TokenCursor, statement: str, known: frozenset[str]) -> dict[str, bool]:
    """What stands in parentheses before the names: each option, and whether it is switched on."""
    found: dict[str, bool] = {}
    if not cursor.accept("("):
        return found
    while True:
        word = cursor.name().upper()
        if word not in known:
            raise SqlError("42601", f'unrecognized {statement} option "{word.lower()}"')
        value = cursor.value().upper() if cursor.peek() not in {",", ")"} else ""
        found[word] = _is_on(word, value)
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        raise cursor.fail()
    return found


def _is_on(word: str, value: str) -> bool:
    """Whether an option's value switches it on. SqlError 42601."""
    if word == "PARALLEL":
        if not value.isdigit() or int(value) > _MAX_PARALLEL:
            limits = f"between 0 and {_MAX_PARALLEL}"
            raise SqlError("42601", f"parallel workers for vacuum must be {limits}")
        return True
    if word == "TABLESPACE" or (word == "INDEX_CLEANUP" and value == "AUTO"):
        return True
    if value in {"", "TRUE", "ON", "1"}:
        return True
    if value in {"FALSE", "OFF", "0"}:
        return False
    raise SqlError("42601", f"{word.lower()} requires a Boolean value")


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
        tag = command_tag(cursor.statement.clean)
        raise cursor.fail() if tag is None else _unsupported(cursor, tag)
    options: tuple[str, ...] = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    if cursor.accept("ONLY"):
        options += ("ONLY",)
    table = cursor.qualified_name()
    cursor.accept("*")
    return Command("ALTER TABLE", options=options, names=(table,), actions=_actions(cursor))


def _alter_index(cursor: TokenCursor) -> Command:
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    index = cursor.qualified_name()
    if cursor.accept("RENAME", "TO"):
        return Command("ALTER INDEX", cursor.name(), options=options, names=(index,))
    if cursor.accept("SET", "(") or cursor.accept("RESET", "("):
        actions = (_storage_action(cursor),)
        return Command("ALTER INDEX", options=options, names=(index,), actions=actions)
    raise _other_action(cursor, "ALTER INDEX", _OTHER_INDEX_ACTIONS)


def _reindex(cursor: TokenCursor) -> Command:
    """REINDEX [(options)] {INDEX | TABLE | SCHEMA | DATABASE | SYSTEM} [CONCURRENTLY] name."""
    if "TABLESPACE" in _options(cursor, "REINDEX", _REINDEX_OPTIONS):
        raise _unsupported(cursor, "REINDEX (TABLESPACE ...)")
    for kind in ("INDEX", "TABLE", "SCHEMA", "DATABASE", "SYSTEM"):
        if cursor.accept(kind):
            cursor.accept("CONCURRENTLY")
            names = (cursor.qualified_name(),) if cursor.peek() else ()
            if not names and kind in {"INDEX", "TABLE", "SCHEMA"}:
                raise cursor.fail()
            return Command("REINDEX", kind, names=names)
    raise cursor.fail()


def _cluster(cursor: TokenCursor) -> Command:
    """CLUSTER [VERBOSE] [table [USING index]]: the names are the table's and the index's."""
    cursor.accept("VERBOSE")
    if not cursor.peek():
        return Command("CLUSTER")
    names = [cursor.qualified_name()]
    if cursor.accept("USING"):
        names.append((names[0][0], cursor.name()))
    return Command("CLUSTER", names=tuple(names))


_STATEMENTS = {"ALTER": _alter, "REINDEX": _reindex, "CLUSTER": _cluster}


def _unsupported(cursor: TokenCursor, what: str) -> SqlError:
    return SqlError("0A000", f"{what.strip()} is not supported", position=cursor.statement.offset + 1)


_OTHER_INDEX_ACTIONS = (
    "SET TABLESPACE", "ATTACH PARTITION", "DEPENDS ON EXTENSION", "NO DEPENDS ON EXTENSION",
    "ALTER COLUMN", "ALTER",
)  # fmt: skip
_OTHER_TABLE_ACTIONS = (
    "ENABLE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY", "FORCE ROW LEVEL SECURITY",
    "NO FORCE ROW LEVEL SECURITY", "ENABLE TRIGGER", "DISABLE TRIGGER", "ENABLE REPLICA TRIGGER",
    "ENABLE ALWAYS TRIGGER", "ENABLE RULE", "DISABLE RULE", "ENABLE REPLICA RULE", "ENABLE ALWAYS RULE",
    "SET TABLESPACE", "SET ACCESS METHOD", "IN TABLESPACE", "INHERIT", "NO INHERIT", "NOT OF", "OF",
    "OPTIONS",
)  # fmt: skip
"""What PostgreSQL has beside the actions that are read."""


def _other_action(cursor: TokenCursor, command: str, others: tuple[str, ...]) -> SqlError:
    """0A000 for an action that PostgreSQL has, else the syntax error."""
    for words in others:
        mark = cursor.at
        if cursor.accept(*words.split()):
            cursor.at = mark
            return _unsupported(cursor, f"{command} ... {words}")
    return cursor.fail()


_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"})


def _actions(cursor: TokenCursor) -> tuple[AlterAction, ...]:
    """The actions after the table's name. SqlError 42601, 0A000."""
    if cursor.accept("RENAME"):
        return (_rename_action(cursor),)
    if cursor.accept("SET", "SCHEMA"):
        return (AlterAction("SET SCHEMA", cursor.name()),)
    if cursor.accept("ATTACH", "PARTITION"):
        schema, name = cursor.qualified_name()
        start = cursor.at
        pass_bound(cursor)
        bound = _between(cursor, start, cursor.at)
        return (AlterAction("ATTACH PARTITION", name, bound, schema or ""),)
    if cursor.accept("DETACH", "PARTITION"):
        schema, name = cursor.qualified_name()
        options = {word for word in ("CONCURRENTLY", "FINALIZE") if cursor.accept(word)}
        return (AlterAction("DETACH PARTITION", name, using=schema or "", options=frozenset(options)),)
    found = [_action(cursor)]
    while cursor.accept(","):
        found.append(_action(cursor))
    return tuple(found)


def _rename_action(cursor: TokenCursor) -> AlterAction:
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
    raise _other_action(cursor, "ALTER TABLE", _OTHER_TABLE_ACTIONS)


def _add_action(cursor: TokenCursor) -> AlterAction:
    if cursor.peek() in _CONSTRAINTS:
        label = cursor.name() if cursor.accept("CONSTRAINT") else ""
        if cursor.peek() not in _CONSTRAINTS:
            raise cursor.fail()
        return AlterAction("ADD CONSTRAINT", label, _text_to_comma(cursor))
    cursor.accept("COLUMN")
    options = {"IF NOT EXISTS"} if cursor.accept("IF", "NOT", "EXISTS") else set()
    mark = cursor.at
    name = cursor.name()
    cursor.at = mark
    return AlterAction("ADD COLUMN", name, _text_to_comma(cursor), options=frozenset(options))


def _drop_action(cursor: TokenCursor) -> AlterAction:
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


def _alter_action(cursor: TokenCursor) -> AlterAction:
    if cursor.accept("CONSTRAINT"):
        return AlterAction("ALTER CONSTRAINT", cursor.name(), _text_to_comma(cursor))
    cursor.accept("COLUMN")
    name = cursor.name()
    if cursor.accept("SET", "DATA", "TYPE") or cursor.accept("TYPE"):
        kind = _text_to_comma(cursor, "USING")
        using = _text_to_comma(cursor) if cursor.accept("USING") else ""
        return AlterAction("ALTER TYPE", name, kind, using)
    if cursor.accept("SET", "DEFAULT"):
        return AlterAction("SET DEFAULT", name, _text_to_comma(cursor))
    for kind in ("DROP DEFAULT", "SET NOT NULL", "DROP NOT NULL"):
        if cursor.accept(*kind.split()):
            return AlterAction(kind, name)
    for kind in ("DROP EXPRESSION", "DROP IDENTITY"):
        if cursor.accept(*kind.split()):
            options = {"IF EXISTS"} if cursor.accept("IF", "EXISTS") else set()
            return AlterAction(kind, name, options=frozenset(options))
    if cursor.accept("SET", "STATISTICS"):
        cursor.accept("-")
        if not cursor.peek().isdigit():
            raise cursor.fail()
        cursor.value()
        return AlterAction("STORAGE", name)
    for word, known in _COLUMN_STORAGE.items():
        if cursor.accept("SET", word):
            value = cursor.value().lower()
            if value not in known:
                raise SqlError("22023", f'invalid {word.lower()} {_STORAGE_NOUNS[word]} "{value}"')
            return AlterAction("STORAGE", name)
    if cursor.accept("SET", "(") or cursor.accept("RESET", "("):
        return _storage_action(cursor)
    for words in (("ADD", "GENERATED"), ("SET", "GENERATED"), ("RESTART",), ("SET",)):
        if cursor.accept(*words):
            cursor.at -= len(words)
            return AlterAction("ALTER IDENTITY", name, _text_to_comma(cursor))
    raise cursor.fail()


_COLUMN_STORAGE = {
    "STORAGE": frozenset({"plain", "external", "extended", "main"}),
    "COMPRESSION": frozenset({"pglz", "lz4", "default"}),
}
_STORAGE_NOUNS = {"STORAGE": "type", "COMPRESSION": "method"}


def _storage_action(cursor: TokenCursor) -> AlterAction:
    """What stands in the parentheses after SET or RESET: known parameters without a meaning here."""
    start = cursor.at
    while cursor.peek() not in {")", ""}:
        cursor.at += 1
    text = _between(cursor, start, cursor.at)
    if not cursor.accept(")"):
        raise cursor.fail()
    return AlterAction("STORAGE", text=text)


def _no_action(cursor: TokenCursor) -> AlterAction:
    return AlterAction("STORAGE")


def _cluster_action(cursor: TokenCursor) -> AlterAction:
    return AlterAction("CLUSTER ON", cursor.name())


def _owner_action(cursor: TokenCursor) -> AlterAction:
    return AlterAction("OWNER TO", cursor.name())


def _validate_action(cursor: TokenCursor) -> AlterAction:
    return AlterAction("VALIDATE CONSTRAINT", cursor.name())


def _identity_action(cursor: TokenCursor) -> AlterAction:
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
    (("ADD",), _add_action),
    (("DROP",), _drop_action),
    (("ALTER",), _alter_action),
    (("VALIDATE", "CONSTRAINT"), _validate_action),
    (("OWNER", "TO"), _owner_action),
    (("REPLICA", "IDENTITY"), _identity_action),
    (("SET", "("), _storage_action),
    (("RESET", "("), _storage_action),
    (("SET", "LOGGED"), _no_action),
    (("SET", "UNLOGGED"), _no_action),
    (("SET", "WITHOUT", "CLUSTER"), _no_action),
    (("SET", "WITHOUT", "OIDS"), _no_action),
    (("CLUSTER", "ON"), _cluster_action),
)


def _text_to_comma(cursor: TokenCursor, *words: str) -> str:
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
