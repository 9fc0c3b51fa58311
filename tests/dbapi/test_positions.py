"""The newest commit of a process: shared by connections that have a server in common, and by no others."""

from __future__ import annotations

import pytest

from herdpy.dbapi.remote import leader as remote_positions
from herdpy.dbapi.remote.leader import is_after, positions_of

A, B, C = ("a", 1), ("b", 1), ("c", 1)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(remote_positions, "_shared", {})


def test_the_newest_counts():
    found = positions_of([A], "t")
    assert found.newest == ""
    for position, newest in (
        ("2:5", "2:5"),
        ("2:10", "2:10"),
        ("2:9", "2:10"),
        ("1:99", "2:10"),
        ("10:0", "10:0"),
    ):
        found.note(position)
        assert found.newest == newest
    assert is_after("10:0", "9:99")
    assert is_after("0:0", "")
    assert not is_after("", "")


def test_who_has_a_server_in_common_shares_it():
    one, other = positions_of([A, B], "t"), positions_of([C], "t")
    one.note("1:1")
    assert positions_of([B, C], "t") is one
    assert positions_of([C], "t") is one
    assert other.newest == ""
    assert positions_of([A], "u").newest == ""
