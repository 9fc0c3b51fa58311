"""How a process that a server has started behaves: it stands back behind the server.

Below everything: workers, publishing and backups use it. ``line_to`` is the server's end of the line to one,
``heard_line`` takes what it says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from herdpy import machine

_FIRST_KILLED = "500"
_LAST_KILLED = "-900"
_FIRST_SERVED = -10


def lower_priority(niceness: int) -> None:
    """What the machine does not grant is done without."""
    machine.lower_process(niceness)
    with contextlib.suppress(OSError):
        (machine.PROC / "self/oom_score_adj").write_text(_FIRST_KILLED)


def stay_ready() -> None:
    """Be the last that a machine without memory kills, and run first, as far as it grants that."""
    with contextlib.suppress(OSError):
        os.nice(_FIRST_SERVED)
    with contextlib.suppress(OSError):
        (machine.PROC / "self/oom_score_adj").write_text(_LAST_KILLED)


Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""A process's output, and its input."""
_LINE_BYTES = 16 << 20


@asynccontextmanager
async def line_to(process: subprocess.Popen[bytes], longest_bytes: int = _LINE_BYTES) -> AsyncIterator[Line]:
    """The line to a process whose input and output are pipes, for the loop's thread.

    Args:
        longest_bytes: the longest line that it may say.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=longest_bytes)
    output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    feed, protocol = await loop.connect_write_pipe(FlowControlMixin, process.stdin)
    try:
        yield reader, asyncio.StreamWriter(feed, protocol, None, loop)
    finally:
        feed.close()
        output.close()


class SilentChildError(Exception):
    """A process has said nothing for too long."""


class ChildEndedError(Exception):
    """A process ended in the middle of the conversation; the message has its exit status."""


async def heard_line(
    process: subprocess.Popen[bytes], output: asyncio.StreamReader, patience_s: float
) -> bytes:
    """The next line of a process. Raises SilentChildError, ChildEndedError."""
    try:
        async with asyncio.timeout(patience_s):
            line = await output.readline()
    except TimeoutError:
        raise SilentChildError from None
    if not line.endswith(b"\n"):
        raise ChildEndedError(f"status {await asyncio.to_thread(process.wait)}")
    return line
