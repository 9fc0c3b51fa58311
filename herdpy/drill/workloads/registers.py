"""Registers: each a row that is read, overwritten, and changed when it has an expected value."""

from __future__ import annotations

from functools import partial

from herdpy.drill.checkers import porcupine
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Numbers, Workload, fill

_KEYS = 6
_PER_KEY = 400
_GENERATIONS = 100


class Registers(Workload):
    """Reads, writes and compare-and-sets of six rows; after some hundred operations of six others, so that no
    row's history is long.
    """

    name = "registers"
    summary = "rows that are read, overwritten and compared-and-set; each must behave as one variable"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._values = Numbers()
        self._begun = Numbers(0)

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (k INTEGER PRIMARY KEY, v BIGINT)")
        fill(client, self.table, (f"{key}, NULL" for key in range(_KEYS * _GENERATIONS)))

    def step(self, client: Client) -> None:
        """Half of them read."""
        key = self._key(client)
        chance = client.random.random()
        if chance < 0.5:
            client.read("read", [key], partial(self._read, key=key))
        elif chance < 0.75:
            self._write(client, key)
        else:
            self._cas(client, key)

    def finish(self, client: Client) -> None:
        """Read the registers that were in use last."""
        generation = self._generation(next(self._begun))
        for key in range(generation * _KEYS, (generation + 1) * _KEYS):
            client.read_now("read", [key], partial(self._read, key=key))

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """A read that may be old may have its place in the order from the oldest moment that it may show."""
        return [porcupine.check(history)]

    def _key(self, client: Client) -> int:
        return self._generation(next(self._begun)) * _KEYS + client.random.randrange(_KEYS)

    def _generation(self, number: int) -> int:
        return number // (_KEYS * _PER_KEY) % _GENERATIONS

    def _read(self, session: ClientSession, key: int) -> int | None:
        ((value,),) = session.execute(f"SELECT v FROM {self.table} WHERE k = %s", key).rows
        return None if value is None else int(value)

    def _write(self, client: Client, key: int) -> None:
        value = next(self._values)

        def work() -> None:
            client.session.execute(f"UPDATE {self.table} SET v = %s WHERE k = %s", value, key)

        client.attempt("write", [key, value], work)

    def _cas(self, client: Client, key: int) -> None:
        """By one statement, or by a transaction that locks the row first."""
        old = client.read_now("read", [key], partial(self._read, key=key))
        if old is None:
            return
        new = next(self._values)
        work = self._at_once if client.random.random() < 0.5 else self._locked
        client.attempt("cas", [key, old, new], lambda: work(client, key, old, new))

    def _at_once(self, client: Client, key: int, old: int, new: int) -> bool:
        sql = f"UPDATE {self.table} SET v = %s WHERE k = %s AND v = %s"
        return (
            client.session.execute(sql, new, key, old).count != 0
        )  # done by a lost answer: it changed a row

    def _locked(self, client: Client, key: int, old: int, new: int) -> bool:
        def work() -> bool:
            sql = f"SELECT v FROM {self.table} WHERE k = %s FOR UPDATE"
            ((found,),) = client.session.execute(sql, key).rows
            if found != old:
                return False
            client.session.execute(f"UPDATE {self.table} SET v = %s WHERE k = %s", new, key)
            return True

        return bool(client.transaction(work))
