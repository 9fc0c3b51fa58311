"""UUID: a datum is its 16 bytes. Above ``form``, below ``forms``."""

from __future__ import annotations

import re
import uuid
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
from herdpy_sql.values.string_columns import data_of, lengths_in, np, pa

_UUID = re.compile(r"\{?(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}\}?", re.ASCII | re.IGNORECASE)


def parse_uuid(text: str) -> bytes:
    """Read a UUID. SqlError 22P02."""
    if not _UUID.fullmatch(text) or (text[0] == "{") != (text[-1] == "}"):
        raise SqlError("22P02", f'invalid input syntax for type uuid: "{text}"')
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def uuid_text(value: bytes) -> str:
    """PostgreSQL's text of a UUID datum."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _take(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        return parse_uuid(plain(value))
    raise mismatch(value, "uuid")


def _give(value: bytes | None) -> object:
    return None if value is None else uuid.UUID(bytes=value)


def _unpack(data: Bytes) -> bytes:
    if len(data) != 16:
        raise wrong_length(len(data), 16)
    return bytes(data)


def _read_column(strings: Array, target: Any, *_more: Any) -> Array | None:
    if strings.null_count or not lengths_in(strings, {36}):
        return None
    characters = data_of(strings).reshape(-1, 36)
    if not (characters[:, [8, 13, 18, 23]] == 0x2D).all():
        return None
    digits = np.delete(characters, [8, 13, 18, 23], axis=1).tobytes()
    if b"-" in digits or b" " in digits:
        return None
    try:
        data = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return None
    if len(data) != 16 * len(strings):
        return None  # there were blanks other than " ", which fromhex passes over
    storage = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(strings), [None, pa.py_buffer(data)])
    return pa.ExtensionArray.from_storage(target, storage)


FORMS: TypeForms = TypeForms(
    columns=ColumnForms(read=_read_column, pack=lambda slots: slots, unpack=lambda raw: raw),
    write=always(uuid_text),
    read=always(parse_uuid),
    take=always(_take),
    give=always(_give),
    pack=always(bytes),
    unpack=always(_unpack),
    duck=DuckForms("UUID", "pg_uuid", check=parse_uuid, called=True, client=uuid_text),
    guessed=(uuid.UUID,),
    unquoted=True,
)
