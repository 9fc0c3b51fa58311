"""The rules of a pool, against random users: nobody is overtaken, nobody is forgotten, nothing is lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from herdpy.pool.core import Core, Held

MAX, MIN, IDLE_S = 3, 1, 10.0


class Users(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core: Core[int] = Core(MIN, MAX, IDLE_S, math.inf)
        self.now = 0.0
        self.names = iter(range(10**9))
        self.waiting: list = []  # who is in line, the first one first
        self.making: list = []
        self.lent: list[Held[int]] = []

    def woken(self, ask) -> None:
        assert self.waiting[0] is ask, "somebody was overtaken"
        self.waiting.pop(0)
        self.served(ask)

    def served(self, ask) -> None:
        if ask.held is not None:
            self.lent.append(ask.held)
        elif ask.may_make:
            self.making.append(ask)

    @rule()
    def ask(self) -> None:
        found: list = []
        ask = self.core.ask(self.now, lambda: self.woken(found[0]))
        found.append(ask)
        if ask.is_in_line:
            self.waiting.append(ask)
        self.served(ask)

    @precondition(lambda self: self.making)
    @rule(works=st.booleans())
    def made(self, works: bool) -> None:
        self.making.pop(0)
        if works:
            self.lent.append(self.core.made(next(self.names), self.now))
        else:
            self.core.lost(self.now, lent=False)

    @precondition(lambda self: self.lent)
    @rule(data=st.data(), works=st.booleans())
    def back(self, data, works: bool) -> None:
        held = self.lent.pop(data.draw(st.integers(0, len(self.lent) - 1)))
        if works:
            assert self.core.put(held, self.now)
        else:
            self.core.lost(self.now, lent=True)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data) -> None:
        ask = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        assert self.core.leave(ask, self.now)

    @rule(seconds=st.floats(0, 2 * IDLE_S))
    def time(self, seconds: float) -> None:
        due = self.core.next_look()
        self.now += seconds
        gone = self.core.expired(self.now)
        assert not gone or due <= self.now
        assert all(held.idle_since + IDLE_S <= self.now for held in gone)

    @rule()
    def fill(self) -> None:
        if self.core.may_fill():
            self.core.put(self.core.made(next(self.names), self.now), self.now)

    @invariant()
    def adds_up(self) -> None:
        core = self.core
        assert core.size == len(core.idle) + len(self.lent) + len(self.making) <= MAX
        assert core.lent == len(self.lent)
        assert list(core.line) == self.waiting
        connections = [held.connection for held in (*core.idle, *self.lent)]
        assert len(connections) == len(set(connections)), "one connection is lent twice"
        if self.waiting:
            assert not core.idle
            assert core.size == MAX


TestUsers = Users.TestCase
TestUsers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def gives_no_leave(self, _now, *, lent):
    self.size -= 1
    self.lent -= lent


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("lost", gives_no_leave),
        ("_first", lambda self, now: self.line.pop() if self.line else None),
    ],
    ids=["a place that is not passed on", "the last one first"],
)
def test_the_rules_are_seen_to_be_broken(monkeypatch, name, bug):
    monkeypatch.setattr(Core, name, bug)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Users,
            settings=settings(
                max_examples=500, phases=[Phase.generate], database=None, report_multiple_bugs=False
            ),
        )


def test_of_its_age():
    core: Core[str] = Core(1, 2, 10.0, 100.0)
    assert core.ask(0.0, lambda: None).may_make
    one = core.made("one", 0.0)
    assert 90.0 <= one.expires_at <= 100.0
    assert core.put(one, 50.0)
    assert core.expired(89.0) == []  # idle for longer than 10 s, but it is the last
    assert core.expired(100.0) == [one]
    assert core.ask(100.0, lambda: None).may_make
    two = core.made("two", 100.0)
    assert not core.put(two, 200.0)


def test_closed():
    core: Core[str] = Core(0, 1, 10.0, math.inf)
    woken: list[int] = []
    first = core.ask(0.0, lambda: woken.append(1))
    held = core.made("one", 0.0)
    second = core.ask(0.0, lambda: woken.append(2))
    assert (first.may_make, second.is_in_line) == (True, True)
    assert core.close() == []
    assert woken == [2]
    assert second.is_refused
    assert core.ask(1.0, lambda: None).is_refused
    assert not core.put(held, 1.0)
    core.lost(1.0, lent=True)
    assert core.stats().size == 0
