"""The tablespaces of a cluster: what each is to be, made and changed by compare-and-set.

Above ``certain`` and ``session``; statements (CREATE, ALTER, DROP TABLESPACE) and every node's replicas are
above. What a statement caused is an ``SqlError``; a change that ZooKeeper leaves
in doubt for too long is 08007.
"""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from herdpy.bookkeeper.errors import Outcome
from herdpy.bookkeeper.metadata.znodes import (
    UNANSWERED,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Znodes,
    ZooKeeperBackoff,
)
from herdpy.formats import NEWEST_LEVEL
from herdpy_server.cluster.certain import change, create_own
from herdpy_server.cluster.layout import DroppedRecord, Layout, Record, decode, encode
from herdpy_server.cluster.level import read_level
from herdpy_server.cluster.names import NAME, NODE_ID
from herdpy_server.cluster.session import watched_records
from herdpy_sql.errors import SqlError

MAX_REPLICAS = 100
MAX_SNAPSHOTS = 1000

_MAX_RETENTION_BYTES = 1 << 60
_MAX_RETENTION_S = 10 * 366 * 86_400.0


class TablespaceInfo(Record, frozen=True, kw_only=True):
    """One tablespace. Its ``format`` is the level of its cluster; a server that lacks it has no replica.

    Attributes:
        uuid: tells it from another of the same name, before or after.
        replicas: the nodes that have one, or are to get one.
        leader: the node that leads when it can, or None.
        ensemble, write_quorum, ack_quorum: of its ledgers.
        strict: whether a ledger with fewer bookies than that is refused.
        retention_bytes: of closed ledgers that are kept although nobody needs them.
        retention_s: for how long the log is kept for a replica that is away.
        snapshot_url: where snapshots are published for readers of the log; empty: nowhere.
        snapshot_interval_s: how often.
        snapshot_keep: how many of the newest stay.
        snapshot_history_s: moments of so long ago stay readable.
        parent, branched: the log that it was restored from, and the position (``ledger:entry``); empty: none.
        dropped: it is being removed; nobody may open it.
    """

    NEWEST: ClassVar[int] = NEWEST_LEVEL

    name: str
    uuid: str
    replicas: tuple[str, ...] = ()
    expected_replicas: int = 3
    leader: str | None = None
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    strict: bool = False
    retention_bytes: int = 256 << 20
    retention_s: float = 86_400.0
    snapshot_url: str = ""
    snapshot_interval_s: float = 3600.0
    snapshot_keep: int = 2
    snapshot_history_s: float = 0.0
    created_us: int = 0
    parent: str = ""
    branched: str = ""
    dropped: bool = False


def validate(info: TablespaceInfo) -> TablespaceInfo:
    """The same, if it makes sense. Raises SqlError 42602 (names), 22023 (values)."""
    if not NAME.fullmatch(info.name):
        raise SqlError(
            "42602",
            f'"{info.name}" is no name of a tablespace',
            hint="Letters, digits, _ and -, at most 63, beginning with a letter or _.",
        )
    for node in (*info.replicas, *([info.leader] if info.leader is not None else [])):
        if not NODE_ID.fullmatch(node):
            raise SqlError("42602", f'"{node}" is no id of a node')
    problem = _problem(info)
    if problem:
        raise SqlError("22023", problem)
    return info


def _problem(info: TablespaceInfo) -> str | None:
    if not 1 <= info.ack_quorum <= info.write_quorum <= info.ensemble <= MAX_REPLICAS:
        return (
            f"1 <= ack quorum <= write quorum <= ensemble <= {MAX_REPLICAS} must hold, and they are "
            f"{info.ack_quorum}, {info.write_quorum} and {info.ensemble}"
        )
    if not 1 <= info.expected_replicas <= MAX_REPLICAS:
        return f"there must be 1 to {MAX_REPLICAS} expected replicas, not {info.expected_replicas}"
    if len(set(info.replicas)) != len(info.replicas):
        return "a node is named twice among the replicas"
    if len(info.replicas) > MAX_REPLICAS:
        return f"there may be {MAX_REPLICAS} replicas at most"
    if info.leader is not None and info.leader not in info.replicas:
        return f'the leader "{info.leader}" is not one of the replicas'
    if not 0 <= info.retention_bytes <= _MAX_RETENTION_BYTES:
        return f"the retention must be from 0 to {_MAX_RETENTION_BYTES} bytes, not {info.retention_bytes}"
    if not 0 <= info.retention_s <= _MAX_RETENTION_S:
        return f"the retention must be from 0 to {_MAX_RETENTION_S:.0f} seconds, not {info.retention_s}"
    if not 1 <= info.snapshot_interval_s <= _MAX_RETENTION_S:
        return (
            f"snapshots may be published every 1 to {_MAX_RETENTION_S:.0f} seconds, "
            f"not every {info.snapshot_interval_s:g}"
        )
    if not 1 <= info.snapshot_keep <= MAX_SNAPSHOTS:
        return f"1 to {MAX_SNAPSHOTS} published snapshots may stay, not {info.snapshot_keep}"
    if not 0 <= info.snapshot_history_s <= _MAX_RETENTION_S:
        return (
            f"the history of snapshots must be from 0 to {_MAX_RETENTION_S:.0f} seconds, "
            f"not {info.snapshot_history_s:g}"
        )
    return None


_PATIENCE_S = 10.0
_BURIED = 1000  # dropped tablespaces that are remembered at most


Change = Callable[[TablespaceInfo], TablespaceInfo]
TablespaceListener = Callable[[str, TablespaceInfo | None], None]


class Tablespaces:
    """Those of one cluster."""

    def __init__(self, znodes: Znodes, layout: Layout, *, patience_s: float = _PATIENCE_S) -> None:
        self._znodes = znodes
        self._layout = layout
        self._patience_s = patience_s
        self._watched = watched_records(znodes, layout.tablespaces, TablespaceInfo, self._notify)
        self._listeners: dict[object, TablespaceListener] = {}

    # -- one

    async def create(self, info: TablespaceInfo) -> TablespaceInfo:
        """Make one; an empty ``uuid`` and ``created_us`` are filled in.

        Raises:
            SqlError: 42710 there is one of that name; 42602, 22023 it makes no sense; 08007, 08001 ZooKeeper.
        """
        try:
            level = await read_level(self._znodes, self._layout)
        except UNANSWERED as error:
            raise SqlError("08001", "ZooKeeper does not answer", detail=str(error)) from error
        info = validate(
            msgspec.structs.replace(
                info,
                format=level,
                uuid=info.uuid or uuids.uuid4().hex,
                created_us=info.created_us or time.time_ns() // 1000,
            )
        )
        data = encode(info)
        path = self._layout.tablespace(info.name).info
        try:
            # The data has the uuid: no other's is equal.
            other = await create_own(
                self._znodes,
                path,
                data,
                lambda found: found == data,
                patience=ZooKeeperBackoff(self._patience_s),
            )
        except UNANSWERED as error:
            raise _in_doubt(f'creating tablespace "{info.name}"', error) from error
        if other is not None:
            raise SqlError("42710", f'tablespace "{info.name}" already exists')
        return info

    async def get(self, name: str) -> TablespaceInfo:
        """Read one. Raises SqlError 42704 (none of that name), 08001 (ZooKeeper does not answer)."""
        self._check_name(name)
        path = self._layout.tablespace(name).info
        try:
            info = decode(TablespaceInfo, path, (await self._znodes.get(path)).data)
        except NoNodeError:
            raise _missing(name) from None
        except UNANSWERED as error:
            raise SqlError("08001", "ZooKeeper does not answer", detail=str(error)) from error
        if info.dropped:
            raise _missing(name)
        return info

    async def alter(self, name: str, function: Change, *, uuid: str | None = None) -> TablespaceInfo:
        """Change one; returns what it is now.

        Args:
            function: what is to be changed. It is applied again when another change came first, so it must
                depend on its argument alone, and change nothing when it is applied to its own result.
            uuid: refuse (42704) when it is another of the same name by now.

        Raises:
            SqlError: as ``create`` and ``get``, and what ``function`` raises.
        """
        return await self._change(name, function, uuid)

    async def _change(self, name: str, function: Change, uuid: str | None = None) -> TablespaceInfo:
        self._check_name(name)
        path = self._layout.tablespace(name).info
        seen = uuid

        def apply(data: bytes) -> bytes:
            nonlocal seen
            before = decode(TablespaceInfo, path, data)
            if seen is None:
                if before.dropped:
                    raise _missing(name)
                seen = before.uuid  # from now on it is this one; it may be dropped by this very change
            elif before.uuid != seen:
                raise _missing(name)
            after = validate(function(before))
            if (after.name, after.uuid, after.created_us) != (before.name, before.uuid, before.created_us):
                raise ValueError("a tablespace's name, uuid and time of creation cannot be changed")
            return data if after == before else encode(after)

        try:
            changed = await change(self._znodes, path, apply, ZooKeeperBackoff(self._patience_s))
        except NoNodeError:
            raise _missing(name) from None
        except UNANSWERED as error:
            raise _in_doubt(f'altering tablespace "{name}"', error) from error
        return decode(TablespaceInfo, path, changed)

    async def drop(self, name: str) -> TablespaceInfo:
        """Mark one as dropped: its replicas close and remove what they have, then one calls ``purge``."""
        return await self._change(name, lambda info: msgspec.structs.replace(info, dropped=True))

    async def purge(self, info: TablespaceInfo) -> None:
        """Remove a dropped one's znodes, the list of its ledgers too; nothing when that was done.

        Its ledgers must have been deleted before: nobody knows of them afterwards. Raises SqlError.
        """
        path = self._layout.tablespace(info.name).info
        patience = ZooKeeperBackoff(self._patience_s)
        while True:
            try:
                found = decode(TablespaceInfo, path, (await self._znodes.get(path)).data)
                if found.uuid != info.uuid:
                    return
                if not found.dropped:
                    raise SqlError("55006", f'tablespace "{info.name}" is not dropped')
                await self._bury(info)
                await self._remove_tree(path)
                return
            except NoNodeError:
                return
            except (NotEmptyError, *UNANSWERED) as error:
                if not await patience.pause():
                    raise _in_doubt(f'removing tablespace "{info.name}"', error) from error

    async def _bury(self, info: TablespaceInfo) -> None:
        """Record it for nodes that are away; the oldest records are deleted."""
        path = self._layout.dropped
        data = encode(DroppedRecord(name=info.name, dropped_us=time.time_ns() // 1000))
        try:
            await self._znodes.create(f"{path}/{info.uuid}", data, make_parents=True)
        except NodeExistsError:
            return
        buried = await self._znodes.children(path)
        if len(buried) > _BURIED:
            found = [(await self._znodes.exists(f"{path}/{uuid}"), uuid) for uuid in buried]
            by_time = [
                (decode(DroppedRecord, path, znode.data).dropped_us, uuid) for znode, uuid in found if znode
            ]
            for _us, uuid in sorted(by_time)[: _BURIED // 2]:
                await self._znodes.delete(f"{path}/{uuid}")

    async def was_dropped(self, uuid: str) -> bool:
        """Whether a tablespace of this uuid was dropped, as far as is still known. Raises SqlError."""
        try:
            return await self._znodes.exists(f"{self._layout.dropped}/{uuid}") is not None
        except UNANSWERED as error:
            raise SqlError("08001", "ZooKeeper does not answer", detail=str(error)) from error

    async def _remove_tree(self, path: str) -> None:
        for name in await self._znodes.children(path):
            try:
                await self._remove_tree(f"{path}/{name}")
            except NoNodeError:
                pass
        await self._znodes.delete(path)

    @staticmethod
    def _check_name(name: str) -> None:
        if not NAME.fullmatch(name):
            raise _missing(name)

    # -- all

    @property
    def known(self) -> Mapping[str, TablespaceInfo]:
        """All, as last heard, the dropped ones too; empty before ``watch``."""
        return self._watched.records

    async def watch(self, listener: TablespaceListener) -> Callable[[], None]:
        """Call the listener with each tablespace that is made, changed or removed (None).

        Returns:
            The function that ends this, once the listener knows all that exist.
        """
        key = object()
        for name, info in self._watched.records.items():
            listener(name, info)
        self._listeners[key] = listener
        self._watched.start()
        await self._watched.complete.wait()
        return lambda: self._listeners.pop(key, None) and None

    def close(self) -> None:
        """Watch no more."""
        self._watched.close()
        self._listeners.clear()

    def _notify(self, name: str, info: TablespaceInfo | None) -> None:
        for listener in tuple(self._listeners.values()):
            listener(name, info)


def _missing(name: str) -> SqlError:
    return SqlError("42704", f'tablespace "{name}" does not exist')


def _in_doubt(what: str, error: Exception) -> SqlError:
    if getattr(error, "outcome", Outcome.UNKNOWN) is Outcome.NOT_DONE:
        return SqlError("08001", f"{what} was not done: ZooKeeper does not answer", detail=str(error))
    return SqlError(
        "08007",
        f"{what}: the outcome is not known, because ZooKeeper did not answer",
        detail=str(error),
        hint="Check the result before you repeat the command.",
        outcome="unknown",
    )
