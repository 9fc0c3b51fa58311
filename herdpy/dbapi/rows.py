"""Row factories: what a fetched row is, by psycopg's names.

Above ``types``, below ``answer``, which calls them. A factory is given the cursor when the first row of a
result is asked for, and returns what makes one row of a tuple of values; so whatever depends on the columns
is computed once for a result.

    factory(cursor) -> maker        maker(values) -> row
"""

from __future__ import annotations

import functools
import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from herdpy.dbapi.errors import ProgrammingError

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
