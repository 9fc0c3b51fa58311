"""Numbers as PostgreSQL's lexer reads them, wherever a text is kept and read again."""

from __future__ import annotations

import pytest

import herdpy


def test_exponents_before_operators_in_kept_expressions(tmp_path):
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE kept (id int PRIMARY KEY, a numeric DEFAULT 1e8+1, b numeric DEFAULT .5e1-.5,"
            " c numeric GENERATED ALWAYS AS (id*1e2-1) STORED, CHECK (a>1e1+.5))"
        )
        connection.execute("CREATE VIEW seen AS SELECT 1e8+1 AS a, .5+1e1-1 AS b")
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        rows = connection.execute("INSERT INTO kept (id) VALUES (1) RETURNING a, b, c").fetchall()
        assert [tuple(map(str, row)) for row in rows] == [("100000001", "4.5", "99")]
        assert [str(v) for v in connection.execute("SELECT * FROM seen").fetchone()] == ["100000001", "9.5"]
        with pytest.raises(herdpy.Error) as refused:
            connection.execute("INSERT INTO kept VALUES (2, 10.4)")
        assert refused.value.sqlstate == "23514"


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELECT 1e+", "1e+"),
        ("SELECT 1.5.5", ".5"),
        ("SELECT 1..2", ".."),
        ("SELECT 1e8+ 1e5x", "1e5x"),
    ],
)
def test_errors_point_at_the_token_as_written(tmp_path, sql, near):
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        with pytest.raises(herdpy.Error) as refused:
            connection.execute(sql)
        assert refused.value.sqlstate == "42601"
        assert f'at or near "{near}"' in str(refused.value)


def test_positions_after_a_rewritten_number_are_those_of_the_text(tmp_path):
    sql = "SELECT 1e8+.5, nothing"
    with (
        herdpy.connect(tmp_path / "db", autocommit=True) as connection,
        pytest.raises(herdpy.Error) as refused,
    ):
        connection.execute(sql)
    assert (refused.value.sqlstate, refused.value.position) == ("42703", sql.index("nothing") + 1)
