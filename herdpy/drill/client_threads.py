"""All clients of a drill: one thread each, which steps through its workload until the time is over.

Layer: above workloads and clients, below the runner. Which client has which read level, isolation and way to
the database is decided here: they come in turn, so that every run has all of them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random

from herdpy.drill.clients import Client
from herdpy.drill.history import OperationOutcome, Recorder
from herdpy.drill.jdbc import JdbcSessions
from herdpy.drill.sessions import READ_LEVELS, ClientSessions, DriverSessions, PlainSessions, Way
from herdpy.drill.workloads import Workload

_POISED = 2
"""How many more clients of each workload are poised at a server."""
_POISED_S = 60.0
"""A poised client hangs up after that; a leader that sleeps wakes before."""
_CONNECTS_S = 5.0
_SENDS_S = 0.3
"""Until clients that were let go have sent a statement."""


KINDS: Mapping[str, Callable[[], ClientSessions]] = {
    "driver": DriverSessions,
    "psycopg": PlainSessions,
    "forwarded": lambda: PlainSessions("forwarded", "any server"),
    "one-address": lambda: PlainSessions("one-address", "one address"),
    "jdbc": JdbcSessions,
}
"""A client's ways to the database: HerdPy's driver; plain psycopg that looks for the leader; plain psycopg at
any server, which forwards its writes; plain psycopg and PostgreSQL's JDBC driver that know one address."""


class ClientError(Exception):
    """A client's thread ended by an exception that is no answer of the database, or does not end."""


@dataclass(frozen=True)
class WorkloadJob:
    """A workload, the word for it in the details of operations, and the isolation levels of its clients.

    isolations: in capitals, for BEGIN; all of them promise the same. Empty: the server's own.
    """

    label: str
    workload: Workload
    isolations: tuple[str, ...] = ()


class ClientThreads:
    """The clients of some workloads. Their numbers, and `seed`, decide what they do.

    per_job: clients of each workload. rate_per_s: how many operations each client does, if it can.
    kinds: of `KINDS`; a workload's clients take turns in them, unless it has kinds of its own.
    """

    def __init__(
        self,
        jobs: Sequence[WorkloadJob],
        way: Way,
        recorder: Recorder,
        *,
        seed: int,
        per_job: int = 4,
        rate_per_s: float = 40.0,
        kinds: Sequence[str] = ("driver", "psycopg"),
    ) -> None:
        self._recorder = recorder
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._way = way
        self._seed = seed
        self._rate_per_s = rate_per_s
        self._plain = PlainSessions()  # of those that are poised
        turns = [job.workload.kinds or tuple(kinds) for job in jobs]
        made = {kind: KINDS[kind]() for kind in dict.fromkeys(itertools.chain(*turns))}
        self._plains = [self._plain, *(one for one in made.values() if isinstance(one, PlainSessions))]
        self._jobs = jobs
        self._poised: list[threading.Event] = []  # set: the clients that were poised together end
        self._threads = [
            self._thread(
                job,
                str(number),
                number,
                made[turns[place][(number + place) % len(turns[place])]],
                replace(way, read_level=READ_LEVELS[(number + 2 * place) % 4]),
                self._stop,
            )
            for place, job in enumerate(jobs)
            for number in range(per_job)
        ]
        self._stack = ExitStack()

    def start(self) -> None:
        """Let the clients begin."""
        for plain in self._plains:
            self._stack.enter_context(plain)
        for thread in self._threads:
            thread.start()

    def poise(self, server: tuple[str, int]) -> tuple[Callable[[], None], Callable[[], None]]:
        """Connect more clients of each workload to that server (host and port), who never hang up.

        It returns when each has been answered there once. They go on when the first of what is returned is
        called, and end, when they are answered, when the second is: `faults.fault.Poised`.
        """
        go, over, calls = threading.Event(), threading.Event(), threading.Semaphore(0)
        self._poised += [go, over]
        way = replace(self._way, first=server, statement_s=_POISED_S)

        def stepped() -> None:
            if not go.is_set():
                calls.release()
                go.wait()
                calls.release()

        number = len(self._poised) // 2
        threads = [
            self._thread(job, f"poised-{number}-{one}", one, self._plain, way, over, stepped)
            for job in self._jobs
            if self._plain.kind in (job.workload.kinds or (self._plain.kind,))
            for one in range(_POISED)
        ]
        self._threads += threads
        for thread in threads:
            thread.start()

        def await_calls() -> None:
            deadline = time.monotonic() + _CONNECTS_S
            for _thread in threads:
                calls.acquire(timeout=max(0.0, deadline - time.monotonic()))

        def speak() -> None:
            go.set()
            await_calls()
            over.wait(_SENDS_S)

        await_calls()
        return speak, over.set

    def acknowledged(self, since: int = 0) -> int:
        """How many operations were acknowledged, of those behind place `since` of the history."""
        operations = self._recorder.history.operations
        return sum(1 for one in operations[since:] if one.outcome is OperationOutcome.DONE)

    def check(self) -> None:
        """Raises ClientError when a client ended by an exception."""
        if self._errors:
            error = self._errors[0]
            raise ClientError(f"a client of the drill failed: {type(error).__name__}: {error}") from error

    def stop(self, timeout_s: float = 120.0) -> None:
        """Let the clients end what they are doing, and wait for that. Raises ClientError."""
        for event in (self._stop, *self._poised):
            event.set()
        try:
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join(timeout_s)
            alive = [thread.name for thread in self._threads if thread.is_alive()]
        finally:
            self._stack.close()
        if alive:
            raise ClientError(
                f"clients of the drill are still waiting after {timeout_s:g} s: {', '.join(alive)}"
            )
        self.check()

    def _thread(
        self,
        job: WorkloadJob,
        name: str,
        number: int,
        sessions: ClientSessions,
        way: Way,
        stop: threading.Event,
        stepped: Callable[[], object] | None = None,
    ) -> threading.Thread:
        """A client that steps through its workload until `stop`; of a poised one, `stepped` is called behind
        each step.
        """

        def run() -> None:
            client: Client | None = None
            try:
                client = Client(
                    job.label,
                    sessions,
                    way,
                    self._recorder,
                    Random(f"{self._seed}/{job.label}/{name}"),
                    isolation=job.isolations[number % len(job.isolations)] if job.isolations else None,
                    rate_per_s=self._rate_per_s,
                    stop=stop,
                    is_poised=stepped is not None,
                )
                while not stop.is_set():
                    client.pause()
                    job.workload.step(client)
                    if stepped is not None:
                        stepped()
            except BaseException as error:  # noqa: BLE001 - the runner raises it
                self._errors.append(error)
            finally:
                if client is not None:
                    client.close()

        return threading.Thread(target=run, name=f"drill-{job.label}-{name}", daemon=True)


def one_client(job: WorkloadJob, way: Way, recorder: Recorder, seed: int) -> Client:
    """A client through the driver for what is done before and after: tables, and the last look."""
    return Client(job.label, DriverSessions(), way, recorder, Random(f"{seed}/{job.label}"))
