"""Expressions over intervals, arrays, JSONB and templates: both engines say what a real PostgreSQL says."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import psycopg
import pytest

import herdpy

LINES = (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8").splitlines()
EXPRESSIONS = [line for line in LINES if line and not line.startswith("# ")]
COLUMNS = (Path(__file__).parent / "columns.txt").read_text(encoding="utf-8").splitlines()[1:]
FROM = " FROM (VALUES (1)) AS one (x)"


def _text(cursor, sql):
    """(the value's text, None) or (None, SQLSTATE)."""
    try:
        cursor.execute(sql)
        return cursor.fetchone()[0], None
    except (psycopg.Error, herdpy.Error) as error:
        return None, error.sqlstate


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with herdpy.connect(str(tmp_path_factory.mktemp("types") / "db")) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET timezone = 'Europe/Vienna'")
        yield cursor


@pytest.fixture(scope="module")
def theirs(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET timezone = 'Europe/Vienna'")
        yield connection.cursor()


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_expressions_are_what_postgresql_says(ours, theirs, engine):
    different = []
    for text in EXPRESSIONS:
        sql = f"SELECT ({text})::text{FROM}"
        ours.execute(f"SET herdpy.engine = '{engine}'")
        mine, expected = _text(ours, sql), _text(theirs, sql)
        if mine != expected:
            different.append(f"{text}\n    here {mine}, PostgreSQL {expected}")
    ours.execute("RESET herdpy.engine")
    assert not different, "\n".join(different)


def _column(cursor, sql):
    """(the column's name, its type, None) or (None, None, SQLSTATE)."""
    try:
        cursor.execute(sql)
        cursor.fetchall()
        column = cursor.description[0]
        return column.name, column.type_code, None
    except (psycopg.Error, herdpy.Error) as error:
        return None, None, error.sqlstate


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_columns_are_called_as_postgresql_calls_them(ours, theirs, engine):
    different = []
    ours.execute(f"SET herdpy.engine = '{engine}'")
    for text in COLUMNS:
        mine, expected = _column(ours, f"SELECT {text}"), _column(theirs, f"SELECT {text}")
        if mine != expected:
            different.append(f"{text}\n    here {mine}, PostgreSQL {expected}")
    ours.execute("RESET herdpy.engine")
    assert not different, "\n".join(different)


CASED = [chr(point) for point in (*range(0x80, 0x2000), *range(0x2C00, 0x2D30), *range(0xA640, 0xA7D0))]
"""Latin, Greek, Cyrillic, Armenian, Georgian, Glagolitic and more; both sides have had them in Unicode 14."""


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_letters_have_the_case_that_postgresql_gives_them(ours, theirs, engine):
    ours.execute(f"SET herdpy.engine = '{engine}'")
    asked = "SELECT lower(%s), upper(%s)"
    for cursor in (ours, theirs):
        cursor.execute("SELECT 1")
    wrong = []
    for at in range(0, len(CASED), 512):
        text = "|".join(char for char in CASED[at : at + 512] if unicodedata.category(char) != "Cn")
        mine = ours.execute(asked, (text, text)).fetchone()
        expected = theirs.execute(asked, (text, text)).fetchone()
        pairs = zip(*(one.split("|") for one in (text, *mine, *expected)), strict=True)
        wrong += [one for one in pairs if one[1:3] != one[3:5]]
    ours.execute("RESET herdpy.engine")
    assert not wrong


def test_values_of_an_insert_are_computed_by_own_plans(ours, theirs):
    different = []
    for cursor in (ours, theirs):
        cursor.execute("CREATE TABLE said (place int PRIMARY KEY, said text)")
    for place, text in enumerate(EXPRESSIONS):
        if "select" in text:
            continue
        sql = f"INSERT INTO said VALUES ({place}, ({text})::text) RETURNING said"
        mine, expected = _text(ours, sql), _text(theirs, sql)
        if mine != expected:
            different.append(f"{text}\n    here {mine}, PostgreSQL {expected}")
    assert not different, "\n".join(different)
