"""Workloads on a database in this process: three clients, and sessions that lie where a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import herdpy
from herdpy.drill.clients import Client
from herdpy.drill.history import Recorder
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import DriverSession, SessionAnswer, Way
from herdpy.drill.workloads import Workload

CLIENTS = 3

Bend = Callable[["EmbeddedSession", str, tuple[object, ...]], SessionAnswer | None]
"""Answers a statement in place of the database, or None: the database answers."""


class EmbeddedSession(DriverSession):
    """A session on a directory."""

    def __init__(self, way: Way, bend: Bend | None) -> None:
        super().__init__(way)
        self._bend = bend

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        if sql == "SELECT herdpy.commit_position()":  # of servers only
            return SessionAnswer([("1:1",)], 1)
        if sql.startswith("SET herdpy."):
            return SessionAnswer([], 0)
        bent = None if self._bend is None else self._bend(self, sql, parameters)
        return super().execute(sql, *parameters) if bent is None else bent

    def truly(self, sql: str, *parameters: object) -> SessionAnswer:
        """What the database says."""
        return super().execute(sql, *parameters)

    def _connect(self) -> Any:
        return herdpy.connect(Path(self._way.url), autocommit=True)


class EmbeddedSessions:
    kind = "embedded"

    def __init__(self, bend: Bend | None = None) -> None:
        self._bend = bend

    def open(self, way: Way) -> EmbeddedSession:
        return EmbeddedSession(way, self._bend)


def run(
    workload: Workload, directory: Path, *, steps: int = 80, bend: Bend | None = None, seed: int = 1
) -> tuple[list[Verdict], Recorder]:
    """Set up, let three clients do so many steps, look at the end, and judge."""
    recorder = Recorder()
    honest = Client("w", EmbeddedSessions(), Way(str(directory)), recorder, Random(0))
    failed: list[BaseException] = []

    def work(number: int) -> None:
        level = ("linearizable", "any", "at_lsn")[number]
        way = Way(str(directory), read_level=level)
        client = Client("w", EmbeddedSessions(bend), way, recorder, Random(f"{seed}/{number}"))
        try:
            for _ in range(steps):
                workload.step(client)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
        finally:
            client.close()

    try:
        workload.setup(honest)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        workload.finish(honest)
        workload.clean_up(honest)
    finally:
        honest.close()
    return workload.judge(recorder.history), recorder
