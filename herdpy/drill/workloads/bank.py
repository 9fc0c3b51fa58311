"""A bank: money is moved between accounts, and every look at all of them must find the same sum."""

from __future__ import annotations

from herdpy.drill.checkers import bank
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Workload, fill

_ACCOUNTS = 8
_OPENING = 100


class _ShortError(Exception):
    """There is not enough in the account: the transaction is rolled back."""


class Bank(Workload):
    """Transfers in transactions: some lock first, and some only update under a condition."""

    name = "bank"
    summary = "transfers between accounts; the sum stays what it was, and no account goes below zero"
    has_levels = True

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(
            f"CREATE TABLE {self.table} "
            "(id INTEGER PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0))"
        )
        fill(client, self.table, (f"{account}, {_OPENING}" for account in range(_ACCOUNTS)))

    def step(self, client: Client) -> None:
        """A third of them look at all accounts."""
        if client.random.random() < 0.33:
            client.read("balances", [], self._balances)
            return
        source, target = client.random.sample(range(_ACCOUNTS), 2)
        amount = client.random.randint(1, 40)
        work = self._locking if client.random.random() < 0.5 else self._updating

        def transfer() -> bool:
            try:
                client.transaction(lambda: work(client.session, source, target, amount))
            except _ShortError:
                return False
            return True

        client.attempt("transfer", [source, target, amount], transfer, isolation=client.isolation)

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("balances", [], self._balances)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """Reads at every level: a state of the log at any position has the same sum."""
        return [bank.check(history, opening={str(account): _OPENING for account in range(_ACCOUNTS)})]

    def _balances(self, session: ClientSession) -> dict[str, int]:
        rows = session.execute(f"SELECT id, balance FROM {self.table} WHERE id < {_ACCOUNTS}").rows
        return {str(account): int(balance) for account, balance in rows}

    def _locking(self, session: ClientSession, source: int, target: int, amount: int) -> None:
        """Both rows are locked, in the order of the transfer: deadlocks happen, and are errors."""
        held = {}
        for account in (source, target):
            sql = f"SELECT balance FROM {self.table} WHERE id = %s FOR UPDATE"
            ((held[account],),) = session.execute(sql, account).rows
        if held[source] < amount:
            raise _ShortError
        for account, balance in ((source, held[source] - amount), (target, held[target] + amount)):
            session.execute(f"UPDATE {self.table} SET balance = %s WHERE id = %s", balance, account)

    def _updating(self, session: ClientSession, source: int, target: int, amount: int) -> None:
        """The rows are changed as they are when the lock is there."""
        taken = session.execute(
            f"UPDATE {self.table} SET balance = balance - %s WHERE id = %s AND balance >= %s",
            amount,
            source,
            amount,
        )
        if taken.count == 0:
            raise _ShortError
        session.execute(f"UPDATE {self.table} SET balance = balance + %s WHERE id = %s", amount, target)
