"""A worker process: `python -m herdpy_server.workers.child`, started by a server with what it needs as JSON.

It stands back behind its server, may use so much memory and no more, and ends with it.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import resource
import shutil
import sys
from pathlib import Path

from herdpy.imports import importing
from herdpy.machine import data_bytes

with importing(freeze=True):
    import pyarrow as pa

    from herdpy.machine import end_with_parent
    from herdpy_server.child_process import lower_priority
    from herdpy_server.workers.child.answering import Answering
    from herdpy_server.workers.child.channel import Channel, ChannelHandler
    from herdpy_server.workers.child.state import WorkerCache, WorkerDisk
    from herdpy_server.workers.messages import (
        AskQuestion,
        BeginQuestion,
        CancelQuestion,
        DeltaRows,
        FlushedDelta,
        WorkerStarted,
    )
    from herdpy_sql.columnar.engine import Limits, database
    from herdpy_sql.values.styles import PLAIN


def main() -> None:
    """The worker's life."""
    given = json.loads(sys.argv[1])
    end_with_parent(given["parent"])
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel = Channel(given["descriptor"])
    logging.getLogger().addHandler(ChannelHandler(channel))
    limits = Limits(given["query_memory_bytes"], given["threads"], given["spill"])
    Path(given["spill"]).mkdir(parents=True, exist_ok=True)
    base = WorkerDisk(Path(given["store"]))
    state = WorkerCache(given["column_cache_bytes"], base.segments(given["segment_bytes"]))
    answering = Answering(channel, base, state, limits)
    pa.set_cpu_count(given["threads"])
    database(limits.memory_bytes, limits.threads, limits.temp_directory, PLAIN)
    _limit_memory(given["memory_bytes"])
    lower_priority(given["niceness"])  # from now on: someone waits for it to start
    channel.send(WorkerStarted(os.getpid()))
    goes_on = True
    while goes_on:
        match channel.next():
            case BeginQuestion() as begin:
                answering.begin(begin)
            case DeltaRows() as part:
                state.part(part)
            case FlushedDelta() as gone:
                state.gone(gone)
            case AskQuestion() as ask:
                goes_on = answering.answer(ask)
            case CancelQuestion(number):
                answering.forget(number)
    shutil.rmtree(given["spill"], ignore_errors=True)
    os._exit(0)  # nothing to be tidied: what is mapped and open goes with the process


def _limit_memory(memory_bytes: int) -> None:
    """Let it have so much beyond what it has set aside so far, most of which it never touches.

    The address space cannot be limited: LMDB's map is a tebibyte of it.
    """
    set_aside = data_bytes()
    if set_aside is None:  # a system that has no such limit either
        return
    limit = set_aside + memory_bytes
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
