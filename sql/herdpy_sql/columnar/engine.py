"""DuckDB databases in memory: locked down, one for each setting, with our macros and functions by use.

Making one costs tens of milliseconds, a cursor of one some tens of microseconds, so databases are kept. A
database holds no data of its own; each run registers its Arrow tables with a cursor.

DuckDB's exceptions leave as SqlError, with the SQLSTATE that PostgreSQL would give. Our own checks travel
inside DuckDB's messages as ``SQLSTATE 22012: division by zero``; the rest is recognised by class and text.
What remains is XX000, with DuckDB's first line.
"""

from __future__ import annotations

import atexit
import functools
import re
import weakref
import zoneinfo
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from herdpy.imports import lazy_module
from herdpy_sql.collations import BY_CODE_POINT, LOCALE, missing_collation
from herdpy_sql.columnar import macros
from herdpy_sql.columnar.routines import define, function_name
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import quote
from herdpy_sql.values.styles import Style
from herdpy_sql.values.time_zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from herdpy_sql.library import Resolved
else:
    duckdb = lazy_module("duckdb")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may use.

    Attributes:
        memory_bytes: DuckDB's memory, shared by the queries of one set of limits; None: its default.
        threads: worker threads of DuckDB.
        temp_directory: where larger intermediate results may go; None: nowhere.
        seconds: how long a query may run; None: for ever. Whoever owns a clock enforces it with
            ``Interrupt.cancel``; ``run`` looks at it between batches of the result.
    """

    memory_bytes: int | None = None
    threads: int = 2
    temp_directory: str | None = None
    seconds: float | None = None

    def within(self, seconds: float | None) -> Limits:
        """These limits with that time limit (None or 0: none)."""
        return replace(self, seconds=seconds or None)


class Interruptible(Protocol):
    """What runs a query: a cursor of DuckDB, or who has one elsewhere."""

    def interrupt(self) -> None:
        """Make what runs end; from any thread."""


class Interrupt:
    """Stops a query from another thread: ``cancel`` before or during ``run`` raises 57014 there.

    Attributes:
        is_queued: the query waits for a process that may run it; ``queued_s``: how long it has waited so.
    """

    __slots__ = ("_cursor", "_message", "is_queued", "queued_s")

    def __init__(self) -> None:
        self.is_queued = False
        self.queued_s = 0.0
        self._cursor: Interruptible | None = None
        self._message: str | None = None

    def cancel(self, message: str = "canceling statement due to user request") -> None:
        """Stop the query; any thread may call this.

        DuckDB forgets an interrupt that arrives in the instant before it starts to execute, so a
        caller that must be sure calls again, some milliseconds later, until ``run`` has ended.
        """
        if self._message is None:
            self._message = message
        cursor = self._cursor
        if cursor is not None:
            cursor.interrupt()

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._message is not None

    def attach(self, cursor: Interruptible | None) -> None:
        """The cursor that runs the query (None: it ended); SqlError 57014 when it shall not."""
        self._cursor = cursor
        if cursor is not None:
            self.check()

    def check(self) -> None:
        """SqlError 57014 when ``cancel`` was called."""
        if self._message is not None:
            raise SqlError("57014", self._message)


MEMORY_BYTES = 1 << 30
"""What a database without a limit is taken to have, where something is a share of it."""
SPILL = 8
"""How many times a query's memory it may put on disk."""


@functools.lru_cache(maxsize=16)
def database(memory_bytes: int | None, threads: int, temp_directory: str | None, style: Style) -> Any:
    """The database for these settings."""
    config: dict[str, Any] = {
        "threads": max(threads, 1),
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
    }
    if memory_bytes is not None:
        config["memory_limit"] = f"{max(memory_bytes >> 20, 16)}MiB"
    config["temp_directory"] = temp_directory or ""
    if temp_directory and memory_bytes is not None:  # a runaway join must not fill the log's disk
        config["max_temp_directory_size"] = f"{max(memory_bytes >> 20, 16) * SPILL}MiB"
    connection = duckdb.connect(":memory:", config=config)
    _set_zone(connection, style.zone)
    connection.execute("SET GLOBAL Calendar = 'gregorian'")
    connection.execute("SET GLOBAL preserve_insertion_order = true")
    connection.execute("SET GLOBAL python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


_WHOLE_HOURS = re.compile(r"<[+-]\d\d>([+-])0?(\d?\d)")


@functools.lru_cache(maxsize=256)
def zone_of_duck(zone: str) -> str | None:
    """DuckDB's name of a zone; None for one that only we have, as most POSIX texts are."""
    whole = _WHOLE_HOURS.fullmatch(zone)
    if whole is not None and int(whole[2]) <= 12:
        return f"Etc/GMT{whole[1]}{whole[2]}"
    return zone if zone in zoneinfo.available_timezones() else None


def _set_zone(connection: Any, zone: str) -> None:
    """Have DuckDB's own functions use a zone. SqlError 22023 for one that is not there."""
    zone_of(zone)
    try:
        connection.execute(f"SET GLOBAL TimeZone = {quote(zone_of_duck(zone) or 'UTC')}")
    except duckdb.Error:
        raise SqlError("22023", f'time zone "{zone}" not recognized') from None


@atexit.register
def _close() -> None:
    """Drop the databases before the interpreter goes: DuckDB holds references to our functions."""
    database.cache_clear()


_PROVIDED: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def provide(connection: Any, sql: str, routines: Sequence[Resolved], style: Style) -> None:
    """Give a database what a query's text names and it does not have yet: our macros and functions, and those of
    the library."""
    known = _PROVIDED.setdefault(connection, set())
    for name in macros.needed(sql, style):
        if name not in known:
            _once(functools.partial(macros.define, connection, name, style))
            known.add(name)
    for one in routines:
        name = function_name(one)
        if name not in known:
            _once(functools.partial(define, connection, one, style))
            known.add(name)


def _once(make: Callable[[], object]) -> None:
    """Make something that another thread may have made, or be making: DuckDB takes a name once."""
    while True:
        try:
            make()
        except duckdb.TransactionException:  # a conflict with what is not committed yet
            continue
        except (duckdb.CatalogException, duckdb.NotImplementedException) as error:
            if "already" not in str(error):
                raise
        return


@functools.lru_cache(maxsize=256)
def collation(name: str) -> str | None:
    """DuckDB's name of a collation, of ICU; None for those that go by code points.

    Names are those of PostgreSQL's: "de-x-icu", "en-US-x-icu", "und-x-icu", "de_DE", "en_US.utf8". SqlError
    42704 for others.
    """
    if name.upper() in BY_CODE_POINT:
        return None
    match = LOCALE.fullmatch(name)
    if match is not None:
        language = "en" if match[1] == "und" else match[1]  # the root's order is English's
        region = f"{language}_{match[2].lower()}" if match[2] else language
        with duckdb.connect(":memory:") as connection:
            known = {
                row[0] for row in connection.execute("SELECT collname FROM pragma_collations()").fetchall()
            }
        for one in (region, language):
            if one in known:
                return one
    raise missing_collation(name)


# ruff: noqa: E501 - a pattern and what it means in one line


_OWN = re.compile(r"SQLSTATE ([0-9A-Z]{5}): (.*?)(?: DETAIL (.*?))?(?:\n|$)")
_INT = {"INT8": "smallint", "INT16": "smallint", "INT32": "integer", "INT64": "bigint", "INT128": "numeric"}

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
        (r"invalid escape sequence: \\[1-9mMyYZ]|invalid perl operator: \(\?[=!<]",
         "0A000", "a regular expression with references, borders of words or looking around is supported as a constant only"),
        (r"(?i)invalid (?:escape sequence|repetition|character class)|bad repetition|invalid regex|missing \)|regular expression|missing argument to repetition|invalid perl|no argument for repetition",
         "2201B", "invalid regular expression"),
        (r"(?i)recursion|depth limit", "54001", "stack depth limit exceeded"),
    )
)  # fmt: skip


_STREAMED = {
    "INTERRUPT Error": "InterruptException",
    "Out of Memory Error": "OutOfMemoryException",
    "IO Error": "IOException",
    "Out of Range Error": "OutOfRangeException",
    "Conversion Error": "ConversionException",
    "Not implemented Error": "NotImplementedException",
    "Emission Error": "BinderException",
    "Invalid Input Error": "InvalidInputException",
}
"""What an error of a stream, which comes through Arrow as OSError, would have been."""


def sql_error(error: duckdb.Error | OSError) -> SqlError:
    """The SqlError for what DuckDB raised."""
    text = str(error)
    if not isinstance(error, duckdb.Error):
        streamed: type[duckdb.Error] = getattr(duckdb, _STREAMED.get(text.partition(":")[0], "Error"))
        error = streamed(text)
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
