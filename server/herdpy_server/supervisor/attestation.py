"""That a process has ended: written to ZooKeeper, and its session closed.

The lowest layer of the component: the supervisor's process imports little else of the server's. Whoever
calls ``attest`` knows from the kernel that the process has ended.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    UNANSWERED,
    NodeExistsError,
    NoNodeError,
    SessionKey,
    Znodes,
)
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.zookeeper_access import ZooKeeperAccess

RELEASED = b"released"
"""The line with which a server tells its supervisor that its session is closed."""
INHERITED = "HERDPY_SUPERVISOR"
"""The variable by which a supervisor that is a server's parent names its pid and the pipe to it."""
IMPOSSIBLE = 3
"""With this a supervisor ends where it cannot learn of its server's end."""
_RETRY_S = 0.05
_BEYOND_S = 10.0
"""A loaded machine takes its time; after the expiry an attestation still saves the wait for a lease."""


class Attestation(Struct, frozen=True, kw_only=True):
    """What is attested once the process has ended; JSON between a server and its supervisor.

    Attributes:
        zookeeper, access, session_timeout_s: how ZooKeeper is reached, as the process did.
        session: the process's.
        path, data: the znode of the attestation (``cluster.layout.EndedRecord``).
    """

    zookeeper: str
    access: ZooKeeperAccess
    session_timeout_s: float
    session: SessionKey
    path: str
    data: bytes

    @property
    def patience_s(self) -> float:
        """After so long it is no longer of use: the session expires."""
        return self.session_timeout_s + _BEYOND_S


async def attest(ended: Attestation) -> None:
    """Write the attestation, then close the session: when its znodes go, the attestation is there.

    Where the session has expired, the attestation is written all the same: it stays true.

    Raises:
        TimeoutError: ZooKeeper has not answered in time.
        BookKeeperError: ZooKeeper refuses.
    """
    znodes = KazooZnodes(
        ended.zookeeper, ended.session_timeout_s, access=ended.access, taken_up=ended.session
    )
    try:
        async with asyncio.timeout(ended.patience_s):
            await znodes.start()
            await write(znodes, ended.path, ended.data)
    finally:
        await znodes.close()


async def write(znodes: Znodes, path: str, data: bytes) -> None:
    """Put that in a znode, whatever is there; repeated until it is answered."""
    while True:
        try:
            await znodes.set(path, data, ANY_VERSION)
            return
        except NoNodeError:
            if await _make(znodes, path, data):
                return
        except UNANSWERED:
            await asyncio.sleep(_RETRY_S)


async def _make(znodes: Znodes, path: str, data: bytes) -> bool:
    """Whether the znode was made; otherwise the next look sees what there is."""
    try:
        await znodes.create(path, data, make_parents=True)
    except (NodeExistsError, *UNANSWERED):
        return False
    return True
