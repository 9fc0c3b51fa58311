# ruff: noqa: E501, PT017 - tables of statements; errors are looked at where they come
"""Hostile input: whatever is thrown at a connection, it answers with a SQLSTATE and is as good as before.

After every case the connection answers ``SELECT 1`` and the table holds what it held. XX000 would be a
defect of ours, and so would be a RecursionError, another exception, a hang, or a changed row.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import herdpy

SEED = int(os.environ.get("HERDPY_SEED", "1"))
ROWS = [
    (1, "x", Decimal("1.50"), 0.5, True),
    (2, "y", None, None, False),
    (3, "", Decimal("0.00"), math.inf, None),
]
MIB = 1 << 20


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[herdpy.Connection]:
    with herdpy.connect(tmp_path_factory.mktemp("hostile"), autocommit=True) as made:
        made.execute(
            "CREATE TABLE t (k integer PRIMARY KEY, a text, b numeric(10, 2), c double precision, d boolean)"
        )
        made.execute("CREATE INDEX t_a ON t (a)")
        made.cursor().executemany("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", ROWS)
        made.execute("SET statement_timeout = '20s'")
        yield made


def outcome(connection: herdpy.Connection, sql: Any, params: Any = None) -> str:
    """The SQLSTATE, or "" for an answer; the connection must be as good as before."""
    state = ""
    try:
        cursor = connection.execute(sql, params)
        if cursor.description is not None:
            cursor.fetchmany(3)
    except herdpy.Error as error:
        state = error.sqlstate or type(error).__name__
        assert state == "InterfaceError" or re.fullmatch("[0-9A-Z]{5}", state), repr(error)
        assert state != "XX000", f"{str(sql)[:2000]!r}\n{error}\n{error.__cause__!r}"
        assert len(str(error)) < 5000 or len(sql) > 5000
    assert connection.info.transaction_status in {
        herdpy.TransactionStatus.IDLE,
        herdpy.TransactionStatus.INTRANS,
        herdpy.TransactionStatus.INERROR,
    }
    if connection.info.transaction_status != herdpy.TransactionStatus.IDLE:
        connection.rollback()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    return state


def rows_of(connection: herdpy.Connection) -> list[Any]:
    return connection.execute("SELECT * FROM t ORDER BY k").fetchall()


def deep(opening: str, depth: int, inner: str = "1", closing: str = ")") -> str:
    return opening * depth + inner + closing * depth


# What is asked, and the SQLSTATE that must come ("" an answer; None: any).
SIZES: dict[str, tuple[str, str | None]] = {
    "text of more than 16 MiB": ("SELECT '" + "x" * (16 * MIB) + "'", "54000"),
    "text of 15 MiB": ("SELECT length('" + "x" * (15 * MIB) + "')", ""),
    "IN of 5,000": ("SELECT k FROM t WHERE k IN (" + ", ".join(map(str, range(5000))) + ")", ""),
    "IN of 5,000 texts": ("SELECT k FROM t WHERE a IN (" + ", ".join(f"'{n}'" for n in range(5000)) + ")", ""),
    "10,000 columns": ("SELECT " + ", ".join(map(str, range(10_000))), "54011"),
    "1,664 columns": ("SELECT " + ", ".join(["k"] * 1664) + " FROM t", ""),
    "1,665 columns": ("SELECT " + ", ".join(["k"] * 1665) + " FROM t", "54011"),
    "1,601 columns of a table": ("CREATE TABLE u (" + ", ".join(f"c{n} int" for n in range(1601)) + ")", "54011"),
    "parentheses": ("SELECT " + deep("(", 50_000), "54001"),
    "subqueries": ("SELECT " + deep("(SELECT ", 1000), "54001"),
    "CASE": ("SELECT " + deep("CASE WHEN true THEN ", 5000, "1", " END"), "54001"),
    "NOT": ("SELECT " + "NOT " * 50_000 + "true", "54001"),
    "signs": ("SELECT " + "- " * 50_000 + "1", "54001"),
    "functions": ("SELECT " + deep("abs(", 5000), "54001"),
    "sums": ("SELECT 1" + " + 1" * 3000, ""),
    "text sums": ("SELECT 'a'" + " || 'a'" * 3000, ""),
    "ANDs": ("SELECT k FROM t WHERE k = 1" + " AND k = 1" * 3000, ""),
    "ORs": ("SELECT k FROM t WHERE k = 1" + " OR k = 1" * 3000, ""),
    "casts": ("SELECT 1" + "::int" * 20_000, "54001"),
    "IS NULL": ("SELECT 1" + " IS NULL" * 3000, "54001"),
    "BETWEEN": ("SELECT 1" + " BETWEEN 1 AND 2" * 3000, "54001"),
    "UNION ALL": ("SELECT 1" + " UNION ALL SELECT 1" * 500, ""),
    "UNIONs nested": (deep("SELECT 1 UNION ALL (", 1000, "SELECT 1"), "54001"),
    "subscripts": ("SELECT a" + "[1]" * 5000 + " FROM t", "54001"),
    "lists in lists": ("SELECT " + deep("[", 5000, "1", "]"), "54001"),
    "comments in comments": ("/*" * 20_000 + "*/" * 20_000 + " SELECT 1", ""),
    "comments unclosed": ("/*" * 20_000, "42601"),
    "semicolons": (";" * 100_000, ""),
    "statements": ("SELECT 1;" * 1000, ""),
    "CTEs": ("WITH " + ", ".join(f"w{n} AS (SELECT 1)" for n in range(500)) + " SELECT 1", None),
    "VALUES": ("VALUES " + ", ".join(["(1)"] * 10_000), ""),
    "dots": ("SELECT " + "a." * 5000 + "b", None),
    "long alias": ('SELECT 1 AS "' + "x" * 10_000 + '"', None),
    "long name": ('SELECT "' + "x" * 10_000 + '" FROM t', "42703"),
    "long type": ("SELECT CAST(1 AS " + "x" * 10_000 + ")", "42704"),
    "JSON": ("SELECT '" + "[" * 100_000 + "'::json", None),
    "JSON closed": ("SELECT '" + deep("[", 100_000, "", "]") + "'::json", None),
    "LIKE": ("SELECT '" + "a" * 3000 + "' LIKE '" + "%a" * 300 + "b'", ""),
    "regular expression": ("SELECT '" + "a" * 3000 + "' ~ '(a*)*b'", ""),
    "regular expression unclosed": ("SELECT 'a' ~ '" + "(" * 1000 + "'", "2201B"),
    "repeat": ("SELECT repeat('x', 2147483647)", "54000"),
    "lpad": ("SELECT lpad('x', 2000000000)", "54000"),
    "digits": ("SELECT 1" + "0" * 131_071, ""),
    "more digits": ("SELECT 1" + "0" * 200_000, None),
    "exponent": ("SELECT 1e400::float8", "22003"),
    "greater exponent": ("SELECT 1e200000", "22003"),
    "greatest exponent": ("SELECT 9e99999999999", None),
    "power": ("SELECT 2::numeric ^ 100000000", "22003"),
    "exp": ("SELECT exp(1e10)", "22003"),
    "LIMIT": ("SELECT k FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807", ""),
    "LIMIT of an aggregate": ("SELECT count(*) FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807", ""),
    "LIMIT too large": ("SELECT k FROM t LIMIT 99999999999999999999", "22003"),
    "LIMIT below zero": ("SELECT k FROM t LIMIT -1", "2201W"),
    "interval": ("SELECT interval '99999999999 years'", None),
    "timestamp": ("SELECT now() + interval '300000 years'", "22008"),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_depths(name: str, connection: herdpy.Connection) -> None:
    sql, state = SIZES[name]
    got = outcome(connection, sql)
    assert state is None or got == state
    assert rows_of(connection) == ROWS


@pytest.mark.parametrize("engine", ["own", "columnar"])
@pytest.mark.parametrize("depth", [60, 120, 199])
def test_what_is_deep_but_allowed(engine: str, depth: int, connection: herdpy.Connection) -> None:
    connection.execute(f"SET herdpy.engine = '{engine}'")
    for sql in (
        "SELECT " + deep("(", depth),
        "SELECT " + deep("abs(", depth),
        "SELECT " + deep("CASE WHEN true THEN ", depth, "1", " END"),
        "SELECT " + "NOT " * depth + "true",
        "SELECT " + deep("coalesce(NULL, ", depth),
        "SELECT " + deep("(SELECT ", depth),
        "SELECT * FROM " + deep("(SELECT * FROM ", depth, "t", ") AS q"),
        "SELECT k FROM t WHERE " + deep("k IN (SELECT k FROM t WHERE ", depth, "true"),
    ):
        assert outcome(connection, sql) in {"", "54001", "0A000"}
    connection.execute("RESET herdpy.engine")


BROKEN = [
    "", " ", ";", "--", "/*", "*/", "'", '"', "$$", "$a$ x $b$", "E'\\", "SELECT", "SELECT FROM", "SELECT 1 FROM",
    "SELECT 'abc", 'SELECT "abc', 'SELECT ""', "SELECT $", "SELECT $0", "SELECT $99999999999", "SELECT $1a", "SELECT 1a",
    "SELECT 0x", "SELECT 1.2.3", "SELECT 1e", "SELECT @", "SELECT ?", "SELECT :x", "SELECT {", "SELECT `a`", "SELECT [1",
    "SELECT 1;;SELECT", "SELEC 1", "INSERT", "INSERT INTO", "INSERT INTO t", "INSERT INTO t VALUES", "INSERT INTO t VALUES (",
    "INSERT INTO t VALUES ()", "UPDATE", "UPDATE t", "UPDATE t SET", "UPDATE t SET k", "DELETE", "DELETE FROM", "CREATE",
    "CREATE TABLE", "CREATE TABLE u", "CREATE TABLE u (", "CREATE TABLE u (a)", "CREATE TABLE u (a frob)", "DROP", "DROP TABLE",
    "CREATE INDEX ON", "TRUNCATE", "BEGIN BEGIN", "COMMIT 1", "SAVEPOINT", "ROLLBACK TO", "RELEASE x", "SET", "SET x", "SHOW", "SHOW x",
    "EXPLAIN", "EXPLAIN EXPLAIN SELECT 1", "WITH", "WITH w", "WITH w AS SELECT 1", "VALUES", "VALUES ()", "TABLE", "SELECT * FROM t WHERE",
    "SELECT * FROM t ORDER BY", "SELECT * FROM t ORDER BY 9", "SELECT * FROM t GROUP BY", "SELECT * FROM t LIMIT", "SELECT * FROM t t t",
    "SELECT * FROM (SELECT 1", "SELECT * FROM t JOIN", "SELECT * FROM t JOIN t", "SELECT k, FROM t", "SELECT k IN a FROM t", "SELECT k IN () FROM t", "SELECT * FROM t WHERE k = ",
    "SELECT U&'\\D800'", "SELECT E'\\uD800'", "SELECT E'\\xff'", "SELECT E'\\0'", "SELECT 'a\0b'", "SELECT '\ud800'", "\ud800", "\0",
    "SELECT \x01", "SELECT 1 \u2028 2", "\ufeffSELECT 1", "SÉLECT 1", "SELECT 1 AS É", "SELECT\xa01", "SELECT ٣", "SELECT ²", "SELECT 1 FROM ٣",
    "SELECT CAST('٣' AS integer)", "SELECT '٣'::numeric", "SELECT '１'::float8", "SELECT '1_000'::int", "SELECT 1_000",
    "SELECT 'x'::bytea::text::bytea", "SELECT '\\xZZ'::bytea", "SELECT '\\x0'::bytea", "SELECT '\\9'::bytea", "SELECT ''::json", "SELECT ''::uuid",
    "SELECT 'nan'::int", "SELECT 'nan'::numeric::int", "SELECT 'infinity'::numeric", "SELECT 'nan'::float8::int", "SELECT 'infinity'::date - 'infinity'::date",
    "SELECT date '2020-02-30'", "SELECT time '25:00'", "SELECT timestamp 'x'", "SELECT interval 'x'", "SELECT now() AT TIME ZONE 'x'", "SET timezone = '../../etc/passwd'",
    "SET timezone = ''", "SELECT count(count(*)) FROM t", "SELECT k FROM t GROUP BY a", "SELECT sum(a) FROM t", "SELECT row_number() FROM t",
    "SELECT (SELECT k FROM t)", "SELECT k IN (SELECT k, a FROM t) FROM t", "SELECT * FROM t UNION SELECT 1", "INSERT INTO t SELECT * FROM t",
    "INSERT INTO t (k, k) VALUES (1, 2)", "INSERT INTO t (zz) VALUES (1)", "INSERT INTO t VALUES (1, 2, 3, 4, 5, 6)", "UPDATE t SET zz = 1",
    "UPDATE t SET k = 1, k = 2", "UPDATE t SET k = k / 0", "UPDATE t SET k = NULL", "UPDATE t SET k = 2147483647 + k", "DELETE FROM t WHERE a",
    "DELETE FROM t WHERE 1 / (k - 3) > 0", "INSERT INTO t VALUES (9), (9)", "INSERT INTO t VALUES (9), (NULL)", "INSERT INTO t VALUES (9, 'a'), (1, 'b')",
    "CREATE TABLE t (a int)", "CREATE TABLE u (a int, a int)", "CREATE TABLE u (a int PRIMARY KEY, b int PRIMARY KEY)", "CREATE TABLE u (a json PRIMARY KEY)",
    "CREATE TABLE u (PRIMARY KEY (a))", "CREATE INDEX i ON t (zz)", "CREATE INDEX t_a ON t (k)", "CREATE UNIQUE INDEX i ON t (d, d)", "DROP INDEX t_pkey",
    "DROP TABLE t, zz", "SELECT herdpy.zz()", "SELECT * FROM zz.zz.zz.zz", "SELECT t.zz.k FROM t", "SELECT zz.* FROM t", "SELECT * FROM t AS q WHERE t.k = 1",
]  # fmt: skip


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize("sql", BROKEN)
def test_broken_statements(engine: str, sql: str, connection: herdpy.Connection) -> None:
    connection.execute(f"SET herdpy.engine = '{engine}'")
    outcome(connection, sql)
    connection.execute("RESET herdpy.engine")
    connection.execute("RESET timezone")
    assert rows_of(connection) == ROWS


OUTSIDE = [
    "COPY t TO '{file}'", "COPY t FROM '{file}'", "COPY (SELECT 1) TO PROGRAM 'touch {file}'", "ATTACH '{file}' AS x", "DETACH x",
    "INSTALL httpfs", "LOAD httpfs", "LOAD '{file}'", "PRAGMA database_list", "CALL pragma_version()", "EXPORT DATABASE '{file}'",
    "IMPORT DATABASE '{file}'", "SELECT * FROM read_csv('{file}')", "SELECT * FROM read_csv_auto('{file}')", "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')", "SELECT * FROM read_parquet('{file}')", "SELECT * FROM read_json('{file}')", "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"', "SELECT * FROM glob('/*')", "SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_tables()", "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM pragma_database_list", "SELECT * FROM pragma_database_list()", "SELECT * FROM pragma_table_info('t')", "SELECT getenv('PATH')",
    "SELECT current_setting('temp_directory')", "SELECT * FROM query('SELECT 1')", "SELECT * FROM query_table('t')", "SELECT * FROM sqlite_master",
    "SELECT * FROM duckdb_functions()", "SELECT * FROM which_secret('s3://x', 's3')", "SELECT * FROM parquet_metadata('{file}')", "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM arrow_scan(1, 2, 3)", "SELECT * FROM python_scan(1)", "SELECT * FROM pandas_scan(1)", "SELECT * FROM seq_scan('t')", "SELECT error('x')",
    "SELECT pg_read_file('{file}')", "SELECT * FROM pg_ls_dir('/')", "SELECT lo_import('{file}')", "DO LANGUAGE plpython3u $$ 1 $$", "CREATE EXTENSION x",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '{file}'", "CREATE MACRO m() AS 1", "CREATE SECRET s (TYPE s3)", "SET enable_external_access = true",
    "SET memory_limit = '1TB'", "SET lock_configuration = false", "SET temp_directory = '{file}'", "RESET enable_external_access", "USE x", "CHECKPOINT x",
    "VACUUM '{file}'", "ANALYZE nosuch", "SELECT pg_numkey('1')", "SELECT pg_finput('a', 1)", "SELECT pg_limit_rows(-1)", "SELECT * FROM s0", "SELECT * FROM memory.main.s0", "SELECT * FROM information_schema.nosuch",
    "SELECT nextval('x')", "SELECT * FROM repeat_row(1, num_rows = 10)", "SELECT * FROM checkpoint()", "SELECT * FROM force_checkpoint()", "SELECT * FROM test_all_types()",
    "SELECT write_log('x')", "SELECT * FROM duckdb_logs()", "SELECT * FROM summary((SELECT 1))", "SUMMARIZE t", "DESCRIBE nosuch", "SHOW TABLES FROM nosuch", "FROM t", "PIVOT t ON a USING count(*)",
]  # fmt: skip


@pytest.mark.parametrize("sql", OUTSIDE)
def test_nothing_leaves_the_sandbox(sql: str, connection: herdpy.Connection, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("secret\n1\n", encoding="utf-8")
    assert outcome(connection, sql.replace("{file}", str(secret))) in {
        "0A000", "42601", "42883", "42P01", "42704", "42501", "3F000", "22003", "42703", "42P02",
    }  # fmt: skip
    assert secret.read_text(encoding="utf-8") == "secret\n1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert rows_of(connection) == ROWS


NAMES = ['"; DROP TABLE t; --', "' OR 1 = 1 --", 'a"b', "a'b", "a b", "select", "SELECT", "t1.c0", "c0", "s0", "$1", "%s", "%(a)s", "x" * 63, "é", "日本", "\\", "\t", "\n", "/*", "--", ";", "{}", "oid", "ctid", "rowid", "xmin"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_names(name: str, connection: herdpy.Connection) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE {quoted} ({quoted} text PRIMARY KEY, other int)")
    connection.execute(
        f'CREATE INDEX {quoted[:-1]}i" ON {quoted} (other, {quoted})' if len(name) < 63 else "SELECT 1"
    )
    connection.execute(f"INSERT INTO {quoted} VALUES ($1, 1), ('x', 2)", [name])
    for engine in ("auto", "columnar"):
        connection.execute(f"SET herdpy.engine = '{engine}'")
        found = connection.execute(
            f"SELECT {quoted}, count(*) AS {quoted} FROM {quoted} WHERE {quoted} = $1 GROUP BY {quoted}",
            [name],
        )
        assert found.fetchall() == [(name, 1)]
        assert [column[0] for column in found.description or ()] == [name, name]
        found = connection.execute(
            f"SELECT {quoted}.{quoted} FROM {quoted} AS {quoted} WHERE {quoted}.other = 1 ORDER BY {quoted}"
        )
        assert found.fetchall() == [(name,)]
    connection.execute("RESET herdpy.engine")
    connection.execute(f"UPDATE {quoted} SET {quoted} = 'y' WHERE {quoted} = $1", [name])
    assert connection.execute(f"DELETE FROM {quoted} WHERE {quoted} IN ('x', 'y')").rowcount == 2
    connection.execute(f"DROP TABLE {quoted}")
    assert rows_of(connection) == ROWS
