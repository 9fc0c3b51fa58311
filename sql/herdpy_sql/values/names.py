"""NAME, a text of 63 bytes at most, and "char", one byte. Above ``form`` and ``strings``, below ``forms``."""

from __future__ import annotations

from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Bytes, DuckForms, TypeForms, always, mismatch, quote, wrong_length
from herdpy_sql.values.strings import check_text, same, take_text, text_of

MAX_NAME = 63


def cut_name(text: str) -> str:
    """A name as long as names can be."""
    return text if len(text) < 16 else text.encode()[:MAX_NAME].decode(errors="ignore")


def _take_name(value: object) -> Any:
    text = take_text(value)
    return None if text is None else cut_name(text)


def parse_char(text: str) -> str:
    """Read a "char": its first byte, or one that is written in octal as ``\\101``.

    SqlError 0A000 for a byte that is no character.
    """
    if len(text) == 4 and text[0] == "\\" and all(one in "01234567" for one in text[1:]):
        return char_of_byte(int(text[1:], 8) & 0xFF)
    if text and ord(text[0]) > 0x7F:
        raise SqlError("0A000", '"char" holds characters of ASCII only')
    return "" if not text or text[0] == "\0" else text[0]


def char_of_byte(byte: int) -> str:
    """A byte as "char". SqlError 0A000."""
    if byte > 0x7F:
        raise SqlError("0A000", '"char" holds characters of ASCII only')
    return chr(byte) if byte else ""


def _take_char(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_char(plain(value))
    raise mismatch(value, '"char"')


def _unpack_char(data: Bytes) -> str:
    if len(data) != 1:
        raise wrong_length(len(data), 1)
    return char_of_byte(data[0])


_DUCK = DuckForms("VARCHAR", text="{}", constant=quote)

NAME_FORMS: TypeForms = TypeForms(
    write=always(same),
    read=always(lambda text: cut_name(check_text(text))),
    take=always(_take_name),
    pack=always(str.encode),
    unpack=always(text_of),
    duck=_DUCK,
)
CHAR_FORMS: TypeForms = TypeForms(
    write=always(same),
    read=always(parse_char),
    take=always(_take_char),
    pack=always(lambda value: value.encode() or b"\0"),
    unpack=always(_unpack_char),
    duck=_DUCK,
)
