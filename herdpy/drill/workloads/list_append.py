"""Lists over several keys: transactions append to some and read others, and so show what they saw of each
other.

A list is a text that is appended to. The first half of the keys is used by plain transactions, which are held
to their isolation level. Every transaction on the second half locks what it reads (FOR UPDATE), so that
together they must be strictly serializable whatever the level is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdpy.drill.checkers import list_append, read_levels
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import PROMISES, Numbers, Workload, fill

_KEYS = 5
_PER_KEY = 60
_GENERATIONS = 100
_LOCKED = 1_000_000
"""Keys from here on are those of locking transactions."""

Step = list[Any]


class ListAppend(Workload):
    """Transactions of one to four steps on five keys of each half; after some hundred on five others."""

    name = "list-append"
    summary = "transactions that append to lists and read others; no anomaly that their isolation forbids"
    has_levels = True

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._elements = Numbers()
        self._begun = Numbers(0)

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (k INTEGER PRIMARY KEY, v TEXT NOT NULL)")
        for first in (0, _LOCKED):
            keys = range(first, first + _KEYS * _GENERATIONS)
            fill(client, self.table, (f"{key}, ''" for key in keys))

    def step(self, client: Client) -> None:
        """A transaction, or a query of several keys, or one statement alone."""
        random = client.random
        keys = self._keys(random.random() < 0.5)
        chance = random.random()
        if chance < 0.3:
            self._look(client, sorted(random.sample(keys, random.randint(1, len(keys)))))
        elif chance < 0.45:
            self._append_alone(client, random.choice(keys))
        else:
            self._transaction(client, [self._step(client, keys) for _ in range(random.randint(1, 4))])

    def finish(self, client: Client) -> None:
        """Read every key that was in use."""
        last = (self._generation(next(self._begun)) + 1) * _KEYS
        for first in range(0, last, _KEYS):
            for base in (first, _LOCKED + first):
                self._look(client, list(range(base, base + _KEYS)), now=True)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See the module. A query of several keys shows the log at one position, at every level."""
        promise = PROMISES[self.isolation]
        plain = list_append.check(
            history.where(lambda each: not _locks(each.arguments)), level=promise, real_time=True
        )
        locked = list_append.check(history.where(lambda each: _locks(each.arguments)))
        plain.name = f"{plain.name} ({promise})"
        locked.name = f"{locked.name} (with locks)"
        return [plain, locked, read_levels.check(history)]

    def _keys(self, locked: bool) -> list[int]:
        first = self._generation(next(self._begun)) * _KEYS + (_LOCKED if locked else 0)
        return list(range(first, first + _KEYS))

    def _generation(self, number: int) -> int:
        return number // (2 * _KEYS * _PER_KEY) % _GENERATIONS

    def _step(self, client: Client, keys: Sequence[int]) -> Step:
        key = client.random.choice(keys)
        return ["append", key, next(self._elements)] if client.random.random() < 0.5 else ["read", key, None]

    def _look(self, client: Client, keys: list[int], *, now: bool = False) -> None:
        """One statement that reads several keys: it must show one state."""

        def work(session: ClientSession) -> list[Step]:
            places = ", ".join(["%s"] * len(keys))
            rows = session.execute(f"SELECT k, v FROM {self.table} WHERE k IN ({places})", *keys).rows
            found = {int(key): _parsed(value) for key, value in rows}
            return [["read", key, found[key]] for key in keys]

        arguments = [["read", key, None] for key in keys]
        (client.read_now if now else client.read)("txn", arguments, work, query=True)

    def _append_alone(self, client: Client, key: int) -> None:
        element = next(self._elements)
        arguments: list[Step] = [["append", key, element]]

        def work() -> list[Step]:
            self._append(client.session, key, element)
            return arguments

        client.attempt("txn", arguments, work)

    def _transaction(self, client: Client, arguments: list[Step]) -> None:
        lock = " FOR UPDATE" if _locks(arguments) else ""

        def work() -> list[Step]:
            return [self._do(client.session, step, lock) for step in arguments]

        appends = any(step[0] == "append" for step in arguments)
        client.attempt(
            "txn", arguments, lambda: client.transaction(work), changes=appends, isolation=client.isolation
        )

    def _do(self, session: ClientSession, step: Step, lock: str) -> Step:
        kind, key, element = step
        if kind == "append":
            self._append(session, key, element)
            return step
        ((value,),) = session.execute(f"SELECT v FROM {self.table} WHERE k = %s{lock}", key).rows
        return ["read", key, _parsed(value)]

    def _append(self, session: ClientSession, key: int, element: int) -> None:
        session.execute(f"UPDATE {self.table} SET v = v || %s WHERE k = %s", f",{element}", key)


def _locks(arguments: Any) -> bool:
    return bool(arguments[0][1] >= _LOCKED)


def _parsed(value: str) -> list[int]:
    return [int(element) for element in value.split(",") if element]
