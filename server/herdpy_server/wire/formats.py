"""The text and the binary form of every type: which function reads and which writes each.

A ``SqlType``, a format and the session's time zone come in, functions between bytes and datums go out.
They are made once per type and kept, so that a caller may ask again for every message.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from herdpy_server.wire import arrays, texts
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import Bytes
from herdpy_sql.values.forms import FORMS


@functools.lru_cache(maxsize=1024)
def decoder(sql_type: SqlType, binary: bool, zone: str = "UTC") -> Callable[[Bytes], Any]:
    """The function from a value's bytes to its datum.

    ``zone`` is the session's time zone, which TIMESTAMPTZ text without an offset is in.

    It raises SqlError as PostgreSQL does: of text 22P02, 22003, 22007, 22008, 22001 and whatever else the
    type's input function says, 22021 for bytes that are not UTF-8; of binary 22P03 for too many bytes, 08P01
    for too few, 22003 and 22008 out of range.
    """
    if sql_type.element is not None:
        element = sql_type.element_type
        read = decoder(element, binary, zone)
        if binary:
            return arrays.binary_reader(element, read)
        return arrays.text_reader(read, of_json=element.base in {Base.JSON, Base.JSONB})
    return FORMS[sql_type.base].unpack(sql_type) if binary else texts.reader(sql_type, zone)


@functools.lru_cache(maxsize=1024)
def encoder(sql_type: SqlType, binary: bool, zone: str = "UTC") -> Callable[[Any], bytes]:
    """The function from a datum (never None) to the value's bytes."""
    if sql_type.element is not None:
        element = sql_type.element_type
        write = encoder(element, binary, zone)
        return arrays.binary_writer(element, write) if binary else arrays.text_writer(write)
    return FORMS[sql_type.base].pack(sql_type) if binary else texts.writer(sql_type, zone)
