"""The two clusters that the cluster's benchmark compares, and how long things take on either."""

from __future__ import annotations

import array
import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookkeeper_clients import PythonProgram
from measure import Line
from postgresql import connect, replicated_postgres
from processor_time import listener

from herdpy.dbapi import OperationalError
from herdpy.dev import LocalCluster
from herdpy.testing.zookeeper import ClusterZnodes

DATABASE = "herdpy"
"""In both."""
PATIENCE_S = 60.0


@dataclass
class Bed:
    """Three servers with three bookies, a PostgreSQL with two standbys, and a client of the bookies.

    Attributes:
        directory: where parts may put what they start themselves.
        quick: see that it works, in seconds.
        skipped: what was not measured, and why.
    """

    directory: Path
    cluster: LocalCluster
    peer: int
    peer_standbys: list[int]
    bookkeeper: PythonProgram
    quick: bool
    skipped: list[str]

    @property
    def rounds(self) -> int:
        """How many pairs."""
        return 1 if self.quick else 5

    @property
    def seconds(self) -> int:
        """How long a run of a load takes."""
        return 1 if self.quick else 5

    @property
    def warm_s(self) -> int:
        """How long each is warmed."""
        return 1 if self.quick else 10

    @property
    def processes(self) -> dict[str, int]:
        """The process ids of all of the cluster's; "(leads)" behind the name of the server that does."""
        status, leader = self.cluster.status(), self.leader
        found = {one.id: one.pid for one in status.processes if one.pid is not None}
        return {f"{name} (leads)" if name == leader else name: pid for name, pid in found.items()}

    @property
    def peer_processes(self) -> dict[str, int]:
        """Those of the PostgreSQL with its standbys."""
        standbys = {f"standby {nth}": listener(port) for nth, port in enumerate(self.peer_standbys, 1)}
        return {"primary": listener(self.peer), **standbys}

    @property
    def leader(self) -> str:
        """Which server leads."""
        return self.cluster.await_leader(timeout_s=PATIENCE_S)

    @property
    def ours(self) -> int:
        """The port of the server that leads."""
        return self.port(self.leader)

    def port(self, name: str) -> int:
        """Where a server speaks PostgreSQL's protocol."""
        return next(one.sql_port for one in self.cluster.status().servers if one.id == name)

    @property
    def followers(self) -> list[str]:
        """The servers that follow."""
        return [one.id for one in self.cluster.status().servers if one.role == "follower"]

    def await_followers(self, count: int = 2) -> None:
        """Return when so many follow."""
        until = time.monotonic() + PATIENCE_S
        while len(self.followers) < count:
            if time.monotonic() > until:
                raise SystemExit(f"{count} servers do not come to follow: {self.cluster.status().servers}")
            time.sleep(0.05)

    def await_bookies(self) -> None:
        """Return when all bookies are registered."""
        status, until = self.cluster.status(), time.monotonic() + PATIENCE_S
        with ClusterZnodes(f"127.0.0.1:{status.zookeeper.port}") as znodes:
            while missing := [one.id for one in status.bookies if not znodes.is_registered(one.bookie_id)]:
                if time.monotonic() > until:
                    raise SystemExit(f"{missing} do not register")
                time.sleep(0.05)

    def skip(self, what: str, why: object) -> list[Line]:
        """Nothing was measured."""
        self.skipped.append(f"{what}: {why}")
        return []


@contextmanager
def bed(directory: Path, *, quick: bool) -> Iterator[Bed]:
    """Both clusters, running, with their data in this directory."""
    (directory / "postgresql").mkdir()
    if os.geteuid() == 0:  # PostgreSQL is another user then, who must find its own
        directory.chmod(0o755)
    with (
        replicated_postgres(directory / "postgresql") as (peer, standbys),
        LocalCluster(directory / "cluster", servers=3, bookies=3) as cluster,
        PythonProgram(cluster.bookkeeper_uri, "uvloop") as bookkeeper,
    ):
        with connect(peer) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        made = Bed(directory, cluster, peer, standbys, bookkeeper, quick, [])
        made.await_followers()
        yield made


def write_row(connection: Any) -> None:
    """Change the row of ``prepare_written``."""
    connection.execute("UPDATE written SET n = n + 1 WHERE id = 1")


class Writer:
    """A client that just keeps writing, one row after the other, and notes when each was answered.

    Args:
        connect: makes its connection, which may fail and be tried again.
        write: one row, by that connection.
        lost: what either raises when nobody answers.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        write: Callable[[Any], object] = write_row,
        lost: type[Exception] = OperationalError,
    ) -> None:
        self._connect, self._write, self._lost = connect, write, lost
        self._over = False
        self._error: BaseException | None = None
        self.answered_s = array.array("d")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        self.await_answers(100)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over:
                with contextlib.suppress(self._lost), self._connect() as connection:
                    while not self._over:
                        self._write(connection)
                        self.answered_s.append(time.perf_counter())
        except BaseException as error:  # noqa: BLE001 - the benchmark's own thread raises it
            self._error = error

    def await_answers(self, count: int) -> None:
        """Return when so many more writes were answered than are now."""
        until = time.monotonic() + PATIENCE_S
        wanted = len(self.answered_s) + count
        while len(self.answered_s) < wanted:
            if self._error is not None:
                raise self._error
            if time.monotonic() > until:
                raise SystemExit("no write is answered any more")
            time.sleep(0.005)

    def first_after(self, at_s: float) -> float:
        """When the first write was answered after that."""
        while not self.answered_s or self.answered_s[-1] <= at_s:
            self.await_answers(1)
        return next(one for one in self.answered_s if one > at_s)

    def longest_gap_s(self, since_s: float, until_s: float) -> float:
        """The longest time without an answer between two moments."""
        times = [since_s, *(one for one in self.answered_s if since_s < one < until_s), until_s]
        return max(b - a for a, b in itertools.pairwise(times))


def prepare_written(port: int) -> None:
    """The table of one row that writers change."""
    with connect(port, DATABASE) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (id INT PRIMARY KEY, n BIGINT)")
        connection.execute("DELETE FROM written")
        connection.execute("INSERT INTO written VALUES (1, 0)")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def at_least(line: Line, ratio: float) -> Line:
    """It is to be so many times the peer's."""
    line.wanted, line.met = f">= {ratio:g} of the peer", (line.ratio or 0.0) >= ratio
    return line


def at_most(line: Line, limit: float) -> Line:
    """It is to be below a limit in its own unit."""
    line.wanted, line.met = f"< {limit:g} {line.unit}", line.ours < limit
    return line
