"""A large transaction decoded in steps: the same as at once, whatever its bytes are."""

from __future__ import annotations

import random

import pytest

from herdpy.log import Insert, InsertBatch, LoggedTransaction, RecordError, Update
from herdpy.log import entry as module


def decoded(data: bytes) -> tuple[LoggedTransaction, int]:
    """What the steps give in the end, and how many there were."""
    steps, count = LoggedTransaction.decode_in_steps(data), 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            return end.value, count


def some_records(rng: random.Random, count: int) -> list[Insert | InsertBatch | Update]:
    return [
        rng.choice(
            (
                Insert(1, rng.randbytes(4), rng.randbytes(rng.randrange(300))),
                Update(2, None, b"k", rng.randbytes(9)),
                InsertBatch(3, rng.randbytes(rng.choice((3, 3000))), 7),
            )
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 500])
def test_it_is_the_same_as_at_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 8)
    monkeypatch.setattr(module, "_AT_ONCE_BYTES", 2000)
    data = LoggedTransaction(5, list(some_records(random.Random(count), count)), b"id" * (count % 2)).encode()
    whole, steps = decoded(data)
    assert whole == LoggedTransaction.decode(data)
    assert steps >= count // 8
    if count == 500:
        assert steps > 80  # a step is also limited by its bytes


def test_what_is_cut_off_or_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    rng = random.Random(1)
    data = LoggedTransaction(5, list(some_records(rng, 20))).encode()
    for _ in range(200):
        cut = rng.randrange(len(data))
        with pytest.raises(RecordError):
            decoded(data[:cut])
    with pytest.raises(RecordError):
        decoded(data + b"\0")
