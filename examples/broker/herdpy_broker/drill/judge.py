"""Judges what a broker did with the tasks that clients submitted: from their answers and a last look.

Layer 4 of the broker, of its drill: pure functions over a history. Operations, their arguments and results:

    submit [task, ...] -> [id, ...], or false when a slot was taken; a task is {key, slot, waits, after,
        batch, deadline, fails}: `after` has keys, `fails` the attempts that raise
    claim [worker, group, most] -> [[id, key, attempt, fails], ...]
    finish [worker, [[id, key, attempt], ...]] -> true, or false: one was not the worker's any more
    fail [worker, id, key, attempt] -> true or false
    cancel [id, key] -> true, or false when it did not live;  retry [id, key] -> true or false
    over [] -> {effects: [[key, id, attempt, worker, began_s, ended_s], ...],
                finished: [[id, outcome, key or null], ...],
                dead: [[id, key, reason, attempts, max_attempts], ...], left: [[id, key, state], ...]}

A key is given to one task of a history. An effect is a row that a worker writes in the transaction that
finishes its task; its times are those of the machine's monotonic clock, which `over` has among its details.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

MONOTONIC = "monotonic_s"
"""In the details of `over`: the machine's monotonic clock when it was called, seconds."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one attempt left behind; `began_s` and `ended_s` are seconds since the history's start."""

    id: int
    attempt: int
    worker: int
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class End:
    """A row that a task has at the end. state: done, cancelled, dead, or "living" when it has not ended."""

    id: int
    state: str
    reason: str = ""
    attempts: int = 0
    max_attempts: int = 0


@dataclass(slots=True)
class JudgedTask:
    """One task that was submitted: the operations on it, and what was found of it at the end."""

    key: int
    spec: dict[str, Any]
    submitted: ClientOperation
    ends: list[End] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    operations: list[ClientOperation] = field(default_factory=list)

    @property
    def is_seen(self) -> bool:
        """Whether anything shows that it was there."""
        return bool(self.ends or self.effects or any(one.name == "claim" for one in self.operations))

    @property
    def state(self) -> str:
        """In one word; "lost" when it has no row."""
        return self.ends[0].state if self.ends else "lost"

    @property
    def was_refused(self) -> bool:
        """Whether its submitter knows that it is not there."""
        return self.submitted.final is OperationOutcome.NOT_DONE or self.submitted.result is False

    @property
    def is_acknowledged(self) -> bool:
        """Whether its submitter knows that it is there."""
        return self.submitted.final is OperationOutcome.DONE and self.submitted.result is not False

    def of(self, name: str) -> list[ClientOperation]:
        """The operations of that name on it."""
        return [one for one in self.operations if one.name == name]

    def may_have(self, name: str) -> bool:
        """Whether an operation of that name may have had an effect on it."""
        return any(_may_be_done(one) for one in self.of(name))

    def anomaly(self, kind: str, text: str, *others: ClientOperation) -> Anomaly:
        """With the task's operations."""
        return Anomaly(kind, f"task {self.key} {text}", [self.submitted, *self.operations, *others])


def check(history: DrillHistory) -> list[Verdict]:
    """Judge everything that the broker promises, one verdict for each promise.

    Raises: HistoryError: an operation is not as described above, or a key was given twice.
    """
    broker = _BrokerHistory(history)
    looked = "" if broker.look is not None else " (what there was at the end was not read)"
    done = sum(task.state == "done" for task in broker.tasks.values())
    dead = sum(task.state == "dead" for task in broker.tasks.values())
    counts = f"{len(broker.tasks)} tasks submitted, {done} done, {dead} dead letters{looked}"
    slots = {task.spec.get("slot") for task in broker.tasks.values()} - {None}
    batches = [one for one in history.of("submit") if len(_list(one.arguments)) > 1]
    after = [task for task in broker.tasks.values() if task.spec.get("after")]
    return [
        Verdict.of("tasks", _tasks(broker), counts),
        Verdict.of("slots", _slots(broker), f"{len(slots)} slots"),
        Verdict.of("batches", _batches(broker, batches), f"{len(batches)} batches"),
        Verdict.of("dependencies", _dependencies(broker, after), f"{len(after)} tasks that need others"),
    ]


class _BrokerHistory:
    """A history, sorted by task. look: the last "over", called when all had ended; None: there is none.

    strange: operations and rows that name what nobody submitted.
    """

    def __init__(self, history: DrillHistory) -> None:
        self.tasks: dict[int, JudgedTask] = {}
        self.strange: list[Anomaly] = []
        self._keys: dict[int, int] = {}  # of ids
        for one in history.of("submit"):
            self._submitted(one)
        for one in history.of("claim", "finish", "fail", "cancel", "retry"):
            self._operated(one)
        self.look = _last_look(history)
        if self.look is not None:
            self._looked(self.look)

    def _submitted(self, one: ClientOperation) -> None:
        specs = _list(one.arguments)
        ids: list[Any] = one.result if isinstance(one.result, list) else [None] * len(specs)
        for spec, task_id in zip(specs, ids, strict=True):
            key = int(spec["key"])
            if key in self.tasks:
                raise HistoryError(f"task {key} is submitted twice")
            self.tasks[key] = JudgedTask(key, spec, one)
            if task_id is not None:
                self._keys[task_id] = key

    def _operated(self, one: ClientOperation) -> None:
        for task_id, key in _named(one):
            task = self.tasks.get(key)
            if task is None:
                text = f"process {one.process} has task {key} (id {task_id}), which nobody submitted"
                self.strange.append(Anomaly("unexpected task", text, [one]))
                continue
            task.operations.append(one)
            self._keys[task_id] = key

    def _looked(self, look: ClientOperation) -> None:
        rows = look.result
        if not isinstance(rows, dict):
            raise HistoryError(f"the end is an object, not {rows!r}")
        offset_s = float(look.details.get(MONOTONIC) or 0.0) - look.called_s  # type: ignore[arg-type]
        for key, task_id, attempt, worker, began_s, ended_s in _list(rows["effects"]):
            if (task := self._task(task_id, key, look)) is not None:
                task.effects.append(Effect(task_id, attempt, worker, began_s - offset_s, ended_s - offset_s))
        for task_id, key, reason, attempts, most in _list(rows["dead"]):
            self._ended(key, End(task_id, "dead", reason, attempts, most), look)
        for task_id, key, _state in _list(rows["left"]):
            self._ended(key, End(task_id, "living"), look)
        for task_id, outcome, key in _list(rows["finished"]):
            self._ended(key, End(task_id, outcome), look)

    def _ended(self, key: int | None, end: End, look: ClientOperation) -> None:
        if (task := self._task(end.id, key, look)) is not None:
            task.ends.append(end)

    def _task(self, task_id: int, key: int | None, look: ClientOperation) -> JudgedTask | None:
        key = self._keys.get(task_id) if key is None else key
        task = None if key is None else self.tasks.get(key)
        if task is None:
            text = f"there is task {key} (id {task_id}), which nobody submitted"
            self.strange.append(Anomaly("unexpected task", text, [look]))
        return task


# Each task is done once, or dead for a reason, or cancelled.


def _tasks(broker: _BrokerHistory) -> Iterator[Anomaly]:
    yield from broker.strange
    for task in broker.tasks.values():
        yield from _claims(task)
        if task.is_seen and task.was_refused:
            yield task.anomaly("undone submit", "is there, and its submission was refused")
        if broker.look is not None:
            yield from _rows(task, broker.look)
            yield from _acknowledged(task, broker.look)
            if task.state == "dead":
                yield from _deaths(broker, task, broker.look)


def _claims(task: JudgedTask) -> Iterator[Anomaly]:
    """A retry counts the attempts anew."""
    if task.may_have("retry"):
        return
    attempts: dict[int, ClientOperation] = {}
    for one in task.of("claim"):
        for claimed in _list(one.result):
            if claimed[1] != task.key:
                continue
            if claimed[2] in attempts:
                yield task.anomaly("claimed twice", f"was given to two workers as attempt {claimed[2]}")
            attempts[claimed[2]] = one


def _rows(task: JudgedTask, look: ClientOperation) -> Iterator[Anomaly]:
    """What the rows of one task say together."""
    ids = {end.id for end in task.ends} | {effect.id for effect in task.effects}
    states = [end.state for end in task.ends]
    if len(ids) > 1:
        yield task.anomaly("submitted twice", f"is there as ids {sorted(ids)}", look)
    elif len(states) > 1:
        yield task.anomaly("two ends", f"is {' and '.join(sorted(states))}", look)
    if not states and task.is_acknowledged:
        yield task.anomaly("lost task", "was submitted, and is nowhere", look)
    if "living" in states:
        yield task.anomaly("not ended", "has not ended", look)
    if len(task.effects) > 1:
        yield task.anomaly("done twice", f"has {len(task.effects)} effects", look)
    if task.effects and "done" not in states:
        yield task.anomaly("effect without its finish", f"has an effect, and is {task.state}", look)
    if not task.effects and "done" in states:
        yield task.anomaly("finish without its effect", "is done, and has no effect", look)


def _acknowledged(task: JudgedTask, look: ClientOperation) -> Iterator[Anomaly]:
    """What its worker and its canceller know of the end."""
    effects = {(effect.id, effect.attempt, effect.worker) for effect in task.effects}
    for one in task.of("finish"):
        worker, named = _list(one.arguments)
        own = {(task_id, attempt, worker) for task_id, key, attempt in named if key == task.key}
        if _is_done(one) and not own <= effects:
            yield task.anomaly("lost finish", "was finished, and its effect is not there", look)
        elif not _may_be_done(one) and own & effects:
            yield task.anomaly("undone finish", "has the effect of a finish that was refused", look)
    if any(map(_is_done, task.of("cancel"))) and task.state != "cancelled":
        yield task.anomaly("lost cancel", f"was cancelled, and is {task.state}", look)
    if task.state == "cancelled" and not task.may_have("cancel"):
        yield task.anomaly("unexpected cancel", "is cancelled, and nobody cancelled it", look)


def _deaths(broker: _BrokerHistory, task: JudgedTask, look: ClientOperation) -> Iterator[Anomaly]:
    """Whether a dead letter has the cause that its reason names."""
    end = task.ends[0]
    needs = [broker.tasks[key] for key in task.spec.get("after") or () if key in broker.tasks]
    has_cause = {
        "failed": bool(task.spec.get("fails")),
        "deadline": bool(task.spec.get("deadline")),
        "worker died": end.attempts >= end.max_attempts,
        "dependency": any(one.state != "done" or one.may_have("retry") for one in needs),
    }
    if not has_cause.get(end.reason):
        text = f"is dead after {end.attempts} of {end.max_attempts} attempts, without cause: {end.reason}"
        yield task.anomaly("dead without cause", text, look)


# Slots, batches, dependencies.


def _slots(broker: _BrokerHistory) -> Iterator[Anomaly]:
    """No two tasks hold a slot at once.

    A task that was done certainly held its slot while its last attempt ran; one that did not wait for it,
    from the answer to its submission on.
    """
    held: dict[str, list[tuple[float, float, JudgedTask]]] = defaultdict(list)
    for task in broker.tasks.values():
        slot = task.spec.get("slot")
        if slot is None or len(task.effects) != 1:
            continue
        begin_s = task.effects[0].began_s
        if task.is_acknowledged and not task.spec.get("waits"):
            begin_s = min(begin_s, task.submitted.returned_s)
        held[slot].append((begin_s, task.effects[0].ended_s, task))
    for slot, spans in held.items():
        spans.sort(key=lambda span: span[:2])
        last_s, last = float("-inf"), None
        for begin_s, end_s, task in spans:
            if last is not None and begin_s < last_s:
                text = f"and task {last.key} held slot {slot} at once"
                yield task.anomaly("slot held twice", text, last.submitted, *last.operations)
            if end_s > last_s:
                last_s, last = end_s, task


def _batches(broker: _BrokerHistory, batches: Iterable[ClientOperation]) -> Iterator[Anomaly]:
    """All tasks of a batch are there, or none is."""
    if broker.look is None:
        return
    for one in batches:
        tasks = [broker.tasks[int(spec["key"])] for spec in _list(one.arguments)]
        missing = [str(task.key) for task in tasks if not task.is_seen]
        if 0 < len(missing) < len(tasks):
            text = f"of a batch of {len(tasks)} tasks those of key {', '.join(missing)} are missing"
            yield Anomaly("torn batch", text, [one, broker.look])


def _dependencies(broker: _BrokerHistory, after: Iterable[JudgedTask]) -> Iterator[Anomaly]:
    """A task begins when all that it needs are done."""
    if broker.look is None:
        return
    for task in after:
        for needed in (broker.tasks[key] for key in task.spec["after"] if key in broker.tasks):
            for effect in task.effects:
                if needed.state != "done":
                    text = f"is done, and task {needed.key}, which it needs, is {needed.state}"
                    yield task.anomaly("done without what it needs", text, needed.submitted, broker.look)
                elif any(one.ended_s > effect.began_s for one in needed.effects):
                    text = f"began before task {needed.key}, which it needs, was done"
                    yield task.anomaly("begun too early", text, needed.submitted, broker.look)


# How operations are read.


def _last_look(history: DrillHistory) -> ClientOperation | None:
    """The last "over" that was called when everything else had ended, or been given up."""
    end_s = max((one.returned_s for one in history if one.name != "over"), default=float("-inf"))
    looks = [one for one in history.of("over") if _is_done(one) and one.called_s > end_s]
    return max(looks, key=lambda one: one.called_s, default=None)


def _is_done(one: ClientOperation) -> bool:
    """Whether it certainly had its effect."""
    return one.final is OperationOutcome.DONE and one.result is not False


def _may_be_done(one: ClientOperation) -> bool:
    """Whether it had its effect, or may have had."""
    return one.final is not OperationOutcome.NOT_DONE and one.result is not False


def _named(one: ClientOperation) -> list[tuple[int, int]]:
    """Ids and keys of the tasks that an operation is about."""
    match one.name:
        case "claim":
            found = _list(one.result) if _is_done(one) and one.result is not None else []
        case "finish":
            found = _list(_list(one.arguments)[1])
        case "fail":
            found = [_list(one.arguments)[1:3]]
        case _:
            found = [_list(one.arguments)]
    return [(int(task[0]), int(task[1])) for task in found]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise HistoryError(f"a list is expected, not {value!r}")
    return value
