"""A lease by itself, with a clock that the test moves."""

from __future__ import annotations

import time

from herdpy_server.cluster.lease import DRIFT, Lease, boottime


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_valid_from_opening_until_the_proof_was_sent_plus_the_lease() -> None:
    clock = Clock()
    lease = Lease(1.0, 7, clock)
    lease.prove(100.5, 7)
    assert not lease.valid()  # a predecessor's may still run
    lease.open()
    clock.now_s = 100.5 + 1 - DRIFT - 0.001
    assert lease.valid()
    clock.now_s = 100.5 + 1 - DRIFT + 0.001
    assert not lease.valid()
    lease.prove(101.0, 7)
    assert lease.valid()
    lease.prove(100.6, 7)  # an older one, answered later
    clock.now_s = 101.9
    assert lease.valid()


def test_proofs_of_another_session_or_from_before_the_term_are_none() -> None:
    clock = Clock()
    lease = Lease(1.0, 7, clock)
    lease.open()
    lease.prove(100.1, 8)
    lease.prove(99.9, 7)
    assert not lease.valid()


def test_a_dropped_lease_stays_dropped() -> None:
    clock = Clock()
    lease = Lease(1.0, 7, clock)
    lease.open()
    lease.prove(100.0, 7)
    assert lease.valid()
    lease.drop()
    lease.prove(100.1, 7)
    lease.open()
    assert not lease.valid()


def test_a_question_is_noted_and_one_in_vain_has_the_lease_renewed() -> None:
    clock, asked = Clock(), []
    lease = Lease(1.0, 7, clock)
    lease.lapsed = lambda: asked.append(clock.now_s)
    lease.open()
    assert not lease.valid()
    lease.prove(100.0, 7)
    clock.now_s = 100.5
    assert lease.valid()
    clock.now_s = 101.5
    assert not lease.is_held
    assert (lease.asked_s, asked) == (100.5, [100.0])  # who looks on asks nothing
    assert not lease.valid()
    assert (lease.asked_s, asked) == (101.5, [100.0, 101.5])


def test_who_waits_for_a_proof_is_called_once() -> None:
    clock, called = Clock(), []
    lease = Lease(1.0, 7, clock)
    lease.when_proved(lambda: called.append(lease.is_held))
    lease.when_proved(lambda: called.append(lease.is_held))
    lease.open()
    lease.prove(99.0, 7)  # it is none
    assert called == []
    lease.prove(100.0, 7)
    lease.prove(100.1, 7)
    assert called == [True, True]


def test_the_clock_counts_from_boot() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boottime() <= time.clock_gettime(time.CLOCK_BOOTTIME)
