"""The workload `broker`: right on a right broker, and wrong where the broker is made wrong.

Bugs are looked for in virtual time, and with tasks and faults where they matter, so that they show for sure.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from herdpy_broker import ending, finish, submission, workers
from herdpy_broker.drill import BrokerWorkload, effects, workload
from herdpy_broker.transactions import Connection

from herdpy.drill.checkers.every_drill import check_errors
from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, OperationOutcome, Recorder
from herdpy.drill.sessions import FailedError, Way
from tests.drill.workloads.embedded import EmbeddedSessions, run
from tests.drill.workloads.turns import BEGAN_S, VirtualClock, run_in_turns

LEASE_S = 0.3
_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that sleep are given up while the others work."""
    monkeypatch.setattr(workload, "LEASE_S", LEASE_S)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: every commit is synced."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else tmp_path) as parent:
        yield Path(parent, "d")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The clients' time, and that of SQL's now()."""
    clock = VirtualClock()
    for module in (workload, effects):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    return clock


def test_a_right_broker_is_found_right(directory: Path) -> None:
    verdicts, recorder = run(BrokerWorkload(), directory, steps=25)
    assert all(verdict.valid for verdict in verdicts), verdicts
    assert check_errors(recorder.history).valid


def test_a_right_broker_is_found_right_in_virtual_time(directory: Path, clock: VirtualClock) -> None:
    verdicts, recorder = run_in_turns(BrokerWorkload(), directory, clock, steps=150)
    assert all(verdict.valid for verdict in verdicts), verdicts
    assert check_errors(recorder.history).valid
    done = {one.name for one in recorder.history if one.outcome is OperationOutcome.DONE}
    assert {"submit", "claim", "finish", "fail", "cancel", "upkeep", "register", "beat", "over"} <= done


def test_a_seed_gives_one_history(directory: Path, clock: VirtualClock) -> None:
    def history(name: str) -> list[ClientOperation]:
        clock.now_s = BEGAN_S
        _verdicts, recorder = run_in_turns(BrokerWorkload(), directory / name, clock, steps=40)
        return [one for one in recorder.history if one.name != "over"]  # whose rows are in any order

    assert history("a") == history("b")


def works_outside_of_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "transaction", lambda _client, work: work())


def frees_what_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_first = ending._NEED_LESS.replace("needs > $1::int", "needs < $1::int")
    monkeypatch.setattr(ending, "_NEED_LESS", at_the_first)


def gives_the_slot_up_with_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "_AGAIN", finish._AGAIN.replace("SET state", "SET holds_slot = false, state"))


def buries_at_the_first_death(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = workers._TASKS_OF.replace("id, attempts,", "id, max_attempts,")
    monkeypatch.setattr(workers, "_TASKS_OF", spent)


def submits_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unit(connection: Connection, work: Callable[[Connection], Any]) -> Any:
        return work(connection)

    monkeypatch.setattr(submission, "all_or_nothing", unit)


def acknowledges_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    true, numbers = submission._insert_all, itertools.count(1)

    def forgetful(connection: Connection, rows: list[Any]) -> list[int]:
        number = next(numbers)
        return (
            [10**6 * number + place for place in range(len(rows))]
            if number % 10 == 0
            else true(connection, rows)
        )

    monkeypatch.setattr(submission, "_insert_all", forgetful)


@dataclass(frozen=True)
class Stress:
    """Where faults and tasks are more frequent than in a drill.

    Attributes:
        dies, sleeps: how often clients do so with tasks that they have claimed.
        task: what tasks are given for the judge's description of them, and the keys that one may need.
    """

    dies: float = 0.0
    sleeps: float = 0.0
    task: Callable[[Random, list[int]], dict[str, Any]] = lambda _dice, _recent: {}


class StressedWorkload(BrokerWorkload):
    """The workload, with tasks of a test's own."""

    def __init__(self, stress: Stress) -> None:
        super().__init__()
        self._stress = stress

    def _spec(self, dice: Random, recent: list[int]) -> dict[str, Any]:
        return super()._spec(dice, recent) | self._stress.task(dice, recent)


def needs_two(dice: Random, recent: list[int]) -> dict[str, Any]:
    return {"after": dice.sample(recent, 2) if len(recent) > 1 and dice.random() < 0.5 else []}


def fails_with_a_slot(dice: Random, _recent: list[int]) -> dict[str, Any]:
    return {"slot": f"slot-{dice.randrange(2)}", "waits": False, "fails": 1, "after": []}


def has_a_slot(dice: Random, _recent: list[int]) -> dict[str, Any]:
    return {"slot": f"slot-{dice.randrange(2)}" if dice.random() < 0.5 else None, "waits": False}


@dataclass(frozen=True)
class Bug:
    """What makes a broker wrong, what the judge then says, one of these at least, and where it shows."""

    make: Callable[[pytest.MonkeyPatch], None]
    kinds: set[str]
    stress: Stress = field(default_factory=Stress)


BUGS = (
    Bug(
        works_outside_of_the_transaction,
        {"effect without its finish", "done twice", "undone finish"},
        Stress(sleeps=0.3),
    ),
    Bug(frees_what_needs_more, {"begun too early", "done without what it needs"}, Stress(task=needs_two)),
    Bug(gives_the_slot_up_with_an_attempt, {"slot held twice"}, Stress(task=fails_with_a_slot)),
    Bug(buries_at_the_first_death, {"dead without cause"}, Stress(dies=0.3)),
    Bug(submits_one_by_one, {"undone submit", "torn batch"}, Stress(task=has_a_slot)),
    Bug(acknowledges_and_forgets, {"lost task"}),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.make.__name__)
def test_a_wrong_broker_is_found_wrong(
    bug: Bug, monkeypatch: pytest.MonkeyPatch, directory: Path, clock: VirtualClock
) -> None:
    bug.make(monkeypatch)
    monkeypatch.setattr(workload, "_DIES", bug.stress.dies)
    monkeypatch.setattr(workload, "_SLEEPS", bug.stress.sleeps)
    monkeypatch.setattr(workload, "_DRAIN_S", 5.0)  # tasks that never end are a finding, too
    verdicts, _recorder = run_in_turns(StressedWorkload(bug.stress), directory, clock, steps=100)
    assert {kind for verdict in verdicts for kind in verdict.kinds} & bug.kinds, verdicts


def test_a_broker_that_is_there_is_left_alone(directory: Path) -> None:
    client = Client("w", EmbeddedSessions(), Way(str(directory)), Recorder(), Random(0))
    try:
        BrokerWorkload().setup(client)
        with pytest.raises(FailedError, match="42P06: the database has a broker"):
            BrokerWorkload("_2").setup(client)
    finally:
        client.close()
