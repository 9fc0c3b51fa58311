"""DuckDB's exceptions as SqlError: the SQLSTATE that PostgreSQL would give, the message cleaned.

Our own checks travel inside DuckDB's messages as ``SQLSTATE 22012: division by zero``; the rest is
recognised by class and text. What remains is XX000, with DuckDB's first line.
"""

# ruff: noqa: E501 - a pattern and what it means in one line
from __future__ import annotations

import re

import duckdb

from herdpy_sql.errors import SqlError

_OWN = re.compile(r"SQLSTATE ([0-9A-Z]{5}): (.*?)(?: DETAIL (.*?))?(?:\n|$)")
_INT = {"INT8": "smallint", "INT16": "smallint", "INT32": "integer", "INT64": "bigint", "INT128": "numeric"}
_OVERFLOW = re.compile(r"(?:Overflow|overflow|out of range).*?(INT\d+|DECIMAL|DOUBLE|FLOAT)?", re.IGNORECASE)

_PATTERNS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), state, message)
    for pattern, state, message in (
        (r"[Dd]ivision by zero", "22012", "division by zero"),
        (r"More than one row returned", "21000", "more than one row returned by a subquery used as an expression"),
        (r"Could not cast value .* to DECIMAL", "22003", "numeric field overflow"),
        (r"Overflow in .* of DECIMAL|DECIMAL.*out of range", "22003", "numeric field overflow"),
        (r"(?i)timestamp.*(out of range|overflow|range)|range.*timestamp", "22008", "timestamp out of range"),
        (r"(?i)date.*(out of range|overflow|range)|range.*date", "22008", "date out of range"),
        (r"(?i)interval.*(out of range|overflow)", "22008", "interval out of range"),
        (r"(?i)unknown timezone|timezone", "22023", "time zone not recognized"),
        (r"(?i)like pattern must not end", "22025", "LIKE pattern must not end with escape character"),
        (r"(?i)invalid regex|missing \)|regular expression|missing argument to repetition|invalid perl|no argument for repetition",
         "2201B", "invalid regular expression"),
        (r"(?i)recursion|depth limit", "54001", "stack depth limit exceeded"),
    )
)  # fmt: skip


_STREAMED: dict[str, type[duckdb.Error]] = {
    "INTERRUPT Error": duckdb.InterruptException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
    "IO Error": duckdb.IOException,
    "Out of Range Error": duckdb.OutOfRangeException,
    "Conversion Error": duckdb.ConversionException,
    "Not implemented Error": duckdb.NotImplementedException,
    "Binder Error": duckdb.BinderException,
    "Invalid Input Error": duckdb.InvalidInputException,
}
"""What an error of a stream, which comes through Arrow as OSError, would have been."""


def sql_error(error: duckdb.Error | OSError) -> SqlError:
    """The SqlError for what DuckDB raised."""
    text = str(error)
    if not isinstance(error, duckdb.Error):
        error = _STREAMED.get(text.partition(":")[0], duckdb.Error)(text)
    own = _OWN.search(text)
    if own is not None:
        return SqlError(own[1], own[2].strip(), detail=own[3])
    line = text.partition("\n")[0]
    line = re.sub(r"^[A-Z][A-Za-z ]*(?:Error|Exception): ", "", line)
    if isinstance(error, duckdb.InterruptException):
        return SqlError("57014", "canceling statement due to user request")
    if isinstance(error, duckdb.OutOfMemoryException):
        return SqlError("53200", "out of memory", detail=line)
    if isinstance(error, duckdb.IOException):
        return SqlError("53100", "could not write a temporary file of the query", detail=line)
    for pattern, state, message in _PATTERNS:
        if pattern.search(line):
            return SqlError(state, message)
    if isinstance(error, (duckdb.OutOfRangeException, duckdb.ConversionException)):
        for name, type_ in _INT.items():
            if re.search(rf"\b{name}\b", line):
                return SqlError("22003", f"{type_} out of range")
        return SqlError("22003", "value out of range", detail=line)
    if isinstance(error, (duckdb.NotImplementedException, duckdb.BinderException, duckdb.ParserException)):
        return SqlError("0A000", f"not supported by the columnar engine: {line}")
    if isinstance(error, duckdb.InvalidInputException):
        return SqlError("22023", line)
    return SqlError("XX000", f"internal error of the columnar engine: {line}")
