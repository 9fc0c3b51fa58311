"""ENUMs: a datum is the place of a label among the others. Above ``strings``, below ``forms``."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import EnumType, SqlType
from herdpy_sql.values.form import DuckForms, Reader, TypeForms, mismatch
from herdpy_sql.values.strings import text_of


@functools.lru_cache(maxsize=256)
def _places(kind: EnumType) -> dict[str, float]:
    return dict(kind.labels)


@functools.lru_cache(maxsize=256)
def _labels(kind: EnumType) -> dict[float, str]:
    return {place: label for label, place in kind.labels}


def label_reader(sql_type: SqlType) -> Callable[[str], float]:
    """The function from labels to places. SqlError 22P02 for what is no label."""
    kind = sql_type.enum
    assert kind is not None
    places = _places(kind)

    def read(text: str) -> float:
        found = places.get(text)
        if found is None:
            raise SqlError("22P02", f'invalid input value for enum {kind}: "{text}"')
        return found

    return read


def label_writer(sql_type: SqlType) -> Callable[[float], str]:
    """The function from places to labels; a place of no label is shown as itself."""
    assert sql_type.enum is not None
    labels = _labels(sql_type.enum)
    return lambda place: labels.get(place, f"#{place:g}")


def _take(sql_type: SqlType) -> Reader:
    read = label_reader(sql_type)

    def label(value: object) -> Any:
        if value is None:
            return None
        text = getattr(value, "value", value) if isinstance(value, enum.Enum) else value
        if not isinstance(text, str):
            raise mismatch(value, sql_type.name)
        return read(plain(text))

    return label


def _give(sql_type: SqlType) -> Reader:
    write = label_writer(sql_type)
    return lambda value: None if value is None else write(value)


def _pack(sql_type: SqlType) -> Callable[[Any], bytes]:
    write = label_writer(sql_type)
    return lambda value: write(value).encode()


def _unpack(sql_type: SqlType) -> Reader:
    read = label_reader(sql_type)
    return lambda data: read(text_of(data))


FORMS: TypeForms = TypeForms(
    write=label_writer,
    read=label_reader,
    take=_take,
    give=_give,
    pack=_pack,
    unpack=_unpack,
    duck=DuckForms("DOUBLE", constant=lambda value: f"CAST({value!r} AS DOUBLE)"),
)
