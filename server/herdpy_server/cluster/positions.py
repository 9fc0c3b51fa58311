"""What each replica has, published in ZooKeeper, and how far the log may be trimmed.

Above ``certain``. A replica tells its state and position (``Reports``); the leader reads all
of them when it wants to trim (``read_needs``, ``claim_trim``); nobody watches them, so they cost a write a
second for each replica whose position moves, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    NoNodeError,
    Znodes,
    ZooKeeperBackoff,
    ZooKeeperState,
)
from herdpy.log.lsn import LSN, START
from herdpy_server.cluster.certain import GivenUpError, change, create_own, delete_own, put
from herdpy_server.cluster.layout import (
    PositionRecord,
    R,
    ReaderRecord,
    ReplicaRecord,
    TablespacePaths,
    TrimRecord,
    decode,
    encode,
)
from herdpy_server.cluster.session import ZooKeeperSession


def trim_floor(
    checkpoint: LSN,
    replicas: Collection[str],
    present: Collection[str],
    positions: Mapping[str, PositionRecord],
    readers: Iterable[ReaderRecord],
    *,
    retention_s: float,
    now_us: int,
) -> LSN:
    """The last entry that nobody needs: the ledgers that end at it or before it may go.

    It is not past the leader's durable checkpoint; nor past the durable position of any replica of the
    tablespace that is there or was within the retention window, nor past the oldest moment that such a one
    keeps; nor past the position of a reader whose lease has not expired. A replica that has published no
    position yet, or that was away for longer, is seeded from another's snapshot; the seeding holds a lease as
    a reader. Evidence does not follow the log.

    Args:
        checkpoint: the leader's: all up to it is durable in its store.
        replicas: the nodes that have a replica (``TablespaceInfo.replicas``).
        present: those of them that are there now, however long ago they published a position.
        retention_s: the window, in seconds.
        now_us: the leader's clock. A position that another's clock puts in the future is within the window.
    """
    needed = [checkpoint]
    for node, position in positions.items():
        if node not in replicas or position.kept:
            continue
        if node in present or now_us - position.seen_us <= retention_s * 1e6:
            floor = position.floor
            needed.append(position.durable if floor is None else min(floor, position.durable))
    needed.extend(one.lsn for one in readers if one.entries and one.expires_us > now_us)
    return min(needed)


_log = logging.getLogger("herdpy.cluster")

REPORT_S = 1.0
"""How often a position that moves is published; a state that changes is published at once."""
KEEP_S = 5.0
"""How often the position that trimming keeps is written; also when it has not moved, for the time in it."""
_PATIENCE_S = 5.0
_RETRY_S = 0.5


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Reports:
    """One replica's reports: an ephemeral one for operators, a persistent one for trimming.

    Attributes:
        kept: why the replica is evidence; empty: it is not. Published with the next :meth:`keep_now`.
        renew: called before the position is published, to :meth:`report` what it is then.
        floor: gives the position after which the replica needs the log; None: its durable one.
    """

    def __init__(
        self,
        znodes: Znodes,
        session: ZooKeeperSession,
        paths: TablespacePaths,
        node: str,
        instance: str,
        *,
        report_s: float = REPORT_S,
        keep_s: float = KEEP_S,
    ) -> None:
        self._znodes = znodes
        self._session = session
        self._node = node
        self._info_path = paths.info
        self._replica_path = f"{paths.replicas}/{node}"
        self._position_path = f"{paths.positions}/{node}"
        self._report_s = report_s
        self._keep_s = keep_s
        self._instance = instance
        self._now = ReplicaRecord(node=node, instance=instance, state="starting")
        self._written: ReplicaRecord | None = None
        self._written_in = 0  # session
        self._kept_at_s = -1e9
        self.kept = ""
        self.renew: Callable[[], object] = lambda: None
        self.floor: Callable[[], LSN | None] = lambda: None
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._watch = session.on_change(self._session_changed)

    def start(self) -> None:
        """Tell from now on."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="replica's reports")

    def report(
        self,
        state: str,
        applied: LSN,
        durable: LSN,
        lag_entries: int = 0,
        problem: str = "",
        unfit: str = "",
    ) -> None:
        """What the replica is, and has: applied, and durable in its own store. Cheap: call it often.

        Args:
            problem: what an operator should see to; empty: nothing.
            unfit: why it should not lead; empty: it may.
        """
        before = self._now
        self._now = ReplicaRecord(
            node=self._node,
            instance=self._instance,
            state=state,
            applied=applied,
            durable=durable,
            lag_entries=lag_entries,
            problem=problem,
            unfit=unfit,
        )
        if self._now != before:
            self._changed.set()
            if (state, problem, unfit) != (before.state, before.problem, before.unfit):
                self._urgent.set()

    def moved(self) -> None:
        """The position alone is another: :attr:`renew` is called in time. Cheaper than :meth:`report`."""
        self._changed.set()

    async def keep_now(self) -> None:
        """Write the durable position now (before closing, or before a reader's lease is given up).

        Raises:
            ZooKeeperUnavailableError, SessionExpiredError: it may not be written.
        """
        durable, floor = self._now.durable, self.floor()
        record = PositionRecord(durable=durable, seen_us=now_us(), kept=self.kept, floor=floor)
        data, patience = encode(record), ZooKeeperBackoff(_PATIENCE_S)
        await put(self._znodes, self._position_path, data, within=self._info_path, patience=patience)
        self._kept_at_s = asyncio.get_running_loop().time()

    async def close(self, *, forget: bool = False) -> None:
        """Tell no more; the replica's znode goes. ``forget``: it will not come back, keep nothing for it."""
        self._watch.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        try:
            async with asyncio.timeout(_RETRY_S):
                if forget:
                    await self._delete(self._position_path)
                elif self._written is not None and self._written.durable != START:
                    await self.keep_now()
                await self._delete(self._replica_path)
        except (BookKeeperError, NoNodeError, TimeoutError) as error:
            _log.info(
                "replica's report not removed", extra={"path": self._replica_path, "reason": str(error)}
            )

    async def _delete(self, path: str) -> None:
        try:
            await self._znodes.delete(path, ANY_VERSION)
        except NoNodeError:
            pass

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.CONNECTED:
            self._changed.set()
            self._urgent.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self.renew()
                self._urgent.clear()
                self._changed.clear()
                await self._write_record()
                if loop.time() - self._kept_at_s >= self._keep_s and self._now.durable != START:
                    await self.keep_now()
                wait_s = self._report_s
            except ClosedClientError:
                return
            except (BookKeeperError, GivenUpError, NoNodeError) as error:
                _log.info("position not reported", extra={"path": self._replica_path, "reason": str(error)})
                self._written_in = 0
                wait_s = _RETRY_S
            await self._pause(self._urgent, wait_s)
            await self._pause(self._changed, max(self._kept_at_s + self._keep_s - loop.time(), 0.0))

    async def _pause(self, event: asyncio.Event, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await event.wait()
        except TimeoutError:
            pass

    async def _write_record(self) -> None:
        record, number = self._now, self._session.number
        if record == self._written and self._written_in == number:
            return
        data = encode(msgspec.structs.replace(record, updated_us=now_us()))
        if self._written_in != number:
            await self._make(data, number)
        else:
            try:
                await self._znodes.set(self._replica_path, data, ANY_VERSION)
            except NoNodeError:
                await self._make(data, number)
        self._written, self._written_in = record, number

    async def _make(self, data: bytes, number: int) -> None:
        """Make the znode in this session; another's under this node's id is a former session's."""
        while True:
            other = await create_own(
                self._znodes,
                self._replica_path,
                data,
                lambda found: found == data,
                ephemeral=True,
                within=self._info_path,
                wanted=lambda: self._session.number == number,
            )
            if other is None:
                return
            await delete_own(self._znodes, self._replica_path, other.data.__eq__)


@dataclass(frozen=True, slots=True)
class Needs:
    """Who has what, and needs what, of one tablespace's log."""

    replicas: dict[str, ReplicaRecord] = field(default_factory=dict)
    positions: dict[str, PositionRecord] = field(default_factory=dict)
    readers: dict[str, ReaderRecord] = field(default_factory=dict)


async def read_needs(znodes: Znodes, paths: TablespacePaths) -> Needs:
    """Read it now; for operators too.

    Raises:
        MalformedMetadataError: something cannot be understood, so nothing may be trimmed.
        ZooKeeperUnavailableError: it cannot be read.
    """
    return Needs(
        await _records(znodes, paths.replicas, ReplicaRecord),
        await _records(znodes, paths.positions, PositionRecord),
        await _records(znodes, paths.readers, ReaderRecord),
    )


async def applied_positions(znodes: Znodes, paths: TablespacePaths) -> list[LSN]:
    """What replicas have applied, as far as they have published it. Errors as ``read_needs``."""
    replicas, positions = await asyncio.gather(
        _records(znodes, paths.replicas, ReplicaRecord), _records(znodes, paths.positions, PositionRecord)
    )
    return [*(one.applied for one in replicas.values()), *(one.durable for one in positions.values())]


async def _records(znodes: Znodes, path: str, kind: type[R]) -> dict[str, R]:
    try:
        names = await znodes.children(path)
    except NoNodeError:
        return {}
    found = await asyncio.gather(*(znodes.exists(f"{path}/{name}") for name in names))
    return {
        name: decode(kind, f"{path}/{name}", znode.data)
        for name, znode in zip(names, found, strict=True)
        if znode is not None
    }


async def claim_trim(
    znodes: Znodes,
    paths: TablespacePaths,
    checkpoint: LSN,
    replicas: Collection[str],
    *,
    retention_s: float,
    now: int | None = None,
) -> LSN:
    """The last entry that nobody needs, after telling every later reader that it is gone.

    The leader calls this before it trims. It writes the floor into ``trim`` first and reads the needs again
    after that; a reader writes its lease first and reads ``trim`` after that. Whichever comes second sees the
    other, so no reader believes to hold what is deleted. Raises as ``read_needs`` and ``certain.change``.
    """

    async def floor() -> LSN:
        needs = await read_needs(znodes, paths)
        return trim_floor(
            checkpoint,
            replicas,
            needs.replicas,
            needs.positions,
            needs.readers.values(),
            retention_s=retention_s,
            now_us=now_us() if now is None else now,
        )

    announced = await floor()
    await _raise_trim(znodes, paths, announced)
    return min(announced, await floor())  # what was freed meanwhile is announced by the next claim


async def force_trim(znodes: Znodes, paths: TablespacePaths, before: LSN) -> None:
    """Tell every replica and reader that what is at or before ``before`` goes, whoever still needs it.

    Raises as ``certain.change``.
    """
    await _raise_trim(znodes, paths, before)


async def _raise_trim(znodes: Znodes, paths: TablespacePaths, before: LSN) -> None:
    def apply(data: bytes) -> bytes:
        now = decode(TrimRecord, paths.trim, data)
        return data if now.before >= before else encode(TrimRecord(before=before))

    patience = ZooKeeperBackoff(_PATIENCE_S)
    first = encode(TrimRecord(before=before))
    made = await create_own(
        znodes, paths.trim, first, lambda data: data == first, within=paths.info, patience=patience
    )
    if made is not None:
        await change(znodes, paths.trim, apply, patience)


async def trimmed_before(znodes: Znodes, paths: TablespacePaths) -> LSN:
    """The floor as last claimed; START when nothing was."""
    znode = await znodes.exists(paths.trim)
    return START if znode is None else decode(TrimRecord, paths.trim, znode.data).before
