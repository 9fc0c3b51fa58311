"""What a statement is, is read from its words: comments and quoted text decide nothing."""

from __future__ import annotations

import pytest

from herdpy.dbapi.remote.statements import (
    SessionSettings,
    StatementKind,
    begins_transaction,
    chains,
    first_word,
    has_copy,
    is_plain,
    kind_of,
    returns_rows,
    statements_of,
    tokens_of,
    without_end,
)


def test_comments_are_no_tokens_and_quoted_text_is_one():
    quoted = "'it''s; x', \"A \"\"b\", $$;$$, $t$ ' $t$, E'\\';'"
    found = tokens_of(f"SELECT /* a /* b */ c */ {quoted} -- ;\n, 5 % 'x;'")
    said = [(token.word, token.name, token.text) for token in found if token.text != ","]
    assert said == [
        ("SELECT", "select", "SELECT"),
        ("", "", "it's; x"),
        ("", 'A "b', '"A ""b"'),
        ("", "", ";"),
        ("", "", " ' "),
        ("", "", "\\';"[:1] + "';"),
        ("", "", "5"),
        ("", "", "%"),
        ("", "", "x;"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT AND CHAIN",
        "END TRANSACTION AND CHAIN",
        "/* NO */ commit work /* NO */ and chain -- NO",
        "ROLLBACK AND CHAIN",
        "abort and\nchain",
    ],
)
def test_what_chains(sql):
    assert chains(sql)


@pytest.mark.parametrize(
    "sql",
    ["COMMIT", "COMMIT AND NO CHAIN", "END -- AND CHAIN", "COMMIT /* AND CHAIN */", "ROLLBACK TO chain"],
)
def test_what_does_not_chain(sql):
    assert not chains(sql)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("ROLLBACK /* to */", StatementKind.ROLLBACK),
        ("ROLLBACK WORK TO SAVEPOINT a", StatementKind.SESSION),
        ("rollback to a", StatementKind.SESSION),
        ("EXPLAIN SELECT 'analyze'", StatementKind.READ),
        ("EXPLAIN SELECT analyze FROM t", StatementKind.READ),
        ("EXPLAIN ANALYZE SELECT 1", StatementKind.WRITE),
        ("EXPLAIN (VERBOSE, ANALYZE) DELETE FROM t", StatementKind.WRITE),
        ("EXPLAIN (ANALYZE off) DELETE FROM t", StatementKind.READ),
        ("EXPLAIN (FORMAT json) SELECT (analyze) FROM t", StatementKind.READ),
        ("SELECT 'nextval(1)', \"setval\" FROM t -- nextval(", StatementKind.READ),
        ("SELECT pg_catalog.\"nextval\" /* x */ ('s')", StatementKind.WRITE),
        ("SELECT 'herdpy.x', a AS herdpy FROM t", StatementKind.READ),
        ("SELECT \"herdpy\" . forbid_commit('x')", StatementKind.OTHER),
        ("SELECT 'set_config(1)'", StatementKind.READ),
        ("SELECT a INTO b FROM t", StatementKind.WRITE),
        ("SELECT 'into' AS \"into\"", StatementKind.READ),
        ("((SELECT 1))", StatementKind.READ),
        ("/* CREATE */ -- DROP\n create /* ROLE */ table t (a int)", StatementKind.WRITE),
        ("CREATE ROLE r", StatementKind.OTHER),
        ("SELECT 5 %'nextval(' , $1", StatementKind.READ),
        ("", StatementKind.OTHER),
        ("-- nothing", StatementKind.OTHER),
        (f"/* {'long ' * 1000} */ DELETE FROM t", StatementKind.WRITE),
        (f"{' ' * 1022}COMMIT", StatementKind.COMMIT),
    ],
)
def test_kinds(sql, kind):
    assert kind_of(sql) is kind


def test_what_returns_rows():
    assert returns_rows("INSERT INTO t VALUES (1) RETURNING a")
    assert not returns_rows("INSERT INTO t VALUES ('returning') -- RETURNING a")
    assert not returns_rows('INSERT INTO t ("returning") VALUES (1)')


def test_what_begins_a_transaction():
    assert begins_transaction("/* x */ SET /* y */ LOCAL a.b = 'c'")
    assert not begins_transaction("SET SESSION a.b = 'local'")
    assert first_word("/* SELECT */ ( values (1))") == "VALUES"


def test_texts_of_several_statements():
    assert is_plain("INSERT INTO t VALUES ('; commit'); SELECT $$; begin $$ -- ; rollback\n; SELECT 1")
    assert not is_plain("INSERT INTO t VALUES (1); /* x */ COMMIT")
    assert not is_plain("SELECT 1; create /* x */ role r")
    assert has_copy("SELECT 1;/**/copy t FROM STDIN")
    assert not has_copy("SELECT '; copy t from stdin'; SELECT 1 -- ; copy")
    assert len(statements_of("; SELECT ';' ;; -- ;\n")) == 1


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT 1 ; -- done;\n", "SELECT 1 "),
        ("SELECT ';'", "SELECT ';'"),
        ("SELECT 1;;", "SELECT 1"),
        (";", ""),
    ],
)
def test_the_end_of_a_statement(sql, bare):
    assert without_end(sql) == bare


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (["/* x */ SET a.b = 'c'"], ["/* x */ SET a.b = 'c'"]),
        (["SET LOCAL a.b = 'c'"], []),
        (["SET TRANSACTION READ ONLY", "SET CONSTRAINTS ALL DEFERRED"], []),
        (["SET a.b = '1'", 'SET "A".b TO 2'], ['SET "A".b TO 2']),
        (["SET a.b = '1'", "RESET a . b"], []),
        (["SET TIME ZONE 'UTC'", "RESET timezone"], []),
        (["SET timezone = 'UTC'", "RESET TIME ZONE"], []),
        (["SET NAMES 'UTF8'", "RESET client_encoding"], []),
        (["SET SESSION AUTHORIZATION bob", "RESET SESSION AUTHORIZATION"], []),
        (["SET ROLE bob", "RESET ROLE"], []),
        (["SET a.b = '1'", "DISCARD PLANS"], ["SET a.b = '1'"]),
        (["SET a.b = '1'", "DISCARD ALL"], []),
        (["SET a.b = '1'", "RESET -- x\n ALL"], []),
        (["SET SESSION a.b = '1'"], ["SET SESSION a.b = '1'"]),
        (["SET herdpy.request_id = 'x'"], []),
        (
            [
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
                "SET SESSION CHARACTERISTICS AS TRANSACTION NOT DEFERRABLE ISOLATION LEVEL SERIALIZABLE",
                "RESET default_transaction_deferrable",
            ],
            [
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            ],
        ),
        (
            [
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                "SET default_transaction_read_only = off",
            ],
            ["SET default_transaction_read_only = off"],
        ),
    ],
)
def test_settings_of_the_next_session(said, kept):
    settings = SessionSettings({})
    for sql in said:
        settings.ran(sql, in_transaction=False)
    assert settings.statements() == kept


def test_the_read_level_is_read_from_its_value():
    settings = SessionSettings({})
    settings.ran("SET herdpy.read_level = 'leader' -- at_lsn", in_transaction=False)
    assert not settings.is_at_lsn
    settings.ran("SET herdpy.read_level TO at_lsn;", in_transaction=False)
    settings.ran("SET herdpy.min_lsn = '3:4' /* 5:6 */", in_transaction=False)
    assert settings.is_at_lsn
    assert settings.position == "3:4"
