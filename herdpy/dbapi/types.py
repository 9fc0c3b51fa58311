"""PEP 249's type objects, the columns of ``description``, values that Python has no type for, row factories.

A column's ``type_code`` is the object id of its PostgreSQL type; the type objects compare equal to the ids
they stand for. ``Interval`` has months, ``Json`` is any value as JSON. A row factory is given the cursor
once for a result, and returns what makes a row of a tuple of values: factory(cursor) -> maker,
maker(values) -> row.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from herdpy.dbapi.errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    from herdpy.dbapi.link import ResultColumn

json_text = functools.partial(json.dumps, allow_nan=False)
"""An object as JSON, which has no NaN. ValueError, TypeError for what it cannot say."""


class Json(str):
    """A value as JSON: ``Json(5)``, ``Json("text")``, ``Json(None)`` for JSON's null, ``Json([1, 2])``.

    Dicts, and lists without dates and the like, need no wrapper. It is its own text.
    """

    __slots__ = ()

    def __new__(cls, value: object) -> Self:
        """ProgrammingError 42804 for what JSON cannot say, such as NaN or a date."""
        try:
            return super().__new__(cls, json_text(value))
        except (ValueError, TypeError, RecursionError) as error:
            raise ProgrammingError(f"it cannot be JSON: {error}", sqlstate="42804") from None


class Jsonb(Json):
    """The same as JSONB."""

    __slots__ = ()


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


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from herdpy.dbapi.types import Column

    R = TypeVar("R", default=tuple[Any, ...])
    """What rows are; tuples when nothing is said."""
else:
    from typing import TypeVar

    R = TypeVar("R")

T = TypeVar("T")

Values = tuple[Any, ...]
RowMaker = Callable[[Values], T]
_NO_LETTER = re.compile(r"\W")


class DescribedResult(Protocol):
    """What factories look at: a cursor, sync or async."""

    @property
    def description(self) -> Sequence[Column] | None: ...


RowFactory = Callable[[DescribedResult], RowMaker[T]]


def tuple_row(cursor: DescribedResult) -> RowMaker[tuple[Any, ...]]:
    """Rows are tuples: the default, and the fastest."""
    return _as_it_is


def dict_row(cursor: DescribedResult) -> RowMaker[dict[str, Any]]:
    """Rows are dicts by column name; of columns of one name the last one counts."""
    names = _names(cursor)
    return lambda values: dict(zip(names, values, strict=True))


def namedtuple_row(cursor: DescribedResult) -> RowMaker[Any]:
    """Rows are named tuples. Names that are no identifiers are changed: ``?column?`` is ``f_column_``,
    and of two columns of one name the second is ``_1``, by its number from 0.
    """
    return _named(tuple(_identifier(name) for name in _names(cursor)))._make  # type: ignore[no-any-return]


def class_row(cls: Callable[..., T]) -> RowFactory[T]:
    """Rows are what ``cls(name=value, ...)`` makes: dataclasses, Pydantic models, any callable.

    A column that ``cls`` does not take is a TypeError when rows are fetched.
    """

    def factory(cursor: DescribedResult) -> RowMaker[T]:
        names = _names(cursor)
        return lambda values: cls(**dict(zip(names, values, strict=True)))

    return factory


kwargs_row = class_row


def args_row(function: Callable[..., T]) -> RowFactory[T]:
    """Rows are what ``function(value, ...)`` makes, in the order of the columns."""
    return lambda cursor: lambda values: function(*values)


def scalar_row(cursor: DescribedResult) -> RowMaker[Any]:
    """Rows are the value of their first column. ProgrammingError when there is no column."""
    if not _names(cursor):
        raise ProgrammingError("a row without columns has no first value")
    return lambda values: values[0]


def _as_it_is(values: Values) -> Values:
    return values


def _names(cursor: DescribedResult) -> list[str]:
    description = cursor.description
    if description is None:
        raise ProgrammingError("the last statement returned no rows")
    return [column.name for column in description]


def _identifier(name: str) -> str:
    clean = _NO_LETTER.sub("_", name)
    return f"f{clean}" if not clean or clean[0] == "_" or clean[0].isdigit() else clean


@functools.lru_cache(512)
def _named(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names, rename=True)
