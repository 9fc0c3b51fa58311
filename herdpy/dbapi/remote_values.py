"""Python objects to parameters and back, for servers: psycopg's adapters, set to the embedded driver's types.

Parameters go as psycopg sends them, but lists and dicts are JSON. Rows come as text and are loaded as psycopg
loads them; times with a zone are in UTC whatever the session's zone is.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.types.json import JsonDumper

from herdpy.dbapi.errors import DataError, ProgrammingError

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.link import Row

_VARCHAR, _CHAR, _NUMERIC = 1043, 1042, 1700
_HEADER = 4  # what PostgreSQL adds to a type's modifier


json_text = functools.partial(json.dumps, allow_nan=False)
"""An object as JSON, which has no NaN. ValueError, TypeError for what it cannot say."""


class _Json(JsonDumper):
    """dict and list as JSON."""

    _dumps = json_text


class _Adapters:
    """psycopg's AdaptContext, without a connection: so times are in UTC and text is UTF-8."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_dumper(dict, _Json)
        self.adapters.register_dumper(list, _Json)


_ADAPTERS = _Adapters()


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


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters as libpq wants them."""

    values: Sequence[Any]
    types: tuple[int, ...]
    formats: Sequence[Any]


def dump(params: Sequence[object]) -> Parameters:
    """Parameters for libpq. ProgrammingError or DataError for what cannot be one."""
    if not params:
        return Parameters((), (), ())
    transformer = Transformer(_ADAPTERS)
    try:
        values = transformer.dump_sequence(params, [PyFormat.AUTO] * len(params))
    except psycopg.DataError as error:
        raise DataError(str(error), sqlstate="22021" if "NUL" in str(error) else "22023") from None
    except psycopg.Error as error:
        raise ProgrammingError(str(error), sqlstate="42804") from None
    except UnicodeEncodeError as error:
        raise DataError(f"text that is not UTF-8: {error}", sqlstate="22021") from None
    except (ValueError, OverflowError, TypeError) as error:  # such as what JSON cannot say
        raise ProgrammingError(str(error), sqlstate="42804") from None
    return Parameters(values, tuple(transformer.types or ()), transformer.formats or ())


class RemoteResult:
    """What a server answered to one statement."""

    __slots__ = ("_result", "columns", "rowcount", "tag")

    def __init__(self, result: Any) -> None:
        self._result = result
        self.tag: str = (result.command_status or b"").decode()
        self.columns: list[RemoteColumn] | None = None
        if result.status == pq.ExecStatus.TUPLES_OK:
            self.columns = [
                RemoteColumn(
                    (result.fname(at) or b"").decode(), RemoteType.of(result.ftype(at), result.fmod(at))
                )
                for at in range(result.nfields)
            ]
            self.rowcount: int = result.ntuples
        else:
            changed = result.command_tuples
            self.rowcount = -1 if changed is None else changed

    def python_rows(self) -> list[Row]:
        """The rows. DataError 22008 for a date that Python does not have."""
        if not self.columns:
            return [()] * self._result.ntuples
        transformer = Transformer(_ADAPTERS)
        transformer.set_pgresult(self._result)
        try:
            return transformer.load_rows(0, self._result.ntuples, tuple)
        except psycopg.DataError as error:
            raise DataError(str(error), sqlstate="22008") from None

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        from herdpy.dbapi.remote_arrow import table_of

        return table_of(self.columns or [], self.python_rows(), self._result)


class Told:
    """The answer to a statement that is known to be done, though its own answer was lost."""

    columns = None

    def __init__(self, tag: str, rowcount: int = -1) -> None:
        self.tag = tag
        self.rowcount = rowcount

    def python_rows(self) -> list[Row]:
        """None."""
        return []

    def arrow(self) -> pa.Table:
        """Never asked for."""
        raise AssertionError("no rows, no Arrow")
