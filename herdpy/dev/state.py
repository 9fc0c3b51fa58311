"""What is written down about a local cluster: its processes, their ports, and who they are now.

One JSON file, replaced as a whole (written beside, synced, renamed), so that a reader at any moment sees what
held before a change or after it. It is written before a process becomes its program and after it has ended:
whatever runs stands in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from herdpy.dev.errors import ForeignDirectoryError, UnknownNameError
from herdpy.dev.identity import ProcessIdentity

FORMAT = 1
Kind = Literal["zookeeper", "bookie", "recovery", "server"]
ADDRESS = "127.0.0.1"


@dataclass
class Member:
    """One process of the cluster: `ports` by what they are for, `process` None when none was started.

    `address` is where it listens: the loopback one, or that of the network namespace that it runs in.
    """

    name: str
    kind: Kind
    ports: dict[str, int]
    process: ProcessIdentity | None = None
    address: str = ADDRESS
    namespace: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process that was started has not ended."""
        return self.process is not None and self.process.is_running


@dataclass
class Keeper:
    """A process that does nothing but keep ports of the cluster reserved (reservations.py)."""

    process: ProcessIdentity
    ports: list[int]


@dataclass
class Options:
    """What the cluster was made with, so that a process comes back as it was.

    `server_settings` by section.name, `bookie_configuration` lines of every bookie's file, `java_options`
    flags of every virtual machine.
    """

    server_settings: dict[str, str] = field(default_factory=dict)
    bookie_configuration: dict[str, str] = field(default_factory=dict)
    java_options: list[str] = field(default_factory=list)


@dataclass
class ClusterState:
    """The cluster as it is written down."""

    members: list[Member] = field(default_factory=list)
    options: Options = field(default_factory=Options)
    keepers: list[Keeper] = field(default_factory=list)

    def member(self, name: str) -> Member:
        """The member of that name. Raises UnknownNameError."""
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self.members)
        raise UnknownNameError(f"there is no {name} in this cluster; there are {names}")

    def of_kind(self, kind: Kind) -> list[Member]:
        """The members of one kind, in the order of their numbers."""
        return [member for member in self.members if member.kind == kind]

    @property
    def running(self) -> Iterator[Member]:
        """The members whose process runs."""
        return (member for member in self.members if member.is_running)

    def save(self, path: Path) -> None:
        """Replace the file by this state."""
        beside = path.with_name(path.name + ".new")
        with beside.open("w") as out:
            json.dump({"format": FORMAT, **asdict(self)}, out, indent=1)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: Path) -> ClusterState | None:
        """The state of that file; None when there is none. Raises ForeignDirectoryError when it is another's
        file.
        """
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise ForeignDirectoryError(f"{path} has format {found['format']}, not {FORMAT}")
            keepers = [Keeper(ProcessIdentity(**one["process"]), one["ports"]) for one in found["keepers"]]
            return cls([_member(one) for one in found["members"]], Options(**found["options"]), keepers)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ForeignDirectoryError(f"{path} is not the state of a local cluster: {error}") from error


def _member(found: dict[str, Any]) -> Member:
    if found["kind"] not in get_args(Kind):
        raise ValueError(f"no kind of process: {found['kind']}")
    process = found["process"]
    identity = ProcessIdentity(**process) if process is not None else None
    ports = {str(name): int(port) for name, port in found["ports"].items()}
    address, namespace = str(found.get("address", ADDRESS)), found.get("namespace")
    return Member(str(found["name"]), found["kind"], ports, identity, address, namespace)
