"""The world of a simulated run: a model cluster, a few nodes that would lead, a few that follow.

``CrashingZnodes`` is a session that ends its node in the middle of a change: before ZooKeeper has it,
or after, when the reply is on its way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.log import LSN
from herdpy.log.bookkeeper import LeaderLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.testing.model import ModelCluster, ModelZnodes
from herdpy.testing.model.network import Delay
from herdpy.testing.model.zookeeper import ModelWatch
from tests.log_bookkeeper.simulation.history import History

PATH = "/herdpy/tablespaces/t/ledgers"
CLIENT = ClientSettings(
    request_timeout_s=1.0,
    connect_timeout_s=1.0,
    speculative_read_s=0.2,
    long_poll_s=0.5,
    explicit_lac_interval_s=0.1,
    backoff_first_s=0.05,
    backoff_max_s=0.5,
    quarantine_s=3.0,
    zookeeper_timeout_s=4.0,
)


class CrashingZnodes(ModelZnodes):
    """Counts changes; at the one that ``crash_in`` counts down to, its node crashes."""

    crash_in = 0
    crash_after = False
    on_crash: Callable[[], None] | None = None

    def _deliver(self, watch: ModelWatch) -> None:
        if not self._closed:
            super()._deliver(watch)

    async def _change(self, action: Callable[[], Any]) -> Any:
        self.crash_in -= 1
        if self.crash_in != 0 or self.on_crash is None:
            return await super()._change(action)
        if self.crash_after:
            await super()._change(action)
        self._loop.call_soon(self.on_crash)
        await asyncio.sleep(1)  # the process is gone; whoever waits here is cancelled with it
        raise ClosedClientError


class World:
    """All that a run has."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        rng = self.rng = random.Random(f"{seed} log world")
        self.trace: list[str] | None = [] if keep_trace else None
        quorums = rng.choice(((3, 3, 2), (3, 3, 2), (3, 2, 2), (2, 2, 1), (2, 2, 2), (4, 3, 2), (1, 1, 1)))
        self.trouble_s = rng.choice((2.0, 5.0, 10.0))
        self.settings = LedgerLogSettings(
            ensemble=quorums[0],
            write_quorum=quorums[1],
            ack_quorum=quorums[2],
            strict=rng.random() < 0.2,
            max_entry_bytes=rng.choice((150, 400, 1 << 20)),
            max_in_flight=rng.choice((1, 2, 4)),
            enough_transactions=random.Random(f"{seed} gathering").choice((1, 2, 8)),
            commit_delay_s=random.Random(f"{seed} pacing").choice((0.0, 0.004, 0.05)),
            max_ledger_bytes=rng.choice((300, 1500, 5000, 1 << 20)),
            max_ledger_age_s=rng.choice((0.3, 1.0, 3600.0)),
            write_patience_s=rng.choice((0.5, 3.0, 10.0)),
            read_patience_s=3.0,
            ownership_s=rng.choice((1.5, 5.0, 15.0)),
            follow_interval_s=2.0,
        )
        self.cluster = ModelCluster(
            seed,
            max(quorums[0], 3) + rng.randint(0, 2),
            delay=Delay(0.0001, rng.choice((0.001, 0.02)), late_s=rng.choice((0.1, 1.0)), late_share=0.02),
            session_timeout_s=rng.choice((1.5, 4.0)),
            limit_s=self.trouble_s + 900,
        )
        self.history = History(self.now, self.tell)
        self.epoch = 0
        self.leaders: list[LeaderLog] = []
        self.tell(f"seed {seed}: {'-'.join(map(str, quorums))}, {self.settings}")

    def now(self) -> float:
        """Virtual seconds."""
        return self.cluster.loop.time()

    def tell(self, what: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.now():10.6f} {what}")

    def reported(self, log: LeaderLog) -> LSN:
        """What a leader, or who was one, reports to followers."""
        return log.lac

    def client(self, host: str, life: int = 0) -> tuple[BookKeeper, CrashingZnodes]:
        """A client on the host of the calling task."""
        znodes = CrashingZnodes(self.cluster.zookeeper, host, timeout_s=self.cluster.session_timeout_s)
        bk = BookKeeper(
            znodes=znodes,
            settings=CLIENT,
            clock=lambda: 1_700_000_000 + self.now(),
            rng=random.Random(f"{self.seed} {host} {life}"),
        )
        return bk, znodes

    def ledger_list(self, bk: BookKeeper) -> ZnodeLedgerList:
        """The list, through this client."""
        return ZnodeLedgerList(bk.znodes, PATH, chunk_ledgers=3)
