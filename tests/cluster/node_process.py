"""A node that takes part in one election, as a process; it tells what happens as lines of JSON.

Usage: python -m tests.cluster.node_process HOSTPORT NODE SESSION_S LEASE_S [DIRECTORY]

With a directory, which is its own, it is supervised.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from herdpy.bookkeeper.metadata.znodes import NodeExistsError
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.log.lsn import START
from herdpy.zookeeper_access import IN_THE_CLEAR
from herdpy_server.cluster.certain import token
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.election import Candidate
from herdpy_server.cluster.errors import NodeIdInUseError, TermLostError
from herdpy_server.cluster.layout import Layout, NodeRecord
from herdpy_server.cluster.lease import Term, boottime
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.supervisor.supervision import Reach, Supervision


def tell(what: str, **more: object) -> None:
    print(json.dumps({"what": what, "at_s": boottime(), **more}), flush=True)


async def able() -> str | None:
    return None


class Node:
    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def won(self, term: Term) -> None:
        tell("won", epoch=term.epoch)
        task = asyncio.get_running_loop().create_task(self.lead(term))
        self.tasks.add(task)

    def lost(self, term: Term) -> None:
        assert term.loss is not None
        tell("lost", epoch=term.epoch, loss=term.loss.name)

    async def lead(self, term: Term) -> None:
        try:
            await term.alone()
        except TermLostError:
            return
        tell("leads", epoch=term.epoch)
        was = True
        while term.loss is None:
            # Each answer that would be given, by the clock that successors go by too.
            now_s = boottime()
            valid = term.lease.valid()
            if valid or was:
                tell("answers" if valid else "cannot answer", epoch=term.epoch, asked_s=now_s)
            was = valid
            await asyncio.sleep(0.01)


async def main(
    hostport: str, name: str, session_s: float, lease_s: float, directory: Path | None = None
) -> None:
    supervision = await supervised(directory, name, hostport, session_s)
    znodes = KazooZnodes(hostport, session_timeout_s=session_s)
    await znodes.start()
    own = NodeRecord(node=name, instance=token(), session_timeout_s=session_s)
    if supervision is not None:
        supervision.follow(znodes, own.instance)
        tell("supervised", pid=supervision.supervisor(), server=os.getpid())
    ended = asyncio.Event()

    def refused(error: NodeIdInUseError) -> None:
        tell("refused", reason=str(error))
        ended.set()

    coordination = Coordination(znodes, "/herdpy", own, lease_s=lease_s, refused=refused)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, os._exit, 7)
    try:
        await coordination.start()
    except NodeIdInUseError as error:
        refused(error)
        return
    finally:
        if ended.is_set():
            await znodes.close()
    with contextlib.suppress(NodeExistsError):
        await znodes.create(coordination.layout.tablespace("t").info, make_parents=True)
    node = Node()
    info = TablespaceInfo(name="t", uuid="1")
    election = coordination.election(info, Candidate(lambda: START, able, node.won, node.lost))
    election.start()
    tell("ready")
    await ended.wait()
    await election.close()
    tell("resigned")
    await coordination.close()
    await znodes.close()
    if supervision is not None:
        await supervision.close()


async def supervised(
    directory: Path | None, name: str, hostport: str, session_s: float
) -> Supervision | None:
    if directory is None:
        return None
    directory.mkdir(exist_ok=True)
    reach = Reach(
        zookeeper=hostport, access=IN_THE_CLEAR, session_timeout_s=session_s, layout=Layout("/herdpy")
    )
    supervision = Supervision(directory, name, reach)
    await supervision.attest_former()
    return supervision


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), *map(Path, sys.argv[5:]))
    )
