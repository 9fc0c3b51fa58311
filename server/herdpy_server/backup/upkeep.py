"""The backups of a log, listed and expired by a process of its own: the server's end.

On the loop's thread; ``upkeep_child`` is the process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from herdpy_server.backup.upkeep_messages import (
    ListedBackups,
    StartUpkeep,
    UpkeepFailed,
    UpkeepOrder,
    answer_of,
    encode,
)
from herdpy_sql.errors import SqlError

PATIENCE_S = 3600.0
"""A process that takes so long is killed: a place that does not answer may hold it for ever."""
_MODULE = "herdpy_server.backup.upkeep_child"
_SQLSTATES = {"place": "58030", "repository": "55000", "other": "58000"}


async def look(order: UpkeepOrder, niceness: int) -> ListedBackups:
    """What the repository has of a log; expired by the order's policy first. Cancelled, it ends the process.

    Raises:
        SqlError: 58030, the place refused something; 55000, it is no repository, or the key is not its;
            58000, the process ended.
    """
    start = StartUpkeep(niceness=niceness, parent=os.getpid())
    command = [sys.executable, "-m", _MODULE, encode(start).decode()]
    # Not the loop's own way: that forks, and threads of gRPC begin again in the copy (see ``publishing``).
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    talk = asyncio.ensure_future(asyncio.to_thread(process.communicate, encode(order)))
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, _nothing = await asyncio.shield(talk)
    except TimeoutError:
        raise SqlError(
            "58030", f"the repository did not answer for {PATIENCE_S:g} s", hint="Is it there?"
        ) from None
    finally:
        process.kill()
        await asyncio.shield(asyncio.gather(talk, return_exceptions=True))
    if not output:
        raise SqlError("58000", f"the process that lists backups ended (status {process.returncode})")
    answer: ListedBackups | UpkeepFailed = answer_of.decode(output)
    if isinstance(answer, UpkeepFailed):
        raise SqlError(_SQLSTATES[answer.kind], answer.text)
    return answer
