"""The world of a simulated run: a model cluster, its ledgers' histories, and what all programs share."""

from __future__ import annotations

import asyncio
import random

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import DigestType, Entry
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, decode_metadata
from herdpy.bookkeeper.metadata.znodes import NoNodeError
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.testing.model.cluster import ModelCluster
from herdpy.testing.model.network import Delay
from tests.bookkeeper.simulation.history import LedgerHistory

SETTINGS = ClientSettings(
    request_timeout_s=1.0,
    connect_timeout_s=1.0,
    speculative_read_s=0.2,
    long_poll_s=0.5,
    explicit_lac_interval_s=0.2,
    backoff_first_s=0.05,
    backoff_max_s=0.5,
    quarantine_s=3.0,
    zookeeper_timeout_s=4.0,
    max_in_flight_entries=50,
)


class World:
    """All that a run has. `rng` decides its shape, the cluster's own streams the rest."""

    def __init__(self, seed: int, *, most_appends: int, keep_trace: bool, disk_is_lost: bool = False) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed} world")
        rng = self.rng
        self.ensemble_size = rng.choice((1, 2, 3, 3, 3, 4, 5))
        self.write_quorum = rng.randint(min(2, self.ensemble_size), self.ensemble_size)
        self.ack_quorum = rng.randint(1, self.write_quorum)
        if rng.random() < 0.6:
            self.ack_quorum = self.write_quorum // 2 + 1
        # What one bookie alone has acknowledged is lost with its disk.
        self.disk_is_lost = disk_is_lost and self.ack_quorum > 1
        self.digest = rng.choice(list(DigestType))
        self.is_deferred = rng.random() < 0.08
        # Some runs are made for one kind of trouble: a writer that hears of its loss from bookies alone, or
        # many entries half acknowledged when bookies fail.
        self.is_coup = rng.random() < 0.25
        self.is_storm = not self.is_coup and rng.random() < 0.3
        self.most_appends = most_appends
        self.trouble_s = rng.choice((3.0, 8.0, 15.0))
        self.trace: list[str] | None = [] if keep_trace else None
        self.cluster = ModelCluster(
            seed,
            self.ensemble_size + (3 if self.is_storm else rng.randint(0, 3)),
            delay=Delay(
                0.0001,
                rng.choice((0.001, 0.02)),
                late_s=rng.choice((0.1, 2.0)),
                late_share=0.3 if self.is_storm else 0.02,
            ),
            split_share=rng.choice((0.0, 0.2)),
            session_timeout_s=4.0,
            limit_s=self.trouble_s + 600,
        )
        self.ledgers: list[LedgerHistory] = []
        self.violations: list[str] = []
        self.final: dict[int, list[Entry]] = {}
        self._announced = asyncio.Event()
        self.tell(
            f"seed {seed}: E{self.ensemble_size} W{self.write_quorum} A{self.ack_quorum} {self.digest.name}"
            f"{' deferred sync' if self.is_deferred else ''}, {len(self.cluster.bookies)} bookies"
        )

    def now(self) -> float:
        """Virtual seconds."""
        return self.cluster.loop.time()

    def tell(self, what: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.now():10.6f} {what}")

    def client(self, host: str) -> BookKeeper:
        """A client on the host of the calling task."""
        return BookKeeper(
            znodes=self.cluster.znodes(host),
            settings=SETTINGS,
            clock=lambda: 1_700_000_000 + self.now(),
            rng=random.Random(f"{self.seed} {host}"),
        )

    # -- ledgers

    def announce(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerHistory:
        """A writer has a ledger: others may look for it."""
        history = LedgerHistory(
            ledger_id,
            metadata.write_quorum,
            metadata.ack_quorum,
            self.is_deferred,
            self.now,
            self.tell,
        )
        self.ledgers.append(history)
        self._announced.set()
        self.tell(f"ledger {ledger_id} created")
        return history

    async def some_ledger(self, rng: random.Random) -> LedgerHistory:
        """One of the ledgers, once there is one."""
        await self._announced.wait()
        return rng.choice(self.ledgers)

    def common_moment(self) -> float:
        """About when the ledger is recovered, after the beginning."""
        return random.Random(f"{self.seed} recovery").uniform(0, self.trouble_s * 0.6)

    def moment_of_recovery(self, rng: random.Random) -> float:
        """Often the same for several recoverers, so that they meet."""
        common_s = self.common_moment()
        return max(0.0, common_s + rng.choice((0.0, 0.001, 0.05, 1.0)) * rng.uniform(-1, 1))

    def metadata_now(self, ledger_id: int) -> LedgerMetadata | None:
        """What ZooKeeper has, read past all faults."""
        digits = f"{ledger_id:019d}"
        path = f"{self.cluster.root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"
        try:
            znode = self.cluster.zookeeper.tree.get(path)
        except NoNodeError:
            return None
        return decode_metadata(znode.data, znode.ctime_ms)

    # -- what can be checked at once

    def check_durable(self, history: LedgerHistory, entry_id: int) -> None:
        """An entry just acknowledged is on the disks of an ack quorum of its ensemble."""
        metadata = self.metadata_now(history.ledger_id)
        if metadata is None or metadata.state is not LedgerState.OPEN:
            return  # a recoverer may have changed the ensemble, and sees to it by itself
        self._check_copies(history, metadata, entry_id, "acknowledged")

    def check_kept(self, history: LedgerHistory, metadata: LedgerMetadata) -> None:
        """Every entry of the closed ledger is there."""
        for entry_id in range(metadata.last_entry_id + 1):
            self._check_copies(history, metadata, entry_id, "in the closed ledger")

    def _check_copies(
        self, history: LedgerHistory, metadata: LedgerMetadata, entry_id: int, what: str
    ) -> None:
        members = metadata.ensemble_at(entry_id).members
        bookies = [members[index] for index in write_set(entry_id, len(members), metadata.write_quorum)]
        have = [one for one in bookies if self.cluster.bookies[one].holds(history.ledger_id, entry_id)]
        if len(have) < metadata.ack_quorum - self.disk_is_lost and not history.is_deferred:
            history.break_promise(f"entry {entry_id} is {what}, and of {bookies} only {have} have it")

    def check_leftovers(self) -> None:
        """When all clients are closed, only this run and the bookies' registrations have tasks."""
        own = ("main", "registration of")
        left = [task.get_name() for task in asyncio.all_tasks() if not task.get_name().startswith(own)]
        if left:
            self.violations.append(f"closed clients left tasks running: {sorted(left)}")
