"""Histories of list transactions: by hand, and of tiny databases in memory that really are of their level."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from herdpy.drill.history import ClientOperation, DrillHistory, Json, OperationOutcome

DONE, NOT_DONE, UNKNOWN = OperationOutcome.DONE, OperationOutcome.NOT_DONE, OperationOutcome.UNKNOWN


def txn(
    text: str,
    *,
    process: int = 0,
    at: tuple[float, float] = (0.0, 1.0),
    outcome: OperationOutcome = DONE,
    sees_from_s: float | None = None,
) -> ClientOperation:
    """One transaction: "x+1 x=1,2 y=" appends 1 to x, reads [1, 2] in x and nothing in y."""
    asked: list[Json] = []
    answers: list[Json] = []
    for part in text.split():
        key, sign, value = part[0], part[1], part[2:]
        if sign == "+":
            asked.append(["append", key, int(value)])
            answers.append(["append", key, int(value)])
        else:
            asked.append(["read", key, None])
            answers.append(["read", key, [int(each) for each in value.split(",") if each]])
    return ClientOperation(
        process,
        "txn",
        asked,
        answers if outcome is DONE else None,
        outcome,
        *at,
        details={} if sees_from_s is None else {"sees_from_s": sees_from_s},
    )


def at_once(*texts: str) -> DrillHistory:
    """Transactions of one client each, all under way at the same time."""
    return DrillHistory(txn(text, process=number) for number, text in enumerate(texts))


def one_by_one(*texts: str) -> DrillHistory:
    """Transactions of one client each, each called after the one before had returned."""
    return DrillHistory(
        txn(text, process=number, at=(number, number + 0.5)) for number, text in enumerate(texts)
    )


@dataclass
class _Running:
    """A transaction under way in the tiny database."""

    process: int
    called_s: float
    parts: list[list[Json]]
    answers: list[Json] = field(default_factory=list)
    snapshot: dict[str, int] | None = None
    own: dict[str, list[Json]] = field(default_factory=dict)


class TinyDatabase:
    """Lists in memory. Statements of many clients take turns in virtual time, by the seed.

    "serializable" runs each transaction in one moment; "snapshot" reads what was committed when it began, and
    refuses to append to what has changed since; "read committed" reads what is committed now. Both of those
    refuse to append to a list that another transaction under way has appended to.
    """

    def __init__(
        self, level: str, seed: int, *, clients: int = 6, keys: int = 4, unknown: float = 0.05
    ) -> None:
        self._level = level
        self._dice = random.Random(seed)
        self._clients = clients
        self._keys = [f"k{number}" for number in range(keys)]
        self._unknown = unknown
        self._lists: dict[str, list[Json]] = {key: [] for key in self._keys}
        self._locks: dict[str, int] = {}
        self._count = 0
        self._next_process = clients

    def run(self, transactions: int) -> DrillHistory:
        """That many transactions of random appends and reads, then one that reads everything."""
        made: list[ClientOperation] = []
        turns: list[tuple[float, int, _Running | None]] = []
        for client in range(self._clients):
            heapq.heappush(turns, (self._dice.random(), client, None))
        end_s = 0.0
        while turns:
            now, client, running = heapq.heappop(turns)
            end_s = max(end_s, now)
            if running is None:
                if self._count_begun(made, turns) >= transactions:
                    continue
                running = self._begin(client, now)
            elif not self._step(running):
                made.append(self._end(running, now, NOT_DONE))
                heapq.heappush(turns, (now + 0.2 + self._dice.random(), client, None))
                continue
            if len(running.answers) == len(running.parts):
                outcome = self._commit(running)
                returned = now + self._dice.random() * 0.5
                made.append(self._end(running, returned, outcome))
                following = self._next_process if outcome is UNKNOWN else client
                self._next_process += outcome is UNKNOWN
                heapq.heappush(turns, (returned + 0.2 + self._dice.random(), following, None))
            else:
                heapq.heappush(turns, (now + self._dice.random() * 0.3, client, running))
        last = _Running(self._next_process, end_s + 10, [["read", key, None] for key in self._keys])
        last.answers = [["read", key, list(self._lists[key])] for key in self._keys]
        made.append(self._end(last, end_s + 11, DONE))
        return DrillHistory(sorted(made, key=lambda each: each.returned_s))

    @staticmethod
    def _count_begun(made: list[ClientOperation], turns: list[tuple[float, int, _Running | None]]) -> int:
        return len(made) + sum(running is not None for _, _, running in turns)

    def _begin(self, client: int, now: float) -> _Running:
        parts: list[list[Json]] = []
        for _ in range(self._dice.randrange(1, 5)):
            key = self._dice.choice(self._keys)
            if self._dice.random() < 0.5:
                self._count += 1
                parts.append(["append", key, self._count])
            else:
                parts.append(["read", key, None])
        running = _Running(client, now - self._dice.random() * 0.2, parts)
        if self._level == "snapshot":
            running.snapshot = {key: len(elements) for key, elements in self._lists.items()}
        if self._level == "serializable":
            while len(running.answers) < len(parts):
                assert self._step(running)
        return running

    def _step(self, running: _Running) -> bool:
        """The next statement; False when it is refused."""
        name, key, value = running.parts[len(running.answers)]
        assert isinstance(key, str)
        if name == "append":
            if self._locks.setdefault(key, running.process) != running.process:
                return False
            snapshot = running.snapshot
            if snapshot is not None and snapshot[key] != len(self._lists[key]):
                return False
            running.own.setdefault(key, []).append(value)
            running.answers.append([name, key, value])
            return True
        visible = self._lists[key]
        if running.snapshot is not None:
            visible = visible[: running.snapshot[key]]
        running.answers.append([name, key, [*visible, *running.own.get(key, [])]])
        return True

    def _commit(self, running: _Running) -> OperationOutcome:
        fate = self._dice.random()
        if fate < self._unknown / 2:
            return UNKNOWN
        for key, elements in running.own.items():
            self._lists[key].extend(elements)
        return UNKNOWN if fate < self._unknown else DONE

    def _end(self, running: _Running, now: float, outcome: OperationOutcome) -> ClientOperation:
        self._locks = {key: owner for key, owner in self._locks.items() if owner != running.process}
        asked: list[Json] = [list(part) for part in running.parts]
        answers = list(running.answers) if outcome is DONE else None
        return ClientOperation(running.process, "txn", asked, answers, outcome, running.called_s, now)
