"""What a leader has under way beside the writing: tasks by name, and what becomes of the log when one fails.

Below ``succession``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.log.errors import LogError, LogWriteError


class LogTasks:
    """The tasks of one leader, on its loop; at most one of each name matters.

    Args:
        on_failed: the log cannot go on, because a task failed.
        on_done: a task came to its end.
    """

    def __init__(self, on_failed: Callable[[LogError], None], on_done: Callable[[], object]) -> None:
        self._on_failed = on_failed
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = self._loop.create_task(work, name=f"herdpy-log-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda task: self._ended(name, task))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if task.cancelled():
            if not self._stopped:  # what it was to bring to memory may be in ZooKeeper already
                self._on_failed(LogError(f"the log failed: {name} was cancelled", outcome="unknown"))
            return
        error = task.exception()
        if isinstance(error, LogError):
            self._on_failed(error)
        elif isinstance(error, BookKeeperError):
            self._on_failed(LogWriteError(f"the log cannot be written: {error}"))
        elif error is not None:
            self._on_failed(LogError(f"the log failed: {error!r}", outcome="unknown"))
            raise error
        else:
            self._on_done()

    def under_way(self, *names: str) -> bool:
        """Whether any of these tasks is."""
        return any(name in self._tasks for name in names)

    async def wait(self, *names: str) -> None:
        """Wait until those of these tasks that are under way have ended, however they do."""
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        if tasks:
            await asyncio.wait(tasks)

    def stop(self) -> None:
        """Cancel every task but the one that calls."""
        self._stopped = True
        current = asyncio.current_task()
        for task in self._tasks.values():
            if task is not current:
                task.cancel()
