"""How far the log may be trimmed, as properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.log.lsn import LSN
from herdpy_server.cluster.layout import PositionRecord, ReaderRecord
from herdpy_server.cluster.positions import trim_floor

NOW_US = 10_000_000_000
RETENTION_S = 60.0
NODES = st.sampled_from("abcd")
LSNS = st.builds(LSN, st.integers(-1, 5), st.integers(-1, 5))
TIMES = st.sampled_from([0, NOW_US - 60_000_001, NOW_US - 60_000_000, NOW_US, NOW_US + 1, NOW_US * 2])
POSITIONS = st.dictionaries(NODES, st.builds(PositionRecord, durable=LSNS, seen_us=TIMES))
READERS = st.lists(st.builds(ReaderRecord, lsn=LSNS, expires_us=TIMES, purpose=st.just("backup")))


@given(LSNS, st.sets(NODES), st.sets(NODES), POSITIONS, READERS)
def test_floor(
    checkpoint: LSN,
    replicas: set[str],
    present: set[str],
    positions: dict[str, PositionRecord],
    readers: list[ReaderRecord],
) -> None:
    floor = trim_floor(
        checkpoint, replicas, present, positions, readers, retention_s=RETENTION_S, now_us=NOW_US
    )
    needed = [checkpoint]
    for node, position in positions.items():
        recent = NOW_US - position.seen_us <= RETENTION_S * 1_000_000
        if node in replicas and (node in present or recent):
            assert floor <= position.durable, f"{node} still needs it"
            needed.append(position.durable)
    for reader in readers:
        if reader.expires_us > NOW_US:
            assert floor <= reader.lsn, "a reader still needs it"
            needed.append(reader.lsn)
    assert floor <= checkpoint
    assert floor in needed  # and nothing else holds it back


def test_each_that_needs_the_log_holds_it_back_and_who_left_for_good_does_not() -> None:
    options = {"retention_s": RETENTION_S, "now_us": NOW_US}
    gone = {"b": PositionRecord(durable=LSN(1, 0), seen_us=NOW_US - 61_000_000)}
    away = {"b": PositionRecord(durable=LSN(1, 0), seen_us=NOW_US - 59_000_000)}
    reader = ReaderRecord(lsn=LSN(2, 0), expires_us=NOW_US + 1, purpose="backup")
    over = ReaderRecord(lsn=LSN(2, 0), expires_us=NOW_US, purpose="backup")
    floor = trim_floor
    assert floor(LSN(9, 9), {"a", "b"}, {"a"}, gone, (), **options) == LSN(9, 9)
    assert floor(LSN(9, 9), {"a", "b"}, {"a"}, away, (), **options) == LSN(1, 0)
    assert floor(LSN(9, 9), {"a", "b"}, {"a", "b"}, gone, (), **options) == LSN(1, 0)
    assert floor(LSN(9, 9), {"a"}, {"a", "b"}, gone, (), **options) == LSN(9, 9)
    assert floor(LSN(9, 9), {"a"}, {"a"}, {}, (reader, over), **options) == LSN(2, 0)
    assert floor(LSN(9, 9), {"a"}, {"a"}, {}, (over,), **options) == LSN(9, 9)
    assert floor(LSN(3, 9), {"a"}, {"a"}, {}, (), **options) == LSN(3, 9)


def test_what_a_replica_keeps_of_the_past_holds_it_back() -> None:
    past = {"b": PositionRecord(durable=LSN(5, 0), seen_us=NOW_US, floor=LSN(2, 3))}
    ahead = {"b": PositionRecord(durable=LSN(5, 0), seen_us=NOW_US, floor=LSN(6, 0))}
    options = {"retention_s": RETENTION_S, "now_us": NOW_US}
    assert trim_floor(LSN(9, 9), {"b"}, {"b"}, past, (), **options) == LSN(2, 3)
    assert trim_floor(LSN(9, 9), {"b"}, {"b"}, ahead, (), **options) == LSN(5, 0)
    assert trim_floor(LSN(1, 1), {"b"}, {"b"}, past, (), **options) == LSN(1, 1)


_FLOOR = trim_floor


def _forgets_the_checkpoint(_checkpoint: LSN, *needs: Any, **options: Any) -> LSN:
    return _FLOOR(LSN(99, 0), *needs, **options)


def _forgets_readers(checkpoint: LSN, *needs: Any, **options: Any) -> LSN:
    return _FLOOR(checkpoint, *needs[:-1], (), **options)


def _forgets_who_is_away(checkpoint: LSN, replicas: Any, present: Any, *needs: Any, **options: Any) -> LSN:
    return _FLOOR(checkpoint, set(replicas) & set(present), present, *needs, **options)


def _forgets_who_is_there(checkpoint: LSN, replicas: Any, _present: Any, *needs: Any, **options: Any) -> LSN:
    return _FLOOR(checkpoint, replicas, (), *needs, **options)


@pytest.mark.parametrize(
    "bug",
    [_forgets_the_checkpoint, _forgets_readers, _forgets_who_is_away, _forgets_who_is_there],
    ids=lambda bug: bug.__name__[1:],
)
def test_a_floor_that_forgets_somebody_is_noticed(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "trim_floor", bug)
    with pytest.raises(AssertionError):
        test_each_that_needs_the_log_holds_it_back_and_who_left_for_good_does_not()
