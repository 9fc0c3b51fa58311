"""The priority of Spark's processes on this machine, so that statements of a database beside them stay quick.

Below ``running``. Linux: a priority is a thread's, threads and processes inherit it from the thread that
starts them, and nobody but a privileged user raises it again. So the JVM that a job has started is lowered,
with all that it starts from then on, and never a process that others have use for.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

NICENESS = 10
"""Of Spark on a local master: a tenth of the share that a process of niceness 0 gets, where both want it."""

IS_KNOWN_HERE = sys.platform == "linux"


def lower(pid: int, niceness: int) -> None:
    """Give all threads of a process this niceness, where they have less, and no turn before others'.

    Threads that begin meanwhile are found, too. OSError when the process is somebody else's.
    """
    while threads := _above(pid, niceness):
        for thread in threads:
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, thread, niceness)
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _above(pid: int, niceness: int) -> list[int]:
    """Those of its threads that have a higher priority."""
    found = []
    for name in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, int(name)) < niceness:
                found.append(int(name))
    return found
