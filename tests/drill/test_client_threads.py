"""Clients in threads: all levels and ways are among them, and what goes wrong with one is reported."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from herdpy.drill.client_threads import ClientError, ClientThreads, WorkloadJob
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory, Recorder
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import READ_LEVELS, Way
from herdpy.drill.workloads import Workload

LEVELS = ("READ UNCOMMITTED", "READ COMMITTED")


class Noting(Workload):
    """Notes its clients, and fails where it has to."""

    name = "noting"
    summary = "notes"

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.isolations: set[str | None] = set()
        self.seen = threading.Semaphore(0)
        self._error = error

    def setup(self, client: Client) -> None:
        raise NotImplementedError

    def step(self, client: Client) -> None:
        if self._error is not None:
            raise self._error
        self.isolations.add(client.isolation)

        def read(_session: object) -> None:
            return None

        client.read("read", ["x"], read)
        self.seen.release()

    def finish(self, client: Client) -> None:
        raise NotImplementedError

    def judge(self, history: DrillHistory) -> list[Verdict]:
        raise NotImplementedError


def clients_of(recorder: Recorder, *workloads: Noting) -> ClientThreads:
    jobs = [WorkloadJob(f"job {number}", one, LEVELS) for number, one in enumerate(workloads)]
    return ClientThreads(jobs, Way("herdpy://nobody/there"), recorder, seed=1, rate_per_s=1e9)


def test_levels_ways_and_isolation_levels_come_in_turn() -> None:
    recorder, workloads = Recorder(), (Noting(), Noting())
    made = clients_of(recorder, *workloads)
    made.start()
    for workload in workloads:
        for _ in range(400):
            assert workload.seen.acquire(timeout=60)
    made.stop()
    assert made.acknowledged() == len(recorder.history) >= 800
    for number, workload in enumerate(workloads):
        assert workload.isolations == set(LEVELS)
        details = [one.details for one in recorder.history if one.details["workload"] == f"job {number}"]
        assert {one["client"] for one in details} == {"driver", "psycopg"}
        assert {one["read_level"] for one in details} == set(READ_LEVELS)
    ways = {(one.details["client"], one.details["read_level"]) for one in recorder.history}
    assert len(ways) == 2 * len(READ_LEVELS)


def test_a_client_that_fails_is_told() -> None:
    made = clients_of(Recorder(), Noting(ZeroDivisionError("by nought")))
    made.start()
    with pytest.raises(ClientError, match="ZeroDivisionError: by nought") as caught:
        made.stop()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(ClientError):
        made.check()


def test_a_client_that_does_not_end_is_told() -> None:
    class Stuck(Noting):
        over = threading.Event()

        def step(self, client: Client) -> None:
            self.seen.release()
            self.over.wait()

    workload = Stuck()
    made = clients_of(Recorder(), workload)
    made.start()
    assert workload.seen.acquire(timeout=60)
    try:
        with pytest.raises(ClientError, match=r"still waiting after 0.01 s: .*drill-job 0-"):
            made.stop(timeout_s=0.01)
    finally:
        Stuck.over.set()
    made.stop()


def test_a_crew_that_never_began_is_stopped() -> None:
    clients_of(Recorder(), Noting()).stop()


class Answering(Noting):
    """Asks for nothing but where it is, so that no database is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: Counter[tuple[str, int] | None] = Counter()

    def step(self, client: Client) -> None:
        self.steps[client.way.first] += 1


def test_poised_clients_wait_until_they_are_to_speak_and_end_when_they_are_let() -> None:
    workload = Answering()
    made = clients_of(Recorder(), workload)
    made.start()
    speak, end = made.poise(("here", 7))
    assert workload.steps[("here", 7)] == 2
    poised = [thread for thread in threading.enumerate() if "poised" in thread.name]
    assert len(poised) == 2
    speak()
    assert workload.steps[("here", 7)] > 2
    end()
    for thread in poised:
        thread.join(60)
        assert not thread.is_alive()
    assert any(thread.name.startswith("drill-job 0-") for thread in threading.enumerate())
    made.stop()
    assert workload.steps[None]


def test_poised_clients_end_with_all_others() -> None:
    workload = Answering()
    made = clients_of(Recorder(), workload)
    made.start()
    made.poise(("here", 7))
    made.stop()
    assert not [thread for thread in threading.enumerate() if "poised" in thread.name]
