"""Differences that follow from earlier refusals are kept apart from those that do not."""

from __future__ import annotations

from tests.suites.consequences import following


def followed(*statements: tuple[str, str]) -> list[str]:
    """The statements whose differences follow from earlier ones."""
    records = [{"category": category, "text": text} for category, text in statements]
    return [text for (_, text), one in zip(statements, following(records), strict=True) if one]


def test_rows_of_a_table_whose_trigger_was_refused():
    assert followed(
        ("rows", "SELECT * FROM t"),
        ("refused", "CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f()"),
        ("rows", "SELECT a, b FROM T"),
        ("rows", "SELECT * FROM u"),
        ("missing", "INSERT INTO t VALUES (1)"),
        ("rows", "SELECT 't'"),
    ) == ["SELECT a, b FROM T", "INSERT INTO t VALUES (1)"]


def test_rows_of_a_table_that_a_refused_triggers_function_writes():
    assert followed(
        ("same", "CREATE FUNCTION f() RETURNS trigger AS $$ BEGIN INSERT INTO log VALUES (1); END $$"),
        ("rows", "SELECT * FROM log"),
        ("refused", "CREATE TRIGGER g AFTER TRUNCATE ON t EXECUTE FUNCTION f()"),
        ("rows", "SELECT n FROM log"),
    ) == ["SELECT n FROM log"]


def test_functions_that_others_of_their_name_were_refused_beside():
    assert followed(
        ("same", "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'"),
        ("refused", "CREATE FUNCTION f(VARIADIC a int[]) RETURNS int LANGUAGE sql AS 'SELECT 2'"),
        ("missing", "SELECT f(1)"),
    ) == ["SELECT f(1)"]


def test_a_function_that_reads_a_table_whose_rows_a_refused_call_wrote():
    assert followed(
        ("same", "CREATE FUNCTION w() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (1) RETURNING a'"),
        ("same", "CREATE FUNCTION r() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'"),
        ("rows", "SELECT r()"),
        ("refused", "SELECT w()"),
        ("rows", "SELECT r() AS n"),
    ) == ["SELECT r() AS n"]


def test_a_sequence_that_a_refused_query_draws_from():
    assert followed(
        ("refused", "SELECT nextval('s')"),
        ("rows", "SELECT nextval('s') AS n"),
        ("rows", "SELECT nextval('q')"),
    ) == ["SELECT nextval('s') AS n"]


def test_a_table_that_a_refused_foreign_key_refers_to():
    assert followed(
        ("refused", "CREATE TABLE c (a int REFERENCES p) PARTITION BY LIST (a)"), ("missing", "TRUNCATE p")
    ) == ["TRUNCATE p"]


def test_changes_that_read_a_suspect_make_suspects():
    assert followed(
        ("refused", "ALTER TABLE a ALTER COLUMN b TYPE int USING f(b)"),
        ("same", "CREATE TABLE c AS SELECT * FROM a"),
        ("same", "SELECT * FROM a, d"),
        ("rows", "SELECT * FROM c"),
        ("rows", "SELECT * FROM d"),
    ) == ["SELECT * FROM c"]


def test_a_table_that_only_a_cast_names():
    assert followed(
        ("refused", "ALTER TABLE t REPLICA IDENTITY USING INDEX i"),
        ("rows", "SELECT relreplident FROM pg_class WHERE oid = 't'::regclass"),
    ) == ["SELECT relreplident FROM pg_class WHERE oid = 't'::regclass"]


def test_queries_that_are_refused_change_nothing():
    assert followed(("refused", "SELECT * FROM t"), ("rows", "TABLE t")) == []


def test_the_end_of_a_block_with_an_error():
    assert followed(
        ("same", "BEGIN"),
        ("refused", "SELECT f()"),
        ("rows", "COMMIT"),
        ("same", "BEGIN"),
        ("rows", "COMMIT"),
    ) == ["COMMIT"]
