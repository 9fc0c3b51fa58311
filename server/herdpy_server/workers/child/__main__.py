"""A worker process: `python -m herdpy_server.workers.child`, started by a server with what it needs as JSON.

It stands back behind its server, may use so much memory and no more, and ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import logging
import os
import re
import resource
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa

from herdpy_server.workers.child.answering import Answering
from herdpy_server.workers.child.base import Base
from herdpy_server.workers.child.channel import Channel, ChannelHandler
from herdpy_server.workers.child.state import State
from herdpy_server.workers.messages import Ask, Begin, Cancel, Gone, Hello, Part
from herdpy_sql.columnar.engine import Limits, database

_PR_SET_PDEATHSIG = 1
_FIRST_KILLED = "500"


def main() -> None:
    """The worker's life."""
    told = json.loads(sys.argv[1])
    _end_with_parent(told["parent"])
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel = Channel(told["descriptor"])
    logging.getLogger().addHandler(ChannelHandler(channel))
    limits = Limits(told["query_memory_bytes"], told["threads"], told["spill"])
    Path(told["spill"]).mkdir(parents=True, exist_ok=True)
    base = Base(Path(told["store"]))
    state = State(told["column_cache_bytes"])
    answering = Answering(channel, base, state, limits)
    pa.set_cpu_count(told["threads"])
    database(limits.memory_bytes, limits.threads, limits.temp_directory, "UTC")
    _limit_memory(told["memory_bytes"])
    _stand_back(told["niceness"])  # from now on: someone waits for it to start
    channel.send(Hello(os.getpid()))
    goes_on = True
    while goes_on:
        match channel.next():
            case Begin() as begin:
                answering.begin(begin)
            case Part() as part:
                state.part(part)
            case Gone() as gone:
                state.gone(gone)
            case Ask() as ask:
                goes_on = answering.answer(ask)
            case Cancel(number):
                answering.forget(number)
    shutil.rmtree(told["spill"], ignore_errors=True)
    os._exit(0)  # nothing to be tidied: what is mapped and open goes with the process


def _end_with_parent(parent: int) -> None:
    """Be killed when the parent dies, even where this process is stopped; or leave if it has already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _stand_back(niceness: int) -> None:
    """What the machine does not grant is done without."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_KILLED)


def _limit_memory(memory_bytes: int) -> None:
    """Let it have so much beyond what it has set aside so far, most of which it never touches.

    The address space cannot be limited: LMDB's map is a tebibyte of it.
    """
    set_aside = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert set_aside is not None
    limit = int(set_aside[1]) * 1024 + memory_bytes
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
