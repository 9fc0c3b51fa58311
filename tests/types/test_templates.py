"""to_char, to_number, to_date and to_timestamp say what a real PostgreSQL says, in both engines."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import herdpy

LINES = (Path(__file__).parent / "templates.txt").read_text(encoding="utf-8").splitlines()
QUESTIONS = [line for line in LINES if not line.startswith("# ")]
AT_ONCE = 40


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with herdpy.connect(str(tmp_path_factory.mktemp("templates") / "db"), autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SET timezone = 'Europe/Vienna'")
        cursor.execute("CREATE TABLE one (x int PRIMARY KEY)")
        cursor.execute("INSERT INTO one VALUES (1)")
        yield cursor


@pytest.fixture(scope="module")
def expected(postgres):
    """Of each question its answer's text, or its SQLSTATE after a !."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET timezone = 'Europe/Vienna'")
        cursor = connection.cursor()
        return {question: _answers(cursor, [question])[0] for question in QUESTIONS}


def _answers(cursor, questions):
    listed = ", ".join(f"({one})::text AS c{place}" for place, one in enumerate(questions))
    try:
        cursor.execute(f"SELECT {listed} FROM (VALUES (1)) AS one (x)")
        return list(cursor.fetchone())
    except (psycopg.Error, herdpy.Error) as error:
        return [f"!{error.sqlstate}"] * len(questions)


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_templates_mean_what_postgresql_says(ours, expected, engine):
    ours.execute(f"SET herdpy.engine = '{engine}'")
    failing = {question for question, answer in expected.items() if answer and answer[0] == "!"}
    answering = [one for one in QUESTIONS if one not in failing]
    batches = [answering[at : at + AT_ONCE] for at in range(0, len(answering), AT_ONCE)]
    found = {}
    for batch in [*batches, *([one] for one in QUESTIONS if one in failing)]:
        found.update(zip(batch, _answers(ours, batch), strict=True))
    ours.execute("RESET herdpy.engine")
    different = [f"{q}\n    here {found[q]}, PostgreSQL {a}" for q, a in expected.items() if found[q] != a]
    assert not different, "\n".join(different)


def test_own_plans_fill_templates_alike(ours, expected):
    """Rows of an INSERT are computed by own plans."""
    ours.execute("CREATE TABLE said (place int PRIMARY KEY, said text)")
    different = []
    places = {one: place for place, one in enumerate(QUESTIONS)}
    values = [one for one, answer in expected.items() if not (answer and answer[0] == "!")]
    for at in range(0, len(values), AT_ONCE):
        batch = values[at : at + AT_ONCE]
        listed = ", ".join(f"({places[one]}, ({one})::text)" for one in batch)
        ours.execute(f"INSERT INTO said VALUES {listed} RETURNING said")
        answers = [row[0] for row in ours.fetchall()]
        different += [(q, a, expected[q]) for q, a in zip(batch, answers, strict=True) if a != expected[q]]
    assert not different
