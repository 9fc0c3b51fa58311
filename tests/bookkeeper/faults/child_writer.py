"""The other end of `writer_process`: starts it, hears what was acknowledged, kills or pauses it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bookkeeper.faults.history import History
from tests.bookkeeper.faults.workload import IN_FLIGHT, PATIENCE_S

_ROOT = Path(__file__).parents[3]


class ChildWriter:
    """A running writer process and the history of its ledger."""

    def __init__(self, process: Process, ledger_id: int) -> None:
        self.history = History(ledger_id)
        self.ended_with: str | None = None
        """Why its writer failed; None while it has not."""
        self._process = process

    async def hear(self, entries: int) -> None:
        """Wait for so many more acknowledgements; fewer when the process ends."""
        for _ in range(entries):
            if not await self._hear_one():
                return

    async def hear_all(self) -> None:
        """Wait for the end of the process, and hear everything it said."""
        while await self._hear_one():
            pass
        await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send SIGKILL, SIGSTOP or SIGCONT."""
        self._process.send_signal(number)

    async def _hear_one(self) -> bool:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):  # the process was killed, perhaps in the middle of a line
            return False
        words = line.decode().split()
        if words[0] == "ended":
            self.ended_with = words[1]
            return True
        expected = self.history.acknowledged_to + 1
        self.history.acknowledged(expected, int(words[0]))
        self.history.appended_to = expected + IN_FLIGHT
        return True


@asynccontextmanager
async def child_writer(uri: str) -> AsyncIterator[ChildWriter]:
    """A writer process that has begun its ledger; killed at the end of the block, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bookkeeper.faults.writer_process",
        uri,
        stdout=PIPE,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            child = ChildWriter(process, int(await process.stdout.readline()))
        yield child
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
