"""Python objects to parameters and back, for servers: psycopg's adapters, set to the embedded driver's types.

Parameters go as psycopg sends them, but dicts are JSON, and so are lists of what JSON has.
Rows come as text and are loaded as psycopg loads them; times with a zone are in UTC whatever the session's
zone is.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import abc, pq
from psycopg.adapt import AdaptersMap, Dumper, Loader, PyFormat, Transformer
from psycopg.types.array import ListDumper
from psycopg.types.json import JsonDumper
from psycopg.types.string import StrDumper

from herdpy.codec.kinds import PLAIN, Interval, is_no_time, plain
from herdpy.dbapi.errors import DataError, ProgrammingError
from herdpy.dbapi.types import Json, Jsonb, json_text

if TYPE_CHECKING:
    from herdpy.dbapi.link import Row

_VARCHAR, _CHAR, _NUMERIC, _VECTOR, _TEXT_ARRAY, _INTERVAL_OID = 1043, 1042, 1700, 16300, 1009, 1186
_ENUM_ARRAYS = 1 << 30
"""Object ids from here on are those of arrays of ENUMs."""
_INTERVAL = re.compile(
    r"(?:([-+]?\d+) years? ?)?(?:([-+]?\d+) mons? ?)?(?:([-+]?\d+) days? ?)?"
    r"(?:([-+])?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)
_HEADER = 4  # what PostgreSQL adds to a type's modifier


class _Json(JsonDumper):
    """dict as JSON."""

    _dumps = json_text


class _List(_Json):
    """list as JSON whose place decides what it is: JSON, or an array, which servers read from JSON too."""

    oid = 0


class _JsonText(StrDumper):
    """Json: its text, with the type."""

    oid = 114


class _JsonbText(StrDumper):
    """Jsonb likewise."""

    oid = 3802


class _IntervalDumper(Dumper):
    """Interval, in units of which each keeps its own."""

    oid = 1186

    def dump(self, obj: Interval) -> bytes:
        """See psycopg."""
        return b"%d mons %d days %d microseconds" % obj


class _IntervalLoader(Loader):
    """INTERVAL as a timedelta; with months, or more days than that has, as an Interval."""

    def load(self, data: Any) -> dt.timedelta | Interval:
        """PostgreSQL's text, as IntervalStyle postgres has it."""
        found = _INTERVAL.fullmatch(bytes(data).decode())
        if found is None:
            raise psycopg.DataError(f"can't parse interval {bytes(data).decode()!r}")
        years, months, days, sign, hours, minutes, seconds, fraction = found.groups(default="")
        us = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
        us = us * 1_000_000 + int(f"{fraction:0<6}")
        value = Interval(12 * int(years or 0) + int(months or 0), int(days or 0), -us if sign == "-" else us)
        if not value.months:
            with contextlib.suppress(OverflowError):
                return dt.timedelta(value.days, 0, value.us)
        return value


class _Array(list[Any]):
    """A list whose values JSON does not have: it is sent as an array of PostgreSQL's."""


_IN_JSON = frozenset({type(None), bool, int, str, dict})


def sent_as_array(value: Sequence[object]) -> bool:
    """Whether a list, or one within it, has values that JSON does not have, such as dates."""
    return not all(
        not sent_as_array(one)
        if type(one) is list
        else type(one) in _IN_JSON or (type(one) is float and math.isfinite(one))
        for one in value
    )


def _sent(value: Any) -> Any:
    """What psycopg is given for a parameter."""
    if type(value) is list:
        listed = _plain_list(value)
        return _Array(listed) if sent_as_array(listed) else listed
    if is_no_time(value):
        raise TypeError("pandas.NaT is no moment: NULL is None")
    return value if isinstance(value, Json) else plain(value)


def _plain_list(value: Sequence[Any]) -> list[Any]:
    return [
        _plain_list(one) if type(one) is list else one if isinstance(one, Json) else plain(one)
        for one in value
    ]


class _VectorLoader(Loader):
    """VECTOR as a list of numbers."""

    def load(self, data: Any) -> list[float]:
        """pgvector's text is JSON's too."""
        found: list[float] = json.loads(bytes(data), parse_int=float)  # which keeps the sign of -0
        return found


class _Types(AdaptersMap):
    """psycopg's types, and arrays of ENUMs, whose object ids come from the type's."""

    def get_loader(self, oid: int, format: pq.Format) -> type[abc.Loader] | None:
        """See psycopg."""
        return super().get_loader(_TEXT_ARRAY if oid >= _ENUM_ARRAYS else oid, format)


class _Adapters:
    """psycopg's AdaptContext, without a connection: so times are in UTC and text is UTF-8."""

    connection = None

    def __init__(self) -> None:
        self.adapters = _Types(psycopg.adapters)
        self.adapters.register_dumper(dict, _Json)
        self.adapters.register_dumper(list, _List)
        self.adapters.register_dumper(_Array, ListDumper)
        self.adapters.register_dumper(Json, _JsonText)
        self.adapters.register_dumper(Jsonb, _JsonbText)
        self.adapters.register_dumper(Interval, _IntervalDumper)
        self.adapters.register_loader(_VECTOR, _VectorLoader)
        self.adapters.register_loader(_INTERVAL_OID, _IntervalLoader)


_ADAPTERS = _Adapters()


class _Adapting(threading.local):
    """What dumps parameters and loads rows, one for each thread: how a type is dumped or loaded takes long to
    find out."""

    def __init__(self) -> None:
        self.transformer = Transformer(_ADAPTERS)


_adapting = _Adapting()
_AUTO = tuple((PyFormat.AUTO,) * count for count in range(16))


@dataclass(frozen=True, slots=True)
class RemoteType:
    """A column's type by PostgreSQL's object id, and its modifiers."""

    oid: int
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    @classmethod
    def of(cls, oid: int, modifier: int) -> RemoteType:
        """The type that a row description says."""
        if modifier < _HEADER or oid not in (_VARCHAR, _CHAR, _NUMERIC):
            return cls(oid)
        if oid == _NUMERIC:
            return cls(oid, None, (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF)
        return cls(oid, modifier - _HEADER)


@dataclass(frozen=True, slots=True)
class RemoteColumn:
    """A column of a result."""

    name: str
    type: RemoteType


class Parameters(NamedTuple):
    """Parameters as libpq wants them."""

    values: Sequence[Any]
    types: tuple[int, ...]
    formats: Sequence[Any]


def dump(params: Sequence[object]) -> Parameters:
    """Parameters for libpq. ProgrammingError or DataError for what cannot be one."""
    if not params:
        return Parameters((), (), ())
    transformer = _adapting.transformer
    count = len(params)
    try:
        for one in params:
            if type(one) not in PLAIN:
                params = [_sent(one) for one in params]
                break
        formats = _AUTO[count] if count < len(_AUTO) else (PyFormat.AUTO,) * count
        values = transformer.dump_sequence(params, formats)
    except psycopg.DataError as error:
        raise DataError(str(error), sqlstate="22021" if "NUL" in str(error) else "22023") from None
    except psycopg.Error as error:
        raise ProgrammingError(str(error), sqlstate="42804") from None
    except UnicodeEncodeError as error:
        raise DataError(f"text that is not UTF-8: {error}", sqlstate="22021") from None
    except (ValueError, OverflowError, TypeError) as error:  # such as what JSON cannot say
        raise ProgrammingError(str(error), sqlstate="42804") from None
    return Parameters(values, tuple(transformer.types or ()), transformer.formats or ())


def literal(value: object) -> str:
    """A parameter as a literal of its type. ProgrammingError or DataError for what cannot be one."""
    dump([value])
    value = _sent(value)
    if type(value) is float:
        return f"'{value!r}'::float8"
    text = Transformer(_ADAPTERS).as_literal(value).decode().strip()
    return f"({text})" if text.startswith("-") else text


def rows_of(result: Any) -> list[Row]:
    """The rows of libpq's result. DataError 22008 for a date that Python does not have."""
    if not result.nfields:
        return [()] * result.ntuples
    transformer = _adapting.transformer
    transformer.set_pgresult(result)
    try:
        return transformer.load_rows(0, result.ntuples, tuple)
    except psycopg.DataError as error:
        raise DataError(str(error), sqlstate="22008") from None
    finally:
        transformer.set_pgresult(None)
