"""Parameters, bounds, limits, interruption and what must not be reachable."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from herdpy.codec.arrow import arrow_type
from herdpy_sql.catalog import Catalog, Column, KeyPart, Table
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import Interrupt, Limits, to_datums, translate
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, DATE, INTEGER, NUMERIC, TEXT, TIMESTAMPTZ, UNKNOWN, UUID, Base, SqlType
from herdpy_sql.values.styles import in_zone

CLOCK = Clock(1_700_000_000_123_456, 1_700_000_001_000_000)
PAIRS = Table(
    1,
    "pairs",
    (
        Column("a", INTEGER, not_null=True),
        Column("b", TEXT, not_null=True),
        Column("gone", TEXT, dropped=True),
        Column("price", SqlType(Base.NUMERIC, precision=10, scale=2)),
        Column("day", DATE),
        Column("tag", UUID),
    ),
    (KeyPart(0), KeyPart(1)),
    "pairs_pkey",
)
HIDDEN = Table(
    2,
    "plain",
    (Column("x", INTEGER), Column("__rowid", BIGINT, not_null=True, hidden=True)),
    (KeyPart(1),),
    "plain_key",
)
CATALOG = Catalog(1, 3, {1: PAIRS, 2: HIDDEN})
ROWS = [
    (1, "x", None, Decimal("1.50"), 0, uuid.UUID(int=1).bytes),
    (2, "y", None, Decimal("2.00"), 18262, uuid.UUID(int=2).bytes),
    (2, "z", None, None, None, None),
]


def _query(sql: str, types: tuple[SqlType, ...] = ()) -> Any:
    return translate(sqlglot.parse_one(sql, dialect="postgres"), CATALOG, types)


def _ask(sql: str, *params: Any, **options: Any) -> list[tuple[Any, ...]]:
    from herdpy.codec.arrow import datums_to_array

    query = _query(sql)
    sources = {}
    for scan in query.scans:
        rows = ROWS if scan.table is PAIRS else [(5, 1), (6, 2)]
        arrays = [datums_to_array(scan.table.fields[p], [row[p] for row in rows]) for p in scan.positions]
        sources[scan.name] = pa.table(arrays, names=[scan.table.columns[p].name for p in scan.positions])
    table = query.run(sources, params, CLOCK, **options)
    assert table.schema.types == [arrow_type(c.type.field) for c in query.columns]
    return to_datums(table, [c.type for c in query.columns])


def test_parameters_take_their_types_from_their_places() -> None:
    query = _query(
        "SELECT a + $1, b || $2, $3::date, price FROM pairs WHERE price > $4 AND day = $5 AND tag = $6 LIMIT $7"
    )
    assert [t.base for t in query.param_types] == [
        Base.INTEGER,
        Base.TEXT,
        Base.DATE,
        Base.NUMERIC,
        Base.DATE,
        Base.UUID,
        Base.BIGINT,
    ]


def test_parameters_arrive_as_datums() -> None:
    sql = "SELECT a + $1, b || $2, $3::date, $4::timestamptz, $5::numeric FROM pairs WHERE tag = $6 AND day = $7"
    assert _ask(sql, 10, "é", 18262, 1_700_000_000_000_000, Decimal("1.2300"), ROWS[1][5], 18262) == [
        (12, "yé", 18262, 1_700_000_000_000_000, Decimal("1.2300"))
    ]
    assert _ask("SELECT $1::int IS NULL, $1", None) == [(True, None)]


@pytest.mark.parametrize(
    ("operator", "value", "count"),
    [
        (">", "1.499", 2),
        (">", "1.50", 1),
        (">=", "1.50", 2),
        ("=", "1.5", 1),
        ("=", "1.5001", 0),
        ("<", "99999999999999999999", 2),
        (">", "-99999999999999999999.5", 2),
        ("<>", "2", 1),
        ("<=", "1.4999999999999999999999999", 0),
    ],
)
def test_numeric_parameters_compare_exactly_with_decimal_columns(
    operator: str, value: str, count: int
) -> None:
    assert _ask(f"SELECT count(*) FROM pairs WHERE price {operator} $1", Decimal(value)) == [(count,)]
    assert _ask(f"SELECT count(*) FROM pairs WHERE NOT ($1 {operator} price)", Decimal(value)) == _ask(
        f"SELECT count(*) FROM pairs WHERE NOT ($1::numeric {operator} price)", Decimal(value)
    )


def test_given_types_hold_and_counts_are_checked() -> None:
    assert _query("SELECT $1", (INTEGER,)).columns[0].type == INTEGER
    typed = _query("SELECT 1.5::numeric(10, 2), 'ab'::varchar(5), 'a'::char(3)").columns
    numeric = SqlType(Base.NUMERIC, precision=10, scale=2)
    assert [column.type for column in typed] == [numeric, SqlType(Base.VARCHAR, 5), SqlType(Base.CHAR, 3)]
    alike = "SELECT coalesce(price, price), coalesce(price, 1) FROM pairs UNION SELECT price, NULL FROM pairs"
    assert [column.type for column in _query(alike).columns] == [numeric, NUMERIC]
    assert _query("SELECT $2", (UNKNOWN, TEXT)).param_types[1] == TEXT
    with pytest.raises(SqlError) as caught:
        _query("SELECT $1::int").run({}, (), CLOCK)
    assert caught.value.sqlstate == "08P01"


def test_untyped_columns_take_the_types_of_a_target() -> None:
    tree = sqlglot.parse_one("SELECT '1.5', $1, NULL, a FROM pairs", dialect="postgres")
    query = translate(tree, CATALOG, targets=[NUMERIC, DATE, TEXT, None])
    assert [c.type.base for c in query.columns] == [Base.NUMERIC, Base.DATE, Base.TEXT, Base.INTEGER]
    assert query.param_types == (DATE,)


def test_a_literal_may_hold_what_looks_like_a_parameter() -> None:
    assert _ask("SELECT '$1', '$9', $1::text, '''$2'", "p") == [("$1", "$9", "p", "'$2")]


def test_scans_ask_only_for_what_is_used() -> None:
    (scan,) = _query("SELECT price FROM pairs WHERE day > '2020-01-01'").scans
    assert [PAIRS.columns[p].name for p in scan.positions] == ["day", "price"]
    (scan,) = _query("SELECT count(*) FROM pairs").scans
    assert scan.positions == (0,)


def test_star_shows_neither_dropped_nor_hidden_columns() -> None:
    assert [c.name for c in _query("SELECT * FROM pairs").columns] == ["a", "b", "price", "day", "tag"]
    assert [c.name for c in _query("SELECT plain.*, __rowid FROM plain").columns] == ["x", "__rowid"]
    with pytest.raises(SqlError, match="gone") as caught:
        _query("SELECT gone FROM pairs")
    assert caught.value.sqlstate == "42703"


def _key(*values: Any) -> bytes:
    return PAIRS.key_codec.encode_prefix(values)


def test_bounds_come_from_conditions_on_the_key() -> None:
    from herdpy.codec.keys import successor

    def bounds(where: str, *params: Any) -> tuple[bytes | None, bytes | None]:
        (scan,) = _query(f"SELECT price FROM pairs WHERE {where}").scans
        return scan.bounds(params)

    assert bounds("a = 2") == (_key(2), successor(_key(2)))
    assert bounds("2 <= a AND a < $1", 7) == (_key(2), _key(7))
    assert bounds("a = $1 AND b > $2", 1, "m") == (successor(_key(1, "m")), successor(_key(1)))
    assert bounds("a BETWEEN 1 AND 3 AND price > 1") == (_key(1), successor(_key(3)))
    assert bounds("b = 'x'") == (None, None)
    assert bounds("a = 1 OR a = 2") == (None, None)
    assert bounds("a = $1", None) == (None, None)
    assert bounds("a > -5 AND a < 99999999999") == (successor(_key(-5)), None)


def test_the_clock_is_what_was_passed() -> None:
    assert _ask("SELECT now(), current_date, current_timestamp = now(), localtimestamp") == [
        (CLOCK.transaction_us, 19675, True, CLOCK.transaction_us)
    ]
    assert _query("SELECT now()").columns[0].type == TIMESTAMPTZ


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM information_schema.tables",
        "SELECT getenv('HOME')",
        "SELECT current_setting('threads')",
        "SELECT read_text('/etc/passwd')",
        "SELECT * FROM s0",
        "SELECT error('x')",
        "SELECT pg_numadd('1', '2')",
    ],
)
def test_nothing_of_duckdb_is_reachable(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        _ask(sql)
    assert caught.value.sqlstate in {"42883", "42P01", "0A000", "42601"}


def test_the_database_is_locked_down() -> None:
    import duckdb

    from herdpy_sql.columnar.engine import database

    cursor = database(None, 2, None, in_zone("UTC")).cursor()
    for statement in (
        "SET threads = 1",
        "COPY (SELECT 1) TO '/tmp/herdpy-no'",
        "ATTACH '/tmp/herdpy-no.db'",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(statement)
    with pytest.raises(duckdb.Error):
        cursor.execute("SELECT * FROM read_text('/etc/hostname')").fetchall()


def test_interrupt_before_and_during_a_run() -> None:
    early = Interrupt()
    early.cancel()
    with pytest.raises(SqlError) as caught:
        _ask("SELECT 1", interrupt=early)
    assert caught.value.sqlstate == "57014"

    interrupt = Interrupt()
    with ThreadPoolExecutor(1) as pool:
        sql = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b WHERE (a * 7 + b) % 11 = 12"
        future = pool.submit(_ask, sql, interrupt=interrupt)
        while not future.running() or interrupt._cursor is None:
            assert not future.done()
        while not wait([future], timeout=0.02).done:
            interrupt.cancel("canceling statement due to statement timeout")
        with pytest.raises(SqlError, match="statement timeout") as during:
            future.result(timeout=60)
    assert during.value.sqlstate == "57014"


def test_memory_limit_is_an_error_and_the_next_query_runs() -> None:
    limits = Limits(memory_bytes=32 << 20)
    with pytest.raises(SqlError) as caught:
        _ask(
            "SELECT count(DISTINCT g::text || 'some longer text to hold') FROM generate_series(1, 3000000) g",
            limits=limits,
        )
    assert caught.value.sqlstate == "53200"
    assert _ask("SELECT 1", limits=limits) == [(1,)]


def test_threads_share_the_databases() -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: _ask("SELECT sum(a) * $1::int FROM pairs", n), range(20)))
    assert answers == [[(5 * n,)] for n in range(20)]


def test_a_zone_of_the_session() -> None:
    query = _query("SELECT (timestamptz '2020-01-01 00:00:00+00')::timestamp::text, extract(hour FROM now())")
    table = query.run({}, (), Clock(0, 0, in_zone("America/New_York")))
    assert to_datums(table, [c.type for c in query.columns]) == [("2019-12-31 19:00:00", Decimal(19))]
    with pytest.raises(SqlError) as caught:
        query.run({}, (), Clock(0, 0, in_zone("Mars/Olympus")))
    assert caught.value.sqlstate == "22023"


def test_deep_expressions_are_refused_not_fatal() -> None:
    tree = sqlglot.parse_one("SELECT 1", dialect="postgres")
    inner = tree.expressions[0]
    for _ in range(400):
        inner = sqlglot.exp.Abs(this=inner)
    with pytest.raises(SqlError) as caught:
        translate(sqlglot.exp.Select(expressions=[inner]), CATALOG)
    assert caught.value.sqlstate == "54001"
