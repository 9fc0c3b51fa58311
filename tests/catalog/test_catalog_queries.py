"""Queries over the catalog: joins, aggregates, parameters, functions; what is refused; rows as PostgreSQL's."""

# ruff: noqa: E501 - queries are easier to read in long lines
from __future__ import annotations

from typing import Any

import pytest

import herdpy
from herdpy.dbapi import Connection


def rows(database: Connection, query: str, *params: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.execute(query, params or None).fetchall()]


def one(database: Connection, expression: str, *params: Any) -> Any:
    [(value,)] = rows(database, f"SELECT {expression}", *params)
    return value


def test_joins_and_aggregates(database: Connection) -> None:
    query = (
        "SELECT c.relname, count(*), max(a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r' "
        "GROUP BY c.relname HAVING count(*) > 2 ORDER BY 2 DESC, 1"
    )
    assert rows(database, query) == [("t", 5, 5), ("child", 4, 4), ("nokey", 3, 3)]


def test_a_hidden_key_is_not_told_of(database: Connection) -> None:
    assert rows(
        database, "SELECT attname FROM pg_attribute WHERE attrelid = 'nokey'::regclass ORDER BY 1"
    ) == [
        ("x",),
        ("y",),
        ("z",),
    ]
    assert rows(database, "SELECT * FROM pg_indexes WHERE tablename = 'nokey'") == []


def test_with_users_tables(database: Connection) -> None:
    query = "SELECT t.id, c.relname FROM t JOIN pg_class c ON c.relname = 't' AND t.id = 1"
    assert rows(database, query) == [(1, "t")]


def test_insert_from_the_catalog(empty: Connection) -> None:
    empty.execute("CREATE TABLE names (name text PRIMARY KEY, kind text)")
    empty.execute("INSERT INTO names SELECT relname, relkind FROM pg_class WHERE relnamespace = 2200")
    assert rows(empty, "SELECT * FROM names ORDER BY name") == [("names", "r"), ("names_pkey", "i")]


def test_sees_definitions_of_its_own_transaction(empty: Connection) -> None:
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    empty.execute("BEGIN")
    empty.execute("CREATE TABLE fresh (a int)")
    assert rows(empty, names) == [("fresh",)]
    empty.execute("ROLLBACK")
    assert rows(empty, names) == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("current_database()", "herdpy"),
        ("current_schema", "public"),
        ("current_schemas(true)", ["pg_catalog", "public"]),
        ("current_user", "herdpy"),
        ("'t'::regclass", "t"),
        ("'\"Mixed Case\"'::regclass", '"Mixed Case"'),
        ("'pg_class'::regclass::oid", 1259),
        ("1259::regclass::text", "pg_class"),
        ("to_regclass('nosuch') IS NULL", True),
        ("to_regtype('int')", "integer"),
        ("'varchar(10)'::regtype::oid", 1043),
        ("1184::oid::regtype::text", "timestamp with time zone"),
        ("format_type(1700, 655366)", "numeric(10,2)"),
        ("format_type(1043, 14)", "character varying(10)"),
        ("format_type(1009, -1)", "text[]"),
        ("format_type(0, -1)", "-"),
        ("pg_get_userbyid(10)", "herdpy"),
        ("pg_encoding_to_char(6)", "UTF8"),
        ("quote_ident('order')", '"order"'),
        ("quote_ident('plain')", "plain"),
        ("pg_size_pretty(10239::bigint)", "10239 bytes"),
        ("pg_size_pretty(10240::bigint)", "10 kB"),
        ("pg_size_pretty(1572864::bigint)", "1536 kB"),
        ("pg_size_pretty(-104857600::bigint)", "-100 MB"),
        ("current_setting('timezone')", "UTC"),
        ("current_setting('no.such', true)", None),
        ("pg_get_indexdef('t_a_idx'::regclass)", "CREATE INDEX t_a_idx ON public.t USING btree (a DESC, b)"),
        ("pg_get_indexdef('t_a_idx'::regclass, 2, true)", "b"),
        ("format('%I.%s=%L%%', 'A', 'b', 'c''d')", "\"A\".b='c''d'%"),
        ("pg_is_in_recovery()", False),
        ("'t'::regclass IN (SELECT oid FROM pg_class)", True),
        ("version() LIKE 'PostgreSQL 15%HerdPy%'", True),
    ],
)
def test_functions(database: Connection, expression: str, value: object) -> None:
    assert one(database, expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "format_type(1700, 655366)", "format_type(1083, 3)", "format_type(1700, 198658)", "format_type(1184, 0)", "format_type(1231, 655366)",
        "format_type(1042, 24)", "format_type(18, -1)", "format_type(99999, -1)", "format_type(0, -1)",
        "'int4[]'::regtype::oid", "'double precision'::regtype", "'char'::regtype", "'\"char\"'::regtype",
        "'timestamp with time zone'::regtype::oid", "to_regtype('decimal')", "to_regtype('float')",
        "quote_ident('select')", "quote_ident('a$b')", "quote_ident('9a')", "quote_ident('a\"b')",
        "quote_literal('it''s')", "quote_nullable(NULL)",
        *(f"pg_size_pretty({n}::bigint)" for n in
          (0, 1, 10239, 10240, 10751, 10752, 1048575, 10484735, 10484736, 10485760, 1 << 34, (1 << 40) * 15, -10240)),
    ],
)  # fmt: skip
def test_functions_as_postgres(database: Connection, postgres: str, expression: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as reference:
        [expected] = reference.execute(f"SELECT {expression}").fetchall()
    assert one(database, expression) == expected[0]


def test_parameters_take_their_place_s_type(database: Connection) -> None:
    query = "SELECT relname FROM pg_class WHERE oid = $1 OR relname = $2 ORDER BY relname LIMIT $3"
    assert rows(database, query, 1259, "t", 5) == [("pg_class",), ("t",)]
    assert rows(database, "SELECT $1::regclass::oid", "pg_class") == [(1259,)]


def test_names_of_columns(database: Connection) -> None:
    query = "SELECT count(*), c.relname, c.oid::regclass, 1 + 1, current_user, 'x'::name FROM pg_class c GROUP BY 2, 3"
    described = database.execute(query).description
    assert described is not None
    assert [d[0] for d in described] == ["count", "relname", "oid", "?column?", "current_user", "name"]


def test_set_config(database: Connection) -> None:
    assert one(database, "set_config('application_name', $1, false)", "mine") == "mine"
    assert rows(database, "SHOW application_name") == [("mine",)]
    database.execute("BEGIN")
    assert one(database, "set_config('application_name', 'for now', true)") == "for now"
    database.execute("COMMIT")
    assert one(database, "current_setting('application_name')") == "mine"


@pytest.mark.parametrize(
    ("query", "sqlstate"),
    [
        ("SELECT nosuch FROM pg_class", "42703"),
        ("SELECT c.nosuch FROM pg_class c", "42703"),
        ("SELECT x.oid FROM pg_class c", "42P01"),
        ("SELECT * FROM pg_nosuch", "42P01"),
        ("SELECT * FROM pg_catalog.nosuch", "42P01"),
        ("SELECT * FROM pg_class, nosuch", "42P01"),
        ("SELECT oid FROM pg_class, pg_type", "42702"),
        ("SELECT relname, count(*) FROM pg_class", "42803"),
        ("SELECT nosuch(oid) FROM pg_class", "42883"),
        ("SELECT pg_catalog.nosuch(1)", "42883"),
        ("SELECT 'nosuch'::regclass", "42P01"),
        ("SELECT 'nosuch'::regtype", "42704"),
        ("SELECT 1::nosuch FROM pg_class", "42704"),
        ("SELECT current_setting('no.such')", "42704"),
        ("SELECT format('%s and %')", "22023"),
        ("SELECT format('%s %s', 1)", "22023"),
        ("SELECT set_config('no_such', 'x', false)", "42704"),
        ("SELECT * FROM read_csv('/etc/passwd'), pg_class", "42883"),
        ("SELECT read_text('/etc/passwd') FROM pg_class", "42883"),
        ("SELECT * FROM duckdb_settings(), pg_class", "42883"),
        ("SELECT getenv('HOME') FROM pg_class", "42883"),
        ("SELECT s_type_oid('int4') FROM pg_class", "42883"),
        ('SELECT * FROM "lookup.class", pg_class', "42P01"),
        ('SELECT * FROM "pg_catalog.pg_class", pg_class', "42P01"),
        ("SELECT * FROM duckdb_tables, pg_class", "42P01"),
        ("DELETE FROM pg_class", "42501"),
        ("INSERT INTO pg_catalog.pg_type VALUES (1)", "42501"),
        ("UPDATE information_schema.tables SET table_name = 'x'", "42501"),
        ("DROP TABLE pg_class", "42501"),
        ("SELECT * FROM pg_class FOR UPDATE", "0A000"),
    ],
)
def test_refused(database: Connection, query: str, sqlstate: str) -> None:
    with pytest.raises(herdpy.Error) as caught:
        database.execute(query)
    assert caught.value.sqlstate == sqlstate


def test_sleep_can_be_timed_out(database: Connection) -> None:
    database.execute("SET statement_timeout = '50ms'")
    try:
        with pytest.raises(herdpy.Error) as caught:
            database.execute("SELECT pg_sleep(60)")
    finally:
        database.execute("RESET statement_timeout")
    assert caught.value.sqlstate == "57014"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, "
        "character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, "
        "udt_schema, udt_name, is_identity, is_generated, is_updatable, dtd_identifier "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
        "SELECT table_schema, table_name, table_type, is_insertable_into, is_typed FROM information_schema.tables "
        "WHERE table_schema = 'public' ORDER BY 2",
        "SELECT constraint_name, table_name, constraint_type, is_deferrable, enforced, nulls_distinct "
        "FROM information_schema.table_constraints WHERE table_schema = 'public' "
        "AND constraint_name NOT LIKE '%not_null' ORDER BY 2, 1",
        "SELECT constraint_name, table_name, column_name, ordinal_position "
        "FROM information_schema.key_column_usage WHERE table_schema = 'public' ORDER BY 1, 4",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 2",
        "SELECT tablename, hasindexes, hasrules FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
        "SELECT conname, contype, conrelid::regclass, condeferrable, convalidated, conkey::text, "
        "pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0 AND contype <> 'c' "
        "AND connamespace = 'public'::regnamespace ORDER BY conname",
        "SELECT indexrelid::regclass::text, indrelid::regclass::text, indnatts, indisunique, indisprimary, indkey, "
        "indoption, indclass, indcollation, indkey[0], indkey[indnatts - 1] FROM pg_index "
        "WHERE indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace) ORDER BY 1",
        "SELECT a.attname, a.atttypid, a.attlen, a.attnum, a.atttypmod, a.attbyval, a.attalign, a.attstorage, "
        "a.attnotnull, a.atthasdef, a.attisdropped, a.attcollation, format_type(a.atttypid, a.atttypmod), "
        "pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a "
        "LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        "WHERE a.attrelid IN ('t'::regclass, 'child'::regclass, 'nokey'::regclass, '\"Mixed Case\"'::regclass) "
        "AND a.attnum > 0 ORDER BY a.attrelid::regclass::text, a.attnum",
        "SELECT relname, relkind, relnatts, relhasindex, relchecks, relpersistence, relispartition, relam "
        "FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
        "SELECT oid, typname, typlen, typtype, typcategory, typelem, typarray, typinput::text FROM pg_type "
        "WHERE oid IN (16, 17, 20, 21, 23, 25, 114, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1700, 2950, 1007) "
        "ORDER BY oid",
        "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = 'pg_class'::regclass AND attnum > 0 "
        "AND attname NOT IN ('relacl', 'relpartbound') ORDER BY attnum",
    ],
)
def test_rows_as_postgres(database: Connection, postgres_catalog: str, query: str) -> None:
    import psycopg

    with psycopg.connect(postgres_catalog) as reference:
        cursor = reference.execute(query)
        expected = [tuple(row) for row in cursor.fetchall()]
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
    found = database.execute(query)
    assert found.description is not None
    assert [d[0] for d in found.description] == names
    assert [tuple(row) for row in found.fetchall()] == expected
