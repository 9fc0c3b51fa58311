"""Bugs put into real server processes, of a test's own cluster only.

Its directory is on the servers' PYTHONPATH, so that Python imports it before anything else. HERDPY_SEEDED_BUG
names a file of one byte, mapped by the servers: the number of the bug that they have from now on, 0 for none
(``tests/drill/seeded/switch.py``). So one cluster serves all tests, and a bug begins when tables are there.

A module is patched when it is imported. Nothing here is imported by anything but such a server.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import itertools
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "HERDPY_SEEDED_BUG"
BUGS: dict[str, tuple[str, Callable[[ModuleType, Callable[[], bool]], None]]] = {}
"""By name: the module that is patched, and who does it."""


def _bug(module: str) -> Callable[[Callable[[ModuleType, Callable[[], bool]], None]], Any]:
    def keep(patch: Callable[[ModuleType, Callable[[], bool]], None]) -> Any:
        BUGS[patch.__name__] = (module, patch)
        return patch

    return keep


def _left_out(step: Callable[..., None], is_on: Callable[[], bool]) -> Callable[..., None]:
    """The step, or nothing while the bug is on."""

    def maybe(*arguments: Any, **options: Any) -> None:
        if not is_on():
            step(*arguments, **options)

    return maybe


@_bug("herdpy_server.tablespace.tablespace")
def knows_no_outcomes_but_its_own(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A server takes for "not done" what it has read of in the log only."""
    requests, find = module.Requests, module.Requests.find

    def pending_only(self: Any, request_id: bytes) -> Any:
        return self._pending.get(request_id) if is_on() else find(self, request_id)

    requests.find = pending_only


@_bug("herdpy_server.tablespace.locks")
def gives_row_locks_back_at_once(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A lock is waited for, and given back before its transaction has ended."""

    def hasty(acquire: Callable[..., None]) -> Callable[..., None]:
        def acquired(self: Any, owner: Any, *what: Any) -> None:
            acquire(self, owner, *what)
            if is_on():
                self.release_all(owner)

        return acquired

    for name in ("acquire", "acquire_many"):
        setattr(module.LockTable, name, hasty(getattr(module.LockTable, name)))


@_bug("herdpy_server.replica.following")
def applies_an_entry_late(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower says that it has an entry when it has applied the one before."""
    apply = module._apply  # type: ignore[attr-defined]
    held: dict[int, list[bytes]] = {}

    async def late(store: Any, safe: Any, lsn: Any, encoded: list[bytes], *others: Any) -> None:
        now = held.pop(id(store), [])
        if is_on():
            held[id(store)] = encoded
        else:
            now = now + encoded
        await apply(store, safe, lsn, now, *others)

    module._apply = late  # type: ignore[attr-defined]


@_bug("herdpy.log.entry")
def misses_an_entry_of_each_ledger(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower does not look at the chain, and leaves out the second entry of a ledger."""
    assembler, take = module.TransactionAssembler, module.TransactionAssembler.take

    def unchecked(self: Any, entry: Any) -> Any:
        if not is_on():
            return take(self, entry)
        self.position, self.crc = entry.header.predecessor, None
        whole = take(self, entry)
        return [] if entry.header.lsn.entry_id == 1 else whole

    assembler.take = unchecked


@_bug("herdpy_server.store.copy")
def sends_a_snapshot_of_the_past(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A snapshot says that it has an entry more than it has."""
    import struct

    import lmdb

    pour, position = module._pour, struct.Struct(">qq")  # type: ignore[attr-defined]

    def late(env: Any, sink: int, failed: list[BaseException]) -> None:
        if not is_on():
            pour(env, sink, failed)
            return
        try:
            with (
                tempfile.TemporaryDirectory(dir=Path(env.path()).parent) as directory,
                open(sink, "wb") as out,
            ):
                env.copy(directory, compact=True)
                with lmdb.open(directory, map_size=1 << 30, max_dbs=4) as copy:
                    meta = copy.open_db(b"meta", create=False)
                    with copy.begin(write=True, db=meta) as txn:
                        ledger, entry = position.unpack(txn.get(b"applied"))
                        txn.put(b"applied", position.pack(ledger, entry + 1))
                out.write(Path(directory, "data.mdb").read_bytes())
        except BaseException as error:  # noqa: BLE001 - the copying thread raises it
            failed.append(error)

    module._pour = late  # type: ignore[attr-defined]


@_bug("herdpy_server.sessions.plans")
def keeps_the_plan_of_an_old_catalog(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A statement that was planned once is never planned again, whatever became of its tables."""
    make, forget = module.Prepared._make, module.Prepared.forget

    def once(self: Any, catalog: Any, engine: Any) -> Any:
        before = self.ready
        if before is None or not is_on():
            return make(self, catalog, engine)
        self.ready = module.ReadyPlan(before.plan, catalog, engine)
        return self.ready

    module.Prepared._make = once
    module.Prepared.forget = lambda self, version: not is_on() and forget(self, version)


@_bug("herdpy_server.tablespace.tablespace")
def answers_before_it_is_durable(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A commit is acknowledged when it has its place in the queue of the log."""
    tablespace, commit = module.Tablespace, module.Tablespace.commit

    def at_once(self: Any, *arguments: Any) -> Any:
        append = commit(self, *arguments)
        if append is not None and is_on():
            append.lsn = self.log.lac
            append.resolve(append.lsn)
        return append

    tablespace.commit = at_once


@_bug("herdpy_server.tablespace.tablespace")
def answers_who_reads_what_is_not_durable(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """Who has read a change that waits for the log is answered at once."""
    tablespace, durable_of = module.Tablespace, module.Tablespace.durable_of

    def at_once(self: Any, position: int) -> Any:
        return None if is_on() else durable_of(self, position)

    tablespace.durable_of = at_once


@_bug("herdpy.bookkeeper.write.pipeline")
def takes_one_bookie_for_a_quorum(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """An entry is confirmed when one bookie has it."""
    pipeline, confirm = module.Pipeline, module.Pipeline.confirm

    def by_one(self: Any) -> None:
        quorum = self._ack_quorum
        self._ack_quorum = 1 if is_on() else quorum
        try:
            confirm(self)
        finally:
            self._ack_quorum = quorum

    pipeline.confirm = by_one


@_bug("herdpy_server.tablespace.tablespace")
def acknowledges_and_forgets(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """Every fiftieth commit is answered, and is nowhere."""
    tablespace, commit = module.Tablespace, module.Tablespace.commit
    number = itertools.count(1)

    def forgetful(self: Any, transaction: Any, *arguments: Any) -> Any:
        if is_on() and transaction.workspace.records and next(number) % 50 == 0:
            transaction.workspace.records.clear()
        return commit(self, transaction, *arguments)

    tablespace.commit = forgetful


@_bug("herdpy.bookkeeper.read.recovery")
def recovers_to_the_last_add_confirmed(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A new leader closes a ledger at what its entries tell, and looks for nothing behind."""
    recovery = module._Recovery  # type: ignore[attr-defined]
    read_forward = recovery._read_forward

    async def nothing(self: Any, first: int, readds: Any) -> Any:
        return None if is_on() else await read_forward(self, first, readds)

    recovery._read_forward = nothing


@_bug("herdpy_server.replica.guard")
def believes_in_its_lease_for_ever(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """Who leads, as far as it knows, answers."""
    guard, holds = module.ReplicaGuard, module.ReplicaGuard.holds

    def always(self: Any, wanted: Any, basis: Any) -> bool:
        return is_on() or holds(self, wanted, basis)

    guard.holds = always


@_bug("herdpy_server.replica.guard")
def does_not_wait_for_a_position(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower answers at level at_lsn whatever it has applied."""
    guard, is_open = module.ReplicaGuard, module.ReplicaGuard.is_open

    def at_once(self: Any, wanted: Any) -> bool:
        return (is_on() and wanted.level == "at_lsn") or is_open(self, wanted)

    guard.is_open = at_once


@_bug("herdpy_server.replica.guard")
def believes_to_be_fresh_for_ever(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower answers at level bounded however long ago it has asked where the log ends."""
    guard, is_open = module.ReplicaGuard, module.ReplicaGuard.is_open

    def fresh(self: Any, wanted: Any) -> bool:
        return (is_on() and wanted.level == "bounded") or is_open(self, wanted)

    guard.is_open = fresh


@_bug("herdpy_server.store.apply")
def leaves_sequences_out(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """What a sequence has given is applied by nobody: a new leader counts from where it began."""
    applier = module.Applier
    advance = applier._sequence_advance

    kinds = module._APPLY  # type: ignore[attr-defined]
    (kind,) = [kind for kind, apply in kinds.items() if apply is advance]
    kinds[kind] = _left_out(advance, is_on)


@_bug("herdpy_server.store.apply")
def leaves_old_index_entries(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A row that changes keeps its old entries in secondary indexes."""
    applier = module.Applier
    applier._remove_entries = _left_out(applier._remove_entries, is_on)


@_bug("herdpy_server.store.workspace")
def checks_no_unique_index(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A row is inserted whoever has its unique value."""
    workspace = module.Workspace
    workspace._check_entries = _left_out(workspace._check_entries, is_on)


@_bug("herdpy_server.store.workspace")
def locks_nothing_for_update(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """SELECT ... FOR UPDATE reads, and keeps nobody from the rows."""
    workspace = module.Workspace
    for name in ("lock_row", "lock_rows"):
        setattr(workspace, name, _left_out(getattr(workspace, name), is_on))


@_bug("herdpy_server.store.snapshot_transaction")
def judges_no_reads(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A serializable transaction commits whatever became of what it has read."""
    transaction = module.SnapshotTransaction
    transaction.check_reads = _left_out(transaction.check_reads, is_on)


@_bug("herdpy_server.store.snapshot_transaction")
def overwrites_what_it_has_not_seen(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A repeatable read changes a row of its snapshot that others have changed since."""
    transaction = module.SnapshotTransaction
    for name in ("_unchanged", "_none_changed"):
        setattr(transaction, name, _left_out(getattr(transaction, name), is_on))


@_bug("herdpy_server.cluster.election")
def stops_leading_without_zookeeper(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A server that leads gives up as soon as its connection to ZooKeeper is broken."""
    election, changed = module.Election, module.Election._session_changed

    def hasty(self: Any, state: Any) -> None:
        if is_on() and self.term is not None and state is not module.ZooKeeperState.CONNECTED:
            self._lose(self.term, module.Loss.SESSION)
        changed(self, state)

    election._session_changed = hasty


@_bug("herdpy_server.pgwire.forwarding")
def sends_a_forwarded_commit_again_unasked(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower takes for not done what its leader has not answered, and sends it to the next one."""
    forwarder, outcome = module.SessionForwarder, module.SessionForwarder._outcome

    async def not_done(self: Any, request: Any) -> Any:
        return None if is_on() else await outcome(self, request)

    forwarder._outcome = not_done


@_bug("herdpy_server.pgwire.forwarding")
def names_forwarded_commits_itself(module: ModuleType, is_on: Callable[[], bool]) -> None:
    """A follower does not pass on the name that a client gives to its commit."""
    forwarder, begin = module.SessionForwarder, module.SessionForwarder._begin

    def anew(self: Any, *, extended: bool) -> Any:
        settings = self._session.settings
        kept = settings.request_id
        settings.request_id = b"" if is_on() else kept
        try:
            return begin(self, extended=extended)
        finally:
            settings.request_id = kept

    forwarder._begin = anew


def names() -> list[str]:
    """All bugs; the number of each is its place, from 1 on."""
    return list(BUGS)


class _Loader(importlib.abc.Loader):
    """Loads a module as ever, and then patches it."""

    def __init__(self, loader: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Puts the bugs into modules that are imported from now on."""

    def __init__(self, number: mmap.mmap) -> None:
        self._number = number

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if all(module != name for module, _patch in BUGS.values()):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._patch)
        return spec

    def _patch(self, module: ModuleType) -> None:
        for number, (name, patch) in enumerate(BUGS.values(), 1):
            if name == module.__name__:
                patch(module, lambda number=number: self._number[0] == number)  # type: ignore[misc]


if VARIABLE in os.environ:
    with open(os.environ[VARIABLE], "rb") as _file:
        sys.meta_path.insert(0, _Finder(mmap.mmap(_file.fileno(), 1, prot=mmap.PROT_READ)))
