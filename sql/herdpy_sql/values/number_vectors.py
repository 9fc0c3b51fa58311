"""INT2VECTOR and OIDVECTOR: numbers with blanks between, counted from 0; a datum is that text.

Above ``form`` and the files of numbers, below ``forms``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SMALLINT
from herdpy_sql.values.form import Bytes, DuckForms, TypeForms, always, mismatch, quote
from herdpy_sql.values.integers import SMALLINT_FORMS
from herdpy_sql.values.oids import parse_oid
from herdpy_sql.values.strings import same

_HEAD = struct.Struct(
    "!iiIii"
)  # dimensions, whether there are NULLs, the elements' type, their number, the first


def numbers_of(value: str) -> tuple[int, ...]:
    """The elements of a datum."""
    return tuple([int(one) for one in value.split()])


def vector_of(numbers: tuple[int, ...]) -> str:
    """The datum of these elements."""
    return " ".join(map(str, numbers))


def _forms(element_oid: int, form: struct.Struct, parse: Callable[[str], int], name: str) -> TypeForms:
    def read(text: str) -> str:
        return vector_of(tuple([parse(one) for one in text.split()]))

    def take(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        if isinstance(value, list | tuple):
            return read(" ".join(map(str, value)))
        raise mismatch(value, name)

    def pack(value: str) -> bytes:
        numbers = numbers_of(value)
        parts = [struct.pack("!i", form.size) + form.pack(one) for one in numbers]
        return _HEAD.pack(1, 0, element_oid, len(numbers), 0) + b"".join(parts)

    def unpack(data: Bytes) -> str:
        step = form.size + 4
        if len(data) < _HEAD.size or (len(data) - _HEAD.size) % step:
            raise SqlError("22P03", f"invalid {name} data")
        starts = range(_HEAD.size + 4, len(data), step)
        return vector_of(tuple([form.unpack_from(data, at)[0] for at in starts]))

    return TypeForms(
        write=always(same),
        read=always(read),
        take=always(take),
        pack=always(pack),
        unpack=always(unpack),
        duck=DuckForms("VARCHAR", text="{}", constant=quote),
    )


INT2VECTOR_FORMS: TypeForms = _forms(21, struct.Struct("!h"), SMALLINT_FORMS.read(SMALLINT), "int2vector")
OIDVECTOR_FORMS: TypeForms = _forms(26, struct.Struct("!I"), parse_oid, "oidvector")
