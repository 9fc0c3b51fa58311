"""Where a statement ends, and what the text is in the middle of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.cli.shell import split


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'';'; SELECT \"a;b\";", ["SELECT ';'';'", 'SELECT "a;b"']),
        (r"SELECT E'\';'; SELECT 'a\';", [r"SELECT E'\';'", r"SELECT 'a\'"]),
        ("SELECT $$;$$; SELECT $x$ ; $$ ; $x$;", ["SELECT $$;$$", "SELECT $x$ ; $$ ; $x$"]),
        ("SELECT a$b$ FROM t; SELECT $1;", ["SELECT a$b$ FROM t", "SELECT $1"]),
        ("SELECT 1 -- no; end\n; SELECT 2;", ["SELECT 1 -- no; end", "SELECT 2"]),
        ("/* a /* nested; */ b; */ SELECT 1;", ["SELECT 1"]),
        ("SELECT /* ; */ 1;", ["SELECT /* ; */ 1"]),
        (";;  ; SELECT 1;", ["SELECT 1"]),
        ("\\d t\nSELECT 1;\\timing", ["\\d t", "SELECT 1", "\\timing"]),
        ("-- only a comment\n/* and another */", []),
    ],
)
def test_pieces(text: str, pieces: list[str]) -> None:
    script = split(text)
    assert [piece.text for piece in script.pieces] == pieces
    assert script.complete


@pytest.mark.parametrize(
    ("text", "rest", "inside"),
    [
        ("SELECT 1; SELECT", "SELECT", ""),
        ("SELECT 'abc;", "SELECT 'abc;", "'"),
        ('SELECT "abc;', 'SELECT "abc;', '"'),
        ("SELECT $tag$ ; $$", "SELECT $tag$ ; $$", "$"),
        ("SELECT 1 /* ; ", "SELECT 1 /* ;", "*"),
        ("SELECT E'\\';", "SELECT E'\\';", "'"),
    ],
)
def test_what_is_left_open(text: str, rest: str, inside: str) -> None:
    script = split(text)
    assert (script.rest, script.inside, script.complete) == (rest, inside, False)


def test_lines_count_from_one_and_skip_comments() -> None:
    script = split("-- head\n\nSELECT 1;\n\n/* x\n y */ SELECT\n 2;\n\\d\nSELECT 3")
    assert [(piece.line, piece.meta) for piece in script.pieces] == [(3, False), (6, False), (8, True)]
    assert script.rest_line == 9


_BODIES = st.sampled_from(
    [
        "SELECT 1",
        "SELECT ';'",
        "SELECT $$;$$",
        'SELECT "a;"',
        "SELECT /* ; */ 2",
        "SELECT E'\\';'",
        "SELECT 'it''s;'",
    ]
)


@settings(deadline=None)
@given(st.lists(_BODIES, max_size=6))
def test_joining_and_splitting_gives_the_statements_back(bodies: list[str]) -> None:
    script = split(";\n".join([*bodies, ""]))
    assert [piece.text for piece in script.pieces] == bodies
    assert [piece.line for piece in script.pieces] == list(range(1, len(bodies) + 1))


@settings(deadline=None)
@given(st.text(alphabet="aE'\"$;-/*\\\n ", max_size=40))
def test_any_text_is_split_and_nothing_is_lost(text: str) -> None:
    script = split(text)
    for piece in script.pieces:
        assert piece.text
        assert piece.text in text
    assert script.rest in text
