"""Names as texts have them ('Foo', '"Foo".bar', 'int[]'), and the object ids that they mean.

They are read as PostgreSQL's regclass and its relatives do. ``resolved`` is asked by queries over the
catalog while DuckDB runs them, through ``asked``. pg_proc has none of the system's functions: their names
stand for their ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.catalog import is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.aggregates import AGGREGATES
from herdpy_sql.expr.syntax import WINDOW_CLASSES
from herdpy_sql.library import ROUTINES, Routine
from herdpy_sql.library.catalog_functions import ACTIONS
from herdpy_sql.programs.routines import candidates, program_of
from herdpy_sql.quoting import RESERVED
from herdpy_sql.system.contents import SCHEMAS, named_relations, user_schemas
from herdpy_sql.system.types import (
    array_oid,
    format_type,
    known_procedures,
    oid_of_name,
    oid_of_words,
    own_types,
)
from herdpy_sql.system_relations import CATALOG, relations
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.system.contents import Context


MAX_NAME = 63
_SPACE = " \t\n\r\f\v"
_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"]|"")*")|(?P<open>".*)|(?P<word>[A-Za-z_\u0080-\U0010ffff][\w$]*)'
    r"|(?P<number>[0-9]+)|(?P<mark>\S))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type's name in pieces.

    Attributes:
        schema: "" for none.
        name: folded; several words with one space between, as "double precision".
        quoted: the name was, so it is no word of SQL's own.
        dimensions: how often ``[]`` follows.
    """

    schema: str
    name: str
    quoted: bool
    dimensions: int


def parts_of(text: str) -> list[str]:
    """The parts of a name with dots between. SqlError 42602."""
    parts: list[str] = []
    rest = text.lstrip(_SPACE)
    while True:
        part, rest = _part(rest)
        parts.append(part)
        rest = rest.lstrip(_SPACE)
        if not rest:
            return parts
        if rest[0] != ".":
            raise _invalid()
        rest = rest[1:].lstrip(_SPACE)


def _part(text: str) -> tuple[str, str]:
    """The first part of a name, and what follows it."""
    if text.startswith('"'):
        found = re.match(r'"((?:[^"]|"")*)"', text)
        if found is None:
            raise _invalid()
        return cut(found[1].replace('""', '"')), text[found.end() :]
    found = re.match(rf"[^.{_SPACE}]+", text)
    if found is None:
        raise _invalid()
    return cut(found[0].lower()), text[found.end() :]


def single_part(text: str) -> str:
    """A name without dots. SqlError 42602."""
    parts = parts_of(text)
    if len(parts) != 1:
        raise _invalid()
    return parts[0]


def cut(name: str) -> str:
    """A name as long as names can be."""
    return name.encode()[:MAX_NAME].decode(errors="ignore")


def _invalid() -> SqlError:
    return SqlError("42602", "invalid name syntax")


def type_text(text: str) -> TypeText:
    """A type's name. SqlError 42601."""
    tokens = list(_tokens(text))
    if not tokens:
        raise SqlError("42601", f'invalid type name "{text}"')
    kind, first = tokens[0]
    if kind not in ("word", "quoted") or (kind == "word" and first.lower() in RESERVED - _TYPE_WORDS):
        raise _misplaced(first)
    names, at = [_folded(kind, first)], 1
    schema, quoted = "", kind == "quoted"
    while at + 1 < len(tokens) and tokens[at][1] == ".":
        kind, word = tokens[at + 1]
        if kind not in ("word", "quoted"):
            raise _misplaced(word)
        schema, quoted = names[0], True
        names, at = [_folded(kind, word)], at + 2
    dimensions = 0
    while at < len(tokens):
        kind, word = tokens[at]
        if kind == "word" and not quoted and not dimensions and word.lower() in _LATER_WORDS:
            names.append(word.lower())
        elif word == "(" and not dimensions:
            at = _closing(tokens, at, ")")
        elif word == "[":
            at = _closing(tokens, at, "]")
            dimensions += 1
        elif kind == "word" and word.lower() == "array":
            dimensions += 1
        else:
            raise _misplaced(word)
        at += 1
    return TypeText(schema, " ".join(names), quoted, dimensions)


_TYPE_WORDS = frozenset(
    {
        "bigint", "bit", "boolean", "char", "character", "dec", "decimal", "float", "int", "integer",
        "interval", "national", "nchar", "numeric", "real", "smallint", "time", "timestamp", "varchar",
    }
)  # fmt: skip
"""Key words that types are called by."""
_LATER_WORDS = frozenset({"precision", "varying", "with", "without", "time", "zone", "character", "char"})
"""Words that go on with a type's name of several words."""


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    for match in _TOKEN.finditer(text.rstrip(_SPACE)):
        kind = str(match.lastgroup)
        if kind == "open":
            raise SqlError("42601", f'unterminated quoted identifier at or near "{match[kind]}"')
        found.append((kind, match[kind]))
    return found


def _folded(kind: str, word: str) -> str:
    return cut(word[1:-1].replace('""', '"') if kind == "quoted" else word.lower())


def _closing(tokens: list[tuple[str, str]], at: int, mark: str) -> int:
    """Where the parenthesis closes that opens at ``at``: numbers are within it, or nothing is."""
    at += 1
    while at < len(tokens) and tokens[at][1] != mark:
        if tokens[at][0] != "number" and tokens[at][1] not in ",-":
            raise _misplaced(tokens[at][1])
        at += 1
    if at == len(tokens):
        raise SqlError("42601", "syntax error at end of input")
    return at


def _misplaced(word: str) -> SqlError:
    return SqlError("42601", f'syntax error at or near "{word}"')


def arguments_of(text: str) -> tuple[str, list[str]]:
    """The name of ``name(type, ...)``, and the texts of its types. SqlError 22P02."""
    quoted, opening = False, -1
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif letter == "(" and not quoted:
            opening = at
            break
    if opening < 0:
        raise SqlError("22P02", "expected a left parenthesis")
    inner = text[opening + 1 :].rstrip(_SPACE)
    if not inner.endswith(")"):
        raise SqlError("22P02", "expected a right parenthesis")
    inner = inner[:-1]
    if not inner.strip(_SPACE):
        return text[:opening], []
    found, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(inner):
        if letter == '"':
            quoted = not quoted
        elif letter in "([" and not quoted:
            depth += 1
        elif letter in ")]" and not quoted:
            depth -= 1
        elif letter == "," and not quoted and not depth:
            found.append(inner[start:at])
            start = at + 1
    found.append(inner[start:])
    if any(not one.strip(_SPACE) for one in found):
        raise SqlError("22P02", "expected a type name")
    return text[:opening], found


_RELATIONS = "names of relations"
_OWN_TYPES = "names of types"


def resolved(context: Context, kind: str, text: str, *, strict: bool) -> int | None:
    """The id of what a text names.

    Args:
        kind: "class", "type", "namespace", "role".
        strict: as a cast does it: numbers are ids, and what is not there is an error. Otherwise as to_reg...
            do it: None.

    Raises:
        SqlError: 42602, 42601 for what is no name; strictly 42P01, 42704, 3F000 for what is not there.
    """
    if strict and text == "-" and kind != "role":
        return 0
    if strict and text.isascii() and text.isdigit():
        return int(text)
    try:
        return _KINDS[kind](context, text)
    except AbsentError as error:
        if strict:
            raise SqlError(error.sqlstate, error.message) from None
        return None


class AbsentError(SqlError):
    """There is nothing of that name."""


def relation_oid(context: Context, text: str) -> int:
    """Of a table, view, index or sequence. AbsentError 42P01, 3F000; SqlError 42602, 42601, 0A000."""
    parts = parts_of(text)
    schema, name = qualified(context, parts, "relation", cross=".".join(parts))
    found = relation_named(context.catalog, schema, name)
    if found is None:
        if schema is not None:
            check_schema(context.catalog, schema)
        shown = name if schema is None else f"{schema}.{name}"
        raise AbsentError("42P01", f'relation "{shown}" does not exist')
    return found


def relation_named(catalog: Catalog, schema: str | None, name: str) -> int | None:
    """The id of a relation: in ``schema``, or the first along the path, which begins with the system's."""
    named = relations_named(catalog)
    for one in _places(catalog, schema):
        found = named.get((one, name))
        if found is not None:
            return found
        system = relations().get((one, name))
        if system is not None:
            return system.oid
    return None


def relations_named(catalog: Catalog) -> Mapping[tuple[str, str], int]:
    """Ids of users' relations by schema and name."""
    found = catalog.derived.get(_RELATIONS)
    if found is None:
        found = {(schema, name): oid for schema, name, oid in named_relations(catalog)}
        catalog.derived[_RELATIONS] = found
    assert isinstance(found, dict)
    return found


def _places(catalog: Catalog, schema: str | None) -> list[str]:
    if schema is not None:
        return list(filter(is_temporary, catalog.path)) if schema == "pg_temp" else [schema]
    own = filter(is_temporary, catalog.path)
    return [*own, *(() if CATALOG in catalog.path else (CATALOG,)), *catalog.path]


def check_schema(catalog: Catalog, schema: str) -> None:
    if schema not in SCHEMAS and not catalog.has_schema(schema):
        raise AbsentError("3F000", f'schema "{schema}" does not exist')
    if schema == "public" and not catalog.has_schema(schema):
        raise AbsentError("3F000", f'schema "{schema}" does not exist')


def qualified(context: Context, parts: list[str], what: str, *, cross: str) -> tuple[str | None, str]:
    """(schema or None, name) of up to three parts, of which the first must be this database."""
    if len(parts) > 3:
        message = f"improper {what} name (too many dotted names): {'.'.join(parts)}"
        raise SqlError("42601", message)
    if len(parts) == 3 and parts[0] != context.state.database:
        shown = f'"{cross}"' if what == "relation" else cross
        raise SqlError("0A000", f"cross-database references are not implemented: {shown}")
    return (None if len(parts) == 1 else parts[-2]), parts[-1]


def type_oid(context: Context, text: str) -> int:
    """Of a type, or of an array of it. AbsentError 42704, 3F000; SqlError 42601."""
    wanted = type_text(text)
    found = _plain_type(context.catalog, wanted)
    if found is not None and wanted.dimensions:
        found = array_oid(found) or _own_types(context.catalog).arrays.get(found)
    if found is None:
        if wanted.schema:
            check_schema(context.catalog, wanted.schema)
        shown = f"{wanted.schema}.{wanted.name}" if wanted.schema else wanted.name
        raise AbsentError("42704", f'type "{shown}{"[]" * bool(wanted.dimensions)}" does not exist')
    return found


class _OwnTypes:
    """Types that are not PostgreSQL's own, by schema and name; and their arrays by their ids."""

    def __init__(self, catalog: Catalog) -> None:
        self.named: dict[tuple[str, str], int] = {}
        self.arrays: dict[int, int] = {}
        for row in own_types(catalog):
            self.named[row["schema"], row["typname"]] = row["oid"]
            if row["typarray"]:
                self.arrays[row["oid"]] = row["typarray"]


def _own_types(catalog: Catalog) -> _OwnTypes:
    found = catalog.derived.get(_OWN_TYPES)
    if found is None:
        found = catalog.derived[_OWN_TYPES] = _OwnTypes(catalog)
    assert isinstance(found, _OwnTypes)
    return found


def _plain_type(catalog: Catalog, wanted: TypeText) -> int | None:
    if not wanted.schema and not wanted.quoted:
        words = oid_of_words(wanted.name)
        if words is not None:
            return words
    named: Mapping[tuple[str, str], int] = _own_types(catalog).named
    for schema in _places(catalog, wanted.schema or None):
        found = oid_of_name(wanted.name) if schema == CATALOG else None
        if found is None:
            found = named.get((schema, wanted.name))
        if found is not None:
            return found
    return None


def schema_oid(context: Context, text: str) -> int:
    """Of a schema. AbsentError 3F000; SqlError 42602."""
    name = single_part(text)
    found = {**SCHEMAS, **user_schemas(context.catalog)}.get(name)
    if found is None or (name == "public" and not context.catalog.has_schema(name)):
        raise AbsentError("3F000", f'schema "{name}" does not exist')
    return found


def role_oid(context: Context, text: str) -> int:
    """Of a role. AbsentError 42704; SqlError 42602."""
    name = single_part(text)
    found = context.role_oids().get(name)
    if found is None:
        raise AbsentError("42704", f'role "{name}" does not exist')
    return found


_KINDS = {"class": relation_oid, "type": type_oid, "namespace": schema_oid, "role": role_oid}


def program(context: Context, text: str, *, arguments: bool) -> CatalogObject | None:
    """The function of the catalog that a text names; None where it names none, or one of the system's.

    SqlError 42725 where it names several; and as :func:`procedure` for the types of ``arguments``.
    """
    name, types = arguments_of(text) if arguments else (text, [])
    parts = parts_of(name)
    schema = parts[-2] if len(parts) > 1 else None
    found = candidates(context.catalog, schema, parts[-1])
    if not found:
        return None
    if not arguments:
        if len(found) > 1:
            raise SqlError("42725", f'more than one function named "{text}"')
        return found[0]
    try:
        oids = [type_oid(context, one) for one in types]
    except AbsentError:
        return None
    for one in found:
        if [arg.type.oid for arg in program_of(one, context.catalog).inputs] == oids:
            return one
    return None


def procedure(context: Context, text: str, *, strict: bool, arguments: bool = False) -> str | None:
    """A function as regproc and regprocedure show it.

    Args:
        strict: as a cast does it: numbers are ids, and what is not there is an error. Otherwise NULL.
        arguments: the text has their types.

    Raises:
        SqlError: 42602, 42601, 22P02, 42704 for what is no name; strictly 42883, 42725, 3F000 as well.
    """
    if strict and text.isascii() and text.isdigit():
        return "-" if text == "0" else text
    if strict and text == "-":
        return text
    name, types = arguments_of(text) if arguments else (text, [])
    try:
        oids = [type_oid(context, one) for one in types]
    except AbsentError as error:  # which to_regprocedure tells, too
        raise SqlError(error.sqlstate, error.message) from None
    try:
        found = _name(context, text, name, oids if arguments else None)
    except AbsentError as error:
        if strict:
            raise SqlError(error.sqlstate, error.message) from None
        return None
    return f"{found}({','.join(str(format_type(oid, -1)) for oid in oids)})" if arguments else found


def _name(context: Context, text: str, name: str, oids: list[int] | None) -> str:
    parts = parts_of(name)
    schema, found = qualified(context, parts, "qualified", cross=".".join(parts))
    if schema is not None:
        check_schema(context.catalog, schema)
    count = _count(found, oids) if schema in (None, CATALOG) else 0
    if not count:
        raise AbsentError("42883", f'function "{text}" does not exist')
    if count > 1 and oids is None:
        raise AbsentError("42725", f'more than one function named "{text}"')
    return found


def _count(name: str, oids: list[int] | None) -> int:
    """How many functions there are of a name, for arguments of these types; of some the name is enough."""
    if name in ROUTINES:
        return sum(oids is None or _takes(one, oids) for one in ROUTINES[name])
    return int(name in known_procedures() or name in _OTHERS)


def _takes(one: Routine, oids: list[int]) -> bool:
    """Whether it may have arguments of these types: of polymorphic ones only their number is known."""
    args = one.args[1:] if one.name in ACTIONS else one.args  # whose number the query gives them
    if len(oids) != len(args):
        return one.rest is not None and len(oids) > len(args)
    return all(not isinstance(arg, SqlType) or arg.oid == oid for arg, oid in zip(args, oids, strict=True))


_OTHERS = frozenset({
    "now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", "coalesce", "nullif", "trim",
    "concat", "concat_ws", "greatest", "least", *AGGREGATES, *WINDOW_CLASSES.values(),
})  # fmt: skip
"""Functions that are not in the library."""
