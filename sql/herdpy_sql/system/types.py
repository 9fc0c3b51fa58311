"""PostgreSQL's types as pg_type shows them, their names for people, and what a name means.

First the types that are PostgreSQL's own; then those of a catalog, ENUMs and VECTOR; then the rows of
pg_type, pg_enum, and of pg_am, pg_collation, pg_extension and pg_language, which never change.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from herdpy_sql import types as t
from herdpy_sql.catalog import PUBLIC
from herdpy_sql.objects import EnumDefinition
from herdpy_sql.plan.extensions import BUILT_IN
from herdpy_sql.plan.type_names import type_along
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system.contents import (
    C_COLLATION,
    DEFAULT_COLLATION,
    OWNER_OID,
    PG_CATALOG_OID,
    Context,
    Rows,
    always_in,
    of_catalog,
    rows_of,
    schema_oid,
)
from herdpy_sql.system_relations import words_of_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Catalog


_COLUMNS = [
    "oid",
    "typname",
    "typlen",
    "typbyval",
    "typtype",
    "typcategory",
    "typispreferred",
    "typelem",
    "typarray",
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typalign",
    "typstorage",
    "typcollation",
    "typsubscript",
]
_NUMBERS = frozenset({"oid", "typlen", "typelem", "typarray", "typcollation"})
_FLAGS = frozenset({"typbyval", "typispreferred"})
_ALIASES = {
    "int": "int4",
    "decimal": "numeric",
    "float": "float8",
    "char": "bpchar",
    "dec": "numeric",
    "nchar": "bpchar",
    "national char": "bpchar",
    "national character": "bpchar",
    "national char varying": "varchar",
    "national character varying": "varchar",
    "char varying": "varchar",
    "timestamp with time zone": "timestamptz",
    "time with time zone": "timetz",
}
_NUMERIC = 1700
_LENGTHS = frozenset({1042, 1043})
_BIT_LENGTHS = {t.BIT.oid, t.VARBIT.oid}
_PRECISIONS = frozenset({1083, 1114, 1184, 1266})


@functools.lru_cache(maxsize=1)
def type_rows() -> tuple[Mapping[str, Any], ...]:
    """A row of pg_type for each type, with ``shown``: format_type's name."""
    rows = []
    for words in words_of_lines("herdpy_sql.system", "types.txt"):
        row: dict[str, Any] = {}
        for name, word in zip(_COLUMNS, words, strict=False):
            row[name] = int(word) if name in _NUMBERS else word == "t" if name in _FLAGS else word
        row["shown"] = " ".join(words[len(_COLUMNS) :])
        rows.append(row)
    return tuple(rows)


@functools.lru_cache(maxsize=1)
def by_oid() -> Mapping[int, Mapping[str, Any]]:
    """Types by object id."""
    return {row["oid"]: row for row in type_rows()}


@functools.lru_cache(maxsize=1)
def known_procedures() -> frozenset[str]:
    """The functions that pg_type names: what a name can be cast to regproc for."""
    keys = ("typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typsubscript")
    return frozenset(str(row[key]) for row in type_rows() for key in keys) - {"-"}


def oid_of_words(words: str) -> int | None:
    """The type that SQL has words for: "integer", "double precision", "timestamp with time zone"."""
    name = _ALIASES.get(words) or _words().get(words)
    return None if name is None else oid_of_name(name)


@functools.lru_cache(maxsize=1)
def _words() -> Mapping[str, str]:
    """Names in pg_type by the names for people that are others, such as "integer"."""
    return {row["shown"]: row["typname"] for row in type_rows() if row["shown"] != row["typname"]}


def oid_of_name(name: str) -> int | None:
    """The type of PostgreSQL's own that pg_type calls so."""
    return _by_typname().get(name)


@functools.lru_cache(maxsize=1)
def _by_typname() -> Mapping[str, int]:
    return {row["typname"]: row["oid"] for row in type_rows()}


def type_oid(shown: str) -> int | None:
    """The object id of one of PostgreSQL's own types as format_type shows it: "integer[]", "bit(3)"."""
    name = re.sub(r"\s*\([^)]*\)", "", shown)
    element = name.removesuffix("[]")
    found = oid_of_words(element) or oid_of_name(element)
    return found if found is None or element == name else array_oid(found)


def array_oid(oid: int) -> int | None:
    """The type of arrays of one of PostgreSQL's own types."""
    row = by_oid().get(oid)
    return None if row is None else int(row["typarray"]) or None


def format_type(oid: int | None, modifier: int | None) -> str | None:
    """A type as it is written in SQL, with its modifier (PostgreSQL's format_type)."""
    if oid is None:
        return None
    row = by_oid().get(oid)
    if row is None:
        return "-" if oid == 0 else "???"
    shown = str(row["shown"])
    if modifier is None or modifier < 0:
        return shown
    if row["typcategory"] == "A":
        inner = format_type(row["typelem"], modifier)
        return f"{inner}[]"
    if oid in _LENGTHS:
        return f"{shown}({modifier - 4})"
    if oid == _NUMERIC:
        scale = (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        return f"{shown}({(modifier - 4) >> 16 & 0xFFFF},{scale})"
    if oid in _BIT_LENGTHS:
        return f"{shown}({modifier})"
    if oid in _PRECISIONS:
        first, _, rest = shown.partition(" ")
        return f"{first}({modifier}) {rest}".rstrip()
    if oid == t.INTERVAL.oid:
        return t.interval_of_typmod(modifier) or shown
    return shown


_SYSTEM = "pg_catalog"


def shown_types(context: Context) -> Iterator[tuple[int, str, bool]]:
    """The same, and whether the name is found without its schema."""
    for row in own_types(context.catalog):
        plain = row["schema"] == _SYSTEM or not row["shown"].startswith(f"{quote_ident(row['schema'])}.")
        yield row["oid"], row["shown"], plain


def type_names(context: Context) -> Iterator[tuple[int, str]]:
    """Object ids and names of the types that are not PostgreSQL's own, of their arrays too."""
    for row in own_types(context.catalog):
        yield row["oid"], row["shown"]


def own_types(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Rows of pg_type, with ``shown`` as of format_type."""
    for one in (t.VECTOR, *(type_along(o, catalog) for o in catalog.objects.values() if o.kind == "enum")):
        array = t.array_of(one)
        kind = "e" if one.enum is not None else "b"
        name = one.name if one.enum is None else one.enum.name
        prefix = "enum" if kind == "e" else "vector"
        yield {
            "oid": one.oid,
            "typname": name,
            "schema": one.enum.schema if one.enum is not None else _SYSTEM,
            "shown": str(one),
            "typlen": 4 if kind == "e" else -1,
            "typbyval": kind == "e",
            "typtype": kind,
            "typcategory": kind.upper() if kind == "e" else "U",
            "typarray": array.oid,
            "typelem": 0,
            "typinput": f"{prefix}_in",
            "typoutput": f"{prefix}_out",
            "typreceive": f"{prefix}_recv",
            "typsend": f"{prefix}_send",
            "typalign": "i",
            "typstorage": "p" if kind == "e" else "x",
            "typsubscript": "-",
        }
        yield {
            "oid": array.oid,
            "typname": f"_{name}",
            "schema": one.enum.schema if one.enum is not None else _SYSTEM,
            "shown": array.name,
            "typlen": -1,
            "typbyval": False,
            "typtype": "b",
            "typcategory": "A",
            "typarray": 0,
            "typelem": one.oid,
            "typinput": "array_in",
            "typoutput": "array_out",
            "typreceive": "array_recv",
            "typsend": "array_send",
            "typalign": "i",
            "typstorage": "x",
            "typsubscript": "array_subscript_handler",
        }


def own_type(catalog: Catalog, shown: str) -> dict[str, Any] | None:
    """The row of the type that a view's definition calls so, with its schema or without."""
    element = shown.removesuffix("[]")
    for row in own_types(catalog):
        name = row["typname"][1:] if row["typelem"] else row["typname"]
        whole = f"{quote_ident(row['schema'])}.{quote_ident(name)}"
        plain = quote_ident(name) if row["schema"] in ("public", _SYSTEM) else whole
        if bool(row["typelem"]) is (element != shown) and element in (whole, plain):
            return row
    return None


def type_rows_of(context: Context) -> Rows:
    """What pg_type has of them."""
    for row in own_types(context.catalog):
        yield {
            **row,
            "typispreferred": False,
            "typmodin": "-",
            "typmodout": "-",
            "typcollation": 0,
            "typnamespace": schema_oid(context.catalog, row["schema"]),
        }


@of_catalog("pg_enum")
@rows_of("pg_catalog", "pg_enum")
def _enums(context: Context) -> Rows:
    for one in context.catalog.objects.values():
        if isinstance(one.definition, EnumDefinition):
            for at, (label, place) in enumerate(one.definition.labels):
                yield {
                    "oid": 1 << 29 | one.id << 10 | at,
                    "enumtypid": one.oid,
                    "enumsortorder": place,
                    "enumlabel": label,
                }


@always_in("pg_type")
def _builtin_types() -> Rows:
    return _whole_types({**one, "typnamespace": PG_CATALOG_OID} for one in type_rows())


@of_catalog("pg_type")
@rows_of("pg_catalog", "pg_type")
def _types(context: Context) -> Rows:
    return _whole_types(type_rows_of(context))


def _whole_types(rows: Rows) -> Rows:
    for row in rows:
        numbers: dict[str, Any] = {"typlen": int(row["typlen"])}
        yield {
            **row,
            **numbers,
            "typowner": OWNER_OID,
            "typisdefined": True,
            "typdelim": ",",
            "typrelid": 0,
            "typanalyze": "-",
            "typnotnull": False,
            "typbasetype": 0,
            "typtypmod": -1,
            "typndims": 0,
        }


@of_catalog("pg_am")
@rows_of("pg_catalog", "pg_am")
def _access_methods(context: Context) -> Rows:
    del context
    yield {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}
    yield {"oid": 403, "amname": "btree", "amhandler": "bthandler", "amtype": "i"}


@of_catalog("pg_collation")
@rows_of("pg_catalog", "pg_collation")
def _collations(context: Context) -> Rows:
    del context
    for oid, name, provider in (
        (DEFAULT_COLLATION, "default", "d"),
        (C_COLLATION, "C", "c"),
        (951, "POSIX", "c"),
    ):
        locale = None if name == "default" else name
        yield {
            "oid": oid, "collname": name, "collnamespace": PG_CATALOG_OID, "collowner": OWNER_OID,
            "collprovider": provider, "collisdeterministic": True, "collencoding": -1,
            "collcollate": locale, "collctype": locale,
        }  # fmt: skip


@of_catalog("pg_extension")
@rows_of("pg_catalog", "pg_extension")
def _extensions(context: Context) -> Rows:
    for number, (name, version) in enumerate(BUILT_IN.items()):
        yield {
            "oid": _FIRST_EXTENSION + number, "extname": name, "extowner": OWNER_OID,
            "extnamespace": schema_oid(context.catalog, PUBLIC), "extrelocatable": True,
            "extversion": version, "extconfig": None, "extcondition": None,
        }  # fmt: skip


_FIRST_EXTENSION = 13_001
"""Object ids below those of users, which nothing else has."""


@of_catalog("pg_language")
@rows_of("pg_catalog", "pg_language")
def _languages(context: Context) -> Rows:
    del context
    for oid, name, is_pl, trusted in (
        (12, "internal", False, False), (14, "sql", False, True), (13_779, "plpgsql", True, True)
    ):  # fmt: skip
        yield {
            "oid": oid, "lanname": name, "lanowner": OWNER_OID, "lanispl": is_pl, "lanpltrusted": trusted,
            "lanplcallfoid": 0, "laninline": 0, "lanvalidator": 0,
        }  # fmt: skip
