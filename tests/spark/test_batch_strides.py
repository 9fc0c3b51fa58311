"""Steps of a key's first column: where they cut, for each type, in both directions, and what has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from herdpy_spark.batch.strides import Strides
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.types import BIGINT, DATE, DOUBLE, NUMERIC, TEXT, TIMESTAMPTZ, SqlType
from herdpy_sql.values import from_text


def keyed(type_: SqlType, *, descending: bool = False) -> Table:
    """A table of one key column and a value."""
    return Table(1, "t", (Column("k", type_, True), Column("v", TEXT)), (KeyPart(0, descending),), "t_pkey")


@dataclass(frozen=True)
class Kept:
    """One partition of keys in memory, which a state would have."""

    keys: Sequence[bytes]

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[Any]:
        assert number == 0
        yield [key for key in self.keys if (low is None or key >= low) and (high is None or key < high)]


def parts(table: Table, values: Sequence[str], strides: Strides) -> list[list[str]]:
    """Which values each partition reads."""
    read = from_text(table.columns[0].type)
    named = {table.key_codec.encode((read(text),)): text for text in values}
    rows: Any = strides.of(Kept(sorted(named)), table)  # type: ignore[arg-type]
    read_keys = (rows.read(number, ("k",), None, None) for number in range(rows.count))
    return [[named[key] for keys in batches for key in keys] for batches in read_keys]


@pytest.mark.parametrize(
    ("type_", "bounds", "values", "wanted"),
    [
        (BIGINT, ("0", "9"), ["-5", "2", "3", "5", "6", "99"], [["-5", "2"], ["3", "5"], ["6", "99"]]),
        (BIGINT, ("-9000000000000000000", "9000000000000000000"), ["0", "4000000000000000000"],
         [[], ["0"], ["4000000000000000000"]]),
        (DATE, ("2026-01-01", "2026-01-31"), ["2025-12-31", "2026-01-11", "infinity"],
         [["2025-12-31"], ["2026-01-11"], ["infinity"]]),
        (TIMESTAMPTZ, ("2026-01-01 00:00+00", "2026-01-01 03:00+00"),
         ["2026-01-01 00:59:59.999999+00", "2026-01-01 02:00+01", "2026-01-01 02:00+00"],
         [["2026-01-01 00:59:59.999999+00"], ["2026-01-01 02:00+01"], ["2026-01-01 02:00+00"]]),
        (NUMERIC, ("0", "1"), ["0.3", "0.34", "0.67", "7"], [["0.3"], ["0.34"], ["0.67", "7"]]),
    ],
)  # fmt: skip
def test_each_value_is_in_one_step(type_, bounds, values, wanted):
    assert parts(keyed(type_), values, Strides("K", *bounds, 3)) == wanted
    down = parts(keyed(type_, descending=True), values, Strides("K", *bounds, 3))
    assert len(down) == 3
    assert [value for part in down for value in part] == values[::-1]


def test_bounds_that_are_close_make_fewer_parts():
    assert parts(keyed(BIGINT), ["1", "2", "3"], Strides("k", "1", "3", 16)) == [["1"], ["2", "3"]]


@pytest.mark.parametrize(
    ("type_", "strides", "says"),
    [
        (BIGINT, Strides("v", "1", "2", 2), "cut at the first column of its key, k"),
        (DOUBLE, Strides("k", "1", "2", 2), "steps are of numbers, dates and timestamps"),
        (TEXT, Strides("k", "a", "b", 2), "k is text"),
        (BIGINT, Strides("k", "one", "2", 2), "invalid input syntax for type bigint"),
        (BIGINT, Strides("k", "2", "2", 2), "2 is not below 2"),
        (NUMERIC, Strides("k", "0", "NaN", 2), "NaN and infinity are not supported"),
    ],
)
def test_what_has_no_steps(type_, strides, says):
    with pytest.raises(OptionError, match=says):
        parts(keyed(type_), [], strides)
