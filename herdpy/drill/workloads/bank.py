"""A bank: money is moved between accounts, and every look at all of them must find the same sum.

`check` judges the transfers: no read shows another total, and the last one every transfer. That the sum is
right does not tell whether a whole transfer was lost. Where the accounts are known from before the first
transfer, the last read must be what they become by all acknowledged transfers and some of the unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
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
        return [check(history, opening={str(account): _OPENING for account in range(_ACCOUNTS)})]

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


NAME = "bank"
_STATES = 100_000
"""More outcomes of the unknown transfers are not looked through."""

Balances = dict[str, int]


def check(
    history: DrillHistory,
    *,
    total: int | None = None,
    opening: Mapping[str, int] | None = None,
    may_be_negative: bool = False,
) -> Verdict:
    """Judge "transfer" and "balances". Kinds: wrong total, negative balance, unexplained balance.

    opening: what each account holds at first; without it, what was read before the first transfer.
    total: their sum; without it, that of `opening`, or of the first read.

    Raises: HistoryError: a transfer or its answer is not as herdpy.drill.history describes it.
    """
    transfers = [each for each in history.of("transfer") if each.final is not OperationOutcome.NOT_DONE]
    reads = sorted(
        (each for each in history.of("balances") if each.outcome is OperationOutcome.DONE),
        key=lambda each: each.called_s,
    )
    first_s = min((each.called_s for each in transfers), default=float("inf"))
    if opening is None and reads and reads[0].returned_s < first_s:
        opening = _balances(reads[0])
    if total is None and reads:
        total = sum((_balances(reads[0]) if opening is None else opening).values())
    anomalies: list[Anomaly] = []
    for read in reads:
        anomalies.extend(_of_one(read, total or 0, may_be_negative))
    summary = f"{len(transfers)} transfers, {len(reads)} reads of all balances"
    quiet = [
        each
        for each in reads
        if all(each.sees_from_s > other.ended_s for other in transfers if _is_sure(other))
    ]
    if opening is None or not quiet:
        summary += " (no read before the first or after the last transfer, so only sums were looked at)"
    elif not anomalies:
        explained = _is_explained(dict(opening), transfers, _balances(quiet[-1]))
        if explained is None:
            summary += " (too many unknown transfers to explain the last balances by)"
        elif not explained:
            text = "no choice of the unknown transfers explains the last balances: one was lost or done twice"
            anomalies.append(Anomaly("unexplained balance", text, [*transfers, quiet[-1]]))
    return Verdict.of(NAME, anomalies, summary)


def _of_one(read: ClientOperation, total: int, may_be_negative: bool) -> Iterator[Anomaly]:
    balances = _balances(read)
    found = sum(balances.values())
    if found != total:
        yield Anomaly("wrong total", f"process {read.process} read a total of {found}, not {total}", [read])
    for account, balance in balances.items():
        if balance < 0 and not may_be_negative:
            text = f"process {read.process} read a balance of {balance} in account {account}"
            yield Anomaly("negative balance", text, [read])


def _is_sure(transfer: ClientOperation) -> bool:
    """It is known whether money was moved. A request id tells only that the transaction was done."""
    return transfer.outcome is OperationOutcome.DONE


def _is_explained(opening: Balances, transfers: list[ClientOperation], last: Balances) -> bool | None:
    """Do acknowledged transfers and some of the others lead from `opening` to `last`? None: too many."""
    accounts = sorted(opening.keys() | last.keys())
    missing = [last.get(account, 0) - opening.get(account, 0) for account in accounts]
    place = {account: index for index, account in enumerate(accounts)}
    unsure: list[tuple[int, int, int]] = []
    for each in transfers:
        source, target, amount = _parsed(each)
        if source not in place or target not in place:
            raise HistoryError(f"there is no account {source if source not in place else target}")
        if not _is_sure(each):
            unsure.append((place[source], place[target], amount))
        elif each.result is True:
            missing[place[source]] += amount
            missing[place[target]] -= amount
    states = {tuple(missing)}
    for source_place, target_place, amount in unsure:
        more = set()
        for state in states:
            moved = list(state)
            moved[source_place] += amount
            moved[target_place] -= amount
            more.add(tuple(moved))
        states |= more
        if len(states) > _STATES:
            return None
    return tuple([0] * len(accounts)) in states


def _parsed(transfer: ClientOperation) -> tuple[str, str, int]:
    arguments = transfer.arguments
    if not isinstance(arguments, list) or len(arguments) != 3 or not isinstance(arguments[2], int):
        raise HistoryError(f"a transfer is [from, to, amount], not {arguments!r}")
    if transfer.outcome is OperationOutcome.DONE and not isinstance(transfer.result, bool):
        raise HistoryError(f"a transfer answers true or false, not {transfer.result!r}")
    return str(arguments[0]), str(arguments[1]), arguments[2]


def _balances(read: ClientOperation) -> Balances:
    found = read.result
    if not isinstance(found, dict):
        raise HistoryError(f"balances are {{account: balance}}, not {found!r}")
    result: Balances = {}
    for account, balance in found.items():
        if not isinstance(balance, int):
            raise HistoryError(f"a balance is a whole number, not {balance!r}")
        result[account] = balance
    return result
