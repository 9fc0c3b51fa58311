"""PostgreSQL's types as pg_type shows them, their names for people, and what a name means."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from herdpy_sql.system_relations import words_of_lines

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
    if oid in _PRECISIONS:
        first, _, rest = shown.partition(" ")
        return f"{first}({modifier}) {rest}".rstrip()
    return shown
