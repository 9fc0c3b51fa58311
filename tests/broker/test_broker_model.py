"""The broker beside a model: all operations in any order, on a database in a directory.

Time passes by moving the times of rows into the past; whatever was not moved has an hour.
"""

from __future__ import annotations

from typing import Any

import pytest
from herdpy_broker import claim, finish, groups, letters, types, upkeep, workers
from herdpy_broker.errors import SlotTakenError, TaskLostError
from herdpy_broker.submission import Submission, submit
from herdpy_broker.transactions import Connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import herdpy

from .broker_model import Model
from .conftest import TABLES

HOUR_S = 3600.0
GROUPS = st.sampled_from(["a", "b"])
TYPES = st.sampled_from(["t", "slow"])


class Users(RuleBasedStateMachine):
    """Programs, workers and people."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection = herdpy.connect(self.url, autocommit=True)
        for table in TABLES:
            self.connection.execute(f"DELETE FROM broker.{table}")
        types.define(self.connection, "t", backoff_s=0)
        types.define(self.connection, "slow", backoff_s=HOUR_S, backoff_most_s=HOUR_S)
        self.model = Model()
        self.known: list[int] = []  # ids of all tasks that there ever were
        self.workers = [self.register(), self.register()]

    def teardown(self) -> None:
        self.connection.close()

    def register(self) -> int:
        return workers.register(self.connection, "worker", 10, HOUR_S)

    def past(self, table: str, column: str, one: int) -> None:
        self.connection.execute(
            f"UPDATE broker.{table} SET {column} = now() - INTERVAL '2 hours' WHERE id = $1", (one,)
        )

    @rule(
        type_name=TYPES,
        group=GROUPS,
        priority=st.integers(0, 2),
        slot=st.sampled_from([None, None, "s", "u"]),
        waits=st.booleans(),
        delayed=st.booleans(),
        has_deadline=st.booleans(),
        max_attempts=st.integers(1, 3),
        data=st.data(),
    )
    def submit(
        self,
        type_name: str,
        group: str,
        priority: int,
        slot: str | None,
        waits: bool,
        delayed: bool,
        has_deadline: bool,
        max_attempts: int,
        data: st.DataObject,
    ) -> None:
        after = data.draw(st.lists(st.sampled_from(self.known), max_size=2)) if self.known else []
        task = Submission(
            type_name,
            group=group,
            priority=priority,
            slot=slot,
            waits_for_slot=waits and slot is not None,
            delay_s=HOUR_S if delayed else 0,
            deadline_s=HOUR_S if has_deadline else None,
            after=tuple(after),
            max_attempts=max_attempts,
        )
        holder = None if slot is None or task.waits_for_slot else self.model.holder(slot)
        if holder is not None:
            with pytest.raises(SlotTakenError) as raised:
                submit(self.connection, task)
            assert raised.value.holder == holder
            return
        one = submit(self.connection, task)
        assert not self.known or one > self.known[-1]
        self.known.append(one)
        self.model.submit(one, task, backs_off=type_name == "slow")

    @rule(which=st.integers(0, 1), group=GROUPS, most=st.integers(1, 4))
    def claim(self, which: int, group: str, most: int) -> None:
        worker = self.workers[which]
        taken = [task.id for task in claim.claim(self.connection, worker, group, most)]
        assert taken == self.model.claim(worker, group, most)

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 1), data=st.data(), more=st.booleans())
    def finish(self, which: int, data: st.DataObject, more: bool) -> None:
        worker = self.workers[which]
        mine = [one for one in self.model.living if self.model.has(worker, [one])]
        ids = set(data.draw(st.lists(st.sampled_from(mine), max_size=3)) if mine else [])
        ids |= {data.draw(st.sampled_from(self.known))} if more else set()
        results = [(one, {"of": one}) for one in ids]
        if self.model.has(worker, ids):
            finish.finish(self.connection, worker, results)
            self.model.finish(ids)
        else:
            with pytest.raises(TaskLostError):
                finish.finish(self.connection, worker, results)

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 1), data=st.data(), may_retry=st.booleans())
    def fail(self, which: int, data: st.DataObject, may_retry: bool) -> None:
        worker, one = self.workers[which], data.draw(st.sampled_from(self.known))
        if self.model.has(worker, [one]):
            finish.fail(self.connection, worker, one, "it broke", may_retry=may_retry)
            self.model.fail(one, may_retry=may_retry)
        else:
            with pytest.raises(TaskLostError):
                finish.fail(self.connection, worker, one, "it broke", may_retry=may_retry)

    @rule(which=st.integers(0, 1))
    def die(self, which: int) -> None:
        worker = self.workers[which]
        self.past("worker", "seen_at", worker)
        assert sorted(workers.reap(self.connection)) == sorted(self.model.give_up(worker))
        self.workers[which] = self.register()

    @precondition(lambda self: self.model.living)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.model.living)))
        letters.cancel(self.connection, one)
        self.model.cancel(one)

    @precondition(lambda self: self.model.dead)
    @rule(data=st.data(), again=st.booleans())
    def take_up(self, data: st.DataObject, again: bool) -> None:
        one = data.draw(st.sampled_from(sorted(self.model.dead)))
        if again:
            letters.retry(self.connection, one)
            self.model.retry(one)
        else:
            letters.discard(self.connection, one)
            self.model.discard(one)

    @precondition(lambda self: self.model.living)
    @rule(data=st.data())
    def a_delay_ends(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.model.living)))
        self.past("task", "ready_at", one)
        self.model.living[one].is_due = True
        assert upkeep.promote(self.connection) == self.model.promote()

    @precondition(lambda self: any(one.is_late is False for one in self.model.living.values()))
    @rule(data=st.data(), noticed=st.booleans())
    def a_dead_line_passes(self, data: st.DataObject, noticed: bool) -> None:
        late = [one.id for one in self.model.living.values() if one.is_late is False]
        one = data.draw(st.sampled_from(late))
        self.past("task", "deadline", one)
        self.model.living[one].is_late = True
        if noticed:
            assert upkeep.expire(self.connection) == self.model.expire()

    @rule(group=GROUPS, most=st.sampled_from([None, None, 1, 2]), paused=st.sampled_from([False, True]))
    def set_group(self, group: str, most: int | None, paused: bool) -> None:
        groups.set_group(self.connection, group, max_running=most, paused=paused)
        self.model.max_running[group] = most
        (self.model.paused.add if paused else self.model.paused.discard)(group)

    @invariant()
    def the_tables_are_as_the_model_has_them(self) -> None:
        tasks = self.rows("id, state, attempts, worker, holds_slot, needs FROM broker.task")
        assert tasks == [
            (one.id, one.state, one.attempts, one.worker, one.holds_slot, len(one.needs))
            for _, one in sorted(self.model.living.items())
        ]
        assert self.rows("id, reason FROM broker.dead") == sorted(self.model.dead.items())
        assert self.rows("id, outcome FROM broker.finished") == sorted(self.model.finished.items())
        links = {(needed, one.id) for one in self.model.living.values() for needed in one.needs}
        assert self.rows("needs, task FROM broker.dependency") == sorted(links)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT {query} ORDER BY 1, 2 LIMIT 10000").fetchall()


MANY = pytest.param(400, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])


@pytest.mark.parametrize("examples", [10, MANY])
def test_the_broker_does_as_its_model(directory, connect, examples):
    machine = type("UsersHere", (Users,), {"url": directory})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
