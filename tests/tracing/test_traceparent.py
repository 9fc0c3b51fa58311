"""The context at a statement's end: taken off where it is one, and left alone where it only looks so."""

from __future__ import annotations

import pytest

from herdpy_server.tracing.traceparent import (
    Parent,
    parse_traceparent,
    without_constants,
    without_traceparent,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{SPAN}-01"
PARENT = Parent(int(TRACE, 16), int(SPAN, 16), True)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1 /*traceparent='{GIVEN}'*/",
        f"SELECT 1/*traceparent='{GIVEN}'*/ ;\n",
        f"SELECT 1 /*action='a%20b',traceparent='{GIVEN}',tracestate='x%3D1'*/",
        f"SELECT 1 /* traceparent='{GIVEN}' */",
        f"SELECT /* a */ 1 /*traceparent='{GIVEN}'*/",
    ],
)
def test_a_context_is_taken_off(text: str) -> None:
    plain, parent = without_traceparent(text)
    assert "traceparent" not in plain
    assert plain.endswith("1")
    assert parent == PARENT


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 1 /* traceparent */",
        "SELECT 1 /*xtraceparent='" + GIVEN + "'*/",
        f"SELECT '/*traceparent=''{GIVEN}''*/'",
        f"SELECT 1 /* /*traceparent='{GIVEN}'*/ */",
        f"/*traceparent='{GIVEN}'*/ SELECT 1",
        f"SELECT 1 /*traceparent='{GIVEN}'*/ + 2",
    ],
)
def test_what_is_no_context_stays(text: str) -> None:
    assert without_traceparent(text) == (text, None)


def test_a_context_that_is_none_is_taken_off_and_says_nothing() -> None:
    assert without_traceparent("SELECT 1 /*traceparent='no'*/") == ("SELECT 1", None)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (GIVEN, PARENT),
        (GIVEN[:-2] + "00", PARENT._replace(is_sampled=False)),
        (GIVEN[:-2] + "03", PARENT),
        ("cc" + GIVEN[2:] + "-what-comes-later", PARENT),
        (GIVEN + "-x", None),  # version 00 has no more parts
        ("ff" + GIVEN[2:], None),
        (GIVEN.upper(), None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (GIVEN[:-1], None),
        ("", None),
    ],
)
def test_contexts_are_read_as_the_standard_says(given: str, found: Parent | None) -> None:
    assert parse_traceparent(given) == found


def test_of_a_long_text_the_beginning_is_read() -> None:
    values = ", ".join(f"({number}, 'secret {number}')" for number in range(100_000))
    shown = without_constants(f"INSERT INTO t VALUES {values}", 60)
    assert shown == "INSERT INTO t VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?)," + "..."
    text = "INSERT INTO t VALUES ('" + "secret " * 10_000 + "')"
    for chars in range(200):
        assert "secret" not in without_constants(text, chars)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT a1 FROM t2 WHERE b = 17 AND c = 'x''y'", "SELECT a1 FROM t2 WHERE b = ? AND c = ?"),
        ("SELECT 1.5e3, .5, $1, E'a\\'b', x'ff', U&'d', N'n'", "SELECT ?, ?, $1, ?, ?, ?, ?"),
        ("SELECT $$a 1$$, $q$it's$q$, \"we 1'rd\".x", 'SELECT ?, ?, "we 1\'rd".x'),
        ("SELECT 1 -- secret 'x\n, 2", "SELECT ?  \n, ?"),
        ("SELECT /* secret 7 */ 2", "SELECT   ?"),
        ("ALTER ROLE r PASSWORD 'hidden'", "ALTER ROLE r PASSWORD ..."),
        ("SELECT 'no end, secret", "SELECT ..."),
        ("SELECT $t$ no end, secret", "SELECT ..."),
        ("x" * 30, "x" * 20 + "..."),
    ],
)
def test_a_text_is_shown_without_its_constants(text: str, shown: str) -> None:
    assert without_constants(text, 20 if text[0] == "x" else 200) == shown
