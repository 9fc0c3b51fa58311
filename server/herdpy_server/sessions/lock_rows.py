"""Locks and the sessions that have or await them: the rows of pg_locks, pg_blocking_pids, wait events.

Beside ``system_state``, which queries over the catalog read in the engine's turn. Rows are as PostgreSQL has
them. A transaction has its own number; the first session that waits for a row waits for the number of the
transaction that has it, and has the row's tuple lock meanwhile; later ones wait for that. Locks of rows are
shown where a session waits for them only, as there may be millions; locks of tables, indexes and definitions,
and advisory ones, with all their holders.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from herdpy_server.sessions.advisory import AdvisoryLocks, advisory_rows
from herdpy_server.store.locks import CATALOG_DATABASE
from herdpy_server.tablespace import Transaction
from herdpy_server.tablespace.locks import Lock, LockWait, Owner, Resource
from herdpy_sql.lock_modes import CONFLICTS, TABLE_MODES
from herdpy_sql.objects import FIRST_USER_OID

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.tablespace import Tablespace

_NUMBERS = itertools.count(1000)
_OF_TABLES = {
    mode: "".join(word.title() for word in words.split()) + "Lock" for words, mode in TABLE_MODES.items()
}
_OF_ROWS = ("AccessShareLock", "RowShareLock", "ExclusiveLock", "AccessExclusiveLock")
"""Of tuple locks, by the mode in which the row is requested."""
_CLASSES = 1259


def next_number() -> int:
    """A number that no transaction of this process has."""
    return next(_NUMBERS)


def number_of(transaction: Transaction) -> int:
    """A number for a transaction, which it keeps; as PostgreSQL's transaction ids, of this process alone."""
    if not transaction.xid:
        transaction.xid = next_number()
    return transaction.xid


class LockOwners:
    """Whose the locks of one tablespace are, at one moment."""

    def __init__(self, tablespace: Tablespace, sessions: Iterable[TransactionBlock]) -> None:
        """``sessions``: those there are; others than the tablespace's do not matter."""
        self.tablespace = tablespace
        self.sessions = [one for one in sessions if one.tablespace is tablespace]
        self._of: dict[int, TransactionBlock] = {}
        for session in self.sessions:
            for owner in (session.transaction, session.waits.working, session.advisory):
                if owner is not None:
                    self._of[id(owner)] = session

    def pid(self, owner: Owner) -> int | None:
        """The number of the session that an owner of locks belongs to; None of a server's own work."""
        if isinstance(owner, AdvisoryLocks):
            return owner.session.identity.pid
        session = self._of.get(id(owner))
        return None if session is None else session.identity.pid

    def waits(self) -> Iterator[tuple[Owner, Resource, Lock, LockWait]]:
        """Every owner that waits, in either table."""
        for table in (self.tablespace.locks, self.tablespace.advisory):
            for owner in table.waiters():
                found = table.wait_of(owner)
                if found is not None:
                    yield owner, table.waited_for(owner), *found


def lock_rows(owners: LockOwners, database: str) -> Iterator[Mapping[str, Any]]:
    """Rows of pg_locks of one tablespace; ``database`` is its name."""
    numbered: dict[int, Transaction] = {}
    for row in advisory_rows(owners.tablespace.advisory):
        yield {**row, "locktype": "advisory", "database_name": database}
    for resource, lock in owners.tablespace.locks.locks():
        for row in _rows_of(owners, resource, lock, numbered):
            yield {"database_name": database, **row}
    for transaction in numbered.values():
        pid = owners.pid(transaction)
        number = number_of(transaction)
        yield _row(pid, locktype="transactionid", transactionid=number, mode="ExclusiveLock")
    for session in owners.sessions:
        if session.transaction is not None or session.is_running:
            pid = session.identity.pid
            yield _row(pid, locktype="virtualxid", virtualxid=f"{pid}/1", mode="ExclusiveLock")


def _rows_of(
    owners: LockOwners, resource: Resource, lock: Lock, numbered: dict[int, Transaction]
) -> Iterator[dict[str, Any]]:
    for owner in lock.holders:
        if isinstance(owner, Transaction):
            numbered[id(owner)] = owner
    database_id, key = resource
    if key is not None:
        yield from _waiting_for_row(owners, resource, lock, numbered)
        return
    what: dict[str, Any] = {"locktype": "relation", "relation": FIRST_USER_OID + database_id}
    if database_id == CATALOG_DATABASE:
        what = {"locktype": "object", "classid": _CLASSES, "objid": 0, "objsubid": 0}
    for owner, mask in lock.holders.items():
        for mode, name in _OF_TABLES.items():
            if mask >> mode & 1:
                yield _row(owners.pid(owner), **what, mode=name)
    for owner, wait, mode in lock.queue:
        yield _row(owners.pid(owner), **what, mode=_OF_TABLES[mode], granted=False, waitstart=wait.began_us)


def _waiting_for_row(
    owners: LockOwners, resource: Resource, lock: Lock, numbered: dict[int, Transaction]
) -> Iterator[dict[str, Any]]:
    """The first one waits for a transaction and has the tuple's lock; the others wait for that."""
    database_id, key = resource
    assert key is not None
    place = crc32(key)
    what: dict[str, Any] = {
        "locktype": "tuple",
        "relation": FIRST_USER_OID + database_id,
        "page": place >> 15,
        "tuple": (place & 0x7FFF) or 1,
    }
    if database_id == CATALOG_DATABASE:
        what = {"locktype": "object", "classid": _CLASSES, "objid": place, "objsubid": 0}
    for nth, (owner, wait, mode) in enumerate(lock.queue):
        pid = owners.pid(owner)
        tuple_mode = _OF_ROWS[mode]
        if nth:
            yield _row(pid, **what, mode=tuple_mode, granted=False, waitstart=wait.began_us)
            continue
        yield _row(pid, **what, mode=tuple_mode)
        against = next((one for one in _against(lock, owner, mode) if isinstance(one, Transaction)), None)
        if against is not None:
            numbered[id(against)] = against
            yield _row(
                pid, locktype="transactionid", transactionid=number_of(against), mode="ShareLock",
                granted=False, waitstart=wait.began_us,
            )  # fmt: skip


def _row(pid: int | None, *, granted: bool = True, **more: Any) -> dict[str, Any]:
    return {"pid": pid, "granted": granted, **more}


def _against(lock: Lock, owner: Owner, mode: int) -> list[Owner]:
    """The holders that keep ``owner`` waiting."""
    mine = (owner, owner.partner)
    return [
        one
        for one, mask in lock.holders.items()
        if mask & CONFLICTS[mode] and all(one is not me for me in mine)
    ]


def blockers(owners: LockOwners) -> Mapping[int, Sequence[int]]:
    """By session that waits: the sessions it waits for, as pg_blocking_pids gives them: those that have what
    it wants, and those before it in the queue that want what excludes it. Of rows the tuple's lock is
    between."""
    found: dict[int, Sequence[int]] = {}
    for owner, resource, lock, _wait in owners.waits():
        pid = owners.pid(owner)
        if pid is None:
            continue
        queue = list(lock.queue)
        at = next(at for at, queued in enumerate(queue) if queued[0] is owner)
        mode = queue[at][2]
        is_row = resource[1] is not None and resource[0] >= 0
        ahead = [one for one, _w, its in queue[:at] if is_row or CONFLICTS[mode] >> its & 1]
        held = [] if is_row and ahead else _against(lock, owner, mode)
        pids = [owners.pid(one) for one in (*held, *ahead)]
        found[pid] = list(dict.fromkeys(one for one in pids if one is not None and one != pid))
    return found


def wait_event(session: TransactionBlock) -> tuple[str | None, str | None]:
    """(wait_event_type, wait_event) of a session, named as PostgreSQL names them.

    ``Lock``: tuple, transactionid, relation, object, advisory. ``IO``/``WALSync``: the log's files;
    ``IPC``/``SyncRep``: bookies' acknowledgements. ``IPC``/``LogRoom``: memory, or room in the log.
    ``Extension``/``WorkerSlot``: a free worker process. ``IPC``/``Worker``: the columnar engine.
    ``Client``/``ClientRead``: its next statement.
    """
    if not session.is_running:
        return "Client", "ClientRead"
    waits = session.waits
    if waits.log_since_s:
        return ("IO", "WALSync") if session.tablespace.cluster is None else ("IPC", "SyncRep")
    if waits.lock_wait is not None:
        return "Lock", _lock_event(session)
    if waits.awaits_room:
        return "IPC", "LogRoom"
    interrupt = waits.interrupt
    if interrupt is None:
        return None, None
    return ("Extension", "WorkerSlot") if interrupt.is_queued else ("IPC", "Worker")


def _lock_event(session: TransactionBlock) -> str:
    tablespace, working = session.tablespace, session.waits.working
    if session.advisory is not None and tablespace.advisory.wait_of(session.advisory) is not None:
        return "advisory"
    owner = session.transaction if working is None else working
    if owner is None or (found := tablespace.locks.wait_of(owner)) is None:
        return "object"
    database_id, key = tablespace.locks.waited_for(owner)
    if database_id == CATALOG_DATABASE:
        return "object"
    if key is None:
        return "relation"
    lock, wait = found
    return "transactionid" if lock.queue and lock.queue[0][1] is wait else "tuple"
