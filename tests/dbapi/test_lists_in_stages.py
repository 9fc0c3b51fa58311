"""Lists as parameters of statements in stages: the same in a directory and on a server."""

from __future__ import annotations

import pytest

import herdpy

MOVE = """\
WITH gone AS (DELETE FROM job WHERE id = ANY($1::int[]) RETURNING id, kind),
     kept AS (INSERT INTO over SELECT id, ($2::text[])[id], ($3::jsonb[])[id] FROM gone RETURNING *)
SELECT id, kind, result FROM kept ORDER BY id"""
BY_NAME = """\
WITH gone AS (DELETE FROM job WHERE id = $1 RETURNING kind)
SELECT x, gone.kind FROM gone JOIN unnest($2::text[]) AS u (x) ON x <> gone.kind ORDER BY x"""
CLAIM = """\
UPDATE job SET state = $1 WHERE id IN (
    SELECT id FROM job WHERE kind = ANY($4::text[]) AND state = $2 ORDER BY id LIMIT $3::int
    FOR UPDATE SKIP LOCKED)
RETURNING id"""
CONFLICT = """\
INSERT INTO over (id, kind) SELECT id, kind FROM job WHERE id = $3
ON CONFLICT (id) DO UPDATE SET id = over.id + $2, result = ($1::jsonb[])[1]
RETURNING id, result, ($4::text[])[2]"""
CASES = [
    (MOVE, [[1, 3], ["x", "y", "z"], ['{"a": 1}', None, '"word"']], [(1, "x", {"a": 1}), (3, "z", "word")]),
    (MOVE, [[2], ["x", None], [{"a": "b"}, [1, "2"]]], [(2, None, [1, "2"])]),
    (BY_NAME, [1, ["b", "mail", "a"]], [("a", "mail"), ("b", "mail")]),
    (CLAIM, ["running", "ready", 2, ["mail", "scan"]], [(1,), (3,)]),
    (CONFLICT, [["[5]"], 40, 4, ["a", "b"]], [(44, [5], "b")]),
    ("SELECT ($1::jsonb[])[1], ($1::json[])[2]", [['{"a": 1}', "7"]], [({"a": 1}, 7)]),
    ("SELECT $1::jsonb[]", [[{"a": 1}, "3", None, [1, "x"], True]], [([{"a": 1}, 3, None, [1, "x"], True],)]),
]  # fmt: skip


@pytest.fixture(scope="module")
def jobs(shared):
    shared.execute("CREATE TABLE job (id int PRIMARY KEY, kind text NOT NULL, state text NOT NULL)")
    shared.execute("CREATE TABLE over (id int PRIMARY KEY, kind text, result jsonb)")
    kinds = ["mail", "print", "mail", "scan"]
    shared.execute(
        "INSERT INTO job SELECT n, k, 'ready' FROM unnest($1::text[]) WITH ORDINALITY u (k, n)", [kinds]
    )
    shared.execute("INSERT INTO over VALUES (4, 'scan', NULL)")
    yield shared
    shared.execute("DROP TABLE job; DROP TABLE over")


@pytest.fixture(params=["auto", "columnar"])
def undone(jobs, request):
    """A transaction by an engine, which is rolled back."""
    jobs.execute("BEGIN")
    jobs.execute(f"SET LOCAL herdpy.engine = {request.param}")
    yield jobs
    jobs.execute("ROLLBACK")


@pytest.mark.parametrize(("sql", "parameters", "rows"), CASES)
def test_lists_are_arrays_in_every_stage(undone, sql, parameters, rows):
    assert undone.execute(sql, parameters).fetchall() == rows


@pytest.mark.parametrize("listed", [["word"], ["[1"], [""]])
def test_texts_in_a_list_are_json(undone, listed):
    with pytest.raises(herdpy.DataError) as caught:
        undone.execute("SELECT $1::jsonb[]", [listed])
    assert caught.value.sqlstate == "22P02"


def test_rows_of_lists_mean_the_same(jobs):
    """More than are sent one by one, so they go as columns to a server."""
    rows = [(100 + n, ["p", "q"], ['{"b": 2}']) for n in range(60)]
    cursor = jobs.cursor()
    cursor.executemany("INSERT INTO over VALUES ($1, ($2::text[])[2], ($3::jsonb[])[1])", rows)
    found = cursor.execute("DELETE FROM over WHERE id >= 100 RETURNING kind, result").fetchall()
    assert found == [("q", {"b": 2})] * len(rows)
