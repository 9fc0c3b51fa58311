"""Guards taken out by hand: an error after the step that they are for is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from herdpy.log import LogError
from herdpy.log.bookkeeper.succession import LogTasks
from herdpy.log.file_log import FileLog
from herdpy.log.group_commit import GroupCommit
from herdpy_server.store import Store
from tests.faults.no_return import replicas
from tests.faults.no_return.run import BrokenPromiseError, steps_of, strike
from tests.replica.simulation.history import BrokenPromiseError as BrokenByReplicaError


def goes_on_with_the_list_it_knew(patch: pytest.MonkeyPatch) -> None:
    def change(self: FileLog, state: object) -> None:
        try:
            self._state = self._list.write(state, self._state.version)
        except LogError as error:
            self._refuse(error)
            raise

    patch.setattr(FileLog, "_change_list", change)


def does_not_ask_lmdb(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "_settle", lambda _self: None)


def tells_the_writers_own_error(patch: pytest.MonkeyPatch) -> None:
    broken = GroupCommit._break_down

    def tell(self: GroupCommit, error: BaseException) -> None:
        broken(self, error)
        raise error

    patch.setattr(GroupCommit, "_break_down", tell)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, str, str]] = {
    goes_on_with_the_list_it_knew: ("ledgers_roll_and_go", "replace", "RuntimeError"),
    does_not_ask_lmdb: ("a_checkpoint", "lmdb commit", "MemoryError"),
    tells_the_writers_own_error: ("writes", "_write", "MemoryError"),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_guard_that_is_gone_is_missed(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, step, kind = BUGS[bug]
    bug(monkeypatch)
    taken = [nth for nth, one in enumerate(steps_of(name, tmp_path / "count"), 1) if one.startswith(step)]
    assert taken
    with pytest.raises(BrokenPromiseError):
        _strike_each(taken, lambda nth: strike(name, nth, kind, tmp_path / str(nth)))


def trusts_what_it_applied_by_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "is_spoilt", False)


def does_not_miss_a_task(patch: pytest.MonkeyPatch) -> None:
    ended = LogTasks._ended

    def quiet(self: LogTasks, name: str, task: object) -> None:
        stopped, self._stopped = self._stopped, True
        ended(self, name, task)
        self._stopped = stopped

    patch.setattr(LogTasks, "_ended", quiet)


REPLICA_BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, str, str]] = {
    trusts_what_it_applied_by_half: ("takes_over", "_apply", "MemoryError"),
    does_not_miss_a_task: ("writes_and_rolls", "set < ledger_store.py:write", "cancelled"),
}


@pytest.mark.parametrize(
    "bug",
    [trusts_what_it_applied_by_half, pytest.param(does_not_miss_a_task, marks=pytest.mark.soak)],
    ids=lambda bug: bug.__name__,
)
def test_a_guard_of_replicas_that_is_gone_is_missed(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, step, kind = REPLICA_BUGS[bug]
    bug(monkeypatch)
    taken = [nth for nth, one in enumerate(replicas.steps_of(name), 1) if one.startswith(step)]
    assert taken
    with pytest.raises(BrokenByReplicaError):
        _strike_each(taken, lambda nth: replicas.strike(name, nth, kind))


def _strike_each(taken: list[int], one: Callable[[int], object]) -> None:
    for nth in taken:
        one(nth)
