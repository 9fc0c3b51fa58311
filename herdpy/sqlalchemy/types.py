"""How values pass between SQLAlchemy's types and the driver, and the types that only HerdPy has.

The driver takes and gives Python objects, so hardly anything is converted here. Parameters are
rendered with a cast to their type (``render_bind_cast``), as for psycopg: the meaning of a
statement then never hangs on what the server would guess.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.pg_catalog import INT2VECTOR, OIDVECTOR
from sqlalchemy.engine import processors

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

T = TypeVar("T", bound=sqltypes.TypeEngine[Any])

_FLOATS = (700, 701)
_EXACT = (20, 21, 23, 26, 1700)


class VECTOR(sqltypes.UserDefinedType[Sequence[float]]):
    """VECTOR(n): ``n`` numbers of single precision, for similarity search. Values are lists of floats."""

    cache_ok = True

    def __init__(self, dimensions: int | None = None) -> None:
        self.dimensions = dimensions

    def get_col_spec(self, **_: Any) -> str:
        """The type's text in DDL."""
        return "VECTOR" if self.dimensions is None else f"VECTOR({self.dimensions})"


def _with_cast(kind: type[T]) -> type[T]:
    """A type as ``kind`` whose parameters are rendered with a cast to it."""
    return cast(type[T], type(f"_{kind.__name__}", (kind,), {"render_bind_cast": True}))


class _Number:
    """Numbers come as float or Decimal, as the column has them; the type may want the other."""

    asdecimal: bool | None
    _effective_decimal_return_scale: int

    def bind_processor(self, dialect: Dialect) -> None:
        return None

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any] | None:
        if coltype not in _FLOATS and coltype not in _EXACT:
            raise exc.InvalidRequestError(f"a column of type {coltype} does not hold numbers")
        if self.asdecimal:
            if coltype in _FLOATS:
                return processors.to_decimal_processor_factory(
                    decimal.Decimal, self._effective_decimal_return_scale
                )
            return None
        return None if coltype in _FLOATS else processors.to_float


class _Numeric(_Number, sqltypes.Numeric[Any]):  # type: ignore[misc, unused-ignore]
    pass


class _Float(_Number, sqltypes.Float[Any]):  # type: ignore[misc, unused-ignore]
    pass


class _Places:
    """The catalog's vectors of numbers come as text: ``1 2 3``."""

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any]:
        return lambda value: None if value is None else [int(one) for one in value.split()]


class _Int2Vector(_Places, INT2VECTOR):
    pass


class _OidVector(_Places, OIDVECTOR):
    pass


class _Decoded:
    """The driver has decoded JSON's text already, unless the engine was given its own decoder."""

    render_bind_cast = True

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any] | None:
        return dialect.json_results(coltype)  # type: ignore[no-any-return]


class _Json(_Decoded, postgresql.JSON):
    pass


class _Jsonb(_Decoded, postgresql.JSONB):
    pass


class _JsonIndex(sqltypes.JSON.JSONIntIndexType):
    __visit_name__ = "json_int_index"
    render_bind_cast = True


class _JsonKey(sqltypes.JSON.JSONStrIndexType):
    __visit_name__ = "json_str_index"
    render_bind_cast = True


_Interval = _with_cast(postgresql.INTERVAL)

COLSPECS: dict[type[sqltypes.TypeEngine[Any]], type[sqltypes.TypeEngine[Any]]] = {
    sqltypes.Numeric: _Numeric,
    sqltypes.Float: _Float,
    sqltypes.String: _with_cast(sqltypes.String),
    sqltypes.Integer: _with_cast(sqltypes.Integer),
    sqltypes.SmallInteger: _with_cast(sqltypes.SmallInteger),
    sqltypes.BigInteger: _with_cast(sqltypes.BigInteger),
    sqltypes.Date: _with_cast(sqltypes.Date),
    sqltypes.Time: _with_cast(sqltypes.Time),
    sqltypes.DateTime: _with_cast(sqltypes.DateTime),
    sqltypes.Interval: _Interval,
    postgresql.INTERVAL: _Interval,
    sqltypes.ARRAY: _with_cast(postgresql.ARRAY),
    INT2VECTOR: _Int2Vector,
    OIDVECTOR: _OidVector,
    sqltypes.JSON: _Json,
    postgresql.JSON: _Json,
    postgresql.JSONB: _Jsonb,
    sqltypes.JSON.JSONIntIndexType: _JsonIndex,
    sqltypes.JSON.JSONStrIndexType: _JsonKey,
}
"""What takes the place of SQLAlchemy's own types, beside what its PostgreSQL base replaces."""
