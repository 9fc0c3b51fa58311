"""What the broker promises, in memory: which tasks live, and what each operation makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from herdpy_broker.submission import Submission


@dataclass
class Living:
    """A task that lives.

    Attributes:
        is_due: its delay is over.
        is_late: its dead-line has passed; None: it has none.
    """

    id: int
    group: str
    priority: int
    slot: str | None
    max_attempts: int
    backs_off: bool
    needs: set[int] = field(default_factory=set)
    holds_slot: bool = False
    is_due: bool = True
    is_late: bool | None = None
    state: str = "ready"
    attempts: int = 0
    worker: int | None = None

    def rest(self) -> None:
        """Take the state of a task that no worker has."""
        self.worker = None
        blocked = self.needs or (self.slot is not None and not self.holds_slot)
        self.state = "blocked" if blocked else "ready" if self.is_due else "delayed"


class Model:
    """The broker.

    Attributes:
        living: living tasks by id.
        dead: reasons of dead letters by id; their tasks are in ``letters``.
        finished: outcomes by id.
    """

    def __init__(self) -> None:
        self.living: dict[int, Living] = {}
        self.dead: dict[int, str] = {}
        self.letters: dict[int, Living] = {}
        self.finished: dict[int, str] = {}
        self.max_running: dict[str, int | None] = {}
        self.paused: set[str] = set()

    # Submission.

    def holder(self, slot: str | None) -> int | None:
        """The task that has a slot."""
        return next((one.id for one in self.living.values() if one.holds_slot and one.slot == slot), None)

    def submit(self, one: int, task: Submission, *, backs_off: bool) -> None:
        """A task was submitted under this id."""
        new = Living(one, task.group, task.priority, task.slot, task.max_attempts or 1, backs_off)
        new.needs = {needed for needed in task.after if needed in self.living}
        new.is_due = task.delay_s == 0
        new.is_late = None if task.deadline_s is None else False
        self._place(new)
        if any(self.finished.get(needed, "done") != "done" or needed in self.dead for needed in task.after):
            self.die([one], "dependency")

    def _place(self, new: Living) -> None:
        new.holds_slot = new.slot is not None and self.holder(new.slot) is None
        self.living[new.id] = new
        new.rest()

    # Work.

    def claim(self, worker: int, group: str, most: int) -> list[int]:
        """The ids that a claim takes, in order."""
        if group in self.paused:
            return []
        limit = self.max_running.get(group)
        if limit is not None:
            running = sum(one.state == "running" and one.group == group for one in self.living.values())
            most = max(0, min(most, limit - running))
        ready = [one for one in self.living.values() if one.state == "ready" and one.group == group]
        in_time = [one for one in ready if not one.is_late]
        taken = sorted(in_time, key=lambda one: (-one.priority, one.id))[:most]
        for one in taken:
            one.state, one.worker = "running", worker
            one.attempts += 1
        return [one.id for one in taken]

    def has(self, worker: int, ids: Iterable[int]) -> bool:
        """Whether a worker has all these tasks."""
        return all(one in self.living and self.living[one].worker == worker for one in ids)

    def finish(self, ids: Iterable[int]) -> None:
        """Tasks are done."""
        gone = [self.living.pop(one) for one in sorted(ids)]
        self.finished |= {one.id: "done" for one in gone}
        self._pass_slots(gone)
        for one in self.living.values():
            if one.needs & {ended.id for ended in gone}:
                one.needs -= {ended.id for ended in gone}
                one.rest()

    def fail(self, one: int, *, may_retry: bool) -> None:
        """An attempt failed."""
        task = self.living[one]
        if not may_retry or task.attempts >= task.max_attempts:
            self.die([one], "failed")
            return
        task.is_due = not task.backs_off
        task.rest()

    def give_up(self, worker: int) -> list[int]:
        """The ids that come back when a worker dies."""
        tasks = [one for one in self.living.values() if one.worker == worker]
        self.die([one.id for one in tasks if one.attempts >= one.max_attempts], "worker died")
        back = [one for one in tasks if one.attempts < one.max_attempts]
        for one in back:
            one.worker, one.state = None, "ready"
        return [one.id for one in back]

    # Time.

    def promote(self) -> int:
        """How many delayed tasks were due."""
        due = [one for one in self.living.values() if one.state == "delayed" and one.is_due]
        for one in due:
            one.state = "ready"
        return len(due)

    def expire(self) -> int:
        """How many were past their dead-lines."""
        late = [one.id for one in self.living.values() if one.is_late and one.state != "running"]
        self.die(late, "deadline")
        return len(late)

    # Ends.

    def cancel(self, one: int) -> None:
        """A living task was cancelled."""
        task = self.living.pop(one)
        self.finished[one] = "cancelled"
        self._not_done([task])

    def retry(self, one: int) -> None:
        """A dead letter was taken up."""
        task = self.letters.pop(one)
        del self.dead[one]
        task.attempts, task.is_due, task.is_late, task.needs = 0, True, None, set()
        self._place(task)

    def discard(self, one: int) -> None:
        """A dead letter was given up."""
        del self.letters[one], self.dead[one]
        self.finished[one] = "dead"

    def die(self, ids: Iterable[int], reason: str) -> None:
        """Tasks die, and all that need them."""
        gone = [self.living.pop(one) for one in sorted(ids)]
        for one in gone:
            self.dead[one.id], self.letters[one.id] = reason, one
        self._not_done(gone)

    def _not_done(self, gone: list[Living]) -> None:
        self._pass_slots(gone)
        ended = {one.id for one in gone}
        dependents = [one.id for one in self.living.values() if one.needs & ended]
        if dependents:
            self.die(dependents, "dependency")

    def _pass_slots(self, gone: Iterable[Living]) -> None:
        for slot in {one.slot for one in gone if one.holds_slot}:
            waiting = [one.id for one in self.living.values() if one.slot == slot and not one.holds_slot]
            if waiting:
                oldest = self.living[min(waiting)]
                oldest.holds_slot = True
                oldest.rest()
