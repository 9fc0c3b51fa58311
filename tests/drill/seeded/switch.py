"""A cluster whose servers can be given a bug, and get rid of it, while they run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herdpy.dev import LocalCluster
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults.ledgers import TINY_LEDGERS
from herdpy.testing.network import Network

IN_SERVERS = Path(__file__).parent / "in_servers"


def _names() -> list[str]:
    spec = importlib.util.spec_from_file_location("bugs_in_servers", IN_SERVERS / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names: list[str] = module.names()
    return names


SERVER_BUGS = _names()


class Switch:
    """Which bug all servers of a cluster have at the moment: none, or one of SERVER_BUGS."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(b"\0")

    def environment(self, name: str) -> dict[str, str]:
        """What the process of that name is started with."""
        if not name.startswith("server"):
            return {}
        return {"HERDPY_SEEDED_BUG": str(self._path), "PYTHONPATH": str(IN_SERVERS)}

    def set(self, bug: str | None) -> None:
        """From now on; in place, for servers have mapped the file."""
        with self._path.open("r+b") as file:
            file.write(bytes([0 if bug is None else SERVER_BUGS.index(bug) + 1]))


@contextmanager
def switched_cluster(directory: Path) -> Iterator[tuple[LocalControl, Switch]]:
    """Three servers and three bookies that can be cut off, and ledgers that roll every second."""
    switch = Switch(directory / "bug")
    with (
        Network() as network,
        LocalCluster(
            directory / "cluster",
            servers=3,
            bookies=3,
            server_settings=TINY_LEDGERS,
            environment=switch.environment,
            network=network,
        ) as cluster,
    ):
        yield LocalControl(cluster), switch
