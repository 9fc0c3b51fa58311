"""Whether the loop or the thread writes to files: by how long the disk took."""

from __future__ import annotations

import random

from herdpy.log.write_place import FEWEST, MOST, QUICK_BYTES, QUICK_S, SAMPLE, SLOW_S, WritePlace

QUICK, SLOW = QUICK_S / 2, 2 * SLOW_S


def after(*groups: tuple[int, float]) -> WritePlace:
    """What is decided after so many groups of so many seconds."""
    place = WritePlace()
    for count, seconds in groups:
        for _ in range(count):
            place.took(seconds)
    return place


def groups_until_on_loop(place: WritePlace) -> int:
    count = 0
    while not place.on_loop:
        place.took(QUICK)
        count += 1
    return count


def test_the_thread_writes_until_the_disk_has_shown_that_it_is_quick() -> None:
    assert not after((FEWEST - 1, QUICK)).on_loop
    assert after((FEWEST, QUICK)).on_loop
    assert not after((10 * FEWEST, SLOW)).on_loop


def test_what_a_thread_waits_for_besides_the_disk_does_not_count() -> None:
    place = WritePlace()
    for at in range(FEWEST):
        place.took(QUICK if at % SAMPLE == 3 else 0.02)
    assert place.on_loop


def test_a_few_groups_with_no_quick_one_begin_the_count_anew() -> None:
    place = after((FEWEST - SAMPLE, QUICK), (SAMPLE, SLOW), (FEWEST - 1, QUICK))
    assert not place.on_loop
    place.took(QUICK)
    assert place.on_loop


def test_a_disk_that_becomes_slow_goes_back_to_the_thread_within_a_few_groups() -> None:
    place = after((FEWEST, QUICK))
    count = 0
    while place.on_loop:
        place.took(SLOW)
        count += 1
    assert count < 16
    assert not after((FEWEST, QUICK), (16, SLOW), (FEWEST, SLOW)).on_loop


def test_a_little_slow_now_and_then_is_borne_while_the_average_is_not() -> None:
    place = after((FEWEST, QUICK_S / 3))
    for _ in range(100):
        place.took(SLOW)
        for _ in range(9):
            place.took(QUICK_S / 3)
        assert place.on_loop


def test_one_long_stall_goes_back_to_the_thread_at_once() -> None:
    assert not after((10 * FEWEST, 0.0), (1, 0.02)).on_loop


def test_each_return_takes_twice_as_many_groups_up_to_a_limit_and_fewer_after_a_good_time() -> None:
    place, counts = WritePlace(), []
    for _ in range(12):
        counts.append(groups_until_on_loop(place))
        place.took(1.0)
    assert [counts[at + 1] / counts[at] for at in range(7)] == [2.0] * 7
    assert counts[-1] == counts[-2] == MOST
    groups_until_on_loop(place)
    for _ in range(2 * MOST):
        place.took(QUICK)
    place.took(1.0)
    assert groups_until_on_loop(place) < MOST


def test_large_groups_go_to_the_thread() -> None:
    place = after((FEWEST, QUICK))
    assert place.takes(QUICK_BYTES)
    assert not place.takes(QUICK_BYTES + 1)
    assert not WritePlace().takes(1)


def test_a_disk_that_stalls_every_hundredth_time_blocks_the_loop_seldom() -> None:
    rng, place, stalls = random.Random(1), WritePlace(), 0
    for _ in range(100_000):
        seconds = 0.02 if rng.random() < 0.01 else QUICK
        stalls += place.on_loop and seconds > SLOW_S
        place.took(seconds)
    assert stalls <= 16


def test_a_disk_that_is_quick_only_at_times_is_soon_left_to_the_thread() -> None:
    place, on_loop = WritePlace(), 0
    for at in range(100_000):
        on_loop += place.on_loop
        place.took(QUICK if at % SAMPLE == 0 else SLOW)
    assert on_loop < 300
