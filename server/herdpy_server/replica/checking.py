"""Comparing the replicas of a tablespace: CHECK TABLESPACE.

Between ``base`` and ``replica``. The leader appends a mark to the log. Every replica that applies the mark,
the leader too, holds the state of that moment fast and computes checksums of it in a thread, while it goes on
applying; each tells its own in ZooKeeper. What the majority has is the verdict, which the leader appends to
the log. A replica that applies a verdict and has found something else about the same mark differs: it is
quarantined, and seeded anew; but one that has more rows than the majority is kept, for an operator to decide.
A leader that differs steps down by that.

Both are ``TablesChecksum`` records whose first item has table id 0, the number of the check, and MARK or
VERDICT; after it a verdict has the checksums.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import lmdb
import msgspec

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import NoNodeError
from herdpy.log import LogError, TablesChecksum
from herdpy.log.lsn import LSN
from herdpy_server.cluster.certain import GivenUpError as RepeatingGivenUpError
from herdpy_server.cluster.certain import put
from herdpy_server.cluster.positions import read_needs
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.open_replica import OpenReplica
from herdpy_server.store.check import Sum, SumsGivenUpError, lower_priority, names, sums
from herdpy_server.tablespace import sql_error
from herdpy_server.tablespace.cluster import Checked, Remark
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

T = TypeVar("T")

MARK, VERDICT = 0, 1
_KEPT = 4
_LOOK_S = 0.1
_PATIENCE_S = 30.0
_ANSWER_PATIENCE_S = 5.0


class _ReplicaSums(msgspec.Struct, frozen=True):
    """What a replica has found, as ZooKeeper has it."""

    node: str
    lsn: tuple[int, int]
    sums: tuple[tuple[int, int, str], ...]
    format: int = 1


class _Found(NamedTuple):
    lsn: LSN
    sums: tuple[Sum, ...]
    names: Mapping[int, str]


@dataclass
class _Check:
    """One that this replica leads."""

    path: str
    answered: asyncio.Event = field(default_factory=asyncio.Event)


class ReplicaChecker:
    """Of one replica, whatever store it has.

    Args:
        differs: called when it differs from the others.
        differs_and_has_more: the same, and it has rows that they have not.
    """

    def __init__(
        self,
        replica: ReplicaBase,
        differs: Callable[[str], object],
        differs_and_has_more: Callable[[str], Awaitable[object]],
    ) -> None:
        self._replica = replica
        self._differs = differs
        self._differs_and_has_more = differs_and_has_more
        self._root = replica.host.coordination.layout.tablespace(replica.info.name).info + "/checks"
        self._found: dict[int, asyncio.Task[_Found | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leads: dict[int, _Check] = {}
        self._checking = False

    def attach(self, opened: OpenReplica) -> None:
        """Look at what is applied to this store from now on."""
        self._found.clear()
        opened.store.on_checksum = lambda record: self._applied(opened, record)

    # What every replica does.

    def _applied(self, opened: OpenReplica, record: TablesChecksum) -> None:
        """A record was applied, and nothing after it yet."""
        if not record.checksums or record.checksums[0][0] != 0:
            return
        _zero, number, kind = record.checksums[0]
        if kind == MARK:
            while len(self._found) >= _KEPT:
                del self._found[next(iter(self._found))]
            with contextlib.suppress(SqlError):  # the store is being closed: it is not compared any more
                self._found[number] = self._task(self._find(opened, number))
        elif kind == VERDICT and number in self._found:
            verdict = tuple(Sum(*one) for one in record.checksums[1:])
            self._task(self._compare(opened, number, self._found[number], verdict))

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name="check")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _find(self, opened: OpenReplica, number: int) -> Coroutine[Any, Any, _Found | None]:
        """Hold the state of now, and find its sums; the state is held when this returns."""
        ended = threading.Event()
        leave = opened.uses.enter(ended.set)
        snapshot, lsn = opened.store.applied_snapshot()

        async def find() -> _Found | None:
            executor = ThreadPoolExecutor(1, "herdpy-check", lower_priority)
            try:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(executor, sums, snapshot, ended)
            except SumsGivenUpError:
                return None
            except (lmdb.Error, ValueError) as error:
                if self._replica.opened is opened:
                    self._differs(f"its state cannot be read: {error}")
                return None
            finally:
                executor.shutdown(wait=False)
                named = names(snapshot.catalog)
                snapshot.close()
                leave()
            await self._report_sums(number, lsn, found)
            return _Found(lsn, tuple(found), named)

        return find()

    async def _report_sums(self, number: int, lsn: LSN, found: Sequence[Sum]) -> None:
        path = self._path(number)
        node = self._replica.host.node
        rows = tuple((one.relation, one.rows, f"{one.checksum:016x}") for one in found)
        sums = _ReplicaSums(node, lsn, rows)
        try:
            znodes = self._replica.host.bk.znodes
            await put(znodes, f"{path}/{node}", msgspec.json.encode(sums), within=path)
        except NoNodeError:
            pass  # nobody waits for it any more
        except (BookKeeperError, RepeatingGivenUpError) as error:
            logger.warning("the result of a check could not be reported", extra={"reason": str(error)})

    async def _compare(
        self, opened: OpenReplica, number: int, finding: asyncio.Task[_Found | None], verdict: tuple[Sum, ...]
    ) -> None:
        found = await finding
        if found is None or found.sums == verdict:
            return
        wrong = sorted({one.relation for one in set(found.sums) ^ set(verdict)})
        named = ", ".join(found.names.get(relation, str(relation)) for relation in wrong)
        if number in self._leads:  # the statement is answered first: its session ends with the state
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ANSWER_PATIENCE_S):
                    await self._leads[number].answered.wait()
        if self._replica.opened is not opened:
            return
        reason = f"it differs from the other replicas at {found.lsn}, in {named}"
        if _has_more(found.sums, verdict):
            await self._differs_and_has_more(f"{reason}, and has rows that they have not")
        else:
            self._differs(reason)

    def _path(self, number: int) -> str:
        return f"{self._root}/{number:016x}"

    # What the leader does.

    async def check(self) -> Checked:
        """Compare all replicas that are there.

        Raises:
            SqlError: 25006 this one does not lead, 55006 a check is under way, 08006... the log.
            BookKeeperError: ZooKeeper does not answer.
        """
        replica = self._replica
        opened = replica.opened
        if replica.state is not ReplicaState.LEADING or opened is None:
            raise replica.guard.refusal("CHECK TABLESPACE")
        if self._checking:
            raise SqlError("55006", f'tablespace "{replica.info.name}" is being checked already')
        number = secrets.randbits(63)
        self._leads[number] = check = _Check(self._path(number))
        self._checking = True
        try:
            await self._clear()
            await replica.host.bk.znodes.create(check.path, b"{}", make_parents=True)
            expected = await self._expected()
            await self._append(opened, [(0, number, MARK)])
            reported = await self._collect(number, check.path, expected)
            return await self._judge(opened, number, reported, expected)
        finally:
            with contextlib.suppress(BookKeeperError):
                await self._clear()
            self._checking = False
            loop = asyncio.get_running_loop()
            loop.call_later(_LOOK_S, check.answered.set)
            loop.call_later(2 * _ANSWER_PATIENCE_S, self._leads.pop, number, None)

    async def declare(self) -> None:
        """What this replica has is right, whatever others have: an operator's word. Who applies the log from
        here on and differs is quarantined.

        Raises:
            SqlError: as ``check``.
        """
        opened = self._replica.opened
        if self._replica.state is not ReplicaState.LEADING or opened is None:
            raise self._replica.guard.refusal("CHECK TABLESPACE")
        number = secrets.randbits(63)
        await self._append(opened, [(0, number, MARK)])
        found = await self._found[number]
        if found is None:
            raise SqlError("57P01", "the replica was closed while it was summed up")
        await self._append(opened, [(0, number, VERDICT), *found.sums])

    async def _append(self, opened: OpenReplica, checksums: list[tuple[int, int, int]]) -> None:
        try:
            await opened.tablespace.log_checksum(TablesChecksum(checksums))
        except LogError as error:
            raise sql_error(error) from error

    async def _expected(self) -> set[str]:
        """The nodes whose replicas follow, and this one."""
        replica = self._replica
        paths = replica.host.coordination.layout.tablespace(replica.info.name)
        needs = await read_needs(replica.host.bk.znodes, paths)
        follow = {one.node for one in needs.replicas.values() if one.state == ReplicaState.FOLLOWING.value}
        return {replica.host.node, *(follow & set(replica.info.replicas))}

    async def _collect(self, number: int, path: str, expected: set[str]) -> dict[str, _ReplicaSums]:
        """What the replicas tell, until all have, or those that are late have had their time."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        until_s: float | None = None
        reported: dict[str, _ReplicaSums] = {}
        while True:
            for node in await self._replica.host.bk.znodes.children(path):
                if node not in reported:
                    znode = await self._replica.host.bk.znodes.get(f"{path}/{node}")
                    reported[node] = msgspec.json.decode(znode.data, type=_ReplicaSums)
            if expected <= set(reported):
                return reported
            if until_s is None and self._found[number].done():
                until_s = loop.time() + 3 * (loop.time() - began_s) + _PATIENCE_S
            if until_s is not None and loop.time() > until_s:
                return reported
            if self._replica.state is not ReplicaState.LEADING:
                raise self._replica.guard.refusal("CHECK TABLESPACE")
            await asyncio.sleep(_LOOK_S)

    async def _judge(
        self, opened: OpenReplica, number: int, reported: Mapping[str, _ReplicaSums], expected: set[str]
    ) -> Checked:
        found = await self._found[number]
        named = {} if found is None else found.names
        remarks = []
        absent = sorted((expected | set(self._replica.info.replicas)) - set(reported))
        if absent:
            remarks.append(Remark("WARNING", "01000", f"not compared: the replicas on {', '.join(absent)}"))
        counts = Counter(one.sums for one in reported.values())
        most, count = counts.most_common(1)[0] if counts else ((), 0)
        if 2 * count > len(reported):
            verdict = [(relation, rows, int(checksum, 16)) for relation, rows, checksum in most]
            await self._append(opened, [(0, number, VERDICT), *verdict])
            remarks += [
                _remark(node, _has_more(one.sums, most))
                for node, one in sorted(reported.items())
                if one.sums != most
            ]
        elif len(counts) > 1:
            remarks.append(
                Remark("WARNING", "XX001", "the replicas differ, and there is no majority for one state")
            )
        logger.info(
            "checked",
            extra={"tablespace": self._replica.info.name, "nodes": len(reported), "states": len(counts)},
        )
        return Checked(_rows(reported, named, most if 2 * count > len(reported) else None), remarks)

    async def _clear(self) -> None:
        """Remove what checks have reported; of earlier leaders' too."""
        znodes = self._replica.host.bk.znodes
        with contextlib.suppress(NoNodeError):
            for name in await znodes.children(self._root):
                path = f"{self._root}/{name}"
                for node in await znodes.children(path):
                    await znodes.delete(f"{path}/{node}")
                await znodes.delete(path)


def _has_more(found: Sequence[tuple[int, int, object]], verdict: Sequence[tuple[int, int, object]]) -> bool:
    """Whether a replica has more rows of anything than most have: then they may be what was lost."""
    counts = {relation: rows for relation, rows, _checksum in verdict}
    return any(rows > counts.get(relation, 0) for relation, rows, _checksum in found)


def _remark(node: str, has_more: bool) -> Remark:
    text = f"the replica on {node} differs: it is quarantined, and made anew"
    if has_more:
        text = (
            f"the replica on {node} differs, and has rows that the others have not: it is"
            " quarantined and unchanged until an operator decides"
        )
    return Remark("WARNING", "XX001", text)


def _rows(
    reported: Mapping[str, _ReplicaSums],
    named: Mapping[int, str],
    right: tuple[tuple[int, int, str], ...] | None,
) -> list[tuple[str, str, int, str, bool]]:
    """(table or index, node, rows, checksum, whether it is as it should be), ordered."""
    of_nodes = {node: {one[0]: one[1:] for one in found.sums} for node, found in reported.items()}
    wanted = None if right is None else {one[0]: one[1:] for one in right}
    relations = {relation for found in of_nodes.values() for relation in found}
    rows = []
    for relation in relations:
        values = [found.get(relation, (0, "")) for found in of_nodes.values()]
        for node, found in of_nodes.items():
            count, checksum = found.get(relation, (0, ""))
            if wanted is None:
                same = len(set(values)) == 1
            else:
                same = (count, checksum) == wanted.get(relation, (0, ""))
            rows.append((named.get(relation, str(relation)), node, count, checksum, same))
    return sorted(rows)
