"""BOOLEAN: a datum is a ``bool``. Above ``form``, below ``forms``."""

from __future__ import annotations

from functools import cache
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import (
    Array,
    Bytes,
    ColumnForms,
    DuckForms,
    TypeForms,
    always,
    mismatch,
    wrong_length,
)
from herdpy_sql.values.string_columns import made_by_arrow, pa, pc

_BLANKS = " \t\n\r\f\v"
_TRUE_WORDS = ("true", "yes", "on")
_FALSE_WORDS = ("false", "no", "off")


def parse_boolean(text: str) -> bool:
    """Read a BOOLEAN: unique beginnings of its words. SqlError 22P02."""
    word = text.strip(_BLANKS).lower()
    if word:
        if word == "1" or (word != "o" and any(full.startswith(word) for full in _TRUE_WORDS)):
            return True
        if word == "0" or (word != "o" and any(full.startswith(word) for full in _FALSE_WORDS)):
            return False
    raise SqlError("22P02", f'invalid input syntax for type boolean: "{text}"')


def _take(value: object) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return parse_boolean(plain(value))
    if type(value).__name__ in {"bool_", "bool"}:  # numpy's
        return bool(value)
    raise mismatch(value, "boolean")


def _unpack(data: Bytes) -> bool:
    if len(data) != 1:
        raise SqlError("08P01", "no data left in message") if not data else wrong_length(len(data), 1)
    return data[0] != 0


@cache
def _column_words() -> Array:
    """False and true in turn. Not made at import: a list given to pyarrow makes it import pandas."""
    return pa.array(["f", "t", "false", "true", "0", "1", "no", "yes", "off", "on", "n", "y"])


def _read_column(strings: Array, target: Any, *_more: Any) -> Array | None:
    found = pc.index_in(strings, _column_words())
    if found.null_count != strings.null_count:
        return None
    return pc.cast(pc.bit_wise_and(found, 1), target)


_COLUMNS = ColumnForms(
    write=lambda array, *_: pc.if_else(array, "t", "f"),
    read=_read_column,
    pack=lambda bits: bits,
    unpack=lambda raw: raw[:, 0] != 0,
    python=bool,
    take=made_by_arrow,
)
FORMS: TypeForms = TypeForms(
    write=always(lambda value: "t" if value else "f"),
    read=always(parse_boolean),
    take=always(_take),
    pack=always(lambda value: b"\1" if value else b"\0"),
    unpack=always(_unpack),
    columns=_COLUMNS,
    duck=DuckForms("BOOLEAN", "pg_boolean", constant=lambda value: "true" if value else "false"),
    guessed=(bool,),
    text_bytes=lambda value: b"t" if value else b"f",
    unquoted=True,
)
