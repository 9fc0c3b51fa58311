"""How a ZooKeeper session ends in a bounded time, also when ZooKeeper is silent.

Beside ``zookeeper``, for its ``close``. Kazoo's ``stop`` waits for the server's answer, or until its own
time-outs have found out that none comes, which takes longer than a session. Here a connection whose server
does not answer in time is shut down, which wakes kazoo's thread; the server then ends the session by itself
when it times out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Any

from kazoo.exceptions import KazooException

from herdpy.bookkeeper.metadata.zookeeper_bridge import Bridge

_log = logging.getLogger("herdpy.bookkeeper.zookeeper")

ANSWER_PATIENCE_S = 2.0
"""How long the server may take to confirm the end of the session."""

CUT_PATIENCE_S = 0.5
"""How long kazoo's threads may take to end after their connection was shut down."""


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """What kazoo logs of one client, until that is closed on purpose.

    A client that is closed while ZooKeeper is away would say that it failed to connect: it was told not to.

    Attributes:
        is_over: the client is being closed.
    """

    def __init__(self) -> None:
        super().__init__(logging.getLogger("kazoo.client"), {})
        self.is_over = False

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging names it so
        """Whether anybody is told."""
        return not self.is_over and super().isEnabledFor(level)


async def end_session(client: Any, bridge: Bridge) -> None:
    """Stop a kazoo client, and wait for the end of its threads for at most the two times above.

    Only a thread that is just trying to connect to a host that says nothing cannot be woken: it is a daemon
    thread, ends by itself after the session time-out, and then lets go of its socket.
    """
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()
    # Not the loop's executor, whose threads would stay: stopping waits for kazoo's threads.
    stopper = threading.Thread(
        target=_stop_in_thread, args=(client, bridge, stopped), name="end of a ZooKeeper session", daemon=True
    )
    stopper.start()
    await asyncio.wait([stopped], timeout=ANSWER_PATIENCE_S)
    if not stopped.done():
        _log.warning("ZooKeeper did not confirm the end of the session")
        _shut_down(client)
        await asyncio.wait([stopped], timeout=CUT_PATIENCE_S)
    if stopped.done():
        stopper.join()  # it has nothing left to do but to end
    else:
        _log.warning("left a thread that connects to ZooKeeper to its time-out")


def _stop_in_thread(client: Any, bridge: Bridge, stopped: asyncio.Future[None]) -> None:
    try:
        client.stop()
        client.close()
    except KazooException as stuck:
        _log.error("kazoo did not stop", extra={"reason": str(stuck)})
    finally:
        bridge.post(_settle, stopped)


def _settle(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


def _shut_down(client: Any) -> None:
    """End the TCP connection under kazoo's feet: it has no call for that."""
    connected = getattr(client._connection, "_socket", None)
    if connected is not None:
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("the connection ended by itself", extra={"reason": str(error)})
