"""The cluster's benchmark: how long nobody answers a client that keeps writing, when what leads is gone.

Both sides, three HerdPy servers with bookies and three members of etcd, have the same things done to them in
turn (`FailingSide`). A time runs from the moment at which the leader has ended, stands still, or begins to
hand over, to the next write that the client hears of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Protocol

import psycopg
from cluster_bed import DATABASE, PATIENCE_S, Bed, Writer, at_most, prepare_written
from etcd import DEFAULT_TIMES, TUNED_TIMES, EtcdCluster, EtcdConnection, LostError, etcd_cluster
from measure import Line
from postgresql import connect

import herdpy

_WARM = 100
"""Writes before each fault: the client has found the leader, and its connection is warm."""
_AWAY_S, _QUICK_AWAY_S = 30.0, 10.0
_AFTER_AWAY_S = 5.0
_LEFT_S = 2.0
"""A silent machine comes back so long after another has answered."""


class FailingSide(Protocol):
    """A cluster whose leader can be made to fail."""

    @property
    def writer(self) -> Writer:
        """A client that keeps writing."""

    def settle(self) -> str:
        """Wait until all is well; the name of what leads."""

    def kill(self, leader: str) -> None:
        """SIGKILL; returns when it has ended, so that what it answered was heard before."""

    def start(self, leader: str) -> None:
        """Start it again."""

    @contextmanager
    def silent(self, leader: str) -> Iterator[None]:
        """The leader's machine answers nobody during the block."""

    def hand_over(self, leader: str) -> None:
        """Another is to lead; returns when it does."""


class HerdPySide:
    """Three servers, with three bookies: a server and a bookie are taken for a machine."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed

    @property
    def writer(self) -> Writer:
        """See `FailingSide`: through the driver, which finds the next leader."""
        return Writer(lambda: closing(herdpy.connect(self._bed.cluster.url, autocommit=True)))

    def settle(self) -> str:
        """See `FailingSide`: one machine fails at a time, and the bookie of one that was silent may have to
        register again first.
        """
        self._bed.await_followers()
        self._bed.await_bookies()
        return self._bed.leader

    def kill(self, leader: str) -> None:
        """See `FailingSide`."""
        self._bed.cluster.kill(leader)

    def start(self, leader: str) -> None:
        """See `FailingSide`."""
        self._bed.cluster.start(leader)

    @contextmanager
    def silent(self, leader: str) -> Iterator[None]:
        """See `FailingSide`: the server, and the bookie of its number."""
        names = leader, leader.replace("server", "bookie")
        with ExitStack() as stack:
            for name in names:
                self._bed.cluster.pause(name)
                stack.callback(self._bed.cluster.resume, name)
            yield

    def hand_over(self, leader: str) -> None:
        """See `FailingSide`: ALTER TABLESPACE ... LEADER."""
        target = next(name for name in self._bed.followers if name != leader)
        with connect(self._bed.port(leader), DATABASE) as connection:
            connection.execute(f"ALTER TABLESPACE {DATABASE} LEADER '{target}'")
        until = time.monotonic() + PATIENCE_S
        while self._bed.leader != target:
            if time.monotonic() > until:
                raise SystemExit(f"{target} does not come to lead")
            time.sleep(0.01)

    def forget_preference(self) -> None:
        """No server is preferred as leader any more."""
        with connect(self._bed.ours, DATABASE) as connection:
            connection.execute(f"ALTER TABLESPACE {DATABASE} LEADER NONE")


class EtcdSide:
    """Three members of etcd."""

    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster = cluster

    @property
    def writer(self) -> Writer:
        """See `FailingSide`."""
        return Writer(self.cluster.connect, _put, LostError)

    def settle(self) -> str:
        """See `FailingSide`."""
        return self.cluster.leader

    def kill(self, leader: str) -> None:
        """See `FailingSide`."""
        self.cluster.kill(leader)

    def start(self, leader: str) -> None:
        """See `FailingSide`."""
        self.cluster.start(leader)

    @contextmanager
    def silent(self, leader: str) -> Iterator[None]:
        """See `FailingSide`."""
        self.cluster.pause(leader)
        try:
            yield
        finally:
            self.cluster.resume(leader)

    def hand_over(self, leader: str) -> None:
        """See `FailingSide`."""
        self.cluster.hand_over(leader)


def _put(connection: EtcdConnection) -> None:
    connection.put("written", "1")


def killed_s(side: FailingSide) -> float:
    """kill -9 of the leader, to the next write that is answered."""
    leader = side.settle()
    with side.writer as writer:
        began = time.perf_counter()
        side.kill(leader)
        taken_s = writer.first_after(time.perf_counter()) - began
        side.start(leader)
    return taken_s


def _silent_s(side: FailingSide) -> float:
    """The leader's machine falls silent: the longest time without an answer, until long after."""
    leader = side.settle()
    with side.writer as writer:
        began = time.perf_counter()
        with side.silent(leader):
            silent = time.perf_counter()
            taken_s = writer.first_after(silent + 0.02) - began  # what was sent before may be answered
            time.sleep(_LEFT_S)
    return taken_s


def _handed_over_s(side: FailingSide) -> float:
    """The longest time without an answer around a planned hand-over."""
    leader = side.settle()
    with side.writer as writer:
        began = time.perf_counter()
        side.hand_over(leader)
        writer.await_answers(_WARM)
        return writer.longest_gap_s(began, time.perf_counter())


def measure_failover(bed: Bed) -> list[Line]:
    """Kills of the leader, silent machines and a silent ZooKeeper, beside etcd in the same run."""
    kills, silences = (3, 2) if bed.quick else (50, 10)
    prepare_written(bed.ours)
    with _sides(bed) as (ours, peers):
        lines = _beside(f"kill -9 of the leader to the next commit, of {kills}", killed_s, ours, peers, kills)
        at_most(lines[0], 0.3)
        at_most(lines[1], 0.6)
        silent = _beside(
            f"the leader's machine falls silent, to the next commit, of {silences}",
            _silent_s, ours, peers, silences,
        )  # fmt: skip
        at_most(silent[1], 1.5)
    return [*lines, *silent, *_zookeeper_away(bed, ours)]


def measure_handover(bed: Bed) -> list[Line]:
    """ALTER TABLESPACE ... LEADER: the longest time without an answer to a client that keeps writing."""
    rounds = 2 if bed.quick else 20
    prepare_written(bed.ours)
    with _sides(bed) as (ours, peers):
        try:
            lines = _beside(f"planned hand-over, of {rounds}", _handed_over_s, ours, peers, rounds)
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.SyntaxError) as error:
            return bed.skip("planned hand-over", error)
        ours.forget_preference()
    at_most(lines[0], 0.3)
    return lines


@contextmanager
def _sides(bed: Bed) -> Iterator[tuple[HerdPySide, list[EtcdSide]]]:
    """HerdPy, and etcd with its default times and with shorter ones."""
    with ExitStack() as stack:
        peers = []
        for times in (DEFAULT_TIMES, TUNED_TIMES):
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="etcd-", dir=bed.directory)))
            peers.append(EtcdSide(stack.enter_context(etcd_cluster(directory, times))))
        yield HerdPySide(bed), peers


def _beside(
    what: str,
    measure: Callable[[FailingSide], float],
    ours: FailingSide,
    peers: list[EtcdSide],
    rounds: int,
) -> list[Line]:
    """For each peer the median and the worst, measured in turn; those beside the first peer come first."""
    runs = [[measure(side) for side in (ours, *peers)] for _ in range(rounds)]
    own_s, *others = (list(one) for one in zip(*runs, strict=True))
    lines = []
    for peer, peer_s in zip(peers, others, strict=True):
        name = f"{what}, median; peer: {peer.cluster.times}"
        lines.append(Line(name, median(own_s), "s", median(peer_s), runs=own_s, peer_runs=peer_s))
        lines.append(Line(f"{what}, worst; peer: {peer.cluster.times}", max(own_s), "s", max(peer_s)))
    return lines


def _zookeeper_away(bed: Bed, ours: HerdPySide) -> list[Line]:
    """ZooKeeper is killed, and started again later: the longest time without a commit, before and after."""
    away_s = _QUICK_AWAY_S if bed.quick else _AWAY_S
    ours.settle()
    with ours.writer as writer:
        began = time.perf_counter()
        bed.cluster.kill("zookeeper")
        time.sleep(away_s)
        returns = time.perf_counter()
        bed.cluster.start("zookeeper")
        back = time.perf_counter()
        writer.first_after(back)
        time.sleep(_AFTER_AWAY_S)
        over = time.perf_counter()
    away = Line(f"ZooKeeper away for {away_s:g} s, longest without a commit", 0.0, "s")
    away.ours = writer.longest_gap_s(began, returns)
    back_line = Line(
        "ZooKeeper comes back, longest without a commit", writer.longest_gap_s(returns, over), "s"
    )
    return [at_most(away, 1.0), at_most(back_line, 1.0)]
