"""COPY's format "arrow": streams cut anywhere, dictionaries, and what is not a stream."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy_server.copy import CopyTarget
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copying import CopyOptions
from tests.copy.conftest import dump, load, read

COLUMNS = (("k", t.INTEGER), ("s", t.TEXT))
TARGET = CopyTarget("ta", COLUMNS, CopyOptions(format="arrow"))
TABLE = pa.table({"k": pa.array(range(100), pa.int32()), "s": pa.array([None, "é"] * 50)})


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table, max_chunksize=30)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


@settings(max_examples=50)
@given(places=st.lists(st.integers(0, 5000), max_size=8), dictionary=st.booleans())
def test_streams_may_be_cut_anywhere(places: list[int], dictionary: bool) -> None:
    table = TABLE.set_column(1, "s", TABLE["s"].dictionary_encode()) if dictionary else TABLE
    data = stream(table)
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    batches = read(TARGET, [data[low:high] for low, high in itertools.pairwise(edges)])
    assert pa.Table.from_batches(batches).to_pylist() == TABLE.to_pylist()


def test_what_is_written_is_a_stream() -> None:
    written = dump(TARGET, TABLE.to_batches())
    assert pa.ipc.open_stream(written).read_all().equals(TABLE)


@settings(max_examples=200)
@given(at=st.integers(0, 5000), byte=st.integers(0, 255))
def test_damage_is_an_error_or_other_data(at: int, byte: int) -> None:
    data = bytearray(stream(TABLE))
    data[at % len(data)] = byte
    found = load(TARGET, [bytes(data)])
    if isinstance(found, tuple):
        assert found[0] in {"22P04", "54000"}


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"1,2\n3,4\n", "22P04"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "54000"),
        (stream(TABLE)[:-20], "22P04"),
        (stream(TABLE) + b"x", "22P04"),
        (stream(TABLE.rename_columns(["k", "t"])), "22P04"),
        (stream(TABLE.select(["k"])), "22P04"),
    ],
)
def test_refusals(data: bytes, state: str) -> None:
    with pytest.raises(SqlError) as caught:
        read(TARGET, [data])
    assert caught.value.sqlstate == state
