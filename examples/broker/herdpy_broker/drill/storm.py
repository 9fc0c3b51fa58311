"""The drill `broker-storm`: workers, the page and the leader are killed, frozen and ended all the time.

Layer 4 of the broker, of its drill; above `worker_process`. The storm starts processes beside the workload's
own clients, and deals faults from a bag: of the leader and of these processes in turn.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import urllib.request
from pathlib import Path
from random import Random
from typing import ClassVar

from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver
from herdpy.drill.drills import Drill
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.processes import KillLeader, PauseLeader
from herdpy.drill.faults.storm import Storm
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.testing.process import Child, PortReservation, await_until
from herdpy_broker.drill import worker_process
from herdpy_broker.drill.workload import BrokerWorkload

WORKERS = 3
_DRAIN_S = 60.0
_WORKER = f"from {worker_process.__name__} import main; main()"
_COMMAND = "from herdpy_broker.cli import app; app()"
_ENDED = (0, -signal.SIGTERM)
"""How a process ends on SIGTERM: in order; or at once, where it has only just been started."""
_ROOT = Path(__file__).parents[2]
"""Where the package is, for processes that have to find it."""


class BrokerProcesses:
    """Workers of a database, and the broker's page: processes that die with this one. For one thread.

    faults: of those that ended by themselves, or otherwise than in order on SIGTERM, or that serve nothing.
    """

    def __init__(self, url: str, directory: Path, workers: int = WORKERS) -> None:
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        environment = {worker_process.URL: url, "HERDPY_URL": url, "PYTHONPATH": path}
        self._port = PortReservation()

        def child(name: str, program: str, *arguments: str) -> Child:
            command = [sys.executable, "-c", program, *arguments]
            return Child(name, command, directory / f"{name}.log", environment=environment)

        names = [f"worker-{number}" for number in range(1, workers + 1)]
        self._workers = [child(name, _WORKER, name) for name in names]
        self._page = child("page", _COMMAND, "serve", "--port", str(self._port.port))
        self._down: set[Child] = set()  # not started yet, or ended on purpose
        self._down.update(self._children)
        self.faults: list[str] = []

    def start(self) -> None:
        """Start those that do not run. It is a fault of one that ended by itself."""
        for child in self._children:
            if not child.is_running and child not in self._down:
                self.faults.append(f"{child.name} ended by itself\n{child.log_tail()}")
            child.start()
        self._down.clear()

    def worker(self, chance: Random) -> Child:
        """One of the workers that run. Raises IndexError without one."""
        return chance.choice([child for child in self._workers if child.is_running])

    def kill(self, child: Child) -> None:
        """SIGKILL."""
        self._down.add(child)
        child.kill()

    def kill_page(self) -> None:
        """SIGKILL of the page."""
        self.kill(self._page)

    def stop(self, child: Child) -> None:
        """SIGTERM: a worker ends its tasks, or gives them back, and leaves."""
        self._down.add(child)
        if (code := child.terminate(_DRAIN_S)) not in _ENDED:
            self.faults.append(f"{child.name} ended with {code} on SIGTERM\n{child.log_tail()}")

    def close(self) -> None:
        """See whether the page serves, and stop all of them."""
        self.start()
        if not await_until(self._page_serves, _DRAIN_S):
            self.faults.append(f"the page serves nothing\n{self._page.log_tail()}")
        for child in self._children:
            child.ask_to_end()
        for child in self._children:
            self.stop(child)
        self._port.close()

    @property
    def _children(self) -> list[Child]:
        return [*self._workers, self._page]

    def _page_serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port.port}/metrics", timeout=5.0) as answer:
                return b"broker" in answer.read()
        except OSError:
            return False


class ProcessFault(Fault):
    """A fault of one of the broker's processes; `processes` are given to it before it begins."""

    processes: BrokerProcesses

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`: it always can."""
        return None


class KillWorker(ProcessFault):
    """SIGKILL of a worker: its tasks come back when it has not been seen for its lease."""

    name = "kill-worker"
    summary = "SIGKILL of a worker process, which is started again at the end"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        child = self.processes.worker(self.chance)
        self._undo.callback(self.processes.start)
        self.processes.kill(child)
        return f"{child.name} is killed"


class PauseWorker(ProcessFault):
    """SIGSTOP of a worker for longer than its lease: when it wakes, its tasks are those of others."""

    name = "pause-worker"
    summary = "SIGSTOP of a worker process for longer than its lease, then SIGCONT"
    least_s = 1.5 * worker_process.LEASE_S

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        child = self.processes.worker(self.chance)
        self._undo.callback(child.resume)
        child.pause()
        return f"{child.name} is stopped"


class EndWorker(ProcessFault):
    """SIGTERM of a worker: it ends in order."""

    name = "end-worker"
    summary = "SIGTERM of a worker process, which is started again at the end"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        child = self.processes.worker(self.chance)
        self._undo.callback(self.processes.start)
        self.processes.stop(child)
        return f"{child.name} gets SIGTERM"


class KillPage(ProcessFault):
    """SIGKILL of the broker's page, which only looks: no task depends on it."""

    name = "kill-page"
    summary = "SIGKILL of the broker's page, which is started again at the end"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        self._undo.callback(self.processes.start)
        self.processes.kill_page()
        return "the page is killed"


class EndLeader(Fault):
    """SIGTERM of the leader: another one leads first."""

    name = "end-leader"
    summary = "SIGTERM of the leader, which is started again at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "stop", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        self._undo.callback(control.start, leader)
        control.stop(leader)
        return f"{leader}, the leader, gets SIGTERM"


class BrokerStorm(Storm):
    """Worker processes and a page run from `begin` until `end`; faults of them and of the leader come."""

    name = "broker-storm"
    summary = "a seeded mix of faults of the leader, of worker processes and of the page, up to two at a time"
    needs = ClusterNeeds()
    leading: ClassVar[tuple[type[Fault], ...]] = (KillLeader, PauseLeader, EndLeader)
    kinds: ClassVar[tuple[type[Fault], ...]] = (*leading, KillWorker, PauseWorker, EndWorker, KillPage)

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._processes: BrokerProcesses | None = None

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        directory = self._undo.enter_context(tempfile.TemporaryDirectory(prefix="broker-storm-"))
        self._processes = BrokerProcesses(control.url, Path(directory))
        self._undo.callback(self._processes.close)
        self._processes.start()
        return f"{WORKERS} worker processes, the page, and {super().begin(control, view)}"

    def made(self, kind: type[Fault]) -> Fault:
        """See `Storm.made`."""
        fault = super().made(kind)
        if isinstance(fault, ProcessFault) and self._processes is not None:
            fault.processes = self._processes
        return fault

    def findings(self, control: ClusterControl, view: ClusterObserver) -> list[Verdict]:
        """See `Fault.findings`: processes end on a signal, and only then."""
        faults = [] if self._processes is None else self._processes.faults
        anomalies = [Anomaly("process ended", text) for text in faults]
        return [Verdict.of("processes", anomalies, f"{WORKERS} workers and the page")]


BROKER_STORM = Drill(
    BrokerStorm.name,
    "kill, freeze and end workers and the leader all the time: each task is done once, or a dead letter",
    (f"{__name__}:{BrokerStorm.__name__}",),
    (f"{__name__}:{BrokerWorkload.__name__}",),
    seconds=600.0,
    clients=("driver",),
)
