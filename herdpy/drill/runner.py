"""One run of one drill, on a cluster that there is or on one that is made for it: from tables to verdicts.

Layer: the top of herdpy.drill, below the command line; above client_threads, watch and faults.

    tables ── clients begin ─┬─ before
                             ├─ a fault begins, holds, ends; then the next one
                             └─ after ── clients stop ── quiet ── last look ── judged
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from random import Random
from typing import TypeVar

import psycopg

from herdpy.dev import DevError
from herdpy.drill.checkers.every_drill import check_errors
from herdpy.drill.client_threads import ClientError, ClientThreads, WorkloadJob, one_client
from herdpy.drill.control import CannotError, ClusterControl, ClusterNeeds, ClusterObserver, ControlError
from herdpy.drill.control.control import ViewError
from herdpy.drill.control.local import local_cluster
from herdpy.drill.drills import Drill, DrillResult
from herdpy.drill.faults import FAULTS, Fault
from herdpy.drill.faults.fault import Poised
from herdpy.drill.history import Recorder
from herdpy.drill.jdbc import JdbcSessions
from herdpy.drill.jdbc import prepare as prepare_jdbc
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.restored import RESTORED, as_restored, check_beginning, check_loss
from herdpy.drill.sessions import FailedError, Way
from herdpy.drill.silence import check_silence
from herdpy.drill.timeline import MOST_SILENT
from herdpy.drill.watch import LeaderWatch, await_quiet, compare_replicas, left_behind
from herdpy.drill.workloads import WORKLOADS
from herdpy.drill.workloads.workload import PROMISES
from herdpy.testing import KitError

T = TypeVar("T")

_BEFORE, _AFTER = 0.2, 0.2
"""Shares of the clients' time before the first fault, and behind the last."""
_BETWEEN_S = 1.0
_LONG_HOLD_S, _SHORTEST_HOLD_S = 10.0, 3.0
"""A fault that is to be held for so long is held for all the time that there is, and that is at least."""
_GOES_ON_S = 60.0
_STEP_S = 0.1
_FINAL_PATIENCE_S = 5.0
"""How long clients look for a leader where none will come any more."""
_OWN_ENGINE = "SET herdpy.engine = 'own'"  # a worker, which nobody may have needed yet, would have to start


@dataclass(frozen=True)
class DrillProgress:
    """Where a drill is. phase: in a word or two; done: how much of the clients' time is over, up to 1.0."""

    phase: str
    done: float


@dataclass(frozen=True)
class ClientLoad:
    """How many clients there are, and what they are like.

    per_job: clients of each workload. rate_per_s: operations of each, if it can.
    patience_s: how long they look for a leader, and for an outcome.
    """

    per_job: int = 4
    rate_per_s: float = 40.0
    patience_s: float = 30.0


class DrillRun:
    """One run of one drill."""

    def __init__(
        self,
        drill: Drill,
        control: ClusterControl,
        seconds: float,
        seed: int,
        load: ClientLoad,
        on_progress: Callable[[DrillProgress], None],
    ) -> None:
        self._drill = drill
        self._control = control
        self._view = ClusterObserver(control)
        self._load = load
        self._seconds = seconds
        self._seed = seed
        self._on_progress = on_progress
        self._recorder = Recorder()
        is_final = any(FAULTS[name].is_final for name in drill.faults)
        patience_s = min(load.patience_s, _FINAL_PATIENCE_S) if is_final else load.patience_s
        place = self._view.place(self._view.only_address)
        self._way = Way(control.url, patience_s=patience_s, address=(place.host, place.ports["sql"]))
        self._kinds: list[str] = []
        self._jobs: list[WorkloadJob] = []
        self._faults: list[Fault] = []  # those that happened
        self._final: Fault | None = None  # after which there is no cluster any more
        self._until = 0.0
        self.tables: list[str] = []  # that are there now
        self.result = DrillResult(drill, seed, seconds, control.url, False, self._recorder.history)

    def do(self) -> None:
        """All of it, see the module."""
        chance = Random(f"{self._seed}/faults")
        able = [name for name in self._drill.faults if self._is_able(name, chance)]
        if self._drill.faults and not able:
            return
        self._kinds = self._able_kinds()
        self._jobs = self._jobs_of(isolation_levels(self._view))
        self._describe()
        self._on_progress(DrillProgress("making tables", 0.0))
        with ExitStack() as stack:
            for job in self._jobs:
                client = one_client(job, self._way, self._recorder, self._seed)
                stack.callback(client.close)
                self.tables.append(job.workload.table)
                job.workload.setup(client)
            await_quiet(self._view)
            goes_on = self._with_clients(able, chance)
            if self._final is None:
                self._look_back(goes_on)
            else:
                self._look_at_restored(self._final)

    def _is_able(self, name: str, chance: Random) -> bool:
        reason = FAULTS[name](chance).cannot(self._control, self._view)
        if reason is not None:
            self.result.skipped.append((name, reason))
        return reason is None

    def _able_kinds(self) -> list[str]:
        """The drill's kinds of clients, but for JDBC where Java or the driver lack."""
        kinds = list(self._drill.clients)
        if JdbcSessions.kind in kinds:
            try:
                prepare_jdbc()
            except KitError as error:
                kinds.remove(JdbcSessions.kind)
                self.result.skipped.append(("clients by JDBC", str(error)))
        return kinds

    def _jobs_of(self, levels: list[str]) -> list[WorkloadJob]:
        """One for each workload, and for each promise that the server's isolation levels make."""
        by_promise: dict[str, list[str]] = {}
        for level in levels:
            by_promise.setdefault(PROMISES[level], []).append(level)
        self.result.facts["isolation_levels"] = list(levels)
        suffix = f"_{self._seed}_{secrets.token_hex(3)}"
        jobs = []
        for name in self._drill.workloads:
            kind = WORKLOADS[name]
            if not kind.has_levels:
                jobs.append(WorkloadJob(kind.name, kind(suffix)))
                continue
            for number, (promise, same) in enumerate(by_promise.items()):
                label = kind.name if len(by_promise) == 1 else f"{kind.name} ({promise})"
                jobs.append(WorkloadJob(label, kind(f"{suffix}_{number}", same[0]), tuple(same)))
        return jobs

    def _describe(self) -> None:
        counts = {kind: len(self._view.names(kind)) for kind in ("server", "bookie")}
        clients = self._load.per_job * len(self._jobs)
        self.result.setting += [
            *(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items()),
            f"{clients} clients: {', '.join(job.label for job in self._jobs)}",
        ]

    # While clients run.

    def _with_clients(self, faults: list[str], chance: Random) -> bool:
        """Clients run, and faults happen; whether clients were answered again at the end."""
        clients = ClientThreads(
            self._jobs,
            self._way,
            self._recorder,
            seed=self._seed,
            per_job=self._load.per_job,
            rate_per_s=self._load.rate_per_s,
            kinds=self._kinds,
        )
        made = [FAULTS[name](chance) for name in faults]
        with LeaderWatch(self._view, self._recorder), ExitStack() as stack:
            for fault in made:
                stack.callback(fault.end)
                self._hear(fault, clients)
                fault.prepare(self._control, self._view)
            stack.callback(clients.stop)
            clients.start()
            began = time.monotonic()
            self._until = began + self._seconds
            last_s = self._until - _AFTER * self._seconds
            is_final = any(fault.is_final for fault in made)
            self._wait(clients, "before", (1 - _AFTER if is_final else _BEFORE) * self._seconds)
            number = 0
            least = max(len(made), self._drill.rounds)
            while self._final is None and made and (number < least or time.monotonic() < last_s):
                if number:
                    self._wait(clients, "between faults", _BETWEEN_S)
                again = made[number] if number < len(made) else FAULTS[faults[number % len(faults)]](chance)
                self._make(again, clients, last_s - time.monotonic())
                number += 1
            goes_on = self._final is not None or self._await_answers(clients)
            if self._final is None:
                self._wait(clients, "after", max(self._until - time.monotonic(), _AFTER * self._seconds))
            self._on_progress(DrillProgress("stopping clients", 1.0))
            self._recorder.event("phase", "clients are stopped", phase="quiet")
        return goes_on

    def _make(self, fault: Fault, clients: ClientThreads, left_s: float) -> None:
        """One fault from its beginning to its end."""
        self._on_progress(DrillProgress(fault.name, self._done()))
        self._hear(fault, clients)
        try:
            began_s = self._recorder.now_s()
            text = self._meanwhile(fault.name, lambda: fault.begin(self._control, self._view))
            limit = {} if fault.most_silent_s is None else {MOST_SILENT: fault.most_silent_s}
            self._recorder.event("fault-begin", text, at_s=began_s, fault=fault.name, **limit)
            hold_s = fault.hold_s if fault.hold_s < _LONG_HOLD_S else max(_SHORTEST_HOLD_S, left_s)
            self._faults.append(fault)
            if fault.is_final:
                self._final = fault
            self._wait(clients, fault.name, hold_s)
        except CannotError as error:
            self.result.skipped.append((fault.name, str(error)))
            return
        finally:
            self._meanwhile(fault.name, fault.end)
        self._recorder.event("fault-end", f"{fault.name} is over", fault=fault.name)

    def _hear(self, fault: Fault, clients: ClientThreads) -> None:
        """Give a fault its ways to say what happens, and to have clients poised."""

        def poise(server: str) -> Poised:
            place = self._view.place(server)
            return Poised(*clients.poise((place.host, place.ports["sql"])))

        fault.note = lambda text: self._note(text)
        fault.mark = lambda kind, name, text: self._recorder.event(kind, text, fault=name)
        fault.poise = poise

    def _meanwhile(self, phase: str, work: Callable[[], T]) -> T:
        """Do what may take long, and tell all the time how far the drill is."""
        with ThreadPoolExecutor(1, "drill-fault") as thread:
            future = thread.submit(work)
            while not wait([future], _STEP_S).done:
                self._on_progress(DrillProgress(phase, self._done()))
            return future.result()

    def _await_answers(self, clients: ClientThreads) -> bool:
        """Whether something new is acknowledged, now that all faults are over."""
        since = len(self._recorder.history)
        deadline = time.monotonic() + _GOES_ON_S
        while clients.acknowledged(since) < self._load.per_job * len(self._jobs):
            if time.monotonic() > deadline:
                return False
            self._wait(clients, "after", _STEP_S)
        return True

    def _wait(self, clients: ClientThreads, phase: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            clients.check()
            self._on_progress(DrillProgress(phase, self._done()))
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _STEP_S))

    def _done(self) -> float:
        return min(1.0, max(0.0, 1.0 - (self._until - time.monotonic()) / self._seconds))

    def _note(self, text: str) -> None:
        self._recorder.event("note", text)

    # Afterwards.

    def _look_back(self, goes_on: bool) -> None:
        self._on_progress(DrillProgress("waiting for quiet", 1.0))
        verdicts = self.result.verdicts
        verdicts.append(_availability(goes_on))
        try:
            await_quiet(self._view)
        except ViewError as error:
            verdicts.append(Verdict.of("quiet", [Anomaly("no quiet", str(error))], "the cluster at the end"))
            return
        self._on_progress(DrillProgress("looking at what is there", 1.0))
        self._finish(self._way)
        verdicts.append(compare_replicas(self._view, self._recorder))
        for fault in self._faults:
            verdicts += fault.findings(self._control, self._view)
        self._clean_up()
        self._look_for_rests()
        self._on_progress(DrillProgress("judging", 1.0))
        self._judge()

    def _look_at_restored(self, fault: Fault) -> None:
        """Judge what came out of the archive; nothing else is left of the cluster."""
        self._on_progress(DrillProgress("restoring", 1.0))
        with fault.restored() as found:
            ago_s = time.time() - found.time_us / 1e6
            text = f"a server has what was archived, up to {found.position}"
            self._recorder.event(RESTORED, text, end_s=self._recorder.now_s() - ago_s)
            self._on_progress(DrillProgress("looking at what is there", 1.0))
            self._finish(replace(self._way, url=found.url))
        history = self._recorder.history
        verdicts = self.result.verdicts
        verdicts += [check_loss(history, found.interval_s, found.took_s), check_beginning(history)]
        self._on_progress(DrillProgress("judging", 1.0))
        self._judge()

    def _finish(self, way: Way) -> None:
        for job in self._jobs:
            client = one_client(job, way, self._recorder, self._seed)
            try:
                client.session.execute(_OWN_ENGINE)
                job.workload.finish(client)
            finally:
                client.close()

    def _clean_up(self) -> None:
        for job in self._jobs:
            client = one_client(job, self._way, self._recorder, self._seed)
            try:
                job.workload.clean_up(client)
                self.tables.remove(job.workload.table)
            finally:
                client.close()

    def _look_for_rests(self) -> None:
        if self._view.zookeeper is None:
            self.result.skipped.append(("left behind", "where ZooKeeper is, is not known"))
            return
        verdict, facts = left_behind(self._view)
        self.result.verdicts.append(verdict)
        self.result.facts["left_behind"] = facts

    def _judge(self) -> None:
        history = as_restored(self._recorder.history)
        silence = check_silence(history)
        self.result.verdicts += [] if silence is None else [silence]
        for job in self._jobs:
            own = history.where(lambda each, label=job.label: each.details.get("workload") == label)  # type: ignore[misc]
            for verdict in [*job.workload.judge(own), check_errors(own)]:
                if verdict.name != job.label:
                    verdict.name = f"{job.label}: {verdict.name}"
                self.result.verdicts.append(verdict)


def isolation_levels(view: ClusterObserver) -> list[str]:
    """The isolation levels that BEGIN takes on the leader, weakest first."""
    found = []
    with view.connect(view.await_leader()) as connection:
        for level in PROMISES:
            try:
                connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            except psycopg.errors.FeatureNotSupported:
                connection.execute("ROLLBACK")
                continue
            connection.execute("ROLLBACK")
            found.append(level)
    return found


def _availability(goes_on: bool) -> Verdict:
    text = f"no client got an answer within {_GOES_ON_S:g} s of the end of the last fault"
    found = [] if goes_on else [Anomaly("does not go on", text)]
    return Verdict.of("availability", found, "clients get answers again after the faults")


__all__ = ["ClientLoad", "DrillError", "DrillProgress", "needs_of", "run"]


class DrillError(Exception):
    """A drill could not be carried out; this says nothing of the database's promises."""


def run(
    drill: Drill,
    *,
    control: ClusterControl | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    load: ClientLoad | None = None,
    on_progress: Callable[[DrillProgress], None] = lambda _progress: None,
) -> DrillResult:
    """Carry out one drill, and judge it.

    Args:
        control: the cluster, and who does faults to it; None: a cluster that is made for it on this machine.
        seconds: how long clients run; a fault that has begun is ended first.
        seed: decides what clients and faults do; None: one that is made up, and stands in the result.

    Raises:
        DrillError: it could not be carried out.
    """
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    with ExitStack() as stack:
        is_own = control is None
        one_run: DrillRun | None = None
        try:
            if control is None:
                on_progress(DrillProgress("starting a cluster", 0.0))
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-drill-"))
                control = stack.enter_context(local_cluster(Path(directory), needs_of(drill)))
            one_run = DrillRun(
                drill, control, seconds or drill.seconds, chosen, load or ClientLoad(), on_progress
            )
            one_run.result.is_own = is_own
            one_run.do()
        except (
            ViewError,
            FailedError,
            ClientError,
            ControlError,
            KitError,
            DevError,
            psycopg.Error,
        ) as error:
            left = [] if one_run is None or is_own else one_run.tables
            there = f" (tables that are left there: {', '.join(left)})" if left else ""
            raise DrillError(f"{drill.name}: {error}{there}") from error
        return one_run.result


def needs_of(drill: Drill) -> ClusterNeeds:
    """What a cluster that is made for the drill must have."""
    return reduce(or_, (FAULTS[name].needs for name in drill.faults), drill.needs)
