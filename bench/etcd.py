"""etcd, the peer of the benchmark of failover: three members on loopback, and a client.

The members are Debian's etcd, each with a directory and two ports of its own. The client speaks the JSON of
etcd's gRPC gateway over one HTTP connection, as programs without an etcd library do, and gives a request
``REQUEST_S`` before it asks the next member: a member that forwards to a dead leader answers after seconds.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.testing.process import PortReservation

REQUEST_S = 0.1
"""How long the client waits for an answer before it asks another member."""
PATIENCE_S = 30.0
_NAMES = ("e1", "e2", "e3")


class LostError(Exception):
    """A member did not answer, or not that it was done."""


@dataclass(frozen=True)
class EtcdTimes:
    """etcd's ``--heartbeat-interval`` and ``--election-timeout``, in milliseconds."""

    heartbeat_ms: int
    election_ms: int

    def __str__(self) -> str:
        return f"etcd, heartbeat {self.heartbeat_ms} ms, election {self.election_ms} ms"


DEFAULT_TIMES = EtcdTimes(100, 1000)
TUNED_TIMES = EtcdTimes(20, 200)
"""Ten heartbeats are an election, as etcd's tuning page has it, for members of one machine."""


class EtcdConnection:
    """One HTTP connection to one member. Every method raises LostError."""

    def __init__(self, port: int, request_s: float = REQUEST_S) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=request_s)

    def put(self, key: str, value: str) -> None:
        """Write; it is committed when this returns."""
        texts = {"key": key, "value": value}
        self.call("kv/put", {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()})

    def call(self, path: str, message: Mapping[str, object]) -> Any:
        """One call of the gateway, and its answer."""
        try:
            self._http.request("POST", f"/v3/{path}", json.dumps(message))
            with self._http.getresponse() as answer:
                said = answer.read()
                if answer.status != http.client.OK:
                    raise LostError(said.decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            raise LostError(str(error)) from error
        return json.loads(said)

    def close(self) -> None:
        """Hang up."""
        self._http.close()


class EtcdCluster:
    """Three members; made by :func:`etcd_cluster`."""

    def __init__(self, directory: Path, times: EtcdTimes, ports: Mapping[str, tuple[int, int]]) -> None:
        self.times = times
        self._directory = directory
        self._ports = ports
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._turn = itertools.cycle(_NAMES)

    @property
    def leader(self) -> str:
        """Which member leads, once all agree. Raises SystemExit when they do not come to."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            found = [self._status(name) for name in _NAMES]
            own = {one["header"]["member_id"]: name for name, one in zip(_NAMES, found, strict=True) if one}
            leaders = {one.get("leader", "0") for one in found if one}
            if len(own) == len(_NAMES) and len(leaders) == 1 and (name := own.get(leaders.pop())):
                return name
            time.sleep(0.02)
        raise SystemExit("etcd's members do not agree on a leader")

    def connect(self) -> closing[EtcdConnection]:
        """A client's connection to the next member."""
        return closing(EtcdConnection(self._ports[next(self._turn)][0]))

    def start(self, name: str) -> None:
        """Start a member with what it had."""
        peers = ",".join(f"{one}=http://127.0.0.1:{peer}" for one, (_client, peer) in self._ports.items())
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[name])
        options = {
            "name": name,
            "data-dir": self._directory / name,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": peers,
            "heartbeat-interval": self.times.heartbeat_ms,
            "election-timeout": self.times.election_ms,
        }
        command = ["etcd", *(f"--{option}={value}" for option, value in options.items())]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]}
            )

    def kill(self, name: str) -> None:
        """SIGKILL; returns when the member has ended."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._processes[name].send_signal(signal.SIGCONT)

    def hand_over(self, leader: str) -> None:
        """Have the leader give its place to another member in order."""
        other = next(name for name in _NAMES if name != leader)
        status = self._status(other)
        with closing(EtcdConnection(self._ports[leader][0], PATIENCE_S)) as connection:
            target = status["header"]["member_id"] if status else "0"
            connection.call("maintenance/transfer-leadership", {"targetID": target})

    def close(self) -> None:
        """End every member."""
        for name in list(self._processes):
            self.kill(name)

    def _status(self, name: str) -> Any:
        with closing(EtcdConnection(self._ports[name][0])) as connection:
            try:
                return connection.call("maintenance/status", {})
            except LostError:
                return None


@contextmanager
def etcd_cluster(directory: Path, times: EtcdTimes) -> Iterator[EtcdCluster]:
    """Three members that agree on a leader. Raises SystemExit without etcd."""
    if shutil.which("etcd") is None:
        raise SystemExit("etcd is not installed: sh tools/install-etcd.sh")
    with ExitStack() as stack:
        ports = [stack.enter_context(closing(PortReservation())).port for _ in range(2 * len(_NAMES))]
        pairs = zip(ports[::2], ports[1::2], strict=True)
        cluster = EtcdCluster(directory, times, dict(zip(_NAMES, pairs, strict=True)))
        stack.enter_context(closing(cluster))
        for name in _NAMES:
            cluster.start(name)
        assert cluster.leader
        yield cluster
