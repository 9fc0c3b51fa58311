"""Arrow's types as SQL's, for the server, the driver and the command line; and what importing them loads."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from herdpy.codec.arrow import arrow_type
from herdpy.codec.kinds import Field
from herdpy.codec.plain_arrow import PLAIN_TYPES
from herdpy_sql.arrow_types import OIDS, TYPES_BY_OID, sql_type
from herdpy_sql.types import JSON, TEXT


@pytest.mark.parametrize("kind", PLAIN_TYPES, ids=lambda kind: kind.name)
def test_a_plain_type_is_the_same_both_ways(kind) -> None:
    arrow = PLAIN_TYPES[kind]
    found = sql_type(arrow)
    assert found is not None
    assert (found.kind, arrow_type(Field(kind))) == (kind, arrow)
    assert OIDS[arrow] == found.oid
    assert TYPES_BY_OID[found.oid] == arrow


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint64(), "numeric(20,0)"),
        (pa.float16(), "real"),
        (pa.null(), "text"),
        (pa.large_string(), "text"),
        (pa.binary(3), "bytea"),
        (pa.dictionary(pa.int8(), pa.string()), "text"),
        (pa.decimal128(7, 2), "numeric(7,2)"),
        (pa.timestamp("ns", "UTC"), "timestamp with time zone"),
        (pa.json_(), str(JSON)),
        (pa.list_(pa.int32()), None),
        (pa.decimal128(7, -2), None),
    ],
    ids=str,
)
def test_other_types_get_the_narrowest_that_holds_them(arrow, name) -> None:
    found = sql_type(arrow)
    assert (None if found is None else str(found)) == name


def test_strings_are_text_and_nothing_else_is_loaded() -> None:
    assert OIDS[pa.string()] == TEXT.oid
    without = "import sys; sys.modules |= dict.fromkeys(('sqlglot', 'duckdb'))"
    code = f"{without}; import herdpy_sql.arrow_types"
    subprocess.run([sys.executable, "-c", code], check=True)
