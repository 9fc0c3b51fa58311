"""Cutting texts into statements, limits, and errors with positions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import expressions as exp
from sqlglot.tokens import SQLGLOTC_INSTALLED

from herdpy_sql.errors import SqlError
from herdpy_sql.parse import DEFAULT_MAX_BYTES, MAX_NESTING, Command, parse, split


def texts(sql: str) -> list[str]:
    return [statement.text for statement in split(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("", []),
        (" ; ;; ", []),
        ("-- only a comment", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
        ("SELECT 'it''s;'; x", ["SELECT 'it''s;'", "x"]),
        ("SELECT $$a;b$$; x", ["SELECT $$a;b$$", "x"]),
        ("SELECT $a$ $b$ ; $a$; x", ["SELECT $a$ $b$ ; $a$", "x"]),
        ("SELECT E'\\';'; x", ["SELECT E'\\';'", "x"]),
        ("SELECT 1 -- ;\n, 2; x", ["SELECT 1 -- ;\n, 2", "x"]),
        ("/* ; /* ; */ ; */ SELECT 1 /* ; */", ["SELECT 1"]),
        ("SELECT $1,$2; SELECT $1", ["SELECT $1,$2", "SELECT $1"]),
        ("SELECT a$b$c; x", ["SELECT a$b$c", "x"]),
        ("SELECT 1*", ["SELECT 1*"]),
    ],
)
def test_split(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_offsets_point_into_the_whole_text() -> None:
    sql = "SELECT 1;  SELECT 2"
    assert [sql[s.offset :][: len(s.text)] for s in split(sql)] == ["SELECT 1", "SELECT 2"]


@given(
    st.lists(
        st.sampled_from(["a", "'x;y'", '"q;"', "$$;$$", "$1", "--;\n", "/*;*/", "E'\\';'", "(", ")", ","])
    )
)
def test_quoted_semicolons_never_cut(parts: list[str]) -> None:
    assert len(split("SELECT " + ", ".join(parts) + " ; SELECT 2")) == 2


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "(",
    ")",
    ",",
    ";",
    "1",
    "a",
    "'x'",
    "$1",
    "*",
    ".",
    "=",
    "+",
    "-",
    "NOT",
    "NULL",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "CREATE",
    "TABLE",
    "INT",
    "PRIMARY",
    "KEY",
    "CHECK",
    "DEFAULT",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "[",
    "]",
    "::",
    "JOIN",
    "ON",
    "ORDER",
    "BY",
    "LIMIT",
    "AS",
    "IN",
    "RETURNING",
]


def sqlstate_of(sql: str) -> str | None:
    """None when all of it parses."""
    try:
        for statement in split(sql):
            parse(statement)
    except SqlError as error:
        return error.sqlstate
    return None


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(sql: str) -> None:
    assert sqlstate_of(sql) in {None, "42601", "0A000", "22021", "54001"}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_tokens_parse_or_are_refused(sql: str) -> None:
    assert sqlstate_of(sql) in {None, "42601", "0A000", "54001"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "NOT " * 5000 + "true",
        "SELECT " + "- " * 5000 + "1",
        "SELECT " + "CASE WHEN true THEN " * 5000 + "1" + " END" * 5000,
        "SELECT " + "[" * 20,
        "SELECT * FROM " + "(SELECT * FROM " * 1000 + "t" + ") a" * 1000,
    ],
    ids=["parentheses", "not", "minus", "case", "brackets", "subqueries"],
)
def test_nesting_is_bounded(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        split(sql)
    assert caught.value.sqlstate == "54001"


def test_nesting_below_the_bound_parses() -> None:
    depth = MAX_NESTING - 10
    assert parse(split("SELECT " + "(" * depth + "1" + ")" * depth)[0])


def test_long_runs_parse() -> None:
    tree = parse(split("SELECT " + "a AND " * 5000 + "a")[0])
    assert isinstance(tree, exp.Select)


def test_size_is_bounded() -> None:
    with pytest.raises(SqlError) as caught:
        split("SELECT '" + "x" * DEFAULT_MAX_BYTES + "'")
    assert caught.value.sqlstate == "54000"
    with pytest.raises(SqlError):
        split("SELECT 'éé'", max_bytes=12)
    assert split("SELECT 'éé'", max_bytes=13)


@pytest.mark.parametrize(
    "sql", ["SELECT 'a\x00b'", "SELECT '\ud800'", "SELECT E'\\xff'", "SELECT E'\\ud800'"]
)
def test_text_that_is_no_text(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        split(sql)
    assert caught.value.sqlstate == "22021"


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT 1; SELECT 1 1 1", 20),
        ("SELECT 1;\n\n SELEC 2", 13),
        ("SELECT $$a'b$$, E'\\n', 1 1 1", 26),
        ("SELECT /* é */ 1 1 1", 18),
    ],
)
def test_positions_count_characters_of_the_whole_text(sql: str, position: int) -> None:
    *first, last = split(sql)
    assert all(parse(statement) for statement in first)
    with pytest.raises(SqlError) as caught:
        parse(last)
    assert caught.value.sqlstate == "42601"
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("sql", "near", "position"),
    [
        ("SELECT 1_000", "1_000", 8),
        ("SELECT 0x10", "0x10", 8),
        ("SELECT 12abc", "12abc", 8),
        ("SELECT 1.5e", "1.5e", 8),
        ("SELECT 'a' 'b'", "'b'", 12),
        ("SELECT $$a$$\n'b'", "'b'", 14),
    ],
)
def test_what_sticks_to_a_number_or_a_string(sql: str, near: str, position: int) -> None:
    with pytest.raises(SqlError) as refused:
        split(sql)
    assert refused.value.sqlstate == "42601"
    assert refused.value.message.endswith(f'at or near "{near}"')
    assert refused.value.position == position


def test_numbers_and_strings_that_are_whole() -> None:
    for sql in ("SELECT 1.5e+3, 1e-2, 2., .5, 1e3, 1.e2, 7", "SELECT 'a'\n'b', E'x'\n  'y'", "SELECT 'a''b'"):
        assert len(split(sql)) == 1


def test_commands() -> None:
    (statement,) = split("set session TIME ZONE 'Europe/Rome'")
    assert parse(statement) == Command("SET", "timezone", "Europe/Rome")
    (statement,) = split('Drop Table If Exists A, "B", s.c Cascade')
    assert parse(statement) == Command(
        "DROP TABLE", options=("IF EXISTS", "CASCADE"), names=((None, "a"), (None, "B"), ("s", "c"))
    )


def test_the_compiled_parser_is_used() -> None:
    assert SQLGLOTC_INSTALLED
