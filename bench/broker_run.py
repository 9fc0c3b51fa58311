"""One broker under load: its workers and its producer run, tasks are submitted at a rate, figures are taken.

A run ends when the last task that was submitted is finished. What it costs is the CPU of every process, its
servers, workers and producer, a task.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_load import PAIR, STARTS
from broker_systems import System
from json_program import JsonProgram
from processor_time import CLIENT, IDLE, measured

from herdpy.testing.process import Child, await_until

PATIENCE_S = 120.0
_WARM = 200
"""Tasks that are done before the first run, so that every process has started."""


@dataclass(frozen=True)
class Run:
    """What a load took.

    Attributes:
        aim: tasks a second that were to be submitted.
        rate: tasks a second from the first submission to the last finish.
        backlog: tasks that waited when the last one had been submitted.
        latencies_ms: of each start, since its submission began.
        costs: CPU a task by process in microseconds, and the idle share of the machine (``processor_time``).
    """

    aim: float
    rate: float
    backlog: int
    latencies_ms: list[float]
    costs: Mapping[str, float]

    @property
    def kept_up(self) -> bool:
        """Whether it kept the rate: the backlog at the end was done within a twentieth of the time."""
        return self.rate >= 0.95 * self.aim

    @property
    def cost_us(self) -> float:
        """CPU of all processes a task."""
        return math.fsum(cost for name, cost in self.costs.items() if name != IDLE)

    def latency_ms(self, share: float) -> float:
        """The latency below which this share of the tasks started."""
        cuts = statistics.quantiles(self.latencies_ms, n=1000, method="inclusive")
        return cuts[round(share * 1000) - 1]


class Loaded:
    """A broker with workers and a producer; made by :func:`loaded`."""

    def __init__(self, system: System, producer: JsonProgram, workers: list[Child], starts: Path) -> None:
        self.system = system
        self._producer, self._workers, self._starts = producer, workers, starts
        self._read: dict[Path, int] = {}

    def run(self, rate: float, seconds: float, batch: int = 1) -> Run:
        """Submit at this rate for so long, `batch` tasks a submission, and wait until all are finished.

        Raises:
            SystemExit: tasks are lost, done twice, or not done within PATIENCE_S.
        """
        self._new_starts()
        backlog, submitted = 0, 0

        def load() -> tuple[float, int]:
            nonlocal backlog, submitted
            began = time.monotonic()
            self._producer.ask({"rate": rate, "seconds": seconds, "batch": batch})
            submitted = int(self._producer.answer()["submitted"])
            backlog = self.system.waiting()
            self._await_done(submitted)
            return submitted / (time.monotonic() - began), submitted

        found = measured(self._processes(), load)
        pairs = self._new_starts()
        if len(pairs) != submitted:
            raise SystemExit(f"{self.system.name}: {submitted} tasks were submitted and {len(pairs)} started")
        latencies_ms = [(started - at) * 1e3 for at, started in pairs]
        costs = {name: cost for name, cost in found.costs.items() if name != CLIENT}
        return Run(rate, found.rate, backlog, latencies_ms, costs)

    def _await_done(self, submitted: int) -> None:
        """Return when none waits. Celery's are for a moment neither in a queue nor unacknowledged."""

        def is_done() -> bool:
            return self.system.waiting() == 0 and self._started() >= submitted

        if not await_until(is_done, PATIENCE_S):
            logs = "\n".join(worker.log_tail() for worker in self._workers)
            raise SystemExit(
                f"{self.system.name}: of {submitted} tasks {self._started()} have started and"
                f" {self.system.waiting()} are not finished\n{logs}"
            )

    def _started(self) -> int:
        """How many tasks have started since their times were read."""
        sizes = sum(path.stat().st_size - self._read.get(path, 0) for path in self._starts.iterdir())
        return sizes // PAIR.size

    def _processes(self) -> dict[str, int]:
        workers = {one.name: one.pid for one in self._workers if one.pid is not None}
        return {**self.system.servers, **workers, "producer": self._producer.pid}

    def _new_starts(self) -> list[tuple[float, float]]:
        """The times of submission and of start that were noted since the last call."""
        found: list[tuple[float, float]] = []
        for path in self._starts.iterdir():
            data = path.read_bytes()
            found += PAIR.iter_unpack(data[self._read.get(path, 0) :])
            self._read[path] = len(data)
        return found


@contextmanager
def loaded(system: System, directory: Path) -> Iterator[Loaded]:
    """Start a system's workers and its producer, in this directory, and have them do some tasks."""
    starts = directory / f"starts-{system.name}"
    starts.mkdir()
    environment = {**system.environment, STARTS: str(starts)}
    with ExitStack() as stack:
        workers = [
            Child(f"worker {nth}", command, directory / f"{system.name}-{nth}.log", environment=environment)
            for nth, command in enumerate(system.workers, 1)
        ]
        for worker in workers:
            worker.start()
            stack.callback(worker.terminate)
        producer = stack.enter_context(JsonProgram(system.producer, environment))
        producer.answer()
        made = Loaded(system, producer, workers, starts)
        made.run(_WARM, 1.0)
        yield made
