"""The types that clients declare for parameters, by object id."""

from __future__ import annotations

import pytest

from herdpy_server.wire import type_of_oid
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.system.types import type_rows
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values.reg_types import REG_TYPES

_SCALARS = [
    base for base, facts in FACTS.items() if facts.oid and base not in {Base.UNKNOWN, Base.RECORD, *REG_TYPES}
]


@pytest.mark.parametrize("base", _SCALARS)
def test_a_type_and_its_array_can_be_declared(base: Base) -> None:
    facts = FACTS[base]
    assert facts.oid is not None
    assert type_of_oid(facts.oid) == SqlType(base)
    assert facts.array_oid is None or type_of_oid(facts.array_oid) == t.array_of(base)


@pytest.mark.parametrize("oid", [0, 705])
def test_the_statement_decides_a_type_that_is_not_declared(oid: int) -> None:
    assert type_of_oid(oid) is None


@pytest.mark.parametrize(
    ("oid", "name"),
    [
        (718, "circle"),
        (1266, "time with time zone"),
        (143, "xml[]"),
        (2249, "record"),
        (3904, "int4range"),
    ],
)
def test_a_type_that_is_missing_is_refused_by_name(oid: int, name: str) -> None:
    assert _refused(oid) == ("0A000", f"parameters of type {name} are not supported")


def test_every_type_of_pg_type_is_taken_or_refused_by_name() -> None:
    ours = {facts.oid for facts in FACTS.values()} - {FACTS[Base.RECORD].oid} | set(t.ARRAYS)
    for row in type_rows():
        if row["oid"] not in {*ours, 29, 2275}:  # cid is a number, and cstring a text
            assert _refused(row["oid"]) == ("0A000", f"parameters of type {row['shown']} are not supported")


def test_an_object_id_of_no_type_is_refused() -> None:
    assert _refused(999) == ("42704", "type with OID 999 does not exist")


def _refused(oid: int) -> tuple[str, str]:
    with pytest.raises(SqlError) as refused:
        type_of_oid(oid)
    return refused.value.sqlstate, str(refused.value)
