"""The workload `broker` on a server alone, with worker processes that are killed, stopped and ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from herdpy_broker.drill import BrokerWorkload
from herdpy_broker.drill.storm import BrokerProcesses, EndWorker, KillPage, KillWorker, PauseWorker

from herdpy.drill.checkers.every_drill import check_errors
from herdpy.drill.client_threads import ClientThreads, WorkloadJob, one_client
from herdpy.drill.history import OperationOutcome, Recorder
from herdpy.drill.sessions import Way
from herdpy.testing.process import await_until
from tests.support.server_process import RunningServer

PATIENCE_S = 60.0
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    server = RunningServer(tmp_path / "server")
    try:
        server.ready()
        yield f"herdpy://ann@127.0.0.1:{server.port}/test"
    finally:
        server.close()


def test_worker_processes_that_are_killed_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    """The processes have done some tasks before each fault, so that it meets them at work."""
    way, recorder, job = Way(url), Recorder(), WorkloadJob("broker", BrokerWorkload())
    judge_client = one_client(job, way, recorder, 1)
    job.workload.setup(judge_client)
    processes = BrokerProcesses(url, tmp_path, workers=2)
    clients = ClientThreads([job], way, recorder, seed=1, per_job=2, rate_per_s=20.0)

    def done() -> int:
        """Tasks that processes have done: the clients' workers are named otherwise."""
        rows = judge_client.session.execute(
            "SELECT count(*) FROM broker.finished f JOIN broker.worker w ON w.id = f.worker"
            " WHERE w.name LIKE 'worker-%'"
        ).rows
        return int(rows[0][0])

    try:
        processes.start()
        clients.start()
        for kind in (KillWorker, PauseWorker, EndWorker, KillPage):
            before = done()
            assert await_until(lambda before=before: done() != before, PATIENCE_S)
            fault = kind(Random(1))
            fault.processes = processes
            fault.begin(mock.Mock(), mock.Mock())
            if kind is PauseWorker:
                time.sleep(PauseWorker.least_s)  # until its lease has passed, whatever others do
            fault.end()
        clients.stop()
    finally:
        processes.close()
    job.workload.finish(judge_client)
    verdicts = [*job.workload.judge(recorder.history), check_errors(recorder.history)]
    judge_client.close()
    assert processes.faults == []
    assert all(verdict.valid for verdict in verdicts), verdicts
    done_operations = [one for one in recorder.history if one.outcome is OperationOutcome.DONE]
    assert {"submit", "claim", "finish"} <= {one.name for one in done_operations}
