"""The ports of a local cluster, kept for it from `up` to `down`.

A reservation is a socket that is bound and never listens (herdpy.testing.ports): the process whose port it is
can listen there, and come back to it after a crash, while nobody who asks for a free port is given it. The
command that makes reservations ends, so a keeper inherits them: a process that does nothing else. A port that
is listened on cannot be reserved once more, so that what a keeper has is not given up before `down`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from herdpy.dev.directory import ADDRESS, ClusterDirectory, ClusterState, DevMember, Kind, PortKeeper
from herdpy.dev.kinds import KINDS
from herdpy.dev.process import spawn_waiting
from herdpy.testing.errors import PortTakenError
from herdpy.testing.ports import PortReservation


class Reservations:
    """Reservations held by this process; a context manager, which gives them back at the end."""

    def __init__(self) -> None:
        self._held: dict[int, PortReservation] = {}

    def new_ports(self, kind: Kind) -> dict[str, int]:
        """Free ports for a new process of that kind, reserved."""
        ports = {}
        for name in KINDS[kind].ports:
            reservation = PortReservation(ADDRESS)
            self._held[reservation.port] = reservation
            ports[name] = reservation.port
        return ports

    def of(self, member: DevMember) -> None:
        """Reserve the ports of a process that is to be started. Raises PortTakenError.

        In a network namespace of its own a process has all ports for itself.
        """
        if member.namespace is not None:
            return
        for name, port in member.ports.items():
            if port not in self._held:
                try:
                    self._held[port] = PortReservation(ADDRESS, port)
                except OSError as error:
                    what = f"{member.name}: its port {port} ({name}) is in use by another process"
                    raise PortTakenError(f"{what}, and it cannot have another") from error

    def keep(self, state: ClusterState, directory: ClusterDirectory, *, dies_with_us: bool) -> None:
        """Start a keeper of what no living keeper has; it is written down before it runs."""
        state.keepers = [one for one in state.keepers if one.process.is_running]
        kept = {port for one in state.keepers for port in one.ports}
        lacking = [port for port in self._held if port not in kept]
        if not lacking:
            return
        with spawn_waiting(
            (),
            directory=directory.path,
            log_path=directory.log("keeper"),
            environment={},
            dies_with_us=dies_with_us,
            reservations=[self._held[port] for port in lacking],
        ) as spawned:
            state.keepers.append(PortKeeper(spawned.identity, lacking))
            directory.save(state)
            spawned.go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reservation in self._held.values():
            reservation.close()
