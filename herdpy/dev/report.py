"""How a local cluster is: what runs, where it listens, and which part each server has."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from herdpy.dev.directory import ClusterState, DevMember
from herdpy.dev.kinds import TABLESPACE, bookie_id, bookkeeper_uri, get_json, zookeeper_hostport
from herdpy.testing.zookeeper import ClusterZnodes

ProcessState = Literal["running", "paused", "stopped"]
ROLE_UNKNOWN = "unknown"
ROLE_NONE = "none"
_ZOOKEEPER_TIMEOUT_S = 3.0
_TABLESPACE_ZNODE = f"/herdpy/tablespaces/{TABLESPACE}"


@dataclass(frozen=True)
class ProcessStatus:
    """One process: `id` is the name that commands take; `pid` is None when it does not run."""

    id: str
    pid: int | None
    state: ProcessState


@dataclass(frozen=True)
class ZooKeeperStatus(ProcessStatus):
    """ZooKeeper."""

    port: int


@dataclass(frozen=True)
class BookieStatus(ProcessStatus):
    """A bookie; `bookie_id` is its name in ledgers' metadata."""

    port: int
    bookie_id: str


@dataclass(frozen=True)
class ServerProcessStatus(ProcessStatus):
    """A HerdPy server. `role` is that in the default tablespace, as the server itself says: leader, follower
    ...; "none" when it has no replica or does not run, "unknown" when it does not say.
    """

    sql_port: int
    grpc_port: int
    http_port: int
    role: str


@dataclass(frozen=True)
class ClusterStatus:
    """A whole cluster. `url` is what clients are given: all servers, and the default tablespace."""

    url: str
    zookeeper: ZooKeeperStatus
    bookies: list[BookieStatus]
    servers: list[ServerProcessStatus]
    bookkeeper_uri: str = field(default="")
    recovery: ProcessStatus | None = None
    """Auto recovery, where the cluster has it."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        if self.recovery is None:
            del found["recovery"]
        return found

    @property
    def processes(self) -> list[ProcessStatus]:
        """All of them, ZooKeeper first."""
        recovery = [self.recovery] if self.recovery is not None else []
        return [self.zookeeper, *self.bookies, *recovery, *self.servers]


def report(state: ClusterState) -> ClusterStatus:
    """Look at the cluster's processes, and ask the servers for their roles (in parallel)."""
    servers = state.of_kind("server")
    with ThreadPoolExecutor(max(1, len(servers))) as pool:
        statuses = list(pool.map(_server, servers))
    if any(server.role == ROLE_UNKNOWN for server in statuses):
        statuses = _with_znodes(state, statuses)
    zookeeper = state.member("zookeeper")
    return ClusterStatus(
        url(state),
        ZooKeeperStatus(*_process(zookeeper), zookeeper.ports["client"]),
        [
            BookieStatus(*_process(one), one.ports["bookie"], bookie_id(one))
            for one in state.of_kind("bookie")
        ],
        statuses,
        bookkeeper_uri(state),
        next((ProcessStatus(*_process(one)) for one in state.of_kind("recovery")), None),
    )


def url(state: ClusterState) -> str:
    """The URL of the default tablespace, with every server; "" without servers."""
    places = [f"{server.address}:{server.ports['sql']}" for server in state.of_kind("server")]
    return f"herdpy://{','.join(places)}/{TABLESPACE}" if places else ""


def _process(member: DevMember) -> tuple[str, int | None, ProcessState]:
    process = member.process
    if process is None or not process.is_running:
        return member.name, None, "stopped"
    return member.name, process.pid, "paused" if process.is_paused else "running"


def _server(member: DevMember) -> ServerProcessStatus:
    name, pid, process_state = _process(member)
    ports = member.ports
    if process_state == "running":
        role = _role(member)
    else:
        role = ROLE_UNKNOWN if process_state == "paused" else ROLE_NONE
    return ServerProcessStatus(name, pid, process_state, ports["sql"], ports["grpc"], ports["http"], role)


def _role(server: DevMember) -> str:
    found = get_json(server, "/status")
    if not isinstance(found, dict) or not isinstance(found.get("tablespaces"), list):
        return ROLE_UNKNOWN
    for tablespace in found["tablespaces"]:
        if tablespace.get("name") == TABLESPACE:
            return _in_short(tablespace.get("role"))
    return ROLE_NONE


def _with_znodes(state: ClusterState, statuses: list[ServerProcessStatus]) -> list[ServerProcessStatus]:
    """The same, with what ZooKeeper knows of servers that do not speak for themselves."""
    zookeeper = state.member("zookeeper").process
    if zookeeper is None or not zookeeper.is_running or zookeeper.is_paused:
        return statuses
    try:
        with ClusterZnodes(zookeeper_hostport(state), timeout_s=_ZOOKEEPER_TIMEOUT_S) as znodes:
            leader = leader_of(znodes)
            return [
                replace(one, role=_role_in(znodes, one.id, leader)) if one.role == ROLE_UNKNOWN else one
                for one in statuses
            ]
    except (KazooTimeoutError, KazooException):
        return statuses


def leader_of(znodes: ClusterZnodes) -> str | None:
    """The node that leads the default tablespace, as ZooKeeper knows it; None when there is none."""
    node = _fields(znodes, f"{_TABLESPACE_ZNODE}/leader").get("node")
    return str(node) if node is not None else None


def _role_in(znodes: ClusterZnodes, node: str, leader: str | None) -> str:
    if node == leader:
        return "leader"
    return _in_short(_fields(znodes, f"{_TABLESPACE_ZNODE}/replicas/{node}").get("state"))


def _fields(znodes: ClusterZnodes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(znodes.read(path) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _in_short(role: object) -> str:
    """A role, or the state of a replica, as one word."""
    word = str(role).lower() if role else ROLE_UNKNOWN
    return {"leading": "leader", "following": "follower"}.get(word, word)
