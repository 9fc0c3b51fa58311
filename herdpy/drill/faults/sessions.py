"""A ZooKeeper session that ends under the leader, who is well and reaches everybody."""

from __future__ import annotations

from kazoo.client import KazooClient

from herdpy.drill.control import ClusterControl, ClusterObserver
from herdpy.drill.control.view import ViewError
from herdpy.drill.faults.fault import Fault

_CONNECT_TIMEOUT_S = 10.0
_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_PASSWORD_BYTES = 16


class ExpireSession(Fault):
    """The leader's session is taken over by another connection, and closed: it is gone at once."""

    name = "expire-session"
    summary = "the leader's ZooKeeper session is ended at ZooKeeper"
    hold_s = 2.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return None if view.zookeeper is not None else "it is not known where ZooKeeper is"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        assert view.zookeeper is not None
        path = f"{view.root}/tablespaces/{view.tablespace}/leader"
        session = owner(view.zookeeper, path)
        leader = view.await_leader()
        end_session(view.zookeeper, session)
        return f"the session 0x{session:x} of {leader}, the leader, is ended"


def owner(zookeeper: str, path: str) -> int:
    """The session that an ephemeral znode belongs to. Raises ViewError without such a znode."""
    client = KazooClient(zookeeper)
    client.start(_CONNECT_TIMEOUT_S)
    try:
        stat = client.exists(path)
    finally:
        client.stop()
        client.close()
    if stat is None or not stat.ephemeralOwner:
        raise ViewError(f"nobody has {path}")
    return int(stat.ephemeralOwner)


def end_session(zookeeper: str, session: int) -> None:
    """Close another's session: ZooKeeper deletes what is ephemeral of it, and tells its client."""
    usurper = KazooClient(zookeeper, client_id=(session, password_of(session)))
    usurper.start(_CONNECT_TIMEOUT_S)
    usurper.stop()
    usurper.close()


def password_of(session: int) -> bytes:
    """The password that ZooKeeper gives to a session.

    It is made of the session's id and a constant (ZooKeeperServer.generatePasswd), by java.util.Random: a
    linear congruential generator of 48 bits whose `nextBytes` takes the upper 32 of each, least byte first.
    """
    state = ((session ^ _SECRET) ^ _MULTIPLIER) & _MASK
    made = bytearray()
    while len(made) < _PASSWORD_BYTES:
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        made += (state >> 16).to_bytes(4, "little")
    return bytes(made)
