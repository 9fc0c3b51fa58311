"""PEP 249's constructors and type objects, and the columns of ``cursor.description``.

A column's ``type_code`` is PostgreSQL's object id of its type. The type objects compare equal to
the ids they stand for: ``column.type_code == herdpy.NUMBER``.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    from herdpy.dbapi.link import ResultColumn


class TypeObject:
    """One of PEP 249's families of types; equal to every object id in it."""

    __slots__ = ("_oids", "name")

    def __init__(self, name: str, *oids: int) -> None:
        self.name = name
        self._oids = frozenset(oids)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return other in self._oids
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<herdpy.{self.name}>"


STRING = TypeObject("STRING", 25, 1042, 1043)
BINARY = TypeObject("BINARY", 17)
NUMBER = TypeObject("NUMBER", 20, 21, 23, 700, 701, 1700)
DATETIME = TypeObject("DATETIME", 1082, 1083, 1114, 1184, 1186)
ROWID = TypeObject("ROWID", 26)

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - PEP 249's name
    """The local date ``ticks`` seconds after 1970-01-01 00:00 UTC."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - PEP 249's name
    """The local time of day ``ticks`` seconds after 1970-01-01 00:00 UTC."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802 - PEP 249's name
    """The local date and time ``ticks`` seconds after 1970-01-01 00:00 UTC."""
    return datetime.datetime.fromtimestamp(ticks)


def Binary(data: Buffer) -> bytes:  # noqa: N802 - PEP 249's name
    """The bytes of any object that has a buffer. TypeError for others, such as str."""
    return bytes(memoryview(data))


# Bytes of the types that always take the same number of them, as PostgreSQL's typlen.
_SIZES = {16: 1, 20: 8, 21: 2, 23: 4, 700: 4, 701: 8, 1082: 4, 1083: 8, 1114: 8, 1184: 8, 2950: 16}


class Column(tuple[Any, ...]):
    """One item of ``cursor.description``: PEP 249's seven values, also by name."""

    __slots__ = ()

    def __new__(cls, column: ResultColumn) -> Column:
        """Describe an output column of the engine."""
        kind = column.type
        return super().__new__(
            cls,
            (column.name, kind.oid, kind.length, _SIZES.get(kind.oid), kind.precision, kind.scale, None),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)  # a copy is a plain tuple

    @property
    def name(self) -> str:
        """The column's name."""
        return self[0]  # type: ignore[no-any-return]

    @property
    def type_code(self) -> int:
        """PostgreSQL's object id of the type; compare it with STRING, NUMBER and so on."""
        return self[1]  # type: ignore[no-any-return]

    @property
    def display_size(self) -> int | None:
        """Characters, for VARCHAR(n) and CHAR(n)."""
        return self[2]  # type: ignore[no-any-return]

    @property
    def internal_size(self) -> int | None:
        """Bytes, for types whose values all take the same number."""
        return self[3]  # type: ignore[no-any-return]

    @property
    def precision(self) -> int | None:
        """Digits, for NUMERIC(p, s)."""
        return self[4]  # type: ignore[no-any-return]

    @property
    def scale(self) -> int | None:
        """Digits after the point, for NUMERIC(p, s)."""
        return self[5]  # type: ignore[no-any-return]

    @property
    def null_ok(self) -> bool | None:
        """Always None: whether NULL may come is not said."""
        return self[6]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Column {self.name!r}, type {self.type_code}>"
