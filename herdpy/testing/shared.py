"""One cluster for all processes of a test run.

The first process that asks starts a host process (``python -m herdpy.testing.shared``), which owns the
cluster and listens on a Unix socket. Who uses the cluster holds a connection, over which it gets the
addresses; when the last connection is gone, in order or because its process was killed, the host stops the
cluster and ends. So no test process has to outlive another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herdpy.testing.cluster import UNSYNCED, BookKeeperCluster, ClusterView
from herdpy.testing.errors import StartError
from herdpy.testing.java import jars
from herdpy.testing.process import await_until
from herdpy.testing.workspace import held, home_directory

_START_TIMEOUT_S = 90.0
_FIRST_USER_TIMEOUT_S = 30.0
_MAX_VIEW_BYTES = 65_536


@contextmanager
def shared_cluster(run: str, *, bookies: int = 3) -> Iterator[ClusterView]:
    """The cluster of the test run `run`, started by who asks first. Raises as BookKeeperCluster does."""
    jars()  # here, where it can say what is missing
    with held(home_directory() / f"run-{run}") as directory:
        with (directory / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            user = _join(directory / "socket") or _start(directory, bookies)
        with user:
            try:
                yield user.view
            finally:
                user.leave()


class _User:
    """A connection to the host process."""

    def __init__(self, connection: socket.socket, view: ClusterView) -> None:
        self._connection = connection
        self.view = view
        self.host_pid: int | None = None
        """The host process, where it was started by this process."""

    def leave(self) -> None:
        """Say that the cluster is not needed here, and wait until it has stopped or others go on using it."""
        self._connection.shutdown(socket.SHUT_WR)
        self._connection.recv(1)
        if self.host_pid is not None:
            os.waitpid(self.host_pid, os.WNOHANG)

    def __enter__(self) -> _User:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _join(address: Path) -> _User | None:
    """Connect to the host process; None when there is none, or it is about to end."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_START_TIMEOUT_S)
    try:
        connection.connect(str(address))
        with connection.makefile("rb") as lines:
            line = lines.readline(_MAX_VIEW_BYTES)
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        line = b""
    if not line:
        connection.close()
        return None
    return _User(connection, ClusterView.of(json.loads(line)))


def _start(directory: Path, bookies: int) -> _User:
    """Start the host process and connect to it. Others may need it longer than this process."""
    address, log = directory / "socket", directory / "log"
    address.unlink(missing_ok=True)  # of a host that was killed
    path = os.pathsep.join(part for part in sys.path if part)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", __name__, str(address), str(bookies)],
        {**os.environ, "PYTHONPATH": path},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    users: list[_User] = []

    def settled() -> bool:
        user = _join(address)
        if user is not None:
            users.append(user)
        return user is not None or os.waitpid(pid, os.WNOHANG)[0] == pid

    if not await_until(settled, _START_TIMEOUT_S):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not users:
        raise StartError(f"the shared cluster did not start:\n{log.read_text(errors='replace')}")
    users[0].host_pid = pid
    return users[0]


def serve(address: Path, bookies: int) -> None:
    """Own a cluster, for as long as somebody is connected to the Unix socket `address`."""
    with (
        contextlib.ExitStack() as at_last,
        BookKeeperCluster(bookies, configuration=UNSYNCED) as cluster,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(address))
        listener.listen()
        last_user = _serve_users(listener, json.dumps(cluster.view.to_dict()).encode() + b"\n")
        if last_user is not None:
            at_last.enter_context(last_user)  # closed when the cluster has stopped
        address.unlink()  # who comes now starts another


def _serve_users(listener: socket.socket, addresses: bytes) -> socket.socket | None:
    """Send the addresses to each user, until the last one leaves: its connection, None when nobody came."""
    users: set[socket.socket] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while ready := selector.select(None if users else _FIRST_USER_TIMEOUT_S):
            for key, _ in ready:
                if key.fileobj is listener:
                    user, _ = listener.accept()
                    users.add(user)
                    selector.register(user, selectors.EVENT_READ)
                    with contextlib.suppress(ConnectionError):  # gone already: read as such
                        user.sendall(addresses)
                    continue
                user = next(one for one in users if one is key.fileobj)
                if len(users) == 1:
                    return user
                users.discard(user)
                selector.unregister(user)
                user.close()
    return None


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
