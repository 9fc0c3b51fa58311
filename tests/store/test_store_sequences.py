"""Sequences over commits, kills and changes of the leader: no committed value is ever given again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from herdpy.log import LSN, LoggedTransaction
from herdpy.log.records import Record
from herdpy_server.store import Store, Workspace, flush
from herdpy_server.tablespace.locks import LockTable
from herdpy_server.tablespace.tablespace import Transaction
from herdpy_sql.objects import CatalogObject, SequenceDefinition
from herdpy_sql.sequences import SequenceState

SEEDS = range(40)


@dataclass
class World:
    """Two replicas of a log; one leads. What is committed is in the log at once."""

    path: Path
    rng: random.Random
    log: list[tuple[LSN, list[Record]]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replicas = [Store.open(self.path / name) for name in "ab"]
        self.leads = 0
        workspace = self.workspace()
        one = CatalogObject(1, "public", "s", SequenceDefinition())
        workspace.put_object(one)
        workspace.restart_sequence(one, SequenceState(1, False))
        self.commit(workspace, [])

    @property
    def store(self) -> Store:
        return self.replicas[self.leads]

    def workspace(self):
        return Workspace(self.store, LockTable(), Transaction(instant=True))

    def commit(self, workspace, values: list[int]) -> None:
        workspace.log_sequences()
        lsn = LSN(1, len(self.log))
        self.log.append((lsn, list(workspace.records)))
        token = self.store.push_pending(workspace.layer, workspace.own_catalog)
        self.store.apply(lsn, workspace.records, workspace.layer)
        self.store.pop_pending(token)
        self.committed += values

    def catch_up(self, at: int) -> None:
        store = self.replicas[at]
        for lsn, records in self.log:
            if lsn > store.applied:
                store.apply_logged(lsn, [(lsn, LoggedTransaction(1, records))])

    def change_leader(self) -> None:
        self.leads = 1 - self.leads
        self.catch_up(self.leads)
        self.store.sequence_heads.clear()

    def kill(self) -> None:
        """The leader's process is gone, and what it had in memory; it opens its store again."""
        name = "ab"[self.leads]
        self.store.close()
        self.replicas[self.leads] = Store.open(self.path / name)
        self.catch_up(self.leads)

    def close(self) -> None:
        for store in self.replicas:
            store.close()


def run(path: Path, seed: int) -> list[int]:
    """The committed values of a random history."""
    path.mkdir(parents=True)
    world = World(path, random.Random(seed))
    rng = world.rng
    open_ones: list = []
    for _ in range(60):
        choice = rng.random()
        if choice < 0.45:
            workspace, values = world.workspace(), []
            values += [workspace.nextval("s") for _ in range(rng.randint(1, 3))]
            open_ones.append((workspace, values))
        elif choice < 0.75 and open_ones:
            world.commit(*open_ones.pop(rng.randrange(len(open_ones))))
        elif choice < 0.8 and open_ones:
            open_ones.pop()  # rolled back
        elif choice < 0.9:
            world.store.flush()
        elif choice < 0.95:
            open_ones.clear()
            world.kill()
        else:
            open_ones.clear()
            world.change_leader()
    world.close()
    return world.committed


@pytest.mark.parametrize("seed", SEEDS)
def test_no_committed_value_is_given_again(seed: int, tmp_path: Path):
    values = run(tmp_path / "w", seed)
    assert len(values) == len(set(values)), f"seed {seed}"


def logs_what_it_took_itself(patch: pytest.MonkeyPatch) -> None:
    """The state of the moment is logged when the value is taken, not with the commit."""
    nextval = Workspace.nextval

    def early(self, sequence):
        value = nextval(self, sequence)
        self.put(1, b"", SequenceState(value, True).encode())
        return value

    patch.setattr(Workspace, "nextval", early)


def logs_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Workspace, "log_sequences", lambda self: None)


def forgets_at_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flush, "_sequences", lambda disk, frozen, catalog: disk.sequences)


def keeps_what_it_gave_as_an_earlier_leader(patch: pytest.MonkeyPatch) -> None:

    patch.setattr(World, "change_leader", _stale_change)


def _stale_change(world: World) -> None:
    world.leads = 1 - world.leads
    world.catch_up(world.leads)


@pytest.mark.parametrize(
    "bug",
    [
        logs_what_it_took_itself,
        logs_nothing,
        forgets_at_a_checkpoint,
        keeps_what_it_gave_as_an_earlier_leader,
    ],
    ids=lambda bug: bug.__name__,
)
def test_bugs_put_in_are_seen(bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bug(monkeypatch)
    for seed in SEEDS:
        values = run(tmp_path / str(seed), seed)
        if len(values) != len(set(values)):
            return
    pytest.fail(f"{bug.__name__} was not seen")


def test_a_follower_has_the_leaders_state(tmp_path: Path):
    world = World(tmp_path, random.Random(1))
    workspace = world.workspace()
    assert [workspace.nextval("s") for _ in range(5)] == [1, 2, 3, 4, 5]
    world.commit(workspace, [])
    world.catch_up(1)
    world.replicas[1].flush()
    world.replicas[1].copy(tmp_path / "copy")
    copied = Store.open(tmp_path / "copy")
    for store in (*world.replicas, copied):
        one = store.catalog.objects[1]
        other = Workspace(store, LockTable(), Transaction(instant=True))
        assert other.sequence_state(one) == SequenceState(5, True)
        assert other.nextval("s") == 6
    copied.close()
    world.close()


def test_a_restart_is_undone_with_its_transaction(tmp_path: Path):
    world = World(tmp_path, random.Random(1))
    one = world.store.catalog.objects[1]
    workspace = world.workspace()
    assert workspace.nextval("s") == 1
    mark = workspace.mark()
    workspace.restart_sequence(one, SequenceState(50, False))
    assert workspace.nextval("s") == 50
    workspace.undo(mark)
    assert workspace.nextval("s") == 2
    workspace.restart_sequence(one, SequenceState(90, False))
    assert world.workspace().nextval("s") == 3
    world.commit(workspace, [])
    assert world.workspace().nextval("s") == 90
    world.close()
