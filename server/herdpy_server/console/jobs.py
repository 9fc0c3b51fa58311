"""What the console does besides answering requests: backups, checks. It goes on when the browser has left.

Beside ``visit``. A job is a task of the server's loop, in a bounded table; the newest stay to be looked at.
They end with the server.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.console")

_MAX_RUNNING = 4
_MAX_KEPT = 50
_MAX_NOTES = 200


@dataclass(slots=True, eq=False)
class ConsoleJob:
    """One job.

    Attributes:
        title: what it does. ``user``: for which role.
        progress: from 0 to 1; None: that is not known.
        notes: what it has to say, in order.
        columns, rows: what it has found, as a table.
    """

    ident: str
    title: str
    user: str
    began: datetime
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    progress: float | None = None
    notes: list[str] = field(default_factory=list)
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    error: SqlError | None = None
    ended: datetime | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def note(self, text: str) -> None:
        """Say something."""
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(text)


Work = Callable[[ConsoleJob], Coroutine[Any, Any, object]]


class ConsoleJobs:
    """The jobs of one server, newest first."""

    def __init__(self) -> None:
        self._jobs: list[ConsoleJob] = []

    def start(self, title: str, user: str, work: Work) -> ConsoleJob:
        """Begin one. SqlError 53400 when too many run."""
        if sum(job.state == "running" for job in self._jobs) >= _MAX_RUNNING:
            raise SqlError("53400", f"{_MAX_RUNNING} jobs of the console run already: wait for one to end")
        job = ConsoleJob(secrets.token_hex(6), title, user, datetime.now(UTC))
        job.task = asyncio.get_running_loop().create_task(_run(job, work), name=f"console: {title}")
        self._jobs.insert(0, job)
        while len(self._jobs) > _MAX_KEPT:
            oldest = next(one for one in reversed(self._jobs) if one.state != "running")
            self._jobs.remove(oldest)
        return job

    def of(self, user: str, *, is_superuser: bool) -> list[ConsoleJob]:
        """Those that a role may see: its own; a superuser sees all."""
        return [job for job in self._jobs if is_superuser or job.user == user]

    def find(self, ident: str, user: str, *, is_superuser: bool) -> ConsoleJob:
        """One that a role may see. SqlError 42704."""
        for job in self.of(user, is_superuser=is_superuser):
            if job.ident == ident:
                return job
        raise SqlError("42704", "there is no such job, or not any more")

    async def finish(self) -> None:
        """Wait until those that run have ended."""
        tasks = [job.task for job in self._jobs if job.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End all of them."""
        for job in self._jobs:
            if job.task is not None:
                job.task.cancel()
        await self.finish()


async def _run(job: ConsoleJob, work: Work) -> None:
    try:
        await work(job)
        job.state = "done"
    except asyncio.CancelledError:
        job.state = "cancelled"
    except SqlError as error:
        job.state, job.error = "failed", error
    except Exception:
        logger.exception("a job of the console failed", extra={"job": job.title})
        job.state, job.error = "failed", SqlError("XX000", "internal error; see the server's log")
    job.ended = datetime.now(UTC)
