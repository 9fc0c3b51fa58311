"""TIMESTAMP(p), TIMESTAMPTZ(p), TIME(p) and INTERVAL with fields: at every door, beside PostgreSQL."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import herdpy
from herdpy.formats import NEWEST_LEVEL
from herdpy_server.embedded import opened
from herdpy_server.store import definitions
from herdpy_server.wire.formats import encoder
from herdpy_sql.definitions import decode_type, encode_type
from herdpy_sql.types import INTERVAL_FIELDS, Base, SqlType, array_of
from herdpy_sql.values.precision import fitting
from herdpy_sql.values.stored_columns import kept_texts
from herdpy_sql.values.styles import in_zone
from tests.differential.diff_run import Answer, Statement, on_postgres
from tests.sessions.test_copy_in_sessions import Client

ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata"]
TABLE = """
CREATE TABLE t (
    id integer PRIMARY KEY, a timestamp(3), b timestamptz(0), c time(2), d interval(1), e interval day to second(2),
    f interval year, g timestamp(3)[], h timestamp(6) with time zone, i interval hour to minute,
    j interval year to month, k interval minute to second(0), l timestamp(0) without time zone
)
"""
MOMENT = "2020-01-01 00:00:00"
ROWS = [
    (f"{MOMENT}.1235", f"{MOMENT}.5+00", "23:59:59.999", "1.25 s", "1 2:03:04.125", "5 years", f'{{"{MOMENT}.12355",NULL}}',
     "2020-01-01 01:02:03.1234567+00", "1 2:03:59", "14 months", "00:03:04.5", "infinity"),
    ("1999-12-31 23:59:59.9995", "1960-01-01 00:00:00.4999999+00", "00:00:00.005", "-1.25 s", "-1 day -2:03:04.125",
     "-25 months", "{}", "1969-12-31 23:59:59.9999995+00", "-1:02:03", "1 year 14 months 3 days", "-0:59:59.5", "-infinity"),
    ("0044-03-15 12:00:00.0005 BC", "infinity", "24:00:00", "1 mon 0.05", "90061.005 s", "1-11", f'{{"{MOMENT}.0005"}}',
     "2020-07-01 12:00:00.000001+05:30", "90 min", "1-2", "1:02:03.5", f"{MOMENT}.5"),
    ("2020-02-29 12:00:00.0004999", "2020-11-01 01:30:00.5-05", "12:00:00.0049", "P1DT1.05S", "3 s", "P3Y6M", None,
     None, "7 minutes", "2 months", "5 s", "1999-12-31 23:59:59.4999"),
]  # fmt: skip
LOCAL = (
    "infinity",
    "2020-11-01 01:30:00.5",
    "12:00",
    "7",
    "3",
    "5",
    None,
    "2020-03-08 02:30:00.0000005",
    "7",
    "14",
    "3:04.5",
    None,
)
"""As literals alone: a number counts the last field, and a moment is the session's."""
QUERIES = [
    "SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT column_name, data_type::text, datetime_precision, interval_type::text FROM information_schema.columns WHERE table_name = 't' AND table_schema = current_schema() ORDER BY ordinal_position",
    "SELECT id, a, b, c, d, e, f, g, h, i, j, k, l FROM t ORDER BY id",
    "SELECT id, a::timestamp(1), b::timestamptz(0), c::time(0), d::interval(0), e::interval minute, g::timestamp(0)[] FROM t ORDER BY id",
    "SELECT id, h::timestamp(0), h::time(1), h::text::timestamptz(2), a::timestamptz(2), a::time(2) FROM t ORDER BY id",
    "SELECT max(a), min(c), count(DISTINCT b) FROM t WHERE isfinite(a)",
    "SELECT coalesce(a, l), greatest(a, l), CASE WHEN id > 1 THEN a END FROM t ORDER BY id",
    "SELECT a FROM t WHERE id = 1 UNION ALL SELECT l FROM t WHERE id = 3 UNION ALL SELECT '2020-01-01 00:00:00.1234'",
    "SELECT '2020-01-01 00:00:00.1235'::timestamp(3), timestamp(2) '2020-01-01 00:00:00.125', time(0) '12:00:00.5'",
    "SELECT timestamptz(1) '2020-01-01 00:00:00.25', timestamp(1) with time zone '2020-01-01 00:00:00.15+00'",
    "SELECT '1999-12-31 23:59:59.5'::timestamp(0), '1999-12-31 23:59:58.5'::timestamp(0), '2000-01-01 00:00:00.5'::timestamp(0)",
    "SELECT '23:59:59.9999999'::time(6), '23:59:59.95'::time(1), 'infinity'::timestamp(0)",
    "SELECT interval '1 2:03:04' day to hour, interval(2) '1.236 s', interval '5' day, interval '5' second, interval '3:4' minute to second",
    "SELECT interval '1-2' year to month, interval '1' year, interval '14' month, interval '1 day 5' hour, interval '2' hour to minute",
    "SELECT '1 2:03:04.5678'::interval day to second(3), cast('5' as interval hour), '5'::text::interval hour, interval '1.23456' second(2)",
    "SELECT localtimestamp(0) = localtimestamp::timestamp(0), current_timestamp(2) = now()::timestamptz(2)",
    "SELECT pg_typeof(a)::text, pg_typeof(a + interval '1 s')::text FROM t WHERE id = 1",
    "SELECT 'x'::timestamp(3)",
    "SELECT '2020-01-01'::timestamp(3, 2)",
    "SELECT '2020-01-01'::timestamp(9)",
    "SELECT '1 s'::interval(9)",
    "SELECT interval '1' day to month",
]  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Any]:
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute(TABLE)
        yield connection


@pytest.fixture
def reference(postgres: str) -> Iterator[Any]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA precisions; SET search_path = precisions; SET client_min_messages = error"
        )
        connection.execute(TABLE)
        yield connection
        connection.execute("DROP SCHEMA precisions CASCADE")


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'"


def _insert(connection: Any) -> None:
    for number, row in enumerate(ROWS, 1):
        connection.execute(f"INSERT INTO t VALUES ({number}, {', '.join(map(_quoted, row))})")


def _kept(own: Any) -> list[tuple[Any, ...]]:
    columns = ["id", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
    texts = ", ".join(f"{name}::text" for name in columns)
    found: list[tuple[Any, ...]] = own.execute(f"SELECT {texts} FROM t ORDER BY t.id").fetchall()
    return found


def _ask(own: Any, sql: str, zone: str = "UTC") -> Answer:
    with own.cursor() as cursor:
        try:
            result = cursor.execute(sql)._result
        except herdpy.Error as error:
            return Answer(state=error.sqlstate or "?????", message=error.message)
        shown = [encoder(column.type, False, in_zone(zone)) for column in result.columns]
        rows = [
            tuple(None if v is None else f(v).decode() for v, f in zip(row, shown, strict=True))
            for row in result.rows
        ]
    return Answer([c.name for c in result.columns], [c.type.oid for c in result.columns], rows)


def _differing(own: Any, reference: Any, queries: list[str], zone: str = "UTC") -> list[str]:
    """The queries that PostgreSQL answers otherwise; what own plans leave to the other engine is none."""
    found = []
    is_own = own.execute("SHOW herdpy.engine").fetchone() == ("own",)
    for sql in queries:
        ours, theirs = _ask(own, sql, zone), on_postgres(reference, Statement(sql))
        if is_own and ours.state == "0A000":
            continue
        if (ours.state, ours.names, ours.oids, ours.rows) != (
            theirs.state,
            theirs.names,
            theirs.oids,
            theirs.rows,
        ):
            found.append(f"{sql}\n  {ours}\n  {theirs}")
    return found


@pytest.mark.parametrize("engine", ["own", "columnar"])
@pytest.mark.parametrize("zone", ZONES)
def test_statements_say_what_postgresql_says(own: Any, reference: Any, zone: str, engine: str) -> None:
    for connection in (own, reference):
        connection.execute(f"SET timezone = '{zone}'")
        _insert(connection)
        connection.execute(f"INSERT INTO t VALUES (9, {', '.join(map(_quoted, LOCAL))})")
    own.execute(f"SET herdpy.engine = '{engine}'")
    differing = _differing(own, reference, QUERIES, zone)
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "door", ["parameters", "executemany", "columns of parameters", "insert select", "update"]
)
def test_every_statement_rounds(own: Any, zone: str, door: str) -> None:
    own.execute(f"SET timezone = '{zone}'")
    _insert(own)
    wanted = _kept(own)
    own.execute("DELETE FROM t")
    rows = [(number, *row) for number, row in enumerate(ROWS, 1)]
    places = ", ".join(["%s"] * len(rows[0]))
    if door == "parameters":
        for row in rows:
            own.execute(f"INSERT INTO t VALUES ({places})", row)
    elif door == "executemany":
        own.cursor().executemany(f"INSERT INTO t VALUES ({places})", rows)
    elif door == "columns of parameters":
        more = [(number, *rows[0][1:]) for number in range(10, 400)]
        own.cursor().executemany(f"INSERT INTO t VALUES ({places})", [*rows, *more])
        assert {row[1:] for row in _kept(own)[4:]} == {wanted[0][1:]}
        own.execute("DELETE FROM t WHERE id >= 10")
    else:
        own.execute("CREATE TABLE plain (id int PRIMARY KEY, a timestamp, b timestamptz, c time, d interval, e interval, f interval,"
                    " g timestamp[], h timestamptz, i interval, j interval, k interval, l timestamp)")  # fmt: skip
        for number, row in enumerate(ROWS, 1):
            own.execute(f"INSERT INTO plain VALUES ({number}, {', '.join(map(_quoted, row))})")
        if door == "insert select":
            own.execute("INSERT INTO t SELECT * FROM plain")
        else:
            own.execute("INSERT INTO t SELECT id FROM plain")
            sets = ", ".join(f"{name} = plain.{name}" for name in "abcdefghijkl")
            own.execute(f"UPDATE t SET {sets} FROM plain WHERE plain.id = t.id")
    assert _kept(own) == wanted


def test_python_and_arrow_values_are_rounded(own: Any) -> None:
    moment, after = dt.datetime(2020, 1, 1, 0, 0, 0, 123500), dt.datetime(2020, 1, 1, 0, 0, 0, 124000)
    zoned, second = (
        moment.replace(microsecond=500000, tzinfo=dt.UTC),
        dt.datetime(2020, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
    )
    time, hundredth = dt.time(1, 2, 3, 455000), dt.time(1, 2, 3, 460000)
    span, kept = (
        dt.timedelta(days=1, seconds=5, microseconds=250000),
        dt.timedelta(days=1, seconds=5, microseconds=300000),
    )
    row = {
        "a": moment,
        "b": zoned,
        "c": time,
        "d": span,
        "e": span,
        "g": [moment, None],
        "i": dt.timedelta(seconds=119),
    }
    wanted = (after, second, hundredth, kept, span, [after, None], dt.timedelta(seconds=60))
    cursor = own.cursor()
    cursor.execute(
        "INSERT INTO t (id, a, b, c, d, e, g, i) VALUES (1, %s, %s, %s, %s, %s, %s, %s)", tuple(row.values())
    )
    cursor.executemany(
        "INSERT INTO t (id, a, b, c, d, e, g, i) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        [(n, *row.values()) for n in range(2, 300)],
    )
    cursor.executemany(
        "INSERT INTO t (id, a, b, c) VALUES (%s, %s, %s, %s)",
        [(n, moment, zoned, time) for n in range(300, 600)],
    )
    data = {name: [value] for name, value in row.items() if name not in "dei"}
    cursor.adbc_ingest("t", pa.table({"id": pa.array([900], pa.int32()), **data}), mode="append")
    rows = cursor.execute("SELECT a, b, c, d, e, g, i FROM t WHERE id < 300").fetchall()
    assert len(rows) == 299
    assert all(tuple(one) == wanted for one in rows)
    assert set(cursor.execute("SELECT a, b, c FROM t WHERE id BETWEEN 300 AND 599").fetchall()) == {
        wanted[:3]
    }
    assert cursor.execute("SELECT a, b, c, g FROM t WHERE id = 900").fetchone() == (*wanted[:3], wanted[5])


def test_a_precision_may_be_altered(own: Any, reference: Any) -> None:
    script = [
        "ALTER TABLE t ALTER COLUMN a TYPE timestamp(1)", "ALTER TABLE t ALTER COLUMN c TYPE time", "ALTER TABLE t ALTER COLUMN e TYPE interval day",
        "ALTER TABLE t ALTER COLUMN l TYPE timestamptz(3)", "ALTER TABLE t ADD COLUMN m timestamp(0) DEFAULT '2020-01-01 00:00:00.5'",
        "ALTER TABLE t ADD COLUMN n interval day to second(3) DEFAULT '1 2:03:04.5678'",
        "CREATE INDEX ON t (a)", "INSERT INTO t (id, a) VALUES (100, '2020-01-01 00:00:00.05')", "UPDATE t SET a = a + interval '0.06 s' WHERE id = 1",
    ]  # fmt: skip
    for connection in (own, reference):
        _insert(connection)
        for sql in script:
            connection.execute(sql)
    asked = [QUERIES[0], "SELECT * FROM t ORDER BY id", "SELECT id FROM t WHERE a = '2020-01-01 00:00:00.1'"]
    differing = _differing(own, reference, asked)
    assert not differing, "\n".join(differing)


def test_definitions_come_back_after_a_restart(tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute(TABLE)
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        _insert(connection)
        found = connection.execute(QUERIES[0]).fetchall()
        assert found[1] == ("a", "timestamp(3) without time zone", 3)
        assert found[5] == ("e", "interval day to second(2)", 470286338)
        assert _kept(connection)[0][1] == "2020-01-01 00:00:00.124"


COLUMNS = "id, a, b, c, d, e, f, g, h, i, j, k, l"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("options", ["", "(FORMAT csv)", "(FORMAT binary)"])
def test_copy_rounds_as_postgresql_does(tmp_path: Path, reference: Any, zone: str, options: str) -> None:
    """Both read one file of values that are not rounded, which PostgreSQL has written."""
    reference.execute(f"SET timezone = '{zone}'")
    reference.execute("CREATE TABLE plain (id int, a timestamp, b timestamptz, c time, d interval, e interval, f interval,"
                      " g timestamp[], h timestamptz, i interval, j interval, k interval, l timestamp)")  # fmt: skip
    for number in range(1, 41):
        row = ROWS[number % len(ROWS)]
        reference.execute(f"INSERT INTO plain VALUES ({number}, {', '.join(map(_quoted, row))})")
    with reference.cursor().copy(f"COPY plain TO STDOUT {options}") as copy:
        data = b"".join(bytes(piece) for piece in copy)
    with reference.cursor().copy(f"COPY t FROM STDIN {options}") as copy:
        copy.write(data)
    query = f"SELECT {COLUMNS} FROM t ORDER BY id"
    wanted = on_postgres(reference, Statement(query)).rows
    with opened(tmp_path / "db") as database:
        client = Client(database)
        client.ask(TABLE)
        client.ask(f"SET timezone = '{zone}'")
        assert client.ask(f"COPY t FROM STDIN {options}", data) == ["COPY 40"]
        answer = client.run(client.session.execute(query))
        shown = [encoder(column.type, False, in_zone(zone)) for column in answer.columns]
        found = [
            tuple(None if v is None else f(v).decode() for v, f in zip(row, shown, strict=True))
            for row in answer.rows or []
        ]
    assert found == wanted


def test_imports_and_staged_columns_are_rounded() -> None:
    """What every load makes of a column (``kept_texts``) is what the type makes of each of its values."""
    moments = [None, 1_577_836_800_123_500, 946_684_799_999_500, -1_500, 2**63 - 1, -(2**63)]
    for digits in range(7):
        kind = SqlType(Base.TIMESTAMP, precision=digits)
        fit = fitting(kind)
        array = pa.array(moments, pa.int64()).view(pa.timestamp("us"))
        wanted = [one if one is None or fit is None else fit(one) for one in moments]
        assert kept_texts(array, kind).view(pa.int64()).to_pylist() == wanted
        listed = kept_texts(
            pa.array([moments], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("us"))), array_of(kind)
        )
        assert listed.flatten().view(pa.int64()).to_pylist() == wanted
    span = SqlType(Base.INTERVAL, INTERVAL_FIELDS["day to minute"])
    spans = pa.array([(1, 2, 119_000_000_000), None, (0, -1, -61_000_000_000)], pa.month_day_nano_interval())
    assert kept_texts(spans, span).to_pylist() == [(1, 2, 60_000_000_000), None, (0, -1, -60_000_000_000)]


def test_columns_need_a_finished_upgrade(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older version, which may lead again, would not round."""
    monkeypatch.setattr(definitions, "TIME_PRECISION_LEVEL", NEWEST_LEVEL + 1)
    for sql in (
        "CREATE TABLE u (a timestamp(3))",
        "CREATE TABLE u (a interval day[])",
        "ALTER TABLE t ADD m time(0)",
    ):
        with pytest.raises(herdpy.NotSupportedError, match="before the upgrade of this database is finished"):
            own.execute(sql)
    own.execute("CREATE TABLE u (a timestamp, b interval)")


def test_older_versions_read_types_without_digits_as_they_were() -> None:
    assert encode_type(SqlType(Base.TIMESTAMP)) == ["timestamp without time zone", None, None, None]
    for kind in (
        SqlType(Base.TIMESTAMPTZ, precision=3),
        SqlType(Base.INTERVAL, INTERVAL_FIELDS["second"], 2),
    ):
        assert decode_type(encode_type(kind)) == kind
