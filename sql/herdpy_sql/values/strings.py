"""TEXT, VARCHAR(n), CHAR(n) and untyped literals: a datum is a ``str``; CHAR's has no blanks at its end.

Above ``form``, below ``forms`` and the files of types whose text may be anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import (
    Array,
    Bytes,
    ColumnForms,
    DuckForms,
    Reader,
    TypeForms,
    always,
    mismatch,
    quote,
)
from herdpy_sql.values.string_columns import as_held, made_by_arrow, pc
from herdpy_sql.values.styles import Style


def check_text(text: str) -> str:
    """``text`` itself; SqlError 22021 when it has a NUL or a lone surrogate, which no TEXT can hold."""
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SqlError("22021", f'invalid character for encoding "UTF8": {error.reason}') from None
    return text


def limit_text(text: str, sql_type: SqlType) -> str:
    """``text`` as stored in VARCHAR(n) or CHAR(n); SqlError 22001 when more than blanks are too much."""
    if sql_type.base is Base.CHAR:
        text = text.rstrip(" ")
    length = sql_type.length
    if length is not None and len(text) > length:
        if text[length:].strip(" "):
            raise SqlError("22001", f"value too long for type {sql_type}")
        text = text[:length]
    return text


def cut_text(text: str, sql_type: SqlType) -> str:
    """``text`` cut to the length of VARCHAR(n) or CHAR(n), as explicit casts do."""
    if sql_type.length is not None:
        text = text[: sql_type.length]
    return text.rstrip(" ") if sql_type.base is Base.CHAR else text


def text_of(data: Bytes) -> str:
    """The characters that ``data`` stands for. SqlError 22021 as PostgreSQL words it."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise bad_utf8(error.object, _first_bad(error.object, error.start)) from None
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


def _first_bad(data: bytes, start: int) -> int:
    nul = data.find(0, 0, start)
    return start if nul < 0 else nul


def bad_utf8(data: bytes, start: int) -> SqlError:
    """The error for the character of ``data`` that begins at ``start`` and is none.

    PostgreSQL shows the bytes that the first of them promises, as far as there are any.
    """
    first = data[start]
    length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4 if first < 0xF8 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in data[start : start + length])
    return SqlError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def same(value: str) -> str:
    """The text itself."""
    return value


def take_text(value: object) -> Any:
    """From a Python object to TEXT."""
    if type(value) is str:
        return value if value.isascii() and "\0" not in value else check_text(value)
    if value is None:
        return None
    if isinstance(value, str):
        return take_text(plain(value))
    raise mismatch(value, "text")


def _limited_converter(sql_type: SqlType) -> Reader:
    length = sql_type.length

    def convert(value: object) -> Any:
        text = take_text(value)
        if text is None:
            return None
        return limit_text(text, sql_type)

    def convert_varchar(value: object) -> Any:
        text = take_text(value)
        if text is None or (length is not None and len(text) <= length):
            return text
        return limit_text(text, sql_type)

    return convert if sql_type.base is Base.CHAR else convert_varchar


def _limited_reader(sql_type: SqlType) -> Reader:
    return lambda text: limit_text(check_text(text), sql_type)


def _padded(sql_type: SqlType) -> Reader:
    length = sql_type.length
    return same if length is None else lambda value: value.ljust(length)


def _padded_object(sql_type: SqlType) -> Reader | None:
    length = sql_type.length
    return None if length is None else lambda value: None if value is None else value.ljust(length)


def _padded_bytes(sql_type: SqlType) -> Callable[[Any], bytes]:
    length = sql_type.length
    return str.encode if length is None else lambda value: value.ljust(length).encode()


def _limited_bytes(sql_type: SqlType) -> Reader:
    return lambda data: limit_text(text_of(data), sql_type)


def _varchar_bytes(sql_type: SqlType) -> Reader:
    return text_of if sql_type.length is None else _limited_bytes(sql_type)


def unicode_string(text: str, escape: str = "\\") -> str:
    """U&'...' decoded; SqlError 22023 or 42601."""
    out, at = [], 0
    while at < len(text):
        if text[at] != escape:
            out.append(text[at])
            at += 1
            continue
        if text[at + 1 : at + 2] == escape:
            out.append(escape)
            at += 2
            continue
        start, width = (at + 2, 6) if text[at + 1 : at + 2] == "+" else (at + 1, 4)
        try:
            out.append(chr(int(text[start : start + width], 16)))
        except (ValueError, OverflowError):
            raise SqlError("42601", "invalid Unicode escape") from None
        at = start + width
    return "".join(out)


def _limited_column(strings: Array, _target: Any, sql_type: SqlType, _style: Style) -> Array | None:
    if sql_type.length is not None and len(strings) > strings.null_count:
        longest = pc.max(pc.utf8_length(strings)).as_py()
        if longest > sql_type.length:
            return None
    return strings


def _read_char_column(strings: Array, target: Any, sql_type: SqlType, style: Style) -> Array | None:
    return _limited_column(pc.utf8_rtrim(strings, " "), target, sql_type, style)


def _write_char_column(array: Array, sql_type: SqlType, _style: Style) -> Array:
    return array if sql_type.length is None else pc.utf8_rpad(array, sql_type.length, " ")


_TEXT_COLUMNS = ColumnForms(
    write=as_held, read=_limited_column, is_packed=True, python=str, take=made_by_arrow
)
_DUCK = DuckForms("VARCHAR", text="{}", constant=quote)
TEXT_FORMS: TypeForms = TypeForms(
    always(same), always(check_text), always(take_text), always(str.encode), always(text_of), _DUCK,
    _TEXT_COLUMNS, text_bytes=str.encode,
)  # fmt: skip
RECORD_FORMS: TypeForms = TypeForms(
    write=always(same),
    read=always(check_text),
    take=always(take_text),
    pack=always(str.encode),
    unpack=always(text_of),
    duck=DuckForms("VARCHAR[]", text="pg_record({})", constant=quote, called=True),
)
"""Only as text: in DuckDB a row is the list of its fields' texts."""
UNKNOWN_FORMS: TypeForms = TypeForms(
    always(same), always(check_text), always(take_text), always(str.encode), always(text_of), _DUCK,
    ColumnForms(write=as_held, is_packed=True), guessed=(type(None), str), text_bytes=str.encode,
)  # fmt: skip
VARCHAR_FORMS: TypeForms = TypeForms(
    always(same), _limited_reader, _limited_converter, always(str.encode), _varchar_bytes, _DUCK,
    _TEXT_COLUMNS, text_bytes=str.encode,
)  # fmt: skip
CHAR_FORMS: TypeForms = TypeForms(
    _padded, _limited_reader, _limited_converter, _padded_bytes, _limited_bytes,
    DuckForms("VARCHAR", text="{}", constant=lambda text: quote(text.rstrip(" "))),
    ColumnForms(write=_write_char_column, read=_read_char_column), give=_padded_object,
)  # fmt: skip
