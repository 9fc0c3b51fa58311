"""The known differences from PostgreSQL, as docs/sql-differences.md lists them: each shown by a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# name in the document, statement, ours, PostgreSQL's: a SQLSTATE, a column's name, or a value
DIFFERENCES = [
    ("extract-infinity", "SELECT extract(year FROM 'infinity'::date)", "0A000", "Infinity"),
    ("var_samp", "SELECT var_samp(id) FROM items", "variance", "var_samp"),
    ("group-scale", "SELECT rate FROM items WHERE rate = 2.25 GROUP BY rate", "2.25", "2.250"),
    ("like-escape", "SELECT 'abc' LIKE 'abc\\'", "22025", "f"),
    ("float-digits", "SELECT covar_pop(id, small) FROM items", "-2003.5306122448987", "-2003.530612244898"),
    ("early-errors", "SELECT count(1 / 0) FROM items WHERE id < 0", "0", "22012"),
    (
        "early-subqueries",
        "SELECT sum((SELECT 10 / (i.id - 1))) FILTER (WHERE id = 6) FROM items i",
        "22012",
        "2",
    ),
    ("row-values", "SELECT items FROM items WHERE false", "0A000", "items:"),
    ("numeric-nan", "SELECT 'NaN'::numeric", "0A000", "NaN"),
    (
        "numeric-groups",
        "SELECT (SELECT count(*) FROM orders WHERE amount = rate) FROM items WHERE id = 1 GROUP BY rate",
        "0A000",
        "0",
    ),
    ("char-padding", "SELECT greatest('a'::char(3), 'b'::char(5))", "b", "b    "),
    ("moved-constants", "SELECT small + 1::smallint > 5::smallint FROM items WHERE id = 4", "t", "22003"),
    (
        "volatile-operand",
        "SELECT CASE (random() * 0)::int WHEN 0 THEN count(*) END FROM items WHERE false",
        "0A000",
        "0",
    ),
    ("min-ties", "SELECT max(rate) FROM items WHERE id IN (6, 7)", "1.50", "1.500"),
]


def _shown(answer: Any, expected: str) -> str:
    if answer.state:
        return str(answer.state)
    if expected.endswith(":"):
        return f"{answer.names[0]}:"
    if re.fullmatch(r"\w+:\d+", expected):
        return f"{answer.names[0]}:{answer.oids[0]}"
    if re.fullmatch(r"[a-z_]{5,}", expected):
        return str(answer.names[0])
    return str(answer.rows[0][0])


@pytest.mark.parametrize(("name", "sql", "own", "other"), DIFFERENCES, ids=[d[0] for d in DIFFERENCES])
def test_difference_is_as_documented(
    name: str, sql: str, own: str, other: str, engine: Callable[..., Any], reference: Callable[[str], Any]
) -> None:
    assert _shown(engine(sql), own) == own
    assert _shown(reference(sql), other) == other


def test_every_difference_is_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sql-differences.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w-]+)` \|", text, flags=re.MULTILINE))
    assert listed == {name for name, *_ in DIFFERENCES}
