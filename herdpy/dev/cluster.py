"""A cluster on this machine: ZooKeeper, bookies and HerdPy servers, started, harmed and stopped.

What `herdpy dev` does, and what tests, drills and benchmarks use in process. Every operation reads the state
from the directory, so that commands and programs may take turns on one cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from herdpy.dev.directory import ClusterDirectory, ClusterState, DevError, DevMember, Kind, NotRunningError
from herdpy.dev.kinds import (
    KINDS,
    PORTS_IN_NAMESPACE,
    Reservations,
    bookie_id,
    bookkeeper_uri,
    server_environment,
    zookeeper_hostport,
)
from herdpy.dev.process import MemberProcess, ProcessIdentity, spawn_waiting
from herdpy.dev.report import ClusterStatus, leader_of, report, url
from herdpy.testing.network import Network, NetworkHost
from herdpy.testing.process import await_until, log_tail
from herdpy.testing.zookeeper import ClusterZnodes

Event = Literal["starting", "ready", "stopping", "stopped"]
Progress = Callable[[str, Event], None]

DEFAULT_COUNT = 3
_LOCK_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 15.0
_LEADER_TIMEOUT_S = 15.0
_ORDER: tuple[Kind, ...] = ("zookeeper", "bookie", "recovery", "server")
_ALONE: tuple[Kind, ...] = ("zookeeper", "recovery")


class LocalCluster:
    """The cluster in `directory`, made there by the first `up`.

    `with LocalCluster(directory) as cluster` starts it, and stops it at the end; its data stays until
    ``down(wipe=True)``. `servers` and `bookies` are how many there shall be: None is as many as there are, or
    three; more than there are adds some. With `detached` the processes outlive this one; otherwise they are
    killed when it ends. `server_settings` (by section.name), `bookie_configuration` (lines of each bookie's
    file) and `java_options` add to those that the cluster was made with, from the next start of a process
    on. `environment` says what each process, by its name, finds in its environment beside what this one has.
    With `auto_recovery` BookKeeper's daemon of that name runs too. With `network` every new process has a
    namespace there, so that it can be cut off (`host`); such a cluster cannot outlive the network.
    `on_progress` is called with what becomes of each process.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        servers: int | None = None,
        bookies: int | None = None,
        detached: bool = False,
        server_settings: Mapping[str, object] | None = None,
        bookie_configuration: Mapping[str, object] | None = None,
        java_options: Sequence[str] = (),
        environment: Callable[[str], Mapping[str, str]] | None = None,
        auto_recovery: bool = False,
        network: Network | None = None,
        on_progress: Progress | None = None,
    ) -> None:
        if not hasattr(os, "pidfd_open"):
            raise DevError("a cluster on one machine needs Linux, where processes are held by more than ids")
        self._directory = ClusterDirectory(Path(directory))
        self._counts: dict[Kind, int | None] = {
            "zookeeper": 1,
            "bookie": bookies,
            "recovery": 1 if auto_recovery else None,
            "server": servers,
        }
        self._environment = environment or (lambda _name: {})
        self._network = network
        self._hosts: dict[str, NetworkHost] = {}
        self._dies_with_us = not detached
        self._settings = {name: str(value) for name, value in (server_settings or {}).items()}
        self._bookie_lines = {name: str(value) for name, value in (bookie_configuration or {}).items()}
        self._java_options = list(java_options)
        self._on_progress = on_progress or (lambda _name, _event: None)

    # What it is.

    @property
    def directory(self) -> Path:
        """Where the data, the configurations and the logs are."""
        return self._directory.path

    @property
    def url(self) -> str:
        """What clients are given: every server, and the default tablespace."""
        return url(self._directory.load())

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's ``host:port``."""
        return zookeeper_hostport(self._directory.load())

    @property
    def bookkeeper_uri(self) -> str:
        """What ``BookKeeper(...)`` is given."""
        return bookkeeper_uri(self._directory.load())

    def status(self) -> ClusterStatus:
        """What runs, where it listens, and which part each server has. Raises NoClusterError."""
        return report(self._directory.load())

    def address(self, name: str) -> str:
        """Where a process listens."""
        return self._directory.load().member(name).address

    def host(self, name: str) -> NetworkHost | None:
        """The process's place in the network, where it can be cut off; None without one."""
        return self._hosts.get(self._directory.load().member(name).name)

    def data_path(self, name: str) -> Path:
        """The directory of a process's data and configuration."""
        return self._directory.data(self._directory.load().member(name).name)

    def log_path(self, name: str) -> Path:
        """The file of a process's output."""
        return self._directory.log(self._directory.load().member(name).name)

    def log_tail(self, name: str) -> str:
        """The last lines of a process's output."""
        return log_tail(self.log_path(name))

    def await_leader(self, *, timeout_s: float = 30.0, other_than: str | None = None) -> str:
        """The server that leads the default tablespace, once ZooKeeper names one, and not `other_than`.

        Raises DevError when the time is over.
        """
        with ClusterZnodes(self.zookeeper) as znodes:
            found: list[str] = []

            def leads() -> bool:
                leader = leader_of(znodes)
                if leader is not None and leader != other_than:
                    found.append(leader)
                return bool(found)

            if not await_until(leads, timeout_s):
                raise DevError(f"no server of {self.directory} came to lead within {timeout_s:g} s")
            return found[0]

    # All of it.

    def up(self) -> ClusterStatus:
        """Start what does not run yet, and return when all of it serves; for a leader it waits some seconds.

        When that fails or is interrupted, what this call has started is stopped again. Raises BusyError,
        ForeignDirectoryError, StartError (with the log's last lines), MissingSoftwareError.
        """
        with self._directory.locked("up", create=True), Reservations() as reservations:
            state = self._directory.claim()
            before = {member.name for member in state.running}
            try:
                self._grow(state, reservations)
                self._start_all(state, reservations)
            except BaseException:
                self._stop_all(state, [one for one in state.members if one.name not in before])
                raise
        if state.of_kind("bookie") and state.of_kind("server"):
            with contextlib.suppress(DevError):  # the status tells that nobody leads, and the logs why
                self.await_leader(timeout_s=_LEADER_TIMEOUT_S)
        return self.status()

    def down(self, *, wipe: bool = False) -> None:
        """Stop everything, servers first and ZooKeeper last; with `wipe` remove the data too.

        May be called when nothing runs. Raises BusyError, NoClusterError, ForeignDirectoryError.
        """
        with self._directory.locked("down", timeout_s=_LOCK_TIMEOUT_S):
            state = self._directory.load()
            self._stop_all(state, state.members)
            if wipe:
                self._directory.wipe(state)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # One process of it.

    def start(self, name: str, *, wait: bool = True) -> None:
        """Start a process on its old port, with its old data; with `wait` return when it serves.

        Does nothing to one that runs but wait. When it does not come to serve, it is stopped again, and
        StartError raised.
        """
        with self._locked(f"start {name}"), Reservations() as reservations:
            state = self._directory.load()
            member = state.member(name)
            mine = not member.is_running
            if mine:
                self._launch(state, member, reservations)
        if not wait:
            return
        try:
            self._await_ready(state, member)  # not locked: others may kill it meanwhile
        except BaseException:
            if mine:
                self._stop_if_still(member)
            raise

    def kill(self, name: str) -> None:
        """End a process as a crash does (SIGKILL). Raises NotRunningError."""
        self._end(name, f"kill {name}", lambda state, member: self._kill(state, member))

    def stop(self, name: str) -> None:
        """Let a process end in order (SIGTERM), and kill it when it does not. Raises NotRunningError."""
        self._end(name, f"stop {name}", lambda state, member: self._stop(state, [member]))

    def pause(self, name: str) -> None:
        """Freeze a process (SIGSTOP): connections stay open, nobody answers. Raises NotRunningError."""
        with self._locked(f"pause {name}"):
            process = _process_of(self._directory.load().member(name))
            if not process.pause():
                raise NotRunningError(f"{name} ended before it was paused")

    def resume(self, name: str) -> None:
        """Let a paused process go on (SIGCONT). Raises NotRunningError."""
        with self._locked(f"resume {name}"):
            if not _process_of(self._directory.load().member(name)).send(signal.SIGCONT):
                raise NotRunningError(f"{name} ended before it was resumed")

    def wipe(self, name: str) -> None:
        """Empty the disk of a server or a bookie that does not run; the bookie's cookie goes too, so that it
        may come back as a new one with the old id. Raises DevError.
        """
        with self._locked(f"wipe {name}"):
            state = self._directory.load()
            member = state.member(name)
            if member.is_running:
                raise DevError(f"{name} runs: kill or stop it first")
            if member.kind not in ("bookie", "server"):
                raise DevError(f"{name} has no disk that could be lost alone")
            shutil.rmtree(self._directory.data(name), ignore_errors=True)
            if member.kind == "bookie":
                with ClusterZnodes(zookeeper_hostport(state)) as znodes:
                    znodes.forget_cookie(bookie_id(member))

    # How.

    def _locked(self, what: str) -> contextlib.AbstractContextManager[None]:
        return self._directory.locked(what, timeout_s=_LOCK_TIMEOUT_S)

    def _grow(self, state: ClusterState, reservations: Reservations) -> None:
        for kind in _ORDER:
            there = len(state.of_kind(kind))
            asked = self._counts[kind]
            wanted = asked if asked is not None else (there or (0 if kind == "recovery" else DEFAULT_COUNT))
            if wanted < there:
                raise DevError(
                    f"the cluster in {self.directory} has {there} {kind}s, not {wanted}: fewer are"
                    f" possible only in a new directory, or after down with wipe"
                )
            for number in range(there + 1, wanted + 1):
                name = kind if kind in _ALONE else f"{kind}-{number}"
                state.members.append(self._new_member(name, kind, reservations))
        options = state.options
        options.server_settings |= self._settings
        options.bookie_configuration |= self._bookie_lines
        options.java_options += [one for one in self._java_options if one not in options.java_options]
        self._directory.save(state)

    def _new_member(self, name: str, kind: Kind, reservations: Reservations) -> DevMember:
        if self._network is None:
            return DevMember(name, kind, reservations.new_ports(kind))
        host = self._hosts[name] = self._network.add_host()
        ports = {one: PORTS_IN_NAMESPACE[one] for one in KINDS[kind].ports}
        return DevMember(name, kind, ports, address=host.address, namespace=host.namespace)

    def _start_all(self, state: ClusterState, reservations: Reservations) -> None:
        missing = [member for member in state.members if not member.is_running]
        for member in missing:  # before anything starts: a port that is gone shows at once
            reservations.of(member)
        for kind in _ORDER:
            members = [member for member in missing if member.kind == kind]
            for member in members:
                self._launch(state, member, reservations)
            for member in state.of_kind(kind):  # an `up` that was cut short left some without waiting
                if not (member.process is not None and member.process.is_paused):
                    self._await_ready(state, member)

    def _launch(self, state: ClusterState, member: DevMember, reservations: Reservations) -> None:
        """Start a process; it becomes its program when it is written down that it exists."""
        if member.kind != "zookeeper" and not state.member("zookeeper").is_running:
            raise DevError(f"{member.name} needs zookeeper, which does not run: start that first")
        self._on_progress(member.name, "starting")
        reservations.of(member)
        reservations.keep(state, self._directory, dies_with_us=self._dies_with_us)
        prefix = ["ip", "netns", "exec", member.namespace] if member.namespace is not None else []
        argv = KINDS[member.kind].prepare(member, state, self._directory)
        with spawn_waiting(
            [*prefix, *argv],
            directory=self._directory.data(member.name),
            log_path=self._directory.log(member.name),
            environment={**server_environment(), **self._environment(member.name)},
            dies_with_us=self._dies_with_us,
        ) as spawned:
            member.process = spawned.identity
            self._directory.save(state)
            spawned.go()

    def _await_ready(self, state: ClusterState, member: DevMember) -> None:
        process = MemberProcess(member.name, _process_of(member), self._directory.log(member.name))
        KINDS[member.kind].await_ready(member, state, process)
        self._on_progress(member.name, "ready")

    def _end(self, name: str, what: str, end: Callable[[ClusterState, DevMember], None]) -> None:
        with self._locked(what):
            state = self._directory.load()
            member = state.member(name)
            _process_of(member)
            end(state, member)

    def _kill(self, state: ClusterState, member: DevMember) -> None:
        process = _process_of(member)
        process.send(signal.SIGKILL)
        process.await_end(_STOP_TIMEOUT_S)
        self._ended(state, member)

    def _stop_if_still(self, member: DevMember) -> None:
        """Stop what `start` has started, unless somebody has started another meanwhile."""
        with self._locked(f"start {member.name}"):
            state = self._directory.load()
            now = state.member(member.name)
            if now.process == member.process:
                self._stop(state, [now])

    def _stop_all(self, state: ClusterState, members: Iterable[DevMember]) -> None:
        chosen = list(members)
        for kind in reversed(_ORDER):
            self._stop(state, [member for member in chosen if member.kind == kind])
        if not any(state.running):
            for keeper in state.keepers:
                keeper.process.send(signal.SIGKILL)
                keeper.process.await_end(_STOP_TIMEOUT_S)
            state.keepers.clear()
            self._directory.save(state)

    def _stop(self, state: ClusterState, members: Sequence[DevMember]) -> None:
        """Ask processes to end, at the same time; kill those that have not ended when the time is over."""
        running = [(one, one.process) for one in members if one.process is not None]
        for member, process in running:
            if process.send(signal.SIGTERM):
                self._on_progress(member.name, "stopping")
                process.send(signal.SIGCONT)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for member, process in running:
            if not process.await_end(max(0.0, deadline - time.monotonic())):
                process.send(signal.SIGKILL)
                process.await_end(_STOP_TIMEOUT_S)
            self._ended(state, member)

    def _ended(self, state: ClusterState, member: DevMember) -> None:
        if member.is_running:  # it hangs in the kernel: keep what is known of it
            raise DevError(f"{member.name} (process {member.process}) does not end, although it was killed")
        member.process = None
        self._directory.save(state)
        self._on_progress(member.name, "stopped")


def _process_of(member: DevMember) -> ProcessIdentity:
    if member.process is None or not member.process.is_running:
        raise NotRunningError(f"{member.name} does not run")
    return member.process
