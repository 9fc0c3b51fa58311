"""A whole embedded database in one thread: a seed decides who goes on, what fails, when power goes.

Real are the sessions, the tablespace, the log, the store and the checkpointer's work. Simulated are
the threads (coroutines, of which the seed picks the next), the log's disk and the clock of locks.
A flush may be interleaved with clients: they go on while it is between two of its steps.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import random
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import lmdb

from herdpy.log import LSN, START, FileLog, LogError, LogSettings, TransactionAssembler, run_blocking
from herdpy.log.wait import Pause, Wait, Work
from herdpy_server.sessions import PlanCache, Session
from herdpy_server.store import NoLocks, Store, Workspace, probe
from herdpy_server.store.apply import AppliedState
from herdpy_server.store.tables import TableOps
from herdpy_server.tablespace import Checkpointer, LockWait, Tablespace
from herdpy_sql.columnar import Limits
from tests.simulation.sim_clients import ACCOUNTS, BALANCE, COUNTERS, SCHEMA, Client, Interrupted
from tests.simulation.sim_disk import Crash, SimDisk
from tests.simulation.sim_history import History, ViolationError

PLANS = PlanCache(2000)
PATIENCE = 5000
MAP_BYTES = 1 << 28


class World:
    """A database, its clients and its disk.

    Args:
        directory: where the store's LMDB lies; it is the one thing that is on a real disk.
        faults: whether the log's disk may fail and power may go.
        trouble: how much more often than usual, as a probability at each step.
    """

    def __init__(
        self, directory: Path, seed: int, *, clients: int = 4, faults: bool = True, trouble: float = 0.0
    ) -> None:
        self.seed = seed
        self.troubles = trouble
        self.rng = random.Random(seed)
        self.faults = faults
        self.history = History()
        self.directory = directory
        self.crashes = 0
        self.steps = 0
        self.flushing = False
        self.trouble = 0
        self.disk = SimDisk(self.rng)
        self.settings = LogSettings(
            preallocate_bytes=8192,
            max_entry_bytes=self.rng.choice([250, 1000, 1 << 20]),
            max_group_bytes=self.rng.choice([300, 5000, 1 << 20]),
            max_ledger_bytes=self.rng.choice([9000, 30000, 1 << 20]),
        )
        self.retention = self.rng.choice([0, 0, 20_000])
        self.follower = Follower(directory / "follower")
        self.clients_wanted = clients
        self.running: list[tuple[Client, Coroutine[Any, Any, None], Wait[Any] | None]] = []
        self._open()
        for statement in SCHEMA:
            self.now(self.session().execute(statement))
        self._new_clients()

    # Opening, crashing, closing.

    def _open(self) -> None:
        self.log = FileLog(
            "/log", lambda a, e: self.tablespace.acknowledge(a, e), files=self.disk, settings=self.settings
        )
        self.store = Store.open(self.directory / "store", map_size_bytes=MAP_BYTES)
        if self.store.durable > self.log.lac:
            raise ViolationError(f"the store is at {self.store.durable}, the log ends at {self.log.lac}")
        self.tablespace = Tablespace(self.log, self.store, contextlib.nullcontext())
        run_blocking(self.tablespace.recover(self.rng.choice([5, 1000])))
        self.checkpointer = Checkpointer(
            self.log, self.store, cadence_s=1, flush_rows=1000, retention_bytes=self.retention
        )
        self._hook_flush()

    def _new_clients(self) -> None:
        self.running = []
        for number in range(self.clients_wanted):
            client = Client(self, number)
            self.running.append((client, client.run(), None))

    def _forget_process(self) -> None:
        """What was in memory is gone."""
        self.disk.dead = True
        for _, coroutine, _ in self.running:
            with contextlib.suppress(Crash, LogError, lmdb.Error):
                coroutine.close()
        self.running = []
        self.store.columns.clear()
        self._abandon_store()

    def _abandon_store(self) -> None:
        """LMDB stays as its last commit left it."""
        self.store.disk.env.close()
        # Without the mark of a store that was closed a process of its own would look at every page
        # first. What damage does to LMDB is tested elsewhere.
        (self.directory / "store" / probe.CLOSED).touch()

    def crash(self) -> None:
        """The process ends without a word, or the machine does; the next one takes over."""
        self.crashes += 1
        self.trouble = 0
        self._forget_process()
        self.disk = self.disk.after_crash(self.rng)
        while True:
            try:
                if self.faults and self.rng.random() < 0.2:
                    self.disk.rate, self.disk.errors = 0.2, (None,)
                self._open()
                break
            except Crash:  # while it recovers: once more
                if hasattr(self, "store"):
                    self._abandon_store()
                self.disk = self.disk.after_crash(self.rng)
        self.disk.rate = 0.0
        self.verify(settle=True)
        self._new_clients()

    # Steps.

    def session(self) -> Session:
        return Session(self.tablespace, PLANS, Limits(memory_bytes=1 << 26, threads=1))

    def now(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine at once, with nothing in between."""
        return run_blocking(coroutine)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of every row that a new reader sees this moment, pending or not."""
        workspace = Workspace(self.store, NoLocks(), None)
        found = workspace.catalog.by_name[table]
        at = [found.positions[column] for column in columns]
        decode = found.row_codec.decode
        return [tuple(row[i] for i in at) for row in map(decode, (v for _, v in workspace.scan(found)))]

    def run(self, steps: int) -> None:
        """Take steps, then end all in good order and check everything."""
        for _ in range(steps):
            try:
                self.step()
            except Crash:
                self.crash()
            if self.log._group._refusal is not None:  # it refuses appends for good: start again
                self.crash()
        self.finish()

    def step(self, *, nested: bool = False) -> None:
        self.steps += 1
        choice = self.rng.random()
        if self.trouble:
            self.trouble -= 1
            if not self.trouble:
                self.disk.rate = 0.0
        elif self.faults and self.troubles and self.rng.random() < self.troubles:
            self.begin_trouble()
        if choice < 0.70:
            self.client_step()
        elif choice < 0.86:
            self.flush_log()
        elif nested:
            return
        elif choice < 0.93:
            self.checkpoint(trim=self.rng.random() < 0.3)
        elif choice < 0.95:
            self.housekeeping()
        elif choice < 0.97:
            self.disturb()
        elif choice < 0.98:
            self.compare_follower()
        elif self.faults and choice < 0.99:
            self.begin_trouble()
        elif self.faults and self.rng.random() < 0.7:
            raise Crash

    def begin_trouble(self) -> None:
        """From now on, for a while, the log's disk fails."""
        self.disk.rate = self.rng.choice([0.05, 0.3])
        self.disk.errors = self.rng.choice([(errno.ENOSPC,), (errno.EIO,), (errno.EIO, errno.ENOSPC, None)])
        self.trouble = self.rng.randrange(3, 15)

    def client_step(self) -> None:
        ready = [at for at, (_, _, wait) in enumerate(self.running) if _is_ready(wait)]
        if not ready:
            if not self.log._group._queue and not self.flushing:
                self.expire_one()
            self.flush_log()
            return
        self.resume(self.rng.choice(ready))

    def expire_one(self) -> None:
        """Nobody can go on and nothing is in flight: only time may still pass."""
        for _, _, wait in self.running:
            if isinstance(wait, LockWait):
                wait.look()
        if any(_is_ready(wait) for _, _, wait in self.running):
            return
        waits = [w for _, _, w in self.running if isinstance(w, LockWait) and w.timeout_s is not None]
        if not waits:
            raise ViolationError("every client waits, for nothing that will happen")
        self.rng.choice(waits).expire()

    def resume(self, at: int, interrupt: BaseException | None = None) -> None:
        client, coroutine, wait = self.running[at]
        if interrupt is None:
            if isinstance(wait, Work | Pause):
                wait.block()
            wait = coroutine.send(None)
        else:
            wait = coroutine.throw(interrupt)
        self.running[at] = (client, coroutine, wait)

    def flush_log(self) -> None:
        """Some thread takes the flusher's role for one group."""
        queue = self.log._group._queue
        if queue:
            queue[0].block()
            self.after_acknowledge()

    def after_acknowledge(self) -> None:
        if (
            self.log.lac != self.store.applied
            and not self.tablespace._pending
            and self.store.applied != START
        ):
            raise ViolationError(f"applied up to {self.store.applied}, but the log confirmed {self.log.lac}")

    def checkpoint(self, *, trim: bool) -> None:
        if self.flushing:
            return
        self.follower.follow(self.log)  # it must have read what is about to be trimmed
        self.flushing = True
        try:
            self.checkpointer.checkpoint(trim=trim)
        except (LogError, lmdb.Error, OSError):
            pass
        finally:
            self.flushing = False

    def housekeeping(self) -> None:
        with contextlib.suppress(LogError, OSError):
            self.rng.choice([self.log.roll, self.log.roll_if_due, self.log.note_lac])()

    def disturb(self) -> None:
        """Time passes for a lock, a statement is cancelled, or its thread interrupted."""
        at = self.rng.randrange(len(self.running))
        client, _, wait = self.running[at]
        choice = self.rng.random()
        if isinstance(wait, LockWait) and choice < 0.2:
            wait.look()
        elif isinstance(wait, LockWait) and wait.timeout_s is not None and choice < 0.4:
            wait.expire()
        elif choice < 0.7:
            client.session.cancel()
        elif wait is not None:
            self.resume(at, Interrupted())

    def _hook_flush(self) -> None:
        """Between the steps of a flush clients go on, LMDB fails, or power goes."""
        disk, rng = self.store.disk, self.rng
        write_meta, renewed = disk.write_meta, disk.renewed

        def before_commit(*args: Any) -> None:
            if self.faults and rng.random() < 0.06:
                raise rng.choice([lmdb.MapFullError, lmdb.DiskError])("injected")
            if self.flushing:
                self.meanwhile()
            write_meta(*args)
            if self.faults and rng.random() < 0.02:
                raise Crash

        def after_commit(reserved: Any = None) -> Any:
            if reserved is None:
                return renewed()
            if self.flushing and rng.random() < 0.05 and self.faults and self.committing:
                raise Crash
            return renewed(reserved)

        disk.write_meta, disk.renewed = before_commit, after_commit  # type: ignore[method-assign]
        original = self.store.apply_entry

        @functools.wraps(original)
        def apply_entry(*args: Any) -> None:
            original(*args)
            if not self.flushing and rng.random() < 0.02:  # the checkpointer's thread comes in between
                with contextlib.suppress(lmdb.Error):
                    self.store.flush()

        self.store.apply_entry = apply_entry  # type: ignore[method-assign]

    committing = True

    def meanwhile(self) -> None:
        self.committing = False
        try:
            for _ in range(self.rng.choice([0, 0, 1, 6])):
                self.step(nested=True)
        finally:
            self.committing = True

    # Checks.

    def compare_follower(self) -> None:
        """What is applied here is, byte for byte, what the log alone makes of an empty store."""
        self.follower.follow(self.log)
        if self.store.applied != self.follower.position and self.store.applied != self.follower.safe:
            raise ViolationError(f"applied {self.store.applied}, a follower {self.follower.position}")
        mine, theirs = dump(self.store), dump(self.follower.store)
        if mine != theirs:
            differ = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
            raise ViolationError(f"a follower differs in {differ}")

    def verify(self, *, settle: bool) -> None:
        """Everything that must hold when nobody is at work."""
        self.compare_follower()
        names = set(self.store.catalog.by_name)
        side = {name for name in names if name.startswith("side")}
        if "op" not in names:
            if self.history.told:
                raise ViolationError("the tables are gone")
            return
        self.history.judge(
            self.rows("op", "id", "part", "parts"),
            side,
            self.rows("journal", "tx", "counter"),
            settle=settle,
        )
        accounts = self.rows("account", "balance")
        if len(accounts) != ACCOUNTS or sum(row[0] for row in accounts) != ACCOUNTS * BALANCE:
            raise ViolationError(f"the accounts hold {accounts}")
        counts = dict(self.rows("counter", "id", "n"))
        logged = [row[0] for row in self.rows("journal", "counter")]
        for counter in range(2 * COUNTERS):
            if counts.get(counter, 0) != logged.count(counter):
                raise ViolationError(
                    f"counter {counter} is {counts.get(counter, 0)}, {logged.count(counter)} added one"
                )
        for name in side:
            if len(self.rows(name, "k")) not in (0, 2):
                raise ViolationError(f"table {name} was filled by half")
        if self.rng.random() < 0.5:
            self.check_store()

    def check_store(self) -> None:
        flushing, self.flushing = self.flushing, True
        faults, self.faults = self.faults, False
        try:
            self.store.flush()
            findings = list(self.store.check())
        finally:
            self.flushing, self.faults = flushing, faults
        if findings:
            raise ViolationError("; ".join(map(str, findings)))
        if dump(self.store) != dump(self.follower.store):
            raise ViolationError("LMDB has something else than the memory that was written to it")

    def finish(self) -> None:
        """No more faults: everybody ends what they are doing, and everything is checked."""
        self.faults, self.disk.rate = False, 0.0
        for at in range(len(self.running)):
            for _ in range(PATIENCE):
                client, coroutine, wait = self.running[at]
                if client.session.transaction is None and not isinstance(wait, LockWait):
                    break
                self.disk.rate = 0.0
                client.session.cancel()
                self.client_step()
                if self.log._group._refusal is not None:
                    self.crash()
            else:
                raise ViolationError("a client never comes to an end")
        while self.log._group._queue:
            self.flush_log()
        for client, coroutine, _ in self.running:
            coroutine.close()
            self.now(client.session.close())
        self.running = []
        self.verify(settle=False)
        if len(self.tablespace.locks):
            locks = self.tablespace.locks
            raise ViolationError(f"locks are held by nobody: {locks._held} {locks._waiting} {locks._locks}")
        if self.tablespace._pending or self.store.memory.transactions or self.store.memory.pending:
            raise ViolationError("something is pending, and nothing is in flight")
        self.check_store()
        self.log.close()
        self.store.close()
        self.disk = self.disk.after_crash(self.rng)
        self._open()
        self.verify(settle=False)
        self.log.close()
        self.store.close()
        self.follower.close()


class Follower:
    """A replica that has nothing but the log, read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path, map_size_bytes=MAP_BYTES)
        self.assembler = TransactionAssembler(START)

    @property
    def position(self) -> LSN:
        return self.assembler.position

    @property
    def safe(self) -> LSN:
        return self.assembler.safe

    def follow(self, log: FileLog) -> None:
        """Apply what the log confirmed since the last time."""

        async def read() -> None:
            async for lsn, entry in log.read(self.assembler.position):
                whole = self.assembler.feed(entry)
                if whole:
                    self.store.apply_entry(lsn, [(transaction.records, None) for _, transaction in whole])

        run_blocking(read())

    def close(self) -> None:
        self.store.close()


def dump(store: Store) -> dict[str, list[tuple[bytes, bytes]]]:
    """Every table and index as applied: keys and values."""
    state, found = AppliedState(store.memory, store.disk), {}
    for table in store.catalog.tables.values():
        ops = TableOps(table)
        found[f"table {table.name} {table.id}"] = list(state.scan(table.id, ops.may_be_long))
        for index in table.indexes:
            long = ops.index(index.id).may_be_long
            found[f"index {index.name} {index.id}"] = list(state.scan(index.id, long))
    return found


def _is_ready(wait: Wait[Any] | None) -> bool:
    return wait is None or wait.done() or isinstance(wait, Work | Pause)


def simulate(directory: Path, seed: int, *, steps: int = 200, **options: Any) -> World:
    """Run one seed; says how to run it again when an invariant does not hold."""
    world = None
    try:
        world = World(directory, seed, **options)
        world.run(steps)
    except BaseException:
        print(f"replay with HERDPY_SEED={seed}")
        raise
    finally:
        if world is not None:
            world._forget_process()
        shutil.rmtree(directory, ignore_errors=True)
    return world
