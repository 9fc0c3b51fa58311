"""Collations by name: those that sort by code point, as all text does, and those that only queries know."""

from __future__ import annotations

import re
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType

BY_CODE_POINT = frozenset({"C", "POSIX", "UCS_BASIC", "DEFAULT"})
LOCALE = re.compile(r"(und|[a-z]{2,3})(?:[-_]([A-Za-z]{2}))?(?:\.[Uu][Tt][Ff]-?8|-x-icu)?")
_TEXTS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR, Base.UNKNOWN})


def missing_collation(name: str) -> SqlError:
    """42704."""
    return SqlError("42704", f'collation "{name}" for encoding "UTF8" does not exist')


def collation_name(node: Any) -> str:
    """The name that COLLATE gives, without pg_catalog before it."""
    return str(node.name)


def check_stored(node: Any, type_: SqlType) -> None:
    """That a column or an index of this type may have the collation that ``node`` names.

    Raises SqlError 42804 for what is no text, 42704 for a name that no collation has, 0A000 for languages'.
    """
    if type_.base not in _TEXTS and type_.element not in _TEXTS:
        raise SqlError("42804", f"collations are not supported by type {type_.name}")
    name = collation_name(node)
    if name.upper() in BY_CODE_POINT:
        return
    if not LOCALE.fullmatch(name):
        raise missing_collation(name)
    raise SqlError(
        "0A000",
        f'collation "{name}" of columns and indexes is not supported',
        hint="Columns and indexes are sorted by code point. Use COLLATE in queries that sort by a language.",
    )
