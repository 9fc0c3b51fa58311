"""Placement as properties: what any choice of replicas and leaders must be."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from herdpy_server.cluster.placement import (
    choose_leader,
    choose_replicas,
    hands_over_to,
    leads_of,
    loads_of,
    place,
)
from herdpy_server.cluster.tablespaces import TablespaceInfo

LIMIT_S = 600.0
NODES = st.sampled_from([f"n{number}" for number in range(8)])
AWAY = st.dictionaries(NODES, st.sampled_from([0.0, 0.0, 0.0, 10.0, 599.0, 601.0, 1e6]))
CURRENT = st.lists(NODES, unique=True, max_size=6)
LOADS = st.dictionaries(NODES, st.integers(0, 9))


def lost(node: str, away_s: dict[str, float]) -> bool:
    return away_s.get(node, float("inf")) > LIMIT_S


@given(CURRENT, st.integers(1, 6), AWAY, LOADS, st.data())
def test_replicas(
    current: list[str], expected: int, away_s: dict[str, float], loads: dict[str, int], data: st.DataObject
) -> None:
    keep = data.draw(st.lists(st.sampled_from(current), max_size=1) if current else st.just([]))
    chosen = choose_replicas(current, expected, away_s, loads, replace_after_s=LIMIT_S, keep=keep)
    added = [node for node in chosen if node not in current]
    gone = [node for node in current if node not in chosen]
    free = [node for node, away in away_s.items() if away == 0 and node not in current]
    unused = set(free) - set(added)

    assert len(set(chosen)) == len(chosen) <= expected
    assert set(keep) <= set(chosen)
    assert all(away_s.get(node) == 0 for node in added)  # only nodes that are there get something
    assert [node for node in chosen if node in current] == [node for node in current if node in chosen]
    # As many as there can be: fewer only when no node is left.
    assert len(chosen) == expected or not unused
    # Minimal movement: one goes because there are too many, or to make room for its replacement.
    surplus = max(len(current) - expected, 0)
    assert len(gone) - surplus <= len(added)
    assert len([node for node in gone if not lost(node, away_s)]) <= surplus
    # A lost one stays only when nobody can take its place.
    assert not (unused and any(lost(node, away_s) for node in chosen if node not in keep))
    # The idlest are taken.
    assert all(loads.get(node, 0) <= loads.get(other, 0) for node in added for other in unused)


@given(CURRENT, st.integers(1, 6), AWAY, LOADS)
def test_choosing_again_changes_nothing(
    current: list[str], expected: int, away_s: dict[str, float], loads: dict[str, int]
) -> None:
    once = choose_replicas(current, expected, away_s, loads, replace_after_s=LIMIT_S)
    assert choose_replicas(once, expected, away_s, loads, replace_after_s=LIMIT_S) == once


@given(CURRENT, st.lists(NODES, unique=True), LOADS, st.none() | NODES)
def test_leader(replicas: list[str], present: list[str], leads: dict[str, int], current: str | None) -> None:
    chosen = choose_leader(replicas, present, leads, current)
    able = [node for node in replicas if node in present]
    if current in replicas:
        assert chosen == current
    elif not able:
        assert chosen is None
    else:
        assert chosen in able
        assert leads.get(chosen, 0) == min(leads.get(node, 0) for node in able)


@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 12))
def test_tablespaces_made_in_turn_spread(nodes: int, expected: int, count: int) -> None:
    away_s = {f"n{number}": 0.0 for number in range(nodes)}
    made: list[TablespaceInfo] = []
    for number in range(count):
        info = TablespaceInfo(name=f"t{number}", uuid=str(number), expected_replicas=expected)
        replicas, leader = place(info, away_s, made)
        assert len(replicas) == min(expected, nodes)
        assert leader in replicas
        made.append(msgspec.structs.replace(info, replicas=replicas, leader=leader))
    for counts in (leads_of(made), loads_of(made)):
        spread = Counter(counts)
        assert max(spread.values()) - min(spread.get(node, 0) for node in away_s) <= 1


def test_what_is_named_stays() -> None:
    away_s = {"a": 0.0, "b": 0.0, "c": 0.0, "d": 5.0}
    info = TablespaceInfo(name="t", uuid="1", replicas=("d",), leader="c", expected_replicas=3)
    assert place(info, away_s, ()) == (("c", "d", "a"), "c")
    assert place(TablespaceInfo(name="t", uuid="1"), {}, ()) == ((), None)


def test_making_way_for_the_preferred_leader() -> None:
    info = TablespaceInfo(name="t", uuid="1", replicas=("a", "b"), leader="b")
    assert hands_over_to(info, "a", ["a", "b"]) == "b"
    assert hands_over_to(info, "a", ["a"]) is None
    assert hands_over_to(info, "b", ["a", "b"]) is None
    assert hands_over_to(msgspec.structs.replace(info, leader=None), "a", ["a", "b"]) is None
