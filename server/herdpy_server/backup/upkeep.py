"""The backups of a log, listed and expired by a process of its own: the server's end.

Called on the loop's thread; ``upkeep_child`` is the process. Few run at a time, however many tablespaces a
node has, and threads of their own wait for them: a repository that does not answer holds up nothing else.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from herdpy_server.backup.upkeep_messages import (
    ListedBackups,
    StartUpkeep,
    UpkeepFailed,
    UpkeepOrder,
    answer_of,
    encode,
)
from herdpy_sql.errors import SqlError

PATIENCE_S = 900.0
"""A process that lists for so long is killed: a place that does not answer may hold it for ever."""
EXPIRY_PATIENCE_S = 3600.0
"""The same, of one that removes files as well."""
_AT_ONCE: Final = 2
_MODULE = "herdpy_server.backup.upkeep_child"
_SQLSTATES = {"place": "58030", "repository": "55000", "other": "58000"}

# A process is killed when the thread that started it ends, so these threads stay.
_threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="herdpy-upkeep")


class _Process:
    """One process: run by a thread, given up by any other."""

    def __init__(self, order: UpkeepOrder, niceness: int) -> None:
        start = StartUpkeep(niceness=niceness, parent=os.getpid())
        self._command = [sys.executable, "-m", _MODULE, encode(start).decode()]
        self._order = encode(order)
        self._patience_s = PATIENCE_S if order.policy is None else EXPIRY_PATIENCE_S
        self._lock = threading.Lock()
        self._is_given_up = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> tuple[bytes, int]:
        """What it answered, and its status. subprocess.TimeoutExpired: it took too long."""
        with self._lock:
            if self._is_given_up:
                return b"", 0
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with self._process as process:
            try:
                output, _nothing = process.communicate(self._order, self._patience_s)
            finally:
                process.kill()
        return output, process.returncode

    def give_up(self) -> None:
        """End it, or do not begin."""
        with self._lock:
            self._is_given_up = True
            if self._process is not None:
                self._process.kill()


async def look(order: UpkeepOrder, niceness: int) -> ListedBackups:
    """What the repository has of a log; expired by the order's policy first. Cancelled, it ends the process.

    Raises:
        SqlError: 58030, the place refused something, or does not answer; 55000, it is no repository, or the
            key is not its; 58000, the process ended.
    """
    process = _Process(order, niceness)
    run = asyncio.get_running_loop().run_in_executor(_threads, process.run)
    try:
        output, status = await asyncio.shield(run)
    except subprocess.TimeoutExpired as error:
        raise SqlError(
            "58030", f"the repository did not answer for {error.timeout:g} s", hint="Is it there?"
        ) from None
    finally:
        process.give_up()
        await asyncio.shield(asyncio.gather(run, return_exceptions=True))
    if not output:
        raise SqlError("58000", f"the process that lists backups ended (status {status})")
    answer: ListedBackups | UpkeepFailed = answer_of.decode(output)
    if isinstance(answer, UpkeepFailed):
        raise SqlError(_SQLSTATES[answer.kind], answer.text)
    return answer
