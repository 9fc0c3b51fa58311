"""How a process that a server has started behaves: it ends with the server, and stands back behind it.

Below everything: workers and publishing use it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_FIRST_KILLED = "500"


def end_with_parent(parent: int) -> None:
    """Be killed when the parent dies, even where this process is stopped; or leave if it has already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def lower_priority(niceness: int) -> None:
    """What the machine does not grant is done without."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_KILLED)
