"""What every DuckDB database of ours is given: macros and functions with PostgreSQL's meaning.

Macros are DuckDB SQL (vectorised, nothing to call); functions are Python over Arrow arrays, for what
DuckDB cannot compute exactly. Errors travel as text: ``SQLSTATE 22012: division by zero``.
"""

# ruff: noqa: E501 - one macro is one string
from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from herdpy_sql.columnar import exact, functions_py
from herdpy_sql.errors import SqlError

_OVERFLOW = "error('SQLSTATE 22003: value out of range: overflow')"
_UNDERFLOW = "error('SQLSTATE 22003: value out of range: underflow')"
_ZERO = "error('SQLSTATE 22012: division by zero')"


def _range(name: str, duck: str, type_: str, low: str, high: str) -> str:
    return (
        f"CREATE MACRO {name}(x) AS CASE WHEN x IS NULL THEN NULL WHEN isnan(x) OR round_even(x, 0) < {low} "
        f"OR round_even(x, 0) >= {high} THEN error('SQLSTATE 22003: {type_} out of range') "
        f"ELSE CAST(round_even(x, 0) AS {duck}) END"
    )


def _integer(name: str, duck: str, type_: str) -> str:
    pattern = r"[\s]*[+-]?[0-9]+[\s]*"
    return (
        f"CREATE MACRO {name}(x) AS CASE WHEN x IS NULL THEN NULL WHEN regexp_full_match(x, '{pattern}') THEN "
        f"coalesce(TRY_CAST(trim(x) AS {duck}), error('SQLSTATE 22003: value \"' || x || '\" is out of range for type {type_}')) "
        f"ELSE error('SQLSTATE 22P02: invalid input syntax for type {type_}: \"' || x || '\"') END"
    )


def _try(name: str, duck: str, type_: str, state: str = "22007") -> str:
    return (
        f"CREATE MACRO {name}(x) AS CASE WHEN x IS NULL THEN NULL ELSE coalesce(TRY_CAST(x AS {duck}), "
        f"error('SQLSTATE {state}: invalid input syntax for type {type_}: \"' || x || '\"')) END"
    )


MACROS = (
    f"CREATE MACRO pg_finite(r, a, b) AS CASE WHEN isinf(r) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} ELSE r END",
    f"CREATE MACRO pg_fmul(a, b) AS CASE WHEN isinf(a * b) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} "
    f"WHEN a * b = 0 AND a <> 0 AND b <> 0 THEN {_UNDERFLOW} ELSE a * b END",
    f"CREATE MACRO pg_fdiv(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 AND NOT isnan(a) THEN {_ZERO} "
    f"WHEN isinf(a / b) AND NOT isinf(a) THEN {_OVERFLOW} "
    f"WHEN a / b = 0 AND a <> 0 AND NOT isinf(b) THEN {_UNDERFLOW} ELSE a / b END",
    f"CREATE MACRO pg_fpow(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN a = 0 AND b < 0 THEN error('SQLSTATE 2201F: zero raised to a negative power is undefined') "
    "WHEN a < 0 AND isfinite(a) AND isfinite(b) AND floor(b) <> b "
    "THEN error('SQLSTATE 2201F: a negative number raised to a non-integer power yields a complex result') "
    f"WHEN isinf(pow(a, b)) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} "
    f"WHEN pow(a, b) = 0 AND a <> 0 AND isfinite(a) AND isfinite(b) THEN {_UNDERFLOW} ELSE pow(a, b) END",
    f"CREATE MACRO pg_fexp(a) AS CASE WHEN isinf(exp(a)) AND NOT isinf(a) THEN {_OVERFLOW} "
    f"WHEN exp(a) = 0 AND NOT isinf(a) THEN {_UNDERFLOW} ELSE exp(a) END",
    "CREATE MACRO pg_flog(f, a) AS CASE WHEN a = 0 THEN error('SQLSTATE 2201E: cannot take logarithm of zero') "
    "WHEN a < 0 THEN error('SQLSTATE 2201E: cannot take logarithm of a negative number') "
    "WHEN f = 'ln' THEN ln(a) ELSE log10(a) END",
    "CREATE MACRO pg_fsqrt(a) AS CASE WHEN a < 0 THEN "
    "error('SQLSTATE 2201F: cannot take square root of a negative number') ELSE sqrt(a) END",
    f"CREATE MACRO pg_tofloat(x) AS CASE WHEN isinf(x) OR isnan(x) THEN CAST(x AS FLOAT) "
    f"WHEN TRY_CAST(x AS FLOAT) IS NULL AND x IS NOT NULL OR isinf(TRY_CAST(x AS FLOAT)) THEN {_OVERFLOW} "
    f"WHEN TRY_CAST(x AS FLOAT) = 0 AND x <> 0 THEN {_UNDERFLOW} ELSE TRY_CAST(x AS FLOAT) END",
    _range("pg_tosmallint", "SMALLINT", "smallint", "-32768", "32768"),
    _range("pg_tointeger", "INTEGER", "integer", "-2147483648", "2147483648"),
    _range("pg_tobigint", "BIGINT", "bigint", "-9223372036854775808::DOUBLE", "9223372036854775808::DOUBLE"),
    _integer("pg_smallint", "SMALLINT", "smallint"),
    _integer("pg_integer", "INTEGER", "integer"),
    _integer("pg_bigint", "BIGINT", "bigint"),
    "CREATE MACRO pg_leading(t) AS CASE WHEN t[1] = '.' THEN '0' || t WHEN t[1:2] = '-.' THEN '-0' || t[2:] ELSE t END",
    "CREATE MACRO pg_dectext(t, cut) AS CASE WHEN cut <= 0 THEN t ELSE rtrim(left(t, CAST(length(t) - cut AS BIGINT)), '.') END",
    "CREATE MACRO pg_uuid(x) AS CAST(pg_uuidform(x) AS UUID)",
    "CREATE MACRO pg_asdate(n) AS CASE WHEN n = 2147483647 THEN DATE 'infinity' WHEN n <= -2147483647 THEN DATE '-infinity' "
    "ELSE DATE '1970-01-01' + n END",
    "CREATE MACRO pg_astimestamp(n) AS CASE WHEN n = 9223372036854775807 THEN TIMESTAMP 'infinity' "
    "WHEN n <= -9223372036854775807 THEN TIMESTAMP '-infinity' ELSE make_timestamp(n) END",
    "CREATE MACRO pg_astimestamptz(n) AS CASE WHEN n = 9223372036854775807 THEN TIMESTAMPTZ 'infinity' "
    "WHEN n <= -9223372036854775807 THEN TIMESTAMPTZ '-infinity' ELSE make_timestamptz(n) END",
    "CREATE MACRO pg_date(x) AS pg_asdate(pg_datedays(x))",
    "CREATE MACRO pg_time(x) AS TIME '00:00:00' + to_microseconds(pg_timeus(x))",
    "CREATE MACRO pg_timestamp(x) AS pg_astimestamp(pg_timestampus(x))",
    "CREATE MACRO pg_timestamptz(x) AS pg_astimestamptz(pg_timestamptzus(x))",
    "CREATE MACRO pg_finput(f, x) AS CASE WHEN x < -1 OR x > 1 THEN error('SQLSTATE 22003: input is out of range') "
    "WHEN f = 'asin' THEN asin(greatest(-1, least(1, x))) ELSE acos(greatest(-1, least(1, x))) END",
    "CREATE MACRO pg_regexp_replace(s, p, r, f) AS regexp_replace(s, p, pg_replacement(r), 's' || f)",
    _try("pg_interval", "INTERVAL", "interval"),
    "CREATE MACRO pg_json(x) AS CASE WHEN x IS NULL OR json_valid(x) THEN x ELSE "
    "error('SQLSTATE 22P02: invalid input syntax for type json') END",
    "CREATE MACRO pg_timestamptext(x) AS CAST(x AS VARCHAR)",
    "CREATE MACRO pg_timestamptztext(x) AS CAST(x AS VARCHAR)",
    "CREATE MACRO pg_upper(x) AS translate(x, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')",
    "CREATE MACRO pg_lower(x) AS translate(x, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')",
    "CREATE MACRO pg_limit_rows(x) AS CASE WHEN x < 0 THEN error('SQLSTATE 2201W: LIMIT must not be negative') ELSE x END",
    "CREATE MACRO pg_offset_rows(x) AS CASE WHEN x < 0 THEN error('SQLSTATE 2201X: OFFSET must not be negative') ELSE x END",
    "CREATE MACRO pg_substring(s, f, n) AS CASE WHEN n < 0 THEN error('SQLSTATE 22011: negative substring length not allowed') "
    "ELSE substring(s, greatest(f, 1), greatest(f + n - greatest(f, 1), 0)) END",
    "CREATE MACRO pg_substring_from(s, f) AS substring(s, greatest(f, 1))",
    "CREATE MACRO pg_chr(x) AS CASE WHEN x <= 0 OR x > 1114111 THEN error('SQLSTATE 54000: requested character not valid') "
    "ELSE chr(CAST(x AS INTEGER)) END",
    f"CREATE MACRO pg_fsum(s, infinite) AS CASE WHEN isinf(s) AND NOT infinite THEN {_OVERFLOW} ELSE s END",
    "CREATE MACRO pg_tsdiff(a, b) AS to_days(CAST((epoch_us(a) - epoch_us(b)) // 86400000000 AS INTEGER)) "
    "+ to_microseconds((epoch_us(a) - epoch_us(b)) % 86400000000)",
    "CREATE MACRO pg_shl(a, n, bits) AS pg_wrap(a, n, bits)",
    "CREATE MACRO pg_shr(a, n, bits) AS a // (CAST(1 AS HUGEINT) << n) - CASE WHEN a < 0 AND a % (CAST(1 AS HUGEINT) << n) <> 0 THEN 1 ELSE 0 END",
    "CREATE MACRO pg_left(s, n) AS CASE WHEN n >= 0 THEN left(s, n) ELSE left(s, greatest(length(s) + n, 0)) END",
    "CREATE MACRO pg_right(s, n) AS CASE WHEN n >= 0 THEN right(s, n) ELSE right(s, greatest(length(s) + n, 0)) END",
    "CREATE MACRO pg_replace(s, a, b) AS CASE WHEN a = '' THEN s ELSE replace(s, a, b) END",
    "CREATE MACRO pg_ascii(s) AS CASE WHEN s = '' THEN 0 ELSE CAST(unicode(s) AS INTEGER) END",
    "CREATE MACRO pg_lpad(s, n, f) AS CASE WHEN n <= 0 THEN left(s, 0) WHEN length(s) >= n THEN left(s, n) WHEN f = '' THEN s ELSE lpad(s, n, f) END",
    "CREATE MACRO pg_rpad(s, n, f) AS CASE WHEN n <= 0 THEN left(s, 0) WHEN length(s) >= n THEN left(s, n) WHEN f = '' THEN s ELSE rpad(s, n, f) END",
    "CREATE MACRO pg_overlay(s, r, f, n) AS CASE WHEN f <= 0 THEN error('SQLSTATE 22011: negative substring length not allowed') "
    "ELSE substring(s, 1, f - 1) || r || substring(s, f + n) END",
    "CREATE MACRO pg_series(a, b, s) AS CASE WHEN a IS NULL OR b IS NULL OR s IS NULL THEN [] ELSE generate_series(a, b, s) END",
)


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros and functions in the connection's database."""
    define: Any = connection.create_function
    for name, function, arguments, result in functions_py.FUNCTIONS:
        define(
            name,
            _vectorised(function, functions_py.arrow_of(result), arguments),
            list(arguments),
            result,
            type="arrow",
            null_handling="special",
            side_effects=False,
        )
    connection.execute(";".join(MACROS))


def _vectorised(
    function: Callable[..., Any], result: pa.DataType, arguments: tuple[Any, ...]
) -> Callable[..., Any]:
    """``function`` of one row's values as a function of Arrow arrays; NULL gives NULL."""

    def one(column: Any) -> Any:
        cache: dict[Any, Any] = {None: None}
        out = []
        if arguments[0].endswith("[]"):
            return pa.array([None if value is None else call(value) for value in column.to_pylist()], result)
        for value in column.to_pylist():
            if value in cache:
                out.append(cache[value])
                continue
            out.append(result_of := call(value))
            if len(cache) < 10_000:
                cache[value] = result_of
        return pa.array(out, result)

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except SqlError as error:
            detail = f" DETAIL {error.detail}" if error.detail else ""
            raise ValueError(f"SQLSTATE {error.sqlstate}: {error.message}{detail}") from None

    def many(*columns: Any) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if None in row else call(*row) for row in rows], result)

    # DuckDB counts the parameters of the function that it is given.
    arity = len(arguments)
    if arity == 1:
        return one
    if arity == 2:
        return lambda a, b: many(a, b)
    if arity == 3:
        return lambda a, b, c: many(a, b, c)
    return lambda a, b, c, d: many(a, b, c, d)


__all__ = ["MACROS", "Decimal", "exact", "install"]
