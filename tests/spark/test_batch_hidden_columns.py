"""Columns that are computed, hidden or gone, as a DataFrame and a published snapshot have them."""

from __future__ import annotations

from pathlib import Path

import pytest

import herdpy
from tests.spark.reading import read

SHOWN = ["id", "title", "price", "gross", "initial"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with computed columns, indexes on expressions and some rows, and columns gone or renamed."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = tmp_path / "shop"
    with herdpy.connect(path, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE item (id INT PRIMARY KEY, gone TEXT, name TEXT, price NUMERIC(8, 2) NOT NULL,"
            " gross NUMERIC(10, 4) GENERATED ALWAYS AS (price * 1.2) STORED)",
            "INSERT INTO item SELECT g, 'x', 'Item ' || g, g / 4.0 FROM generate_series(1, 100) AS s (g)",
            "CREATE UNIQUE INDEX ON item (lower(name))",
            "CREATE INDEX ON item (price) WHERE price > 20",
            "ALTER TABLE item DROP COLUMN gone,"
            " ADD COLUMN initial TEXT GENERATED ALWAYS AS (left(name, 1)) STORED",
            "ALTER TABLE item RENAME COLUMN name TO title",
            "CREATE TABLE bare (t TEXT)",
            "CREATE INDEX ON bare (upper(t))",
            "INSERT INTO bare VALUES ('b'), ('a'), (NULL)",
        ):
            connection.execute(statement)
    return path


def test_what_is_hidden_does_not_show_and_what_is_computed_does(shop: Path) -> None:
    found = read(f"herdpy://{shop}", table="item", numPartitions=3)
    assert [field.name for field in found.schema] == SHOWN
    with herdpy.connect(shop) as connection:
        wanted = connection.execute("SELECT * FROM item ORDER BY id").fetchall()
    rows = sorted(found.rows())
    assert rows == wanted
    assert [str(value) for value in rows[2]] == ["3", "Item 3", "0.75", "0.9000", "I"]
    bare = read(f"herdpy://{shop}", table="bare")
    assert [field.name for field in bare.schema] == ["t"]
    assert sorted(bare.rows(), key=str) == [("a",), ("b",), (None,)]


def test_computed_columns_are_chosen_and_filtered_by(shop: Path) -> None:
    found = read(
        f"herdpy://{shop}", table="item", columns="gross,title", where="initial = 'I' AND gross < 0.7"
    )
    assert [[str(value) for value in row] for row in sorted(found.rows())] == [
        ["0.3000", "Item 1"],
        ["0.6000", "Item 2"],
    ]


def test_rows_that_changed_later_come_with_their_own(shop: Path) -> None:
    with herdpy.connect(shop, autocommit=True) as connection:
        connection.execute("UPDATE item SET price = 100, title = 'other' WHERE id = 7")
        found = read(f"herdpy://{shop}", table="item", where="id = 7")
        connection.execute("ALTER TABLE item DROP COLUMN initial")
        assert [str(value) for value in found.rows()[0]] == ["7", "other", "100.00", "120.0000", "o"]
        assert [field.name for field in read(f"herdpy://{shop}", table="item").schema] == SHOWN[:-1]
