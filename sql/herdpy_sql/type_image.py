"""A column's type as it stands in the JSON of a table's definition.

``[base, length, precision, scale]``, and after these, only where there is such a thing, the base of what an
array is of, what an enum is: ``[id, schema, name, [[label, place], ...]]``, and how many dimensions an array
has, where they are several.
"""

from __future__ import annotations

from typing import Any, cast

from herdpy_sql.types import Base, EnumType, SqlType


def encode_type(one: SqlType) -> list[object]:
    """The type as a value of JSON."""
    raw: list[object] = [one.base.value, one.length, one.precision, one.scale]
    if one.element is not None or one.enum is not None:
        raw.append(None if one.element is None else one.element.value)
    if one.enum is None and one.dimensions > 1:
        raw.append(None)
    if one.enum is not None:
        raw.append([one.enum.id, one.enum.schema, one.enum.name, [list(label) for label in one.enum.labels]])
    if one.dimensions > 1:
        raw.append(one.dimensions)
    return raw


def decode_type(raw: object) -> SqlType:
    """The inverse of :func:`encode_type`."""
    base, length, precision, scale, *more = cast("list[Any]", raw)
    element = Base(more[0]) if more and more[0] is not None else None
    enum = None
    if len(more) > 1 and more[1] is not None:
        id_, schema, name, labels = more[1]
        enum = EnumType(id_, schema, name, tuple((str(label), float(place)) for label, place in labels))
    dimensions = int(more[2]) if len(more) > 2 else 1
    return SqlType(Base(base), length, precision, scale, element, enum, dimensions=dimensions)
