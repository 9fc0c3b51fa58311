"""The tables of logins and of failed tries: bounded, and they forget in time."""

from __future__ import annotations

import pytest

from herdpy_server.console.logins import Logins, Throttle


class ToyClock:
    """Seconds that pass when a test lets them."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def passes(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock():
    return ToyClock()


@pytest.fixture
def logins(clock):
    return Logins(longest_s=100.0, idle_s=10.0, most=3, clock=clock)


def begin(logins, user="ann"):
    return logins.begin(user, "herdpy", "password", "")[0]


def test_a_login_is_found_by_its_id_alone(logins):
    ident, login = logins.begin("ann", "herdpy", "password", "")
    assert logins.find(ident) is login
    assert [logins.find(other) for other in ("", ident[:-1], ident + "x", "ann")] == [None] * 4
    assert ident not in repr(vars(logins))


def test_ids_and_tokens_are_new_each_time(logins):
    made = [logins.begin("ann", "herdpy", "trust", "") for _ in range(3)]
    assert len({ident for ident, _ in made}) == len({login.csrf for _, login in made}) == 3
    assert all(len(ident) >= 40 for ident, _ in made)


def test_a_login_ends_when_it_is_idle(logins, clock):
    ident = begin(logins)
    for _ in range(5):
        clock.passes(9)
        assert logins.find(ident) is not None
    clock.passes(10)
    assert logins.find(ident) is None


def test_what_a_page_asks_by_itself_does_not_keep_it(logins, clock):
    ident = begin(logins)
    clock.passes(9)
    assert logins.find(ident, uses=False) is not None
    clock.passes(1)
    assert logins.find(ident) is None


def test_a_login_ends_when_it_is_old(logins, clock):
    ident = begin(logins)
    for _ in range(11):
        clock.passes(9)
        assert logins.find(ident) is not None
    clock.passes(9)
    assert logins.find(ident) is None


def test_one_too_many_ends_the_longest_idle(logins):
    first, second, third = (begin(logins) for _ in range(3))
    logins.find(first)
    fourth = begin(logins)
    assert [logins.find(one) is not None for one in (first, second, third, fourth)] == [
        True,
        False,
        True,
        True,
    ]
    assert len(logins) == 3


def test_logging_out_ends_it(logins):
    ident = begin(logins)
    logins.end(ident)
    logins.end(ident)
    assert logins.find(ident) is None


def fail(throttle, times, address="192.0.2.1", user="ann"):
    for _ in range(times):
        throttle.tried(address, user)


def test_each_failure_doubles_the_wait_up_to_a_minute(clock):
    throttle = Throttle(clock)
    fail(throttle, 4)
    assert throttle.wait_s("192.0.2.1", "ann") == 0
    waits = []
    for _ in range(10):
        fail(throttle, 1)
        waits.append(throttle.wait_s("192.0.2.1", "ann"))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    clock.passes(60)
    assert throttle.wait_s("192.0.2.1", "ann") == 0


def test_another_role_waits_after_more_failures_and_another_network_does_not(clock):
    throttle = Throttle(clock)
    fail(throttle, 10)
    assert throttle.wait_s("192.0.2.1", "bob") == 0
    for number in range(10):
        fail(throttle, 1, user=f"u{number}")
    assert throttle.wait_s("192.0.2.1", "bob") > 0
    assert throttle.wait_s("192.0.2.2", "ann") == 0


def test_addresses_of_one_machine_count_together(clock):
    throttle = Throttle(clock)
    for number in range(6):
        fail(throttle, 1, address=f"2001:db8::{number}")
    assert throttle.wait_s("2001:db8::ffff", "ann") > 0
    assert throttle.wait_s("2001:db8:0:1::1", "ann") == 0
    for address in ("192.0.2.1", "::ffff:192.0.2.1") * 3:
        fail(throttle, 1, address=address)
    assert throttle.wait_s("192.0.2.1", "ann") > 0


def test_a_right_password_forgives_the_role_and_not_the_network(clock):
    throttle = Throttle(clock)
    fail(throttle, 19)
    throttle.succeeded("192.0.2.1", "ann")
    assert throttle.wait_s("192.0.2.1", "ann") == 0
    fail(throttle, 2, user="bob")
    assert throttle.wait_s("192.0.2.1", "ann") > 0


def test_what_is_long_ago_is_forgotten_and_the_table_is_bounded(clock):
    throttle = Throttle(clock, most=10)
    fail(throttle, 6)
    clock.passes(1000)
    fail(throttle, 1)
    assert throttle.wait_s("192.0.2.1", "ann") == 0
    for number in range(200):
        fail(throttle, 6, address=f"10.0.0.{number}")
    assert len(vars(throttle)["_failures"]) == 10
