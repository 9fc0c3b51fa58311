"""The loop on which a load's connections to bookies and servers live. Knows nothing of loads.

Spark hands a task its rows by an iterator that blocks; connections must be tended meanwhile.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from herdpy_spark.log.loop import LoopThread


class LoadLoop(LoopThread):
    """``with LoadLoop() as loop: loop.run(coroutine)``."""

    def __init__(self) -> None:
        super().__init__("herdpy-load")

    def close(self) -> None:
        """End what is still running, then the loop and its thread."""
        self.run(_end_tasks())
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
