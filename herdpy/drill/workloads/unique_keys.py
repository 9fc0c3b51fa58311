"""Races for unique keys: several clients insert the same one, and exactly one gets the acknowledgement.

`check` judges that one claim of a key wins, and that the acknowledged one stays the only owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import ClientSession, FailedError
from herdpy.drill.workloads.workload import Numbers, Workload

_TRIES = 3
_UNIQUE_VIOLATION = "23505"


class UniqueKeys(Workload):
    """Each key is claimed about three times, at about the same time."""

    name = "unique-keys"
    summary = "clients that race for the same unique key; one wins, and the others are refused"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._claimants = Numbers(0)

    def setup(self, client: Client) -> None:
        """The key that is raced for is a UNIQUE constraint beside the primary key."""
        client.session.execute(
            f"CREATE TABLE {self.table} (claimant BIGINT PRIMARY KEY, name BIGINT NOT NULL UNIQUE)"
        )

    def step(self, client: Client) -> None:
        """One claim, by a statement alone or by a transaction."""
        claimant = next(self._claimants)
        name = claimant // _TRIES

        def insert() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s, %s)", claimant, name)

        def claim() -> bool:
            try:
                if client.random.random() < 0.5:
                    insert()
                else:
                    client.transaction(insert)
            except FailedError as failed:
                if failed.sqlstate == _UNIQUE_VIOLATION and failed.outcome is OperationOutcome.NOT_DONE:
                    return False
                raise
            return True

        client.attempt("claim", [name, claimant], claim)

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""

        def owners(session: ClientSession) -> dict[str, int]:
            rows = session.execute(f"SELECT name, claimant FROM {self.table}").rows
            return {str(name): int(claimant) for name, claimant in rows}

        client.read_now("owners", [], owners)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [check(history)]


NAME = "unique keys"


def check(history: DrillHistory) -> Verdict:
    """Judge "claim" and "owners". Kinds: two winners, no winner, lost claim, wrong owner, undone claim.

    Raises: HistoryError: an operation is not as herdpy.drill.history describes it.
    """
    claims: dict[str, list[tuple[str, ClientOperation]]] = {}
    for operation in history.of("claim"):
        key, claimant = _parsed(operation.arguments)
        claims.setdefault(key, []).append((claimant, operation))
    reads = [each for each in history.of("owners") if each.outcome is OperationOutcome.DONE]
    anomalies = [
        *(anomaly for key, those in claims.items() for anomaly in _of_one_key(key, those)),
        *(anomaly for read in reads for anomaly in _of_one_read(read, claims)),
    ]
    summary = f"{sum(map(len, claims.values()))} claims of {len(claims)} keys, {len(reads)} reads of owners"
    return Verdict.of(NAME, anomalies, summary)


def _has_won(claim: ClientOperation) -> bool:
    return claim.outcome is OperationOutcome.DONE and claim.result is True


def _may_have_won(claim: ClientOperation) -> bool:
    if claim.final is OperationOutcome.NOT_DONE:
        return False
    return claim.outcome is OperationOutcome.UNKNOWN or claim.result is True


def _of_one_key(key: str, claims: list[tuple[str, ClientOperation]]) -> Iterator[Anomaly]:
    winners = [claim for _, claim in claims if _has_won(claim)]
    if len(winners) > 1:
        who = " and ".join(f"process {each.process}" for each in winners)
        yield Anomaly("two winners", f"key {key} was won by {who}", winners)
    for _, loser in claims:
        if loser.outcome is not OperationOutcome.DONE or loser.result is not False:
            continue
        if not any(_may_have_won(claim) and claim.called_s <= loser.returned_s for _, claim in claims):
            text = (
                f"process {loser.process} got the answer that another has key {key}, and none could have it"
            )
            yield Anomaly("no winner", text, [claim for _, claim in claims])
            return


def _of_one_read(
    read: ClientOperation, claims: dict[str, list[tuple[str, ClientOperation]]]
) -> Iterator[Anomaly]:
    if not isinstance(read.result, dict):
        raise HistoryError(f"owners are {{key: claimant}}, not {read.result!r}")
    owners = {key: json.dumps(claimant) for key, claimant in read.result.items()}
    for key, owner in owners.items():
        claim = next((claim for claimant, claim in claims.get(key, ()) if claimant == owner), None)
        if claim is None or claim.called_s > read.returned_s:
            text = (
                f"process {read.process} read that {owner} has key {key}, and it had not claimed it by then"
            )
            yield Anomaly("wrong owner", text, [read])
        elif not _may_have_won(claim):
            text = f"process {read.process} read that {owner} has key {key}, and its claim was refused"
            yield Anomaly("undone claim", text, [claim, read])
    for key, those in claims.items():
        for claimant, claim in those:
            if not _has_won(claim) or claim.ended_s >= read.sees_from_s or owners.get(key) == claimant:
                continue
            found = f"{owners[key]} has it" if key in owners else "no owner has it"
            text = f"{claimant} won key {key}, and process {read.process} read that {found}"
            yield Anomaly("wrong owner" if key in owners else "lost claim", text, [claim, read])


def _parsed(arguments: Json) -> tuple[str, str]:
    if not isinstance(arguments, list) or len(arguments) != 2:
        raise HistoryError(f"a claim is [key, claimant], not {arguments!r}")
    return str(arguments[0]), json.dumps(arguments[1])
