"""Histories made up from a seed: what a drill would have recorded, without a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.judging import Anomaly


@dataclass(frozen=True)
class Outage:
    """From `begin_s` to `end_s` nobody answers; the fault itself lasts until `healed_s`."""

    name: str
    text: str
    begin_s: float
    end_s: float
    healed_s: float
    next_leader: str


def outage_history(
    *outages: Outage,
    seconds: float = 30.0,
    clients: int = 8,
    pause_s: float = 0.1,
    seed: int = 1,
    followers: bool = False,
) -> DrillHistory:
    """Clients read and write in turn; in an outage what is under way waits for its end, or is not known.

    followers: half of the reads are answered by any replica, also in an outage.
    """
    chance = Random(seed)
    history = DrillHistory()
    numbers = iter(range(clients, 1 << 30))
    for first in range(clients):
        process, now, written = first, chance.random() * pause_s, 0
        while now < seconds:
            wait_s = 0.001 * chance.lognormvariate(0.7, 0.6)
            is_read = chance.random() < 0.5
            level = "bounded" if followers and is_read and chance.random() < 0.5 else "linearizable"
            outage = next((one for one in outages if one.begin_s <= now + wait_s and now < one.end_s), None)
            if level == "bounded":
                outage = None
            if outage is not None:
                wait_s = outage.end_s - now + chance.random() * 0.4
            key = f"k{chance.randrange(10)}"
            written += 1
            value = first * 1_000_000 + written
            outcome = OperationOutcome.DONE
            if outage is not None and not is_read and chance.random() < 0.6:
                outcome, wait_s = OperationOutcome.UNKNOWN, min(wait_s, 0.5)
            history.operations.append(
                ClientOperation(
                    process,
                    "read" if is_read else "write",
                    [key] if is_read else [key, value],
                    value if is_read else None,
                    outcome,
                    now,
                    now + wait_s,
                    error="08007: the server went away" if outcome is OperationOutcome.UNKNOWN else None,
                    resolved=chance.choice([OperationOutcome.DONE, OperationOutcome.NOT_DONE, None])
                    if outcome is OperationOutcome.UNKNOWN
                    else None,
                    details={"read_level": level} if is_read else {},
                )
            )
            if outcome is OperationOutcome.UNKNOWN:
                process = next(numbers)
            now += wait_s + pause_s * chance.random()
    history.operations.sort(key=lambda one: one.returned_s)
    history.events.append(Event(0.0, "leader", "server-1 leads", {"server": "server-1"}))
    for one in outages:
        history.events += [
            Event(one.begin_s, "fault-begin", one.text, {"fault": one.name}),
            *_change_of_leader(one),
            Event(one.healed_s, "fault-end", "everything is as it was", {"fault": one.name}),
        ]
    return history


def _change_of_leader(outage: Outage) -> list[Event]:
    if outage.end_s - outage.begin_s < 0.5:
        return []
    return [
        Event(outage.begin_s + 0.1, "leader", "nobody leads", {"server": None}),
        Event(outage.end_s, "leader", f"{outage.next_leader} leads", {"server": outage.next_leader}),
    ]


KILL = Outage("kill-leader", "server-1 is killed", 10.0, 13.2, 18.0, "server-2")
STORM = (
    Outage("kill-leader", "server-1 is killed", 8.0, 11.0, 14.0, "server-2"),
    Outage("pause-leader", "server-2 is paused for 9 s", 19.0, 23.5, 28.0, "server-3"),
    Outage("kill-bookie", "bookie-2 is killed", 26.0, 26.4, 31.0, "server-3"),
    Outage("expire-session", "the session of server-3 is ended", 38.0, 40.1, 38.2, "server-1"),
    Outage("roll-ledgers", "ledgers of 50 entries while followers pause", 42.0, 42.01, 50.0, "server-1"),
)


def write_skew() -> Anomaly:
    """Two transactions that did not see each other, one of unknown outcome, and a read of it all."""
    return Anomaly(
        "G2",
        "1 read y before 2 appended 9 to it, and 2 read x before 1 appended 7 to it",
        [
            _transaction(3, [["append", "x", 7], ["read", "y", [1]]], 15.0312, 15.0361),
            _transaction(5, [["append", "y", 9], ["read", "x", [2]]], 15.0318, 15.0372),
            _transaction(14, [["append", "y", 11]], 15.0331, 15.5, OperationOutcome.UNKNOWN),
            _transaction(2, [["read", "x", [2, 7]], ["read", "y", [1, 9, 11]]], 16.1, 16.104),
        ],
    )


def stale_read() -> Anomaly:
    """A read that goes back behind another one."""
    return Anomaly(
        "not linearizable",
        "client 4 read 1 after client 2 had read 2",
        [
            ClientOperation(1, "write", ["k", 2], None, OperationOutcome.DONE, 14.0, 14.01),
            ClientOperation(2, "read", ["k"], 2, OperationOutcome.DONE, 14.02, 14.03),
            ClientOperation(4, "read", ["k"], 1, OperationOutcome.DONE, 14.5, 14.51),
        ],
    )


def _transaction(
    process: int,
    steps: list[list[Any]],
    called_s: float,
    returned_s: float,
    outcome: OperationOutcome = OperationOutcome.DONE,
) -> ClientOperation:
    asked = [[step[0], step[1], None] if step[0] == "read" else step for step in steps]
    result = steps if outcome is OperationOutcome.DONE else None
    error = None if outcome is OperationOutcome.DONE else "08007: the server went away"
    return ClientOperation(process, "txn", asked, result, outcome, called_s, returned_s, error=error)
