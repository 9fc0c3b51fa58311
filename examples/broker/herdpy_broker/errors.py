"""What the broker's functions raise besides the driver's own errors.

Layer 0 of the broker. A ``BrokerError`` is raised before anything is changed, or after what was changed has
been rolled back: nothing is half done.
"""

from __future__ import annotations

from collections.abc import Sequence


class BrokerError(Exception):
    """What was requested cannot be done, and nothing was changed."""


class InvalidValueError(BrokerError, ValueError):
    """An argument is outside of its limits, or is no JSON."""


class SchemaError(BrokerError):
    """The broker's tables are of a version that this program does not know."""


class SlotTakenError(BrokerError):
    """A living task holds the slot already.

    Attributes:
        slot: the slot.
        holder: the id of the task that holds it.
    """

    def __init__(self, slot: str, holder: int) -> None:
        super().__init__(f"slot {slot!r} is held by task {holder}")
        self.slot = slot
        self.holder = holder


class TaskLostError(BrokerError):
    """Tasks are not this worker's any more: they were given back, cancelled, or finished before.

    Attributes:
        ids: the tasks that are lost, ascending.
    """

    def __init__(self, worker_id: int, ids: Sequence[int]) -> None:
        named = ", ".join(map(str, ids[:10])) + (" ..." if len(ids) > 10 else "")
        super().__init__(f"worker {worker_id} has lost task {named}")
        self.ids = tuple(ids)


class WorkerLostError(BrokerError):
    """The worker's row is gone: it was not seen for its lease, and its tasks were given back."""

    def __init__(self, worker_id: int) -> None:
        super().__init__(f"worker {worker_id} was given up")
        self.worker_id = worker_id


class NoSuchTaskError(BrokerError):
    """No task has this id, or its history was forgotten, or its state does not allow what was requested."""

    def __init__(self, task_id: int, what: str = "there is no task {}") -> None:
        super().__init__(what.format(task_id))
        self.task_id = task_id


class NoSuchTypeError(BrokerError):
    """No type of tasks has this name: ``types.define`` makes one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no type {name!r}: define it first")
        self.name = name


class NoSuchScheduleError(BrokerError):
    """No schedule has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.name = name


class TaskFailedError(BrokerError):
    """A task whose result was awaited has none: it was cancelled, or is among the dead letters.

    Attributes:
        task_id: the task.
        reason: "cancelled", or the reason of its dead letter.
        error: what its last attempt raised, where there was one.
    """

    def __init__(self, task_id: int, reason: str, error: str | None) -> None:
        super().__init__(f"task {task_id} has no result ({reason})" + (f": {error}" if error else ""))
        self.task_id = task_id
        self.reason = reason
        self.error = error
