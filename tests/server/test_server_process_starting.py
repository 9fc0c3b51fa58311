"""While a database recovers: the page answers, and a signal is not lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from herdpy.testing.process import PortReservation
from herdpy_server import server as server_module
from herdpy_server.config import load
from herdpy_server.http import Phase, ServerStatus
from herdpy_server.process.logs import Logs
from herdpy_server.server import ServerProcess
from herdpy_server.serving import ServedDatabase
from tests.support.server_process import RunningServer


@pytest.fixture
def held_up(monkeypatch):
    """Opening a database takes until ``go`` is set; ``begun`` tells that it has begun."""

    class HeldUp:
        begun: asyncio.Event
        go: asyncio.Event

        async def open(self, *arguments):
            self.begun.set()
            await self.go.wait()
            return await ServedDatabase.open(*arguments)

    made = HeldUp()
    monkeypatch.setattr(server_module, "ServedDatabase", made)
    return made


def _fetched(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def test_the_page_answers_and_a_signal_is_remembered(held_up, tmp_path, capfd):
    flags = [
        ("--data", "data.directory", str(tmp_path / "db")),
        ("--port", "postgres.port", "0"),
        ("--set", "http.port", "0"),
    ]

    async def page(process: ServerProcess, path: str) -> tuple[int, dict[str, object]]:
        url = f"http://127.0.0.1:{process._page.port}{path}"
        return await asyncio.to_thread(_fetched, url)

    async def main() -> None:
        held_up.begun, held_up.go = asyncio.Event(), asyncio.Event()
        process = ServerProcess(load(flags=flags), logs)
        running = asyncio.create_task(process.run())
        await held_up.begun.wait()
        assert await page(process, "/ready") == (503, {"ready": False, "phase": "starting", "problems": {}})
        status, said = await page(process, "/health")
        assert (status, said["status"], said["phase"]) == (200, "ok", "starting")
        os.kill(os.getpid(), signal.SIGTERM)
        await process._end.wait()
        held_up.go.set()
        await running

    logs = Logs("json")
    logs.open()
    try:
        asyncio.run(main())
    finally:
        logs.close()
    said = [json.loads(line)["message"] for line in capfd.readouterr().err.splitlines()]
    assert said[-1] == "stopped"
    assert "ready" not in said
    assert said.count("database open") == 1

    async def again() -> None:
        await (await ServedDatabase.open(tmp_path / "db")).close()  # 55006 if it had been left open

    asyncio.run(again())


def test_a_server_that_waits_for_zookeeper_can_be_ended(tmp_path):
    with closing(PortReservation()) as nobody:
        where = f"cluster.zookeeper=127.0.0.1:{nobody.port}"
        with closing(RunningServer(tmp_path / "d", "--set", where)) as server:
            server.wait_for("no session with ZooKeeper yet")
            assert not any(record["message"] == "ready" for record in server.records())
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0  # long before it had to give up waiting


def test_a_failing_check_makes_it_not_ready():
    status = ServerStatus()
    problem: list[str] = []
    status.checks["checkpoint"] = lambda: problem[0] if problem else None
    assert not status.is_ready
    status.phase = Phase.SERVING
    assert status.is_ready
    problem.append("no space left on device")
    assert not status.is_ready
    assert status.problems() == {"checkpoint": "no space left on device"}
    problem.clear()
    assert status.is_ready
    status.phase = Phase.STOPPING
    assert not status.is_ready
