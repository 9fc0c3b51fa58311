"""Columns and conditions of a table's batches: SQL's meaning, row by row, and the keys that they leave."""

from __future__ import annotations

import pyarrow as pa
import pytest

from herdpy_spark.batch.query import Selection
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.types import Base, SqlType

INTEGER, TEXT, CHAR = SqlType(Base.INTEGER), SqlType(Base.TEXT), SqlType(Base.CHAR, length=4)
DEFINITION = encode_table(
    Table(
        1,
        "t",
        (
            Column("id", INTEGER, True),
            Column("name", TEXT),
            Column("gone", TEXT, dropped=True),
            Column("Odd, name", INTEGER),
            Column("c", CHAR),
            Column("at", SqlType(Base.TIMESTAMPTZ)),
        ),
        (KeyPart(0),),
        "t_pkey",
    )
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["a", None, "b", "A"],
        "Odd, name": pa.array([10, 20, None, 40], pa.int32()),
        "c": ["x", "y", "x", None],
        "at": pa.array([0, 1, 2, 3], pa.timestamp("us", "UTC")),
    }
)


def selected(columns, where, now_us=2):
    """What a selection makes of the rows, read in batches of two."""
    selection = Selection.of(DEFINITION, columns, where, now_us)
    batches = ROWS.select(selection.needed()).to_batches(max_chunksize=2)
    return [tuple(row.values()) for batch in selection.apply(iter(batches)) for row in batch.to_pylist()]


def test_columns_come_in_the_order_that_is_asked_for():
    assert selected(["name", "id"], None) == [("a", 1), (None, 2), ("b", 3), ("A", 4)]
    assert Selection.of(DEFINITION, None, None, 0).columns == ("id", "name", "Odd, name", "c", "at")


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("name = 'a' OR name IS NULL", [1, 2]),
        ("NOT name = 'a'", [3, 4]),  # of NULL nothing is known
        ('"Odd, name" / 10 > 1', [2, 4]),
        ("c = 'x  '", [1, 3]),  # blanks at the end of a character(n) do not count
        ("at < now()", [1, 2]),  # the time of the DataFrame
        ("id % 2 = 0 -- even", [2, 4]),
        ("lower(name) IN ('a') AND true", [1, 4]),
        ("false", []),
    ],
)
def test_a_condition_means_what_sql_means(where, ids):
    assert selected(["id"], where) == [(one,) for one in ids]


def test_values_are_the_same_with_a_condition_and_without():
    assert selected(None, "true") == selected(None, None)


def test_only_what_is_needed_is_read():
    assert set(Selection.of(DEFINITION, ["id"], "c = 'x'", 0).needed()) == {"id", "c"}


def test_a_condition_says_which_keys_can_fulfil_it():
    codec = Selection.of(DEFINITION, None, None, 0).table.key_codec
    low, high = codec.encode((2,)), codec.encode((4,))
    assert Selection.of(DEFINITION, None, "id >= 2 AND id < 4 AND name = 'b'", 0).keys() == (low, high)
    assert Selection.of(DEFINITION, None, "id >= 2 OR name = 'b'", 0).keys() == (None, None)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("nope = 1", 'column "nope" does not exist'),
        ("gone = 'x'", 'column "gone" does not exist'),
        ("id", "must be type boolean"),
        ("id =", "syntax error"),
        ("id = 1) OR (true", "syntax error|no condition|one row"),
        ("true) UNION SELECT (1", "syntax error|no condition"),
        ("true; DELETE FROM t", "no condition"),
        ("true ORDER BY id", "no condition"),
        ("true LIMIT 1", "no condition"),
        ("id IN (SELECT 1)", "looks at one row"),
        ("count(*) > 1", "looks at one row"),
        ("row_number() OVER () = 1", "looks at one row"),
        ("id = $1", "looks at one row"),
    ],
)
def test_what_is_no_condition_on_a_row(where, says):
    with pytest.raises(OptionError, match=f"the option where: .*({says})"):
        Selection.of(DEFINITION, ["id"], where, 0)


def test_a_column_that_is_not_there():
    with pytest.raises(OptionError, match="table t has no column gone, but id, name, Odd"):
        Selection.of(DEFINITION, ["gone"], None, 0)
