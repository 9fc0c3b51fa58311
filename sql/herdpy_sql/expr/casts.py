"""Which casts exist, in which contexts, and what carries them out (PostgreSQL's pg_cast).

Contexts: "implicit" casts happen anywhere, "assignment" ones when a value goes into a column, and "explicit"
ones only where CAST or :: is written. Casts from and to text go through the text forms. ``can_cast`` knows
base types; ``castable`` what arrays hold, and ENUMs, too.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.jsonb import read_json
from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Grid,
    Interval,
    mapped,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import numeric, zones
from herdpy_sql.expr.integers import out_of_range
from herdpy_sql.expr.nodes import Function
from herdpy_sql.types import BITS, Base, SqlType
from herdpy_sql.values import from_text, to_text
from herdpy_sql.values.bits import bits_of_number, fit_bits, limit_bits, number_of_bits
from herdpy_sql.values.civil import DAY_US
from herdpy_sql.values.floats import round32
from herdpy_sql.values.inets import as_network, cidr_text
from herdpy_sql.values.integers import INTEGER_RANGES
from herdpy_sql.values.macaddrs import lengthened, shortened
from herdpy_sql.values.moments import check_date, check_timestamp
from herdpy_sql.values.names import char_of_byte, cut_name
from herdpy_sql.values.number_vectors import numbers_of
from herdpy_sql.values.numeric import fit, from_float
from herdpy_sql.values.oids import MAX_OID, oid_of_bigint
from herdpy_sql.values.precision import fitting
from herdpy_sql.values.reg_types import REG_TYPES, reg_oid, without_name
from herdpy_sql.values.strings import cut_text, limit_text
from herdpy_sql.values.styled import IMMUTABLE_TEXTS, is_read_by_style, is_written_by_style, reader, writer
from herdpy_sql.values.vectors import checked_number, fit_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_sql.clock import Clock


B = Base
_LEVELS = {"implicit": 0, "assignment": 1, "explicit": 2}
STRINGS = frozenset({B.TEXT, B.VARCHAR, B.CHAR})
_TEXTS = STRINGS | {B.NAME}
"""Types that all others become by their text, and are read from."""
INTEGERS = frozenset({B.SMALLINT, B.INTEGER, B.BIGINT})
FLOATS = frozenset({B.REAL, B.DOUBLE})

# The narrowest context of each cast that is no text conversion.
_CONTEXT: dict[tuple[Base, Base], int] = {}


def _declare(level: str, source: Base, *targets: Base) -> None:
    for target in targets:
        _CONTEXT[source, target] = _LEVELS[level]


_declare("implicit", B.SMALLINT, B.INTEGER, B.BIGINT, B.NUMERIC, B.REAL, B.DOUBLE)
_declare("implicit", B.INTEGER, B.BIGINT, B.NUMERIC, B.REAL, B.DOUBLE)
_declare("assignment", B.INTEGER, B.SMALLINT)
_declare("explicit", B.INTEGER, B.BOOLEAN)
_declare("implicit", B.BIGINT, B.NUMERIC, B.REAL, B.DOUBLE)
_declare("assignment", B.BIGINT, B.SMALLINT, B.INTEGER)
_declare("implicit", B.NUMERIC, B.REAL, B.DOUBLE)
_declare("assignment", B.NUMERIC, B.SMALLINT, B.INTEGER, B.BIGINT)
_declare("implicit", B.REAL, B.DOUBLE)
_declare("assignment", B.REAL, B.SMALLINT, B.INTEGER, B.BIGINT, B.NUMERIC)
_declare("assignment", B.DOUBLE, B.SMALLINT, B.INTEGER, B.BIGINT, B.NUMERIC, B.REAL)
_declare("explicit", B.BOOLEAN, B.INTEGER)
_declare("implicit", B.DATE, B.TIMESTAMP, B.TIMESTAMPTZ)
_declare("implicit", B.TIMESTAMP, B.TIMESTAMPTZ)
_declare("implicit", B.TIME, B.INTERVAL)
_declare("assignment", B.TIMESTAMP, B.DATE, B.TIME)
_declare("assignment", B.TIMESTAMPTZ, B.DATE, B.TIME, B.TIMESTAMP)
_declare("assignment", B.INTERVAL, B.TIME)
_declare("assignment", B.JSON, B.JSONB)
_declare("assignment", B.JSONB, B.JSON)
_declare("explicit", B.JSONB, B.BOOLEAN, B.SMALLINT, B.INTEGER, B.BIGINT, B.NUMERIC, B.REAL, B.DOUBLE)
_declare("assignment", B.ARRAY, B.VECTOR)
_declare("implicit", B.VECTOR, B.ARRAY)
_declare("implicit", B.CIDR, B.INET)
_declare("assignment", B.INET, B.CIDR)
_declare("implicit", B.MACADDR, B.MACADDR8)
_declare("implicit", B.MACADDR8, B.MACADDR)
_declare("implicit", B.BIT, B.VARBIT)
_declare("implicit", B.VARBIT, B.BIT)
_declare("explicit", B.BIT, B.INTEGER, B.BIGINT)
_declare("explicit", B.INTEGER, B.BIT)
_declare("explicit", B.BIGINT, B.BIT)
for _source in STRINGS:
    _declare("implicit", _source, *(STRINGS - {_source}))
    _declare("implicit", _source, B.NAME, B.REGCLASS)
    _declare("assignment", _source, B.CHAR_BYTE)
_declare("implicit", B.NAME, B.TEXT)
_declare("implicit", B.CHAR_BYTE, B.TEXT)
_declare("explicit", B.CHAR_BYTE, B.INTEGER)
_declare("explicit", B.INTEGER, B.CHAR_BYTE)
for _source in INTEGERS:
    _declare("implicit", _source, B.OID, *REG_TYPES)
_declare("assignment", B.OID, B.INTEGER, B.BIGINT)
_declare("implicit", B.OID, *REG_TYPES)
for _source in REG_TYPES:
    _declare("implicit", _source, B.OID)
    _declare("assignment", _source, B.INTEGER, B.BIGINT)
_declare("implicit", B.REGPROC, B.REGPROCEDURE)
_declare("implicit", B.REGPROCEDURE, B.REGPROC)
_declare("implicit", B.INT2VECTOR, B.ARRAY)
_declare("implicit", B.OIDVECTOR, B.ARRAY)


def can_cast(source: Base, target: Base, context: str) -> bool:
    """Whether a value of ``source`` may become ``target`` in ``context``."""
    if source is target or source is B.UNKNOWN:
        return True
    level = _CONTEXT.get((source, target))
    if level is None:
        level = 1 if target in _TEXTS else 2 if source in _TEXTS else 3
    return level <= _LEVELS[context]


@functools.lru_cache(maxsize=4096)
def cast_function(source: SqlType, target: SqlType, *, explicit: bool) -> Function | None:
    """What converts datums of ``source`` to ``target``; None when they stay as they are.

    The cast must exist (:func:`can_cast`). An explicit cast cuts long text, another refuses it. It is the
    same object for the same cast, so that equal expressions are found to be equal.
    """
    if source != target and (target.base in REG_TYPES or target.element in REG_TYPES):
        return Function(f"::{target}", _no_catalog, foreign=f"a cast to {target}")
    convert, needs_clock = _convert(source, target, explicit=explicit)
    fitting = _fit(source, target, explicit=explicit)
    name = f"::{target}"
    fixed = (source.element or source.base) in IMMUTABLE_TEXTS
    if fitting is None:
        return None if convert is None else Function(name, convert, needs_clock=needs_clock, immutable=fixed)
    if convert is None:
        return Function(name, fitting)
    first, then = convert, fitting  # for the closures below; infinity has no time, but NULL
    if needs_clock:
        return Function(
            name,
            lambda clock, value: None if (one := first(clock, value)) is None else then(one),
            needs_clock=True,
            immutable=fixed,
        )
    return Function(name, lambda value: None if (one := first(value)) is None else then(one))


def _no_catalog(value: Any) -> Any:
    raise NotImplementedError("the name is looked up in the catalog")


def _fit(source: SqlType, target: SqlType, *, explicit: bool) -> Callable[[Any], Any] | None:
    """What enforces the modifiers of ``target`` on a value of its base."""
    base = target.base
    if target.is_rounded_time and source != target:
        if target.element is None:
            return fitting(target)
        one = None if source.base is B.ARRAY else fitting(target.element_type)
        return None if one is None else lambda value: mapped(value, one)
    if base is B.VECTOR and target.length is not None and source != target:
        return lambda value: fit_vector(value, target)
    if base is B.CHAR and (source.base is not B.CHAR or source.length != target.length):
        return lambda value: (cut_text if explicit else limit_text)(value, target)
    if base in BITS and target.length is not None and source != target and source.base not in INTEGERS:
        return lambda value: (fit_bits if explicit else limit_bits)(value, target)
    if base is B.VARCHAR and target.length is not None and source != target:
        return lambda value: (cut_text if explicit else limit_text)(value, target)
    if base is B.NUMERIC and target.precision is not None and source != target:
        return lambda value: fit(value, target)
    return None


def _convert(source: SqlType, target: SqlType, *, explicit: bool) -> tuple[Callable[..., Any] | None, bool]:
    """What converts between the bases, and whether it needs the clock."""
    a, b = source.base, target.base
    if a is B.ARRAY and b is B.ARRAY:
        return _elements(source, target, explicit=explicit)
    if a is b or (a in STRINGS and b in STRINGS) or (a, b) == (B.REAL, B.DOUBLE):
        return None, False
    if b in STRINGS:
        if is_written_by_style(source):
            return (lambda clock, value: writer(source, clock.style)(value)), True
        if a in {B.JSON, B.JSONB, B.UNKNOWN}:
            return None, False
        if a is B.BOOLEAN:
            return (lambda value: "true" if value else "false"), False
        if a is B.INET:
            return cidr_text, False
        return to_text(source), False
    if b is B.NAME and a not in STRINGS and a is not B.UNKNOWN:
        if is_written_by_style(source):
            return (lambda clock, value: cut_name(writer(source, clock.style)(value))), True
        write = to_text(source)
        return (lambda value: cut_name(write(value))), False
    if a in _TEXTS or a is B.UNKNOWN:
        if is_read_by_style(target):
            read = reader(target if b is B.ARRAY else SqlType(b))
            return (lambda clock, text: read(text, clock.style, clock.transaction_us or None)), True
        parse = from_text(target if b in {B.ARRAY, B.ENUM} else SqlType(b))
        if a is B.CHAR and source.length is not None and b in {B.JSON, B.BYTEA}:
            width = source.length
            return (lambda value: parse(value.ljust(width))), False  # they see the blanks
        return parse, False
    if a is B.JSONB and b is not B.JSON:
        return _from_jsonb(b), False
    if a in _CATALOG_TYPES or b in _CATALOG_TYPES:
        return _between_ids(a, b), False
    if b in BITS:
        width = 64 if a is B.BIGINT else 32
        return None if a in BITS else (lambda value: bits_of_number(value, target.length, width)), False
    if a is B.BIT:
        width = 64 if b is B.BIGINT else 32
        return (lambda value: number_of_bits(value, width, b.value)), False
    if b in INTEGERS:
        return _to_integer(a, b), False
    if b is B.NUMERIC:
        if a in FLOATS:
            digits = 6 if a is B.REAL else 15
            return (lambda value: _finite_numeric(value, digits)), False
        return Decimal, False
    if b in FLOATS:
        return _to_float(a, b), False
    if b is B.BOOLEAN:
        return bool, False
    return _OTHERS[a, b]


def _elements(source: SqlType, target: SqlType, *, explicit: bool) -> tuple[Callable[..., Any] | None, bool]:
    """What converts the elements of an array, one by one."""
    function = cast_function(source.element_type, target.element_type, explicit=explicit)
    if function is None:
        return None, False
    convert = function.implementation
    if function.needs_clock:
        return (lambda clock, value: mapped(value, lambda one: convert(clock, one))), True
    return (lambda value: mapped(value, convert)), False


VECTOR_ELEMENTS = {B.INT2VECTOR: B.SMALLINT, B.OIDVECTOR: B.OID}
"""What the numbers of vectors are, which become arrays wherever one is expected."""
_CATALOG_TYPES = frozenset({B.OID, B.CHAR_BYTE, *REG_TYPES, *VECTOR_ELEMENTS})


def _between_ids(a: Base, b: Base) -> Callable[[Any], Any] | None:
    """Between numbers, object ids and "char"; to REG_TYPES without names, which only the catalog knows."""
    if a in VECTOR_ELEMENTS:
        return numbers_of
    if b is B.CHAR_BYTE:
        return _byte_to_char
    if a is B.CHAR_BYTE:
        return lambda value: ord(value) if value else 0
    to_oid: Callable[[Any], int] | None = None
    if a in REG_TYPES:
        to_oid = reg_oid
    elif a is B.BIGINT:
        to_oid = oid_of_bigint
    elif a in INTEGERS:
        to_oid = lambda value: value % (MAX_OID + 1)  # noqa: E731 - one of several
    if b is B.INTEGER:
        first = to_oid or int
        return lambda value: (first(value) + 2**31) % 2**32 - 2**31
    if b in REG_TYPES:
        before = to_oid or int
        return lambda value: without_name(before(value))
    return to_oid


def _byte_to_char(value: int) -> str:
    if not -128 <= value <= 127:
        raise SqlError("22003", '"char" out of range')
    return char_of_byte(value & 0xFF)


_JSON_NAMES = {bool: "boolean", Decimal: "numeric", str: "string", list: "array", dict: "object"}


def _from_jsonb(b: Base) -> Callable[[str], Any]:
    """A JSONB scalar as a number or BOOLEAN. SqlError 22023 for what is none."""
    wanted = bool if b is B.BOOLEAN else Decimal
    convert = (
        None if b in {B.BOOLEAN, B.NUMERIC} else cast_function(SqlType(B.NUMERIC), SqlType(b), explicit=True)
    )

    def cast(text: str) -> Any:
        value = read_json(text)
        if type(value) is not wanted:
            shown = "null" if value is None else _JSON_NAMES[type(value)]
            raise SqlError("22023", f"cannot cast jsonb {shown} to type {b.value}")
        return value if convert is None else convert.implementation(value)

    return cast


def _to_integer(a: Base, b: Base) -> Callable[[Any], Any] | None:
    low, high = INTEGER_RANGES[b]
    if a in INTEGERS:
        if INTEGER_RANGES[a][1] <= high:
            return None

        def narrow(value: int) -> int:
            if low <= value <= high:
                return value
            raise out_of_range(b)

        return narrow
    if a is B.BOOLEAN:
        return int
    if a is B.NUMERIC:
        return lambda value: numeric.to_integer(value, low, high, out_of_range(b))

    def from_double(value: float) -> int:
        if not math.isfinite(value):
            raise out_of_range(b)
        result = round(value)
        if low <= result <= high:
            return result
        raise out_of_range(b)

    return from_double


def _to_float(a: Base, b: Base) -> Callable[[Any], float]:
    if b is B.DOUBLE:
        return _decimal_to_double if a is B.NUMERIC else float
    if a is B.NUMERIC:
        return lambda value: from_text(SqlType(B.REAL))(f"{value:f}")
    return lambda value: round32(float(value))


def _decimal_to_double(value: Decimal) -> float:
    result = float(value)
    if math.isinf(result) or (result == 0 and value):
        raise SqlError("22003", f'"{value:f}" is out of range for type double precision')
    return result


def _finite_numeric(value: float, digits: int) -> Decimal:
    if not math.isfinite(value):
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    return from_float(value, digits)


def date_to_timestamp(days: int) -> int:
    """Midnight of a date; infinities stay. SqlError 22008 beyond a timestamp's range."""
    if days == DATE_INFINITY:
        return TIMESTAMP_INFINITY
    if days == DATE_NEGATIVE_INFINITY:
        return TIMESTAMP_NEGATIVE_INFINITY
    try:
        return check_timestamp(days * DAY_US)
    except SqlError:
        raise SqlError("22008", "date out of range for timestamp") from None


def timestamp_to_date(us: int) -> int:
    """The day of a timestamp; infinities stay."""
    if us == TIMESTAMP_INFINITY:
        return DATE_INFINITY
    if us == TIMESTAMP_NEGATIVE_INFINITY:
        return DATE_NEGATIVE_INFINITY
    return check_date(us // DAY_US)


def timestamp_to_time(us: int) -> int | None:
    """The time of day; NULL of an infinity."""
    return None if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY} else us % DAY_US


def timestamptz_to_timestamp(clock: Clock, us: int) -> int:
    """What a clock in the session's zone shows."""
    return zones.to_local(us, clock.zone)


def timestamp_to_timestamptz(clock: Clock, us: int) -> int:
    """When a clock in the session's zone shows it."""
    return zones.to_utc(us, clock.zone)


def _array_to_vector(values: tuple[Any, ...]) -> tuple[float, ...]:
    if isinstance(values, Grid):
        raise SqlError("22000", "array must be 1-D")
    if not values:
        raise SqlError("22000", "vector must have at least 1 dimension")
    if None in values:
        raise SqlError("22004", "array must not contain nulls")
    return tuple([checked_number(float(one)) for one in values])


_OTHERS: dict[tuple[Base, Base], tuple[Callable[..., Any] | None, bool]] = {
    (B.TIME, B.INTERVAL): (lambda us: Interval(0, 0, us), False),
    (B.INTERVAL, B.TIME): (lambda value: value[2] % DAY_US, False),
    (B.JSON, B.JSONB): (from_text(SqlType(B.JSONB)), False),
    (B.JSONB, B.JSON): (lambda value: value, False),
    (B.ARRAY, B.VECTOR): (_array_to_vector, False),
    (B.VECTOR, B.ARRAY): (lambda value: value, False),
    (B.CIDR, B.INET): (None, False),
    (B.INET, B.CIDR): (as_network, False),
    (B.MACADDR, B.MACADDR8): (lengthened, False),
    (B.MACADDR8, B.MACADDR): (shortened, False),
    (B.DATE, B.TIMESTAMP): (date_to_timestamp, False),
    (B.DATE, B.TIMESTAMPTZ): (
        lambda clock, days: timestamp_to_timestamptz(clock, date_to_timestamp(days)),
        True,
    ),
    (B.TIMESTAMP, B.TIMESTAMPTZ): (timestamp_to_timestamptz, True),
    (B.TIMESTAMP, B.DATE): (timestamp_to_date, False),
    (B.TIMESTAMP, B.TIME): (timestamp_to_time, False),
    (B.TIMESTAMPTZ, B.TIMESTAMP): (timestamptz_to_timestamp, True),
    (B.TIMESTAMPTZ, B.DATE): (lambda clock, us: timestamp_to_date(zones.to_local(us, clock.zone)), True),
    (B.TIMESTAMPTZ, B.TIME): (lambda clock, us: timestamp_to_time(zones.to_local(us, clock.zone)), True),
}


def castable(source: SqlType, target: SqlType, context: str) -> bool:
    """:func:`can_cast`, of arrays' elements and ENUMs too."""
    if source.base is Base.ARRAY and target.base is Base.ARRAY:
        return castable(source.element_type, target.element_type, context)
    if source.base is Base.ENUM and target.base is Base.ENUM:
        return source.enum is not None and target.enum is not None and source.enum.id == target.enum.id
    if source.base in VECTOR_ELEMENTS and target.base is Base.ARRAY:
        return target.element is VECTOR_ELEMENTS[source.base]
    if Base.VECTOR in {source.base, target.base} and Base.ARRAY in {source.base, target.base}:
        element = source.element or target.element
        if element not in {Base.SMALLINT, Base.INTEGER, Base.REAL, Base.DOUBLE, Base.NUMERIC}:
            return False
        return can_cast(source.base, target.base, context) and (
            element is Base.REAL or source.base is Base.ARRAY
        )
    return can_cast(source.base, target.base, context)
