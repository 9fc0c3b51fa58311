"""All that has a cluster learn of the end of one node's process.

The top of the component; the node's process makes one, and holds the lock of its directory as long. First
``attest_former`` ends what a former process has left. Then each session of this process comes to the file and
to the supervisor. At the end, once the session is closed, both forget it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import msgspec

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import SessionKey, Watch, Znodes, ZooKeeperState
from herdpy.zookeeper_access import ZooKeeperAccess
from herdpy_server.cluster.layout import EndedRecord, Layout, encode
from herdpy_server.supervisor import former
from herdpy_server.supervisor.attestation import Attestation, attest
from herdpy_server.supervisor.process import ParentSupervisor, SupervisorProcess, parent_supervisor, started

_log = logging.getLogger("herdpy.supervisor")


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How ZooKeeper is reached, and where the cluster is in it."""

    zookeeper: str
    access: ZooKeeperAccess
    session_timeout_s: float
    layout: Layout


class Supervision:
    """To be made on the loop, by the process that holds the directory's lock."""

    def __init__(self, directory: Path, node: str, reach: Reach, *, supervised: bool = True) -> None:
        """``supervised``: False: without a supervisor's process; the file is kept all the same."""
        self._directory = directory
        self._node = node
        self._reach = reach
        self._instance = ""
        self._supervised = supervised
        self._process: SupervisorProcess | ParentSupervisor | None = None
        self._znodes: Znodes | None = None
        self._known: SessionKey | None = None
        self._watch: Watch | None = None
        self._work: asyncio.Task[None] | None = None

    def supervisor(self) -> int | None:
        """The supervisor's process; None while there is none."""
        return None if self._process is None else self._process.pid

    async def attest_former(self) -> None:
        """Attest that the node's former process has ended, and close its session, as far as that is known.

        ZooKeeper's silence is no error: whoever goes on waits for the session's expiry.
        """
        found = former.find(self._directory)
        if found is None:
            return
        extra = {"node": found.node, "instance": found.instance}
        try:
            await attest(self._attestation(found.node, found.instance, found.session))
        except (BookKeeperError, TimeoutError) as error:
            _log.warning("end of the former process not attested", extra={**extra, "reason": str(error)})
        else:
            _log.info("end of the former process attested", extra=extra)

    def follow(self, znodes: Znodes, instance: str) -> None:
        """Have this process's end noticed, in the session of now and in each that follows."""
        self._znodes, self._instance = znodes, instance
        if self._supervised:
            self._process = parent_supervisor() or started()
        self._watch = znodes.on_session(self._session_changed)
        self._session_changed(ZooKeeperState.CONNECTED)

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.CONNECTED and (self._work is None or self._work.done()):
            self._work = asyncio.get_running_loop().create_task(self._tell(), name="supervisor")

    async def _tell(self) -> None:
        """Bring the session of now to the supervisor and to the file, until there is no newer one."""
        assert self._znodes is not None
        while (session := self._znodes.session_key) is not None and session != self._known:
            if self._process is not None:
                line = self._attestation(self._node, self._instance, session)
                self._process.tell(msgspec.json.encode(line))
            try:
                await asyncio.to_thread(former.keep, self._directory, self._node, self._instance, session)
            except OSError as error:
                _log.warning("session not kept", extra={"reason": str(error)})
            self._known = session

    def _attestation(self, node: str, instance: str, session: SessionKey) -> Attestation:
        reach = self._reach
        return Attestation(
            zookeeper=reach.zookeeper,
            access=reach.access,
            session_timeout_s=reach.session_timeout_s,
            session=session,
            path=reach.layout.ended_of(node),
            data=encode(EndedRecord(node=node, instance=instance)),
        )

    async def close(self) -> None:
        """The session is closed, and with it all that this process had in it. May be repeated."""
        if self._watch is not None:
            self._watch.cancel()
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)
        if self._process is not None:
            await self._process.close()
        if self._known is not None:
            with contextlib.suppress(OSError):
                former.forget(self._directory)
