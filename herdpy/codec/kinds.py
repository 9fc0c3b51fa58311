"""The physical kinds of values, the datum that stands for each in memory, and exact arithmetic on decimals.

The bottom layer: SQL types map onto kinds (``herdpy_sql.types``), row images and keys are made of them
(``rows``, ``keys``). Kind numbers are on disk: never renumber one.

========================  ==========================================================
kind                      datum (the Python value inside the engine; None is NULL)
========================  ==========================================================
BOOL                      bool
INT16, INT32, INT64       int
FLOAT32, FLOAT64          float (a FLOAT32 datum is already rounded to 32 bits)
DECIMAL64, DECIMAL128     decimal.Decimal with exactly ``scale`` fraction digits, finite
DECIMAL                   decimal.Decimal, any precision and scale, finite
TEXT, JSON                str (JSON keeps the text as it was given)
BYTES                     bytes
DATE                      int, days since 1970-01-01
TIME                      int, microseconds since midnight
TIMESTAMP, TIMESTAMPTZ    int, microseconds since 1970-01-01 00:00 (UTC for TIMESTAMPTZ)
UUID                      bytes, 16 of them, in RFC 4122 order
INTERVAL                  Interval: months, days and microseconds, each with its sign
ARRAY                     tuple of the element's datums; a Grid of several dimensions
JSONB                     str, the one text of the value (``herdpy_sql.values.jsonb``)
VECTOR                    tuple of floats that are rounded to 32 bits
========================  ==========================================================

``KIND_FACTS`` says how each is laid out. ``rows``, ``keys`` and the ``arrow`` modules go by what it says, and
name no kind.

Dates and times are integers because comparing, encoding and handing them to Arrow then costs
nothing; they become ``datetime`` objects at the edge (``herdpy_sql.values``). The least and the
greatest integer of DATE (32 bits), TIMESTAMP and TIMESTAMPTZ (64 bits) are -infinity and infinity.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from typing import Any, NamedTuple

#: Arrow counts an interval's time in nanoseconds of 64 bits, and so does DuckDB.
MAX_INTERVAL_US = (2**63 - 1) // 1000


class Interval(NamedTuple):
    """The datum of an INTERVAL. Two that PostgreSQL takes for equal (1 month, 30 days) are not equal here."""

    months: int = 0
    days: int = 0
    us: int = 0

    @property
    def span(self) -> int:
        """Microseconds, a month being 30 days and a day 24 hours: what PostgreSQL compares by."""
        return (self.months * 30 + self.days) * 86_400_000_000 + self.us


PLAIN = frozenset(
    {type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.time, dt.datetime, dt.timedelta}
)
"""Python's own classes of values."""


def plain(value: Any) -> Any:
    """A value of a subclass (a member of an IntEnum, a pandas.Timestamp) as one of Python's own class.

    What the subclass makes of ``str()`` or of its hash is its own business: the value is what is meant. Other
    values are given back as they are. A time with nanoseconds is rounded, as PostgreSQL rounds its text.
    """
    if type(value) in PLAIN:
        return value
    for kind, convert in _PLAIN:
        if isinstance(value, kind):
            return convert(value)
    return value


def is_no_time(value: object) -> bool:
    """Whether it is pandas.NaT, which calls itself a datetime and has no time."""
    return type(value).__name__ == "NaTType"


def _plain_datetime(value: Any) -> Any:
    if is_no_time(value):
        return value
    found = dt.datetime.combine(_plain_date(value), _plain_time(value.timetz()))
    nanoseconds = getattr(value, "nanosecond", 0)
    more = nanoseconds > 500 or (nanoseconds == 500 and found.microsecond % 2 == 1)
    return found + dt.timedelta(microseconds=1) if more else found


def _plain_date(value: Any) -> dt.date:
    return dt.date(value.year, value.month, value.day)


def _plain_time(value: Any) -> dt.time:
    return dt.time(
        value.hour, value.minute, value.second, value.microsecond, tzinfo=value.tzinfo, fold=value.fold
    )


def _plain_timedelta(value: Any) -> Any:
    if is_no_time(value):
        return value
    found = dt.timedelta(value.days, value.seconds, value.microseconds)
    nanoseconds = getattr(value, "nanoseconds", 0)
    more = nanoseconds > 500 or (nanoseconds == 500 and found.microseconds % 2 == 1)
    return found + dt.timedelta(microseconds=1) if more else found


_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: b"".join((value, b""))),
    (Decimal, Decimal),
    (dt.datetime, _plain_datetime),
    (dt.date, _plain_date),
    (dt.time, _plain_time),
    (dt.timedelta, _plain_timedelta),
)

Datum = bool | int | float | Decimal | str | bytes | Interval | tuple[Any, ...] | None


class Kind(enum.IntEnum):
    """A physical kind; the number is on disk."""

    BOOL = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    DECIMAL64 = 7
    DECIMAL128 = 8
    DECIMAL = 9
    TEXT = 10
    BYTES = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    TIMESTAMPTZ = 15
    UUID = 16
    JSON = 17
    INTERVAL = 18
    ARRAY = 19
    JSONB = 20
    VECTOR = 21


class ByteForm(enum.Enum):
    """How the bytes of a datum are made. Kinds of one form differ in their width alone."""

    __hash__ = object.__hash__  # members are themselves alone; Enum's own hash is a function in Python

    BOOL = enum.auto()
    NUMBER = enum.auto()  # an integer or a float that struct packs
    SCALED = enum.auto()  # a decimal of fixed scale: value * 10**scale
    DECIMAL = enum.auto()  # a decimal of any scale: its digits
    RAW = enum.auto()  # bytes, as many in every value
    BYTES = enum.auto()
    TEXT = enum.auto()
    JSONB = enum.auto()
    INTERVAL = enum.auto()
    ARRAY = enum.auto()
    VECTOR = enum.auto()


class KindFacts(NamedTuple):
    """How values of a kind are laid out.

    Attributes:
        form: what makes their bytes.
        slot: the struct format of their slot in an image; "I" where that says where their bytes end.
        digits: of decimals of fixed scale: how many the slot is certain to hold.
        least: the datum that is -infinity, if there is one.
        ordered: whether they can be in a key.
    """

    form: ByteForm
    slot: str = "I"
    digits: int = 0
    least: int | None = None
    ordered: bool = True

    @property
    def width(self) -> int:
        """Bytes of the slot."""
        return struct.calcsize(f"<{self.slot}")

    @property
    def is_variable(self) -> bool:
        """Whether values differ in how many bytes they have."""
        return self.slot == "I"


DATE_INFINITY = 2**31 - 1
DATE_NEGATIVE_INFINITY = -(2**31)
TIMESTAMP_INFINITY = 2**63 - 1
TIMESTAMP_NEGATIVE_INFINITY = -(2**63)

KIND_FACTS: dict[Kind, KindFacts] = {
    Kind.BOOL: KindFacts(ByteForm.BOOL, "B"),
    Kind.INT16: KindFacts(ByteForm.NUMBER, "h"),
    Kind.INT32: KindFacts(ByteForm.NUMBER, "i"),
    Kind.INT64: KindFacts(ByteForm.NUMBER, "q"),
    Kind.FLOAT32: KindFacts(ByteForm.NUMBER, "f"),
    Kind.FLOAT64: KindFacts(ByteForm.NUMBER, "d"),
    Kind.DECIMAL64: KindFacts(ByteForm.SCALED, "q", digits=18),
    Kind.DECIMAL128: KindFacts(ByteForm.SCALED, "16s", digits=38),
    Kind.DECIMAL: KindFacts(ByteForm.DECIMAL),
    Kind.TEXT: KindFacts(ByteForm.TEXT),
    Kind.BYTES: KindFacts(ByteForm.BYTES),
    Kind.DATE: KindFacts(ByteForm.NUMBER, "i", least=DATE_NEGATIVE_INFINITY),
    Kind.TIME: KindFacts(ByteForm.NUMBER, "q"),
    Kind.TIMESTAMP: KindFacts(ByteForm.NUMBER, "q", least=TIMESTAMP_NEGATIVE_INFINITY),
    Kind.TIMESTAMPTZ: KindFacts(ByteForm.NUMBER, "q", least=TIMESTAMP_NEGATIVE_INFINITY),
    Kind.UUID: KindFacts(ByteForm.RAW, "16s"),
    Kind.JSON: KindFacts(ByteForm.TEXT, ordered=False),
    Kind.INTERVAL: KindFacts(ByteForm.INTERVAL, "16s"),
    Kind.ARRAY: KindFacts(ByteForm.ARRAY),
    Kind.JSONB: KindFacts(ByteForm.JSONB),
    Kind.VECTOR: KindFacts(ByteForm.VECTOR),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a row image.

    Attributes:
        kind: the physical kind.
        scale: digits after the point, for DECIMAL64 and DECIMAL128; a VECTOR's dimensions (0: any); those of
            an ARRAY (0: one), which Arrow and keys must know and images do not.
        missing: the datum of rows that were written before the column was added.
        element: what an ARRAY is of.
    """

    kind: Kind
    scale: int = 0
    missing: Datum = None
    element: Field | None = None


VECTOR_ELEMENT = Field(Kind.FLOAT32)
"""What a VECTOR is of."""


@dataclass(frozen=True, slots=True)
class KeyField:
    """One column of a key. Ascending keys put NULL last and descending ones first, unless it says otherwise.

    An ARRAY's key has its shape where ``scale``, its dimensions, is above 1; then it tells any two apart.
    """

    kind: Kind
    scale: int = 0
    descending: bool = False
    nullable: bool = False
    nulls_first: bool = False
    element: Field | None = None


# Arrays of several dimensions.

MAX_DIMENSIONS = 6


class Grid(tuple[Any, ...]):
    """The elements of an array of two dimensions or more.

    Attributes:
        sizes: how many elements each dimension has, the outermost first; none is 0.
    """

    sizes: tuple[int, ...]

    def __new__(cls, elements: Iterable[Any], sizes: Sequence[int]) -> Grid:
        """ValueError where the sizes are not those of that many elements."""
        made = super().__new__(cls, elements)
        made.sizes = tuple(sizes)
        if not 2 <= len(made.sizes) <= MAX_DIMENSIONS or math.prod(made.sizes) != len(made) or not made:
            raise ValueError(f"{len(made)} elements are no array of {made.sizes}")
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # for pickle
        return tuple(self), self.sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.sizes == other.sizes and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.sizes, tuple(self)))

    def __repr__(self) -> str:
        return f"Grid({tuple(self)!r}, {self.sizes})"


def shaped(elements: Iterable[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The datum of an array of those sizes: () where one of them is 0, a plain tuple of one dimension."""
    if 0 in sizes or not sizes:
        return ()
    return tuple(elements) if len(sizes) == 1 else Grid(elements, sizes)


def sizes_of(array: tuple[Any, ...]) -> tuple[int, ...]:
    """How many elements each dimension of an array has; () of one without elements."""
    if isinstance(array, Grid):
        return array.sizes
    return (len(array),) if array else ()


def parts_of(array: tuple[Any, ...]) -> list[Any]:
    """What the outermost dimension holds: elements, or arrays of one dimension less."""
    if not isinstance(array, Grid):
        return list(array)
    flat, inner = tuple(array), array.sizes[1:]
    width = math.prod(inner)
    return [shaped(flat[at : at + width], inner) for at in range(0, len(flat), width)]


def stacked(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The array whose outermost dimension holds these; ValueError where they differ in their sizes."""
    if not parts:
        return ()
    if len(sizes_of(parts[0])) >= MAX_DIMENSIONS:
        raise ValueError(f"an array has at most {MAX_DIMENSIONS} dimensions")
    sizes = sizes_of(parts[0])
    if any(sizes_of(part) != sizes for part in parts):
        raise ValueError("the arrays in an array differ in their dimensions")
    return shaped([one for part in parts for one in part], (len(parts), *sizes)) if sizes else ()


def nested(array: tuple[Any, ...], convert: Callable[[Any], Any] | None = None) -> list[Any]:
    """Lists within lists of the elements, each of them converted."""
    if isinstance(array, Grid):
        return [nested(part, convert) for part in parts_of(array)]
    return list(array) if convert is None else [convert(one) for one in array]


def mapped(array: tuple[Any, ...], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The array of the same shape with each element converted; NULLs stay."""
    made = [None if one is None else convert(one) for one in array]
    return Grid(made, array.sizes) if isinstance(array, Grid) else tuple(made)


def of_lists(lists: Sequence[Any], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The array of lists (or tuples) within lists, each element converted; NULLs stay.

    ValueError where lists of one depth differ in their lengths, or elements stand beside lists.
    """
    if not any(type(one) in (list, tuple) for one in lists):
        return tuple([None if one is None else convert(one) for one in lists])
    if not all(type(one) in (list, tuple) for one in lists):
        raise ValueError("the arrays in an array differ in their dimensions")
    return stacked([of_lists(one, convert) for one in lists])


# Exact decimals, and functions from generated source.

#: Exact arithmetic on any NUMERIC of PostgreSQL (131,072 digits before the point, 16,383 after).
EXACT = Context(
    prec=200_000,
    Emax=MAX_EMAX,
    Emin=MIN_EMIN,
    traps=[Inexact, InvalidOperation, Overflow, Underflow],
)


def compile_function(
    name: str, parameter: str, body: Sequence[str], namespace: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return the function ``name(parameter)`` with these body lines, its globals being ``namespace``."""
    source = "\n".join([f"def {name}({parameter}):", *(f"    {line}" for line in body)])
    scope: dict[str, Any] = dict(namespace)
    exec(compile(source, f"<{name}>", "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


def unscaled(value: Decimal, scale: int) -> int:
    """Return ``value * 10**scale``; ValueError if that is not an integer or value is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    product = EXACT.scaleb(value, scale)
    whole = int(product)
    if whole != product:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return whole


def quantum(scale: int) -> Decimal:
    """Return the unit in the last place of a decimal of that scale: 0.01 for 2."""
    return Decimal(1).scaleb(-scale)


def plain_decimal(value: Decimal) -> Decimal:
    """Return an equal decimal whose exponent is not positive: 1200 for 1.2E+3."""
    exponent = value.as_tuple().exponent
    return EXACT.quantize(value, Decimal(1)) if isinstance(exponent, int) and exponent > 0 else value
