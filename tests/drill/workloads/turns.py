"""A workload whose clients take turns in virtual time: a seed gives one history on every machine."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

from herdpy.drill.clients import Client
from herdpy.drill.history import Recorder
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import Way
from herdpy.drill.workloads import Workload
from tests.drill.workloads.embedded import CLIENTS, EmbeddedSessions

STEP_S = 0.02
"""How long a step takes."""
BEGAN_S = 1_700_000_000.0
"""When virtual time begins, in seconds since 1970."""


class VirtualClock:
    """In the place of the module `time`: time passes where a client sleeps, and with each step.

    Attributes:
        now_s: seconds since 1970.
    """

    def __init__(self) -> None:
        self.now_s = BEGAN_S

    def monotonic(self) -> float:
        """As `time.monotonic`, and what a recorder's clock is."""
        return self.now_s

    def time_ns(self) -> int:
        """As `time.time_ns`, which SQL's now() asks."""
        return round(self.now_s * 1e6) * 1000

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`, at once."""
        self.now_s += seconds


def run_in_turns(
    workload: Workload, directory: Path, clock: VirtualClock, *, steps: int, seed: int = 1
) -> tuple[list[Verdict], Recorder]:
    """Set up, do so many steps of clients that the seed chooses, look at the end, and judge."""
    recorder, dice = Recorder(clock=clock.monotonic), Random(seed)
    honest, *clients = (_client(directory, recorder, f"{seed}/{number}") for number in range(1 + CLIENTS))
    try:
        workload.setup(honest)
        for _ in range(steps):
            workload.step(dice.choice(clients))
            clock.sleep(STEP_S)
        workload.finish(honest)
        workload.clean_up(honest)
    finally:
        for client in (honest, *clients):
            client.close()
    return workload.judge(recorder.history), recorder


def _client(directory: Path, recorder: Recorder, seed: str) -> Client:
    never_waits = threading.Event()
    never_waits.set()
    way = Way(str(directory))
    return Client("w", EmbeddedSessions(), way, recorder, Random(seed), stop=never_waits)
