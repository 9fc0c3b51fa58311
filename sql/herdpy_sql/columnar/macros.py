"""Macros and functions with PostgreSQL's meaning, which a DuckDB database is given when a query first names them.

To make all of them takes 80 ms, which the first query after a start would wait for.

Macros are DuckDB SQL (vectorised, nothing to call); functions are Python over Arrow arrays, for what
DuckDB cannot compute exactly. Errors travel as text: ``SQLSTATE 22012: division by zero``.

DuckDB puts an argument's text wherever a macro names it, so that calls in calls grow exponentially. A macro that
names a parameter more than once therefore binds its arguments first (``_bound``), and each is there once. What is
called most has a form beside it that does not, ``pg_fmul_bare``, some times faster, for arguments that are short.
"""

# ruff: noqa: E501 - one macro is one string
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_sql.columnar import callbacks
from herdpy_sql.duck import let
from herdpy_sql.errors import SqlError
from herdpy_sql.values.styles import PLAIN, Style

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

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
    f"CREATE MACRO pg_fadd(a, b) AS CASE WHEN isinf(a + b) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} ELSE a + b END",
    f"CREATE MACRO pg_fsub(a, b) AS CASE WHEN isinf(a - b) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} ELSE a - b END",
    f"CREATE MACRO pg_fmul(a, b) AS CASE WHEN isinf(a * b) AND NOT isinf(a) AND NOT isinf(b) THEN {_OVERFLOW} "
    f"WHEN a * b = 0 AND a <> 0 AND b <> 0 THEN {_UNDERFLOW} ELSE a * b END",
    f"CREATE MACRO pg_fdiv(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 AND NOT isnan(a) THEN {_ZERO} "
    f"WHEN isinf(a / b) AND NOT isinf(a) THEN {_OVERFLOW} "
    f"WHEN a / b = 0 AND a <> 0 AND NOT isinf(b) THEN {_UNDERFLOW} ELSE a / b END",
    f"CREATE MACRO pg_fspread(r, odd) AS CASE WHEN r IS NULL THEN NULL WHEN odd THEN CAST('nan' AS DOUBLE) WHEN isfinite(r) THEN r ELSE {_OVERFLOW} END",
    f"CREATE MACRO pg_fratio(r, odd, great) AS CASE WHEN r IS NULL THEN NULL WHEN odd THEN CAST('nan' AS DOUBLE) WHEN isfinite(r) THEN r WHEN great THEN {_OVERFLOW} END",
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
    "CREATE MACRO pg_astime(n) AS CASE WHEN n = 86400000000 THEN TIME '24:00:00' "
    "ELSE TIME '00:00:00' + to_microseconds(n) END",
    "CREATE MACRO pg_time(x) AS pg_astime(pg_timeus(x))",
    "CREATE MACRO pg_timestamp(x) AS pg_astimestamp(pg_timestampus(x))",
    "CREATE MACRO pg_timestamptz(x) AS pg_astimestamptz(pg_timestamptzus(x))",
    "CREATE MACRO pg_finput(f, x) AS CASE WHEN x < -1 OR x > 1 THEN error('SQLSTATE 22003: input is out of range') "
    "WHEN f = 'asin' THEN asin(greatest(-1, least(1, x))) ELSE acos(greatest(-1, least(1, x))) END",
    "CREATE MACRO pg_regexp_replace(s, p, r, f) AS regexp_replace(s, p, pg_replacement(r), 's' || f)",
    _try("pg_interval", "INTERVAL", "interval"),
    "CREATE MACRO pg_json(x) AS CASE WHEN x IS NULL OR json_valid(x) THEN x ELSE "
    "error('SQLSTATE 22P02: invalid input syntax for type json') END",
    "CREATE MACRO pg_datetext(x) AS replace(CAST(x AS VARCHAR), ' (BC)', ' BC')",
    r"CREATE MACRO pg_byteatext(x) AS ('\x' || lower(hex(x)))",
    "CREATE MACRO pg_date_at(x, now) AS pg_asdate(pg_datedays_at(x, now))",
    "CREATE MACRO pg_time_at(x, now) AS pg_astime(pg_timeus_at(x, now))",
    "CREATE MACRO pg_timestamp_at(x, now) AS pg_astimestamp(pg_timestampus_at(x, now))",
    "CREATE MACRO pg_timestamptz_at(x, now) AS pg_astimestamptz(pg_timestamptzus_at(x, now))",
    r"CREATE MACRO pg_timestamptext(x) AS regexp_replace(CAST(x AS VARCHAR), ' \(BC\)(.*)$', '\1 BC')",
    # Offsets of whole minutes and years of four digits are DuckDB's and PostgreSQL's alike.
    "CREATE MACRO pg_timestamptztext(x) AS CASE WHEN x >= TIMESTAMPTZ '1973-01-01 00:00:00+00' "
    "AND x < TIMESTAMPTZ '9999-12-30 00:00:00+00' OR NOT isfinite(x) THEN CAST(x AS VARCHAR) ELSE pg_zonedtext(epoch_us(x)) END",
    "CREATE MACRO pg_zonedplus(x, i) AS CASE WHEN i IS NULL OR isfinite(x) THEN "
    "pg_astimestamptz(pg_zonedplusus(epoch_us(x), i)) ELSE x END",
    "CREATE MACRO pg_timeofday(x) AS CASE WHEN isfinite(x) THEN CAST(x AS TIME) END",
    "CREATE MACRO pg_within_day(u, x) AS CASE WHEN isfinite(x) THEN "
    "x - (CAST(x AS TIMESTAMP) - date_trunc(u, CAST(x AS TIMESTAMP))) ELSE x END",
    "CREATE MACRO pg_years(n, x) AS CASE WHEN isfinite(x) THEN make_timestamp(n, 1, 1, 0, 0, 0) ELSE x END",
    "CREATE MACRO pg_decade(x) AS pg_years(CAST(floor(year(x) / 10) * 10 AS BIGINT), x)",
    "CREATE MACRO pg_century(x) AS pg_years(CAST(floor((year(x) - 1) / 100) * 100 + 1 AS BIGINT), x)",
    "CREATE MACRO pg_millennium(x) AS pg_years(CAST(floor((year(x) - 1) / 1000) * 1000 + 1 AS BIGINT), x)",
    "CREATE MACRO pg_offset(x) AS (epoch_us(CAST(x AS TIMESTAMP)) - epoch_us(x)) // 1000000",
    "CREATE MACRO pg_shownyear(y) AS CASE WHEN y > 0 THEN y WHEN y < 0 THEN y + 1 "
    "WHEN y = 0 THEN error('SQLSTATE 22008: date field value out of range: 0') END",
    "CREATE MACRO pg_year(y) AS CASE WHEN y <= 0 THEN y - 1 ELSE y END",
    "CREATE MACRO pg_upper(x) AS CASE WHEN strlen(x) = length(x) THEN upper(x) ELSE pg_uppertext(x) END",
    "CREATE MACRO pg_lower(x) AS CASE WHEN strlen(x) = length(x) THEN lower(x) ELSE pg_lowertext(x) END",
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
    "CREATE MACRO pg_left(s, n) AS CASE WHEN n >= 0 THEN left(s, n) WHEN n < 0 THEN left(s, greatest(length(s) + n, 0)) END",
    "CREATE MACRO pg_right(s, n) AS CASE WHEN n >= 0 THEN right(s, n) WHEN n < 0 THEN right(s, greatest(length(s) + n, 0)) END",
    "CREATE MACRO pg_repeat(s, n) AS CASE WHEN n >= 0 THEN repeat(s, n) WHEN n < 0 THEN repeat(s, 0) END",
    "CREATE MACRO pg_replace(s, a, b) AS CASE WHEN a = '' THEN s ELSE replace(s, a, b) END",
    "CREATE MACRO pg_ascii(s) AS CASE WHEN s = '' THEN 0 ELSE CAST(unicode(s) AS INTEGER) END",
    "CREATE MACRO pg_lpad(s, n, f) AS CASE WHEN n <= 0 THEN left(s, 0) WHEN length(s) >= n THEN left(s, n) WHEN f = '' THEN s ELSE lpad(s, n, f) END",
    "CREATE MACRO pg_rpad(s, n, f) AS CASE WHEN n <= 0 THEN left(s, 0) WHEN length(s) >= n THEN left(s, n) WHEN f = '' THEN s ELSE rpad(s, n, f) END",
    "CREATE MACRO pg_overlay(s, r, f, n) AS CASE WHEN f <= 0 THEN error('SQLSTATE 22011: negative substring length not allowed') "
    "ELSE substring(s, 1, f - 1) || r || substring(s, f + n) END",
    # The fields' texts between quotes where they would be read otherwise, as library.texts has it, too.
    r"CREATE MACRO pg_record(fields) AS '(' || array_to_string(list_transform(fields, lambda f: CASE WHEN f IS NULL THEN '' "
    r"""WHEN f = '' OR regexp_matches(f, '[\s\v"\\(),]') THEN '"' || replace(replace(f, '\', '\\'), '"', '""') || '"' """
    r"ELSE f END), ',') || ')'",
    "CREATE MACRO pg_series(a, b, s) AS CASE WHEN a IS NULL OR b IS NULL OR s IS NULL THEN [] ELSE generate_series(a, b, s) END",
)


_OF_DATES = (
    "CREATE MACRO pg_datetext(x) AS CASE WHEN isfinite(x) THEN pg_styleddate(CAST(x - DATE '1970-01-01' AS INTEGER)) "
    "ELSE CAST(x AS VARCHAR) END",
    "CREATE MACRO pg_timestamptext(x) AS CASE WHEN isfinite(x) THEN pg_styledtimestamp(epoch_us(x)) ELSE CAST(x AS VARCHAR) END",
    "CREATE MACRO pg_timestamptztext(x) AS CASE WHEN isfinite(x) THEN pg_zonedtext(epoch_us(x)) ELSE CAST(x AS VARCHAR) END",
)
"""In the place of macros above, where DateStyle is not ISO."""
_OF_BYTES = ("CREATE MACRO pg_byteatext(x) AS pg_escapedtext(x)",)
"""In the place of one above, where bytea_output is escape."""

_MACRO = re.compile(r"CREATE MACRO (\w+)\(([\w, ]*)\) AS (.*)", re.DOTALL)
BARE = frozenset(
    {"pg_fadd", "pg_fsub", "pg_fmul", "pg_fdiv", "pg_asdate", "pg_astimestamp", "pg_astimestamptz"}
)
"""Macros that are there as ``<name>_bare``, too."""


def copies(name: str) -> int:
    """How often ``<name>_bare`` has its arguments in its text, all together."""
    return _COPIES[name]


def _split(macro: str) -> tuple[str, list[str], str]:
    """Name, parameters and body."""
    match = _MACRO.fullmatch(macro)
    assert match is not None, macro
    return match[1], match[2].split(", "), match[3]


def _uses(body: str, parameter: str) -> int:
    return len(re.findall(rf"(?<![\w'.]){parameter}(?![\w'(])", _QUOTED.sub("''", body)))


_QUOTED = re.compile(r"'[^']*'")
_COPIES = {
    name: sum(_uses(body, one) for one in parameters)
    for name, parameters, body in map(_split, MACROS)
    if name in BARE
}


def _bound(macro: str) -> list[str]:
    """The statements that make a macro in whose expansion each argument is once."""
    name, parameters, body = _split(macro)
    if all(_uses(body, one) <= 1 for one in parameters):
        return [macro]
    pieces = re.split(r"('[^']*')", body)
    for one in parameters:
        pieces[::2] = [re.sub(rf"(?<![\w.]){one}(?![\w(])", f"v.{one}", piece) for piece in pieces[::2]]
    once = f"CREATE MACRO {name}({', '.join(parameters)}) AS {let({one: one for one in parameters}, ''.join(pieces))}"
    return [once, macro.replace(name, f"{name}_bare", 1)] if name in BARE else [once]


_STATEMENTS = {_split(one)[0]: one for macro in MACROS for one in _bound(macro)}
"""What makes each macro, by its name."""
_DATES, _BYTES = ({_split(one)[0]: _bound(one)[0] for one in macros} for macros in (_OF_DATES, _OF_BYTES))
_FUNCTIONS = {name for name, *_ in (*callbacks.FUNCTIONS, *callbacks.styled(PLAIN))}
_NAMES = re.compile(r"\bpg_\w+")


def _statement(name: str, style: Style) -> str | None:
    """What makes a macro in sessions with that style; None of what is none."""
    if style.dates != "ISO" and name in _DATES:
        return _DATES[name]
    return _BYTES[name] if style.binary != "hex" and name in _BYTES else _STATEMENTS.get(name)


def needed(text: str, style: Style = PLAIN) -> list[str]:
    """The macros and functions that a text names, and those that these name, which come before them."""
    found: dict[str, None] = {}

    def take(within: str, but: str) -> None:
        for name in dict.fromkeys(_NAMES.findall(within)):
            if name in found or name == but:
                continue
            statement = _statement(name, style)
            if statement is not None:
                take(statement, name)
                found[name] = None
            elif name in _FUNCTIONS:
                found[name] = None

    take(text, "")
    return list(found)


def define(connection: duckdb.DuckDBPyConnection, name: str, style: Style) -> None:
    """Make a macro or function in the connection's database, for sessions with that style."""
    statement = _statement(name, style)
    if statement is not None:
        with connection.cursor() as cursor:  # the connection itself refuses a second thread
            cursor.execute(statement)
        return
    functions = (*callbacks.styled(style), *callbacks.FUNCTIONS)
    function, arguments, result = next(one[1:] for one in functions if one[0] == name)
    create: Any = connection.create_function
    create(
        name,
        _vectorised(function, callbacks.arrow_of(result), arguments),
        list(arguments),
        result,
        type="arrow",
        null_handling="special",
        side_effects=False,
    )


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
