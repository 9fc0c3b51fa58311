"""All clients of a drill: one thread each, which steps through its workload until the time is over.

Layer: above workloads and clients, below the runner. Which client has which read level, isolation and way to
the database is decided here: they come in turn, so that every run has all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from herdpy.drill.clients import Client
from herdpy.drill.driver_session import DriverSessions
from herdpy.drill.history import Outcome
from herdpy.drill.plain_session import PlainSessions
from herdpy.drill.recorder import Recorder
from herdpy.drill.sessions import READ_LEVELS, Sessions, Way
from herdpy.drill.workloads import Workload


class CrewError(Exception):
    """A client's thread ended by an exception that is no answer of the database, or does not end."""


@dataclass(frozen=True)
class Job:
    """A workload, the word for it in the details of operations, and the isolation levels of its clients.

    isolations: in capitals, for BEGIN; all of them promise the same. Empty: the server's own.
    """

    label: str
    workload: Workload
    isolations: tuple[str, ...] = ()


class Crew:
    """The clients of some workloads. Their numbers, and `seed`, decide what they do.

    per_job: clients of each workload. rate_per_s: how many operations each client does, if it can.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        way: Way,
        recorder: Recorder,
        *,
        seed: int,
        per_job: int = 4,
        rate_per_s: float = 40.0,
    ) -> None:
        self._recorder = recorder
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._way = way
        self._seed = seed
        self._rate_per_s = rate_per_s
        self._plain = PlainSessions()
        kinds: list[Sessions] = [DriverSessions(), self._plain]
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(job, number, kinds[(number + place) % 2], READ_LEVELS[(number + 2 * place) % 4]),
                name=f"drill-{job.label}-{number}",
                daemon=True,
            )
            for place, job in enumerate(jobs)
            for number in range(per_job)
        ]
        self._hung_up = False

    def start(self) -> None:
        """Let the clients begin."""
        self._plain.__enter__()
        self._hung_up = True
        for thread in self._threads:
            thread.start()

    def acknowledged(self, since: int = 0) -> int:
        """How many operations were acknowledged, of those behind place `since` of the history."""
        operations = self._recorder.history.operations
        return sum(1 for one in operations[since:] if one.outcome is Outcome.DONE)

    def check(self) -> None:
        """Raises CrewError when a client ended by an exception."""
        if self._errors:
            error = self._errors[0]
            raise CrewError(f"a client of the drill failed: {type(error).__name__}: {error}") from error

    def stop(self, timeout_s: float = 120.0) -> None:
        """Let the clients end what they are doing, and wait for that. Raises CrewError."""
        self._stop.set()
        try:
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join(timeout_s)
            alive = [thread.name for thread in self._threads if thread.is_alive()]
        finally:
            if self._hung_up:
                self._hung_up = False
                self._plain.__exit__(None, None, None)
        if alive:
            raise CrewError(
                f"clients of the drill are still waiting after {timeout_s:g} s: {', '.join(alive)}"
            )
        self.check()

    def _run(self, job: Job, number: int, sessions: Sessions, read_level: str) -> None:
        client: Client | None = None
        try:
            client = Client(
                job.label,
                sessions,
                replace(self._way, read_level=read_level),
                self._recorder,
                Random(f"{self._seed}/{job.label}/{number}"),
                isolation=job.isolations[number % len(job.isolations)] if job.isolations else None,
                rate_per_s=self._rate_per_s,
                stop=self._stop,
            )
            while not self._stop.is_set():
                client.pause()
                job.workload.step(client)
        except BaseException as error:  # noqa: BLE001 - the runner raises it
            self._errors.append(error)
        finally:
            if client is not None:
                client.close()


def one_client(job: Job, way: Way, recorder: Recorder, seed: int) -> Client:
    """A client through the driver for what is done before and after: tables, and the last look."""
    return Client(job.label, DriverSessions(), way, recorder, Random(f"{seed}/{job.label}"))
