"""Queries over the catalog reach nothing of DuckDB's own: no file, function, setting or relation."""

# ruff: noqa: E501 - lists of queries
from __future__ import annotations

from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import Connection

RELATIONS = [
    "read_csv('{file}')", "read_csv_auto('{file}')", "read_text('{file}')", "read_blob('{file}')",
    "read_parquet('{file}')", "read_json('{file}')", "'{file}'", '"{file}"', "glob('/*')", "duckdb_settings()",
    "duckdb_tables()", "duckdb_secrets()", "duckdb_functions()", "pragma_database_list", "pragma_table_info('t')",
    "query('SELECT 1')", "query_table('t')", "sqlite_master", "duckdb_tables", "sniff_csv('{file}')",
    "parquet_metadata('{file}')", "python_scan(1)", "pandas_scan(1)", "arrow_scan(1, 2, 3)", "seq_scan('t')",
    "checkpoint()", "force_checkpoint()", "test_all_types()", "repeat_row(1, num_rows = 10)", "duckdb_logs()",
    "pg_ls_dir('/')", "main.pg_class", "memory.main.t", "temp.t", '"lookup.class"', '"pg_catalog.pg_class"',
    '"public.t"', "system.main.duckdb_tables", "pg_catalog.pg_get_wal_resource_managers()", "range(10)",
    "(SELECT * FROM read_csv('{file}'))", "LATERAL read_csv('{file}')",
]  # fmt: skip
EXPRESSIONS = [
    "getenv('HOME')", "read_text('{file}')", "error('x')", "current_setting('temp_directory')", "write_log('x')",
    "pg_read_file('{file}')", "lo_import('{file}')", "nextval('x')", "s_type_oid('int4')", "s_array('{{}}')",
    "pg_catalog.read_text('{file}')", "main.lower('A')", "system.lower('A')", "hash(1)", "list_value(1)",
    "struct_pack(a := 1)", "add_parquet_key('a', 'b')", "current_query()", "pg_numkey('1')", "lookup('x')",
    "relname.upper()", "{{'a': 1}}", "COLUMNS(*)", "x -> x + 1", "list_filter([1], lambda x: x > 0)",
]  # fmt: skip


def fails(database: Connection, query: str, file: Path) -> str | None:
    with pytest.raises(herdpy.Error) as caught:
        database.execute(query)
    assert file.read_text(encoding="utf-8") == "secret\n1\n"
    return caught.value.sqlstate


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that is not to be read."""
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n", encoding="utf-8")
    return file


REFUSED = {"0A000", "42601", "42883", "42P01", "42704", "42703", "3F000", "22023", "42P02"}


@pytest.mark.parametrize("relation", RELATIONS)
def test_relations(database: Connection, secret: Path, relation: str) -> None:
    query = f"SELECT * FROM pg_class, {relation.replace('{file}', str(secret))} AS x LIMIT 1"
    assert fails(database, query, secret) in REFUSED


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(database: Connection, secret: Path, expression: str) -> None:
    text = expression.replace("{file}", str(secret)).replace("{{", "{").replace("}}", "}")
    assert fails(database, f"SELECT {text} FROM pg_class LIMIT 1", secret) in REFUSED
