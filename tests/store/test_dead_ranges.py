"""Ranges without a visible key: what scans note, what commits take out of them, and what a scan saves."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import herdpy
from herdpy_server.store import layers
from herdpy_server.store.dead_ranges import MANY, DeadRanges
from herdpy_server.store.layers import Delta

DB = 7


def layer(live: set[bytes], dead: set[bytes] = frozenset()) -> layers.Layer:
    delta = Delta()
    delta.rows = {**dict.fromkeys(live, b""), **dict.fromkeys(dead)}
    return {DB: delta}


def key(number: int) -> bytes:
    return number.to_bytes(2, "big")


@pytest.mark.parametrize("seed", range(20))
def test_no_range_has_a_visible_key(seed: int) -> None:
    rng = random.Random(seed)
    ranges, live = DeadRanges(), set(map(key, rng.sample(range(300), 30)))
    for _ in range(200):
        start = key(rng.randrange(300))
        if rng.random() < 0.6:
            end = min([one for one in live if one >= start], default=key(300))
            if start < end:
                ranges.note(DB, start, end, ranges.version)
        elif rng.random() < 0.9:
            added = {key(rng.randrange(300))}
            gone = {rng.choice(sorted(live))} - added
            live = (live | added) - gone
            ranges.pushed(layer(added, gone))
        else:
            ranges.forget()
        low, high = sorted(map(key, rng.sample(range(300), 2)))
        found = ranges.within(DB, low, high)
        assert found == sorted(found)
        assert all(low <= a < b <= high for a, b in found)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))
        assert not [one for one in live if any(a <= one < b for a, b in found)]


def test_adjacent_ranges_become_one_and_a_new_key_cuts_one_in_two() -> None:
    ranges = DeadRanges()
    ranges.note(DB, key(1), key(5), 0)
    ranges.note(DB, key(5), key(9), 0)
    assert ranges.within(DB, None, None) == [(key(1), key(9))]
    ranges.pushed(layer({key(4)}))
    assert ranges.within(DB, key(2), None) == [(key(2), key(4)), (key(4) + b"\0", key(9))]


def test_a_note_of_an_older_state_is_not_taken() -> None:
    ranges = DeadRanges()
    ranges.pushed(layer({key(4)}))
    ranges.note(DB, key(1), key(5), 0)
    assert ranges.within(DB, None, None) == []


def test_the_head_of_a_queue_is_not_walked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are taken from the head of an index; what was taken costs later scans nothing."""
    looked_up = []
    real = layers.overlay

    def order(id_: int) -> tuple[int, int]:
        return -(id_ // 300), id_

    def counted(*args):
        gone = args[5]

        def met(key: bytes) -> None:
            looked_up.append(key)
            if gone is not None:
                gone(key)

        return real(*args[:5], met)

    with herdpy.connect(f"herdpy://{tmp_path}/db", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE q (id INT PRIMARY KEY, p INT, state TEXT)")
        cursor.execute("CREATE INDEX q_ready ON q (p DESC, id) WHERE state = 'ready'")
        cursor.execute("INSERT INTO q SELECT n, n / 300, 'ready' FROM generate_series(1, 1000) n")
        monkeypatch.setattr("herdpy_server.store.transaction_state.overlay", counted)
        taken = []
        for _ in range(45):
            cursor.execute(
                "DELETE FROM q WHERE id IN (SELECT id FROM q WHERE state = 'ready' ORDER BY p DESC, id "
                "LIMIT 20 FOR UPDATE SKIP LOCKED) RETURNING id"
            )
            taken += sorted([id_ for (id_,) in cursor.fetchall()], key=order)
        cursor.execute("INSERT INTO q VALUES (350, 1, 'ready')")  # in the midst of those that are gone
        cursor.execute("SELECT id FROM q WHERE state = 'ready' ORDER BY p DESC, id LIMIT 2")
        left = [id_ for (id_,) in cursor.fetchall()]
    assert sorted(taken, key=order) == taken
    assert left == [350, taken[-1] + 1]
    assert len(looked_up) < len(taken) + 2 * MANY * 4
