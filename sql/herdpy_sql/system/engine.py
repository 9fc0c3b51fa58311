"""The DuckDB database that queries over the catalog run in: empty, locked down, with our functions.

It is apart from the columnar engine's, so that nothing about the catalog can be named in users' queries.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.imports import lazy_module
from herdpy_sql.columnar import engine
from herdpy_sql.errors import SqlError
from herdpy_sql.library.catalog_functions import size_pretty
from herdpy_sql.library.time_templates import zoned_text
from herdpy_sql.quoting import quote_ident
from herdpy_sql.storage import Clock
from herdpy_sql.system import asked, calls
from herdpy_sql.system.types import format_type

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy_module("duckdb")

_MEMORY = "256MiB"
READERS = 4
"""How many idle readers are kept for each time zone."""


def _moment_text(zone: str, us: int | None, form: str | None) -> str | None:
    if us is None or form is None:
        return None
    return zoned_text(Clock(us, us, zone), us, form)


_FUNCTIONS: tuple[tuple[str, Any, tuple[str, ...], str], ...] = (
    ("s_format_type", format_type, ("BIGINT", "BIGINT"), "VARCHAR"),
    ("s_resolve", asked.resolve, ("VARCHAR", "VARCHAR", "VARCHAR", "BIGINT"), "BIGINT"),
    ("s_procedure", asked.procedure, ("VARCHAR", "VARCHAR", "VARCHAR", "BIGINT"), "VARCHAR"),
    ("s_has_right", asked.has_right, ("VARCHAR", "VARCHAR[]", "BIGINT"), "BOOLEAN"),
    ("s_quote_ident", lambda name: None if name is None else quote_ident(name), ("VARCHAR",), "VARCHAR"),
    ("s_size_pretty", lambda size: None if size is None else size_pretty(size), ("BIGINT",), "VARCHAR"),
)

_RESULTS: dict[str, pa.DataType] = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_()}

_MACROS = (
    "CREATE MACRO s_quote_literal(x) AS '''' || replace(CAST(x AS VARCHAR), '''', '''''') || ''''",
    *calls.MACROS,
    "CREATE MACRO s_true(x) AS true",
    "CREATE MACRO s_encoding(x) AS CASE x WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE '' END",
    "CREATE MACRO s_expand(v) AS "
    "list_transform(generate_series(1, len(v)), lambda i: struct_pack(x := v[i], n := CAST(i AS INTEGER)))",
    "CREATE MACRO s_concat(a, b) AS list_concat(a, b)",
    "CREATE MACRO s_array(x) AS CASE WHEN x IS NULL THEN NULL WHEN x IN ('{}', '') THEN [] "
    "ELSE string_split(replace(trim(x, '{}'), '\"', ''), ',') END",
    "CREATE MACRO s_subscripts(v) AS generate_series(1, len(v))",
    "CREATE MACRO s_upper_bound(v) AS CASE WHEN len(v) > 0 THEN CAST(len(v) AS INTEGER) END",
)


@functools.lru_cache(maxsize=8)
def database(zone: str) -> Any:
    """The database for sessions with that time zone. SqlError 22023 when DuckDB does not know it."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": _MEMORY,
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
        },
    )
    quoted = zone.replace("'", "''")
    try:
        connection.execute(f"SET GLOBAL TimeZone = '{quoted}'")
    except duckdb.Error:
        raise SqlError("22023", f'time zone "{zone}" not recognized') from None
    connection.execute("SET GLOBAL python_enable_replacements = false")
    define: Any = connection.create_function
    for name, function, arguments, result in _FUNCTIONS:
        define(
            name,
            _vectorised(function, len(arguments), _RESULTS[result]),
            list(arguments),
            result,
            type="arrow",
            null_handling="special",
        )
    shown = _vectorised(functools.partial(_moment_text, zone), 2, pa.string())
    define("s_to_char", shown, ["BIGINT", "VARCHAR"], "VARCHAR", type="arrow", null_handling="special")
    connection.execute(";".join(_MACROS))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _vectorised(function: Any, arity: int, result: pa.DataType) -> Any:
    def many(*columns: Any) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([function(*row) for row in rows], result)

    # DuckDB counts the parameters of the function that it is given.
    return {
        1: lambda a: many(a),
        2: lambda a, b: many(a, b),
        3: lambda a, b, c: many(a, b, c),
        4: lambda a, b, c, d: many(a, b, c, d),
    }[arity]


class CatalogReader:
    """A cursor of the database, and the tables that it knows: those that are kept need not be told again."""

    def __init__(self, zone: str) -> None:
        self.cursor = database(zone).cursor()
        self._known: dict[str, pa.Table] = {}
        self._passing: list[str] = []

    def know(self, name: str, table: pa.Table, *, keep: bool) -> None:
        """Let queries read a table by this name; until ``forget``, or as long as the name stays its own."""
        if keep:
            if self._known.get(name) is table:
                return
            self._known[name] = table
        else:
            self._known.pop(name, None)
            self._passing.append(name)
        self.cursor.register(name, table)

    def forget(self) -> None:
        """Let go of the tables that are not kept."""
        while self._passing:
            self.cursor.unregister(self._passing.pop())


_idle: dict[str, list[CatalogReader]] = {}


@contextlib.contextmanager
def reader(zone: str) -> Iterator[CatalogReader]:
    """A reader for one query; one that had no error is used again."""
    waiting = _idle.setdefault(zone, [])
    try:
        one = waiting.pop()
    except IndexError:
        one = CatalogReader(zone)
    try:
        yield one
        one.forget()
    except BaseException:
        one.cursor.close()
        raise
    if len(waiting) < READERS:
        waiting.append(one)
    else:
        one.cursor.close()


_PATTERNS = tuple(
    (re.compile(pattern), state, message)
    for pattern, state, message in (
        (
            r'Values list "(.*?)" does not have a column named "(.*?)"',
            "42703",
            "column {0}.{1} does not exist",
        ),
        (r'Referenced column "(.*?)"', "42703", 'column "{0}" does not exist'),
        (r'Table "(.*?)" does not have a column named "(.*?)"', "42703", "column {0}.{1} does not exist"),
        (r'Referenced table "(.*?)" not found', "42P01", 'missing FROM-clause entry for table "{0}"'),
        (r'Ambiguous reference to column name "(.*?)"', "42702", 'column reference "{0}" is ambiguous'),
        (
            r'column "(.*?)" must appear in the GROUP BY',
            "42803",
            'column "{0}" must appear in the GROUP BY clause or be used in an aggregate function',
        ),
        (r"Table with name (\S+) does not exist", "42P01", 'relation "{0}" does not exist'),
        (r"Scalar Function with name (\S+) does not exist", "42883", "function {0} does not exist"),
        (
            r"No function matches the given name and argument types '(.*?)'",
            "42883",
            "function {0} does not exist",
        ),
        (r"Could not convert string '(.*?)' to INT", "22P02", 'invalid input syntax for type integer: "{0}"'),
    )
)


def sql_error(error: duckdb.Error) -> SqlError:
    """What DuckDB raised, as PostgreSQL would say it."""
    text = str(error)
    for pattern, state, message in _PATTERNS:
        found = pattern.search(text)
        if found is not None:
            return SqlError(state, message.format(*found.groups()))
    return engine.sql_error(error)


@atexit.register
def _close() -> None:
    """Drop the databases before the interpreter goes: DuckDB holds references to our functions."""
    _idle.clear()
    database.cache_clear()
