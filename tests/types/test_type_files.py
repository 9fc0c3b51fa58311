"""What the files of types say, beside pg_type, and that every type has all of its forms."""

from __future__ import annotations

import pytest

from herdpy_sql.system.types import by_oid
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values import type_of
from herdpy_sql.values.forms import FORMS

_SAMPLES = {
    Base.BOOLEAN: "t",
    Base.BYTEA: "\\x00",
    Base.DATE: "2024-02-29",
    Base.TIME: "12:00",
    Base.TIMESTAMP: "2024-02-29",
    Base.TIMESTAMPTZ: "2024-02-29 00:00+00",
    Base.INTERVAL: "1 day",
    Base.UUID: "0" * 32,
    Base.MACADDR: "0" * 12,
    Base.MACADDR8: "0" * 16,
    Base.INET: "::1/64",
    Base.BIT: "101",
    Base.VARBIT: "110011010",
    Base.VECTOR: "[1,2]",
}
_OF_PG_TYPE = [base for base, facts in FACTS.items() if facts.oid and base not in {Base.UNKNOWN, Base.VECTOR}]
"""VECTOR is an extension's, which pg_type does not have."""


@pytest.mark.parametrize("base", _OF_PG_TYPE)
def test_the_facts_of_a_type_are_those_of_pg_type(base: Base) -> None:
    facts = FACTS[base]
    assert facts.oid is not None
    row = by_oid()[facts.oid]
    assert row["typname"] == (facts.catalog_name or base.value)
    assert (row["typlen"], row["typcategory"], row["typispreferred"], row["typarray"]) == (
        64 if base is Base.NAME else facts.size or -1,
        facts.category,
        facts.preferred,
        facts.array_oid,
    )


def test_every_type_but_arrays_has_forms() -> None:
    assert set(FORMS) == set(FACTS) - {Base.ARRAY} == set(Base) - {Base.ARRAY}


def test_a_python_type_is_guessed_as_one_sql_type() -> None:
    guessed = [one for forms in FORMS.values() for one in forms.guessed]
    assert len(guessed) == len(set(guessed))


@pytest.mark.parametrize("base", [one for one in FORMS if one not in {Base.ENUM, Base.UNKNOWN, Base.NUMERIC}])
def test_the_binary_form_is_as_long_as_pg_type_says(base: Base) -> None:
    sample = _SAMPLES.get(base, "7")
    forms, sql_type = FORMS[base], SqlType(base)
    datum = forms.read(sql_type)(sample)
    data = forms.pack(sql_type)(datum)
    assert forms.unpack(sql_type)(data) == datum
    assert FACTS[base].size in {0, len(data)}
    assert forms.fixed is None or forms.fixed.size == len(data)


def test_a_subclass_is_guessed_as_its_class() -> None:
    class Meters(float):
        pass

    assert type_of(Meters(1.5)) == SqlType(Base.DOUBLE)
