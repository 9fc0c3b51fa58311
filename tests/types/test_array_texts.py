"""The text of an array: the form that most have is read at once, and means what the long way means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_sql.errors import SqlError
from herdpy_sql.values.arrays import join_array, split_array


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", ()),
        ('{""}', ("",)),
        ("{NULL,null,nul}", (None, None, "nul")),
        ('{"NULL",NULL}', ("NULL", None)),
        ('{"a b",c,"{d}","e,f"}', ("a b", "c", "{d}", "e,f")),
        (r'{"a\"b",a\,b}', ('a"b', "a,b")),
        ('{"2001-02-03 04:05:06+00:00"}', ("2001-02-03 04:05:06+00:00",)),
    ],
)
def test_elements(text, elements):
    assert split_array(text) == elements


@pytest.mark.parametrize("text", ["{a", "{a,}", "{,a}", '{"a}', '{a"b"}', '{"a"b}', "{a}}", "{a} b", "a"])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(SqlError, match="malformed array literal"):
        split_array(text)


_TEXTS = st.text(st.sampled_from('{}",\\ \tanNULl1é'), max_size=5)


@given(st.lists(st.none() | _TEXTS, min_size=1, max_size=6))
def test_what_is_written_is_read(elements):
    assert split_array(join_array(tuple(elements))) == tuple(elements)


@given(_TEXTS)
def test_spaces_around_an_array_mean_nothing(text):
    def outcome(array: str) -> object:
        try:
            return split_array(array)
        except SqlError as error:
            return error.sqlstate, error.detail

    assert outcome(f"{{{text}}}") == outcome(f" {{{text}}} ")
