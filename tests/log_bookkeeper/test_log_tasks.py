"""What becomes of a leader's log when one of its tasks ends in another way than it should."""

from __future__ import annotations

import asyncio

from herdpy.log import LogError
from herdpy.log.bookkeeper.succession import LogTasks


async def _cancelled(*, stops: bool) -> list[LogError]:
    failed: list[LogError] = []
    tasks = LogTasks(failed.append, lambda: None)
    tasks.spawn("retire", asyncio.Event().wait())
    (task,) = tasks._tasks.values()
    await asyncio.sleep(0)
    if stops:
        tasks.stop()
    else:
        task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    return failed


def test_a_task_that_was_cancelled_by_nobody_ends_the_log() -> None:
    (error,) = asyncio.run(_cancelled(stops=False))
    assert error.outcome == "unknown"
    assert "retire" in str(error)


def test_tasks_that_are_stopped_do_not() -> None:
    assert asyncio.run(_cancelled(stops=True)) == []
