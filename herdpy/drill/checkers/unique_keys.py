"""Races for unique keys: one claim of a key wins, and the acknowledged one stays the only owner."""

from __future__ import annotations

import json
from collections.abc import Iterator

from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

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
