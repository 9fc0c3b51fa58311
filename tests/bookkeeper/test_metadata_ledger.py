"""Ledger metadata as values: what they allow, and what is made of them."""

from __future__ import annotations

from typing import Any

import pytest

from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment

OPEN = LedgerMetadata(3, 2, 2, (Segment(0, ("a:1", "b:1", "c:1")), Segment(10, ("a:1", "d:1", "c:1"))))


@pytest.mark.parametrize(("entry_id", "first"), [(0, 0), (9, 0), (10, 10), (10**12, 10)])
def test_an_entry_is_in_the_segment_that_began_before_it(entry_id: int, first: int) -> None:
    assert OPEN.ensemble_at(entry_id).first_entry_id == first


def test_no_entry_is_before_the_first() -> None:
    with pytest.raises(ValueError, match="-1"):
        OPEN.ensemble_at(-1)


def test_a_new_segment_is_appended_and_replaces_one_that_is_still_empty() -> None:
    appended = OPEN.with_segment(20, ["x:1", "d:1", "c:1"])
    assert appended.segments == (*OPEN.segments, Segment(20, ("x:1", "d:1", "c:1")))
    replaced = OPEN.with_segment(10, ("a:1", "x:1", "c:1"))
    assert replaced.segments == (OPEN.segments[0], Segment(10, ("a:1", "x:1", "c:1")))
    assert replaced.last_segment.members[1] == "x:1"
    with pytest.raises(MetadataError, match="follows one at 10"):
        OPEN.with_segment(5, ("a:1", "x:1", "c:1"))


def test_a_ledger_is_recovered_and_closed_but_never_opened_again() -> None:
    closed = OPEN.in_recovery().closed(14, 1000)
    assert (closed.state, closed.last_entry_id, closed.length_bytes) == (LedgerState.CLOSED, 14, 1000)
    assert closed.is_closed
    assert not OPEN.in_recovery().is_closed
    with pytest.raises(MetadataError, match="closed"):
        closed.in_recovery()
    assert OPEN.closed(-1, 0).last_entry_id == -1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ack_quorum": 3}, "quorums"),
        ({"write_quorum": 4}, "quorums"),
        ({"ack_quorum": 0}, "quorums"),
        ({"segments": ()}, "at least one segment"),
        ({"segments": (Segment(1, ("a:1", "b:1", "c:1")),)}, "not 0"),
        ({"segments": (Segment(0, ("a:1", "b:1")),)}, "has 2 bookies"),
        ({"segments": (Segment(0, ("a:1", "b:1", "")),)}, "not a bookie id"),
        ({"segments": (Segment(0, ("a:1", "b:1", "../x")),)}, "not a bookie id"),
        ({"segments": (Segment(0, ("a:1", "b:1", "ReadOnly")),)}, "not a bookie id"),
        ({"last_entry_id": 5}, "only a closed ledger"),
        ({"state": LedgerState.CLOSED, "last_entry_id": -2}, "out of range"),
        ({"state": LedgerState.CLOSED, "length_bytes": -1}, "out of range"),
    ],
)
def test_what_cannot_be_a_ledger_is_refused(changes: dict[str, Any], said: str) -> None:
    fields = {"ensemble_size": 3, "write_quorum": 2, "ack_quorum": 2, "segments": OPEN.segments}
    with pytest.raises(MetadataError, match=said):
        LedgerMetadata(**{**fields, **changes})


def test_metadata_keeps_no_door_open_for_changes() -> None:
    mine = {"k": b"v"}
    ledger = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),), custom_metadata=mine, password=b"secret")
    mine["k"] = b"other"
    assert ledger.custom_metadata == {"k": b"v"}
    with pytest.raises(TypeError):
        ledger.custom_metadata["k"] = b"x"  # type: ignore[index]
    assert "secret" not in repr(ledger)
