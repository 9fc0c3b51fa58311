"""Who waits for whom as a tree: holders, those that wait for two, cycles, and long chains."""

import pytest

from herdpy.wait_tree import wait_tree


def drawn(blocked_by):
    return [
        f"{'  ' * line.depth}{line.pid}{' again' if line.is_repeated else ''} {line.waiting}"
        for line in wait_tree(blocked_by)
    ]


def test_nobody_waits():
    assert wait_tree({1: (), 2: []}) == []


def test_holders_are_the_roots():
    assert drawn({1: (), 2: (1,), 3: (2,), 4: (1,), 9: ()}) == ["1 3", "  2 1", "    3 0", "  4 0"]


def test_a_holder_that_is_not_among_the_sessions_is_a_root():
    assert drawn({2: (77,)}) == ["77 1", "  2 0"]


def test_one_that_waits_for_two_is_drawn_out_once():
    assert drawn({3: (1, 2, 1), 4: (3,)}) == ["1 2", "  3 1", "    4 0", "2 2", "  3 again 1"]


@pytest.mark.parametrize("blocked_by", [{1: (1,)}, {1: (2,), 2: (1,)}, {1: (2,), 2: (3,), 3: (1,), 4: (2,)}])
def test_a_cycle_ends_and_has_everyone(blocked_by):
    lines = wait_tree(blocked_by)
    assert {line.pid for line in lines} == set(blocked_by)
    assert any(line.is_repeated for line in lines)


def test_a_cycle_beside_a_tree():
    assert drawn({1: (2,), 2: (1,), 5: (4,)}) == ["4 1", "  5 0", "1 1", "  2 1", "    1 again 1"]


def test_a_chain_of_thousands_is_no_recursion():
    lines = wait_tree({pid: (pid - 1,) for pid in range(2, 1500)})
    assert [line.depth for line in lines] == list(range(1499))
    assert lines[0].waiting == 1498
