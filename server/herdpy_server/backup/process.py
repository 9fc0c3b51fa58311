"""One backup by a process of its own: the server's end of the line to it.

Top of making in this package, on the loop's thread; ``child`` is the process, which is started, heard, and
killed when nobody needs it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable

from herdpy.backup.manifest import BackupManifest
from herdpy_server.backup.messages import (
    Made,
    MakingFailed,
    MakingOrder,
    MakingProgress,
    Noted,
    StartBackup,
    encode,
    from_child,
)
from herdpy_server.child_process import ChildEndedError, Line, SilentChildError, heard_line, line_to
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.backup")

STALLED_AFTER_S = 900.0
"""A process that says nothing for so long is killed: a place that does not answer may hold it for ever."""
_LARGEST_STEP_BYTES = 64 << 20
_MODULE = "herdpy_server.backup.child"
_SQLSTATES = {
    "store": "XX001",
    "log": "58030",
    "place": "58030",
    "repository": "55000",
    "machine": "53000",
    "other": "58000",
}

Report = Callable[[MakingProgress], object]
Note = Callable[[str], object]


async def make(order: MakingOrder, niceness: int, report: Report, note: Note) -> BackupManifest:
    """Make a backup by a process of its own; cancelled, it leaves none.

    Raises:
        SqlError: XX001, the store is damaged; 58030, the log or the place refused something; 55000, the
            repository refused it; 53000, there is no room to read the store; 58000, the process ended.
    """
    start = StartBackup(niceness=niceness, parent=os.getpid())
    command = [sys.executable, "-m", _MODULE, encode(start).decode()]
    # Not the loop's own way: that forks, and threads of gRPC begin again in the copy (see ``publishing``).
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        async with line_to(process) as line:
            with contextlib.suppress(ConnectionError):  # the next line finds that it has ended
                line[1].write(encode(order) + b"\n")
                await line[1].drain()
            return await _heard(process, line, order, report, note)
    finally:
        process.kill()
        await asyncio.shield(asyncio.to_thread(process.wait))


async def _heard(
    process: subprocess.Popen[bytes], line_to_child: Line, order: MakingOrder, report: Report, note: Note
) -> BackupManifest:
    output, _input = line_to_child
    patience_s = STALLED_AFTER_S + (_LARGEST_STEP_BYTES / order.rate_bytes if order.rate_bytes else 0.0)
    while True:
        try:
            line = await heard_line(process, output, patience_s)
        except SilentChildError:
            raise SqlError(
                "58030", f"nothing was written to the repository for {patience_s:g} s", hint="Is it there?"
            ) from None
        except ChildEndedError as error:
            raise SqlError("58000", f"the process of the backup ended before it was done ({error})") from None
        match from_child.decode(line):
            case MakingProgress() as progress:
                report(progress)
            case Noted(text):
                logger.warning("%s", text, extra={"tablespace": order.tablespace})
                note(text)
            case Made(manifest):
                return manifest
            case MakingFailed(kind, text, hint):
                raise SqlError(_SQLSTATES[kind], text, hint=hint)
