"""What one query is promised at every read level: one state of the log, and at `at_lsn` the own writes.

Lists: a query that reads several keys (details "query") sees all appends of a transaction, or none. A read
that names a write of its own client (details "own": name and arguments) must see it. How old a read may be
is judged by the other checkers, by its `sees_from_s`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from herdpy.drill.history import ClientOperation, DrillHistory, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

NAME = "read levels"
FRACTURED = "fractured read"
OWN_WRITE_MISSING = "own write missing"


def check(history: DrillHistory) -> Verdict:
    """Judge the reads of lists and sets; see the module."""
    reads = [
        each for each in history if each.outcome is OperationOutcome.DONE and "read_level" in each.details
    ]
    seen = [(read, _elements(read)) for read in reads]
    anomalies = [*_own_writes_missing(seen), *_fractured(history, seen)]
    return Verdict.of(NAME, anomalies, f"{len(reads)} reads")


def _own_writes_missing(seen: list[tuple[ClientOperation, dict[str, set[Any]]]]) -> Iterator[Anomaly]:
    for read, elements in seen:
        own = read.details.get("own")
        if not isinstance(own, list):
            continue
        for key, element in _writes(own[0], own[1]):
            if key in elements and element not in elements[key]:
                text = (
                    f"process {read.process} read at level {read.details['read_level']}, behind its write "
                    f"of {element!r}, and does not see that"
                )
                yield Anomaly(OWN_WRITE_MISSING, text, [read])


def _fractured(
    history: DrillHistory, seen: list[tuple[ClientOperation, dict[str, set[Any]]]]
) -> Iterator[Anomaly]:
    queries = [(read, elements) for read, elements in seen if read.details.get("query")]
    by_key: dict[str, set[int]] = {}
    for place, (_read, elements) in enumerate(queries):
        for key in elements:
            by_key.setdefault(key, set()).add(place)
    for operation in history:
        if operation.name != "txn" or operation.final is OperationOutcome.NOT_DONE:
            continue
        writes = list(_writes(operation.name, operation.arguments))
        if len({key for key, _element in writes}) < 2:
            continue
        places = {place for key, _element in writes for place in by_key.get(key, ())}
        for read, elements in (queries[place] for place in sorted(places)):
            shown = [(key, element, element in elements[key]) for key, element in writes if key in elements]
            if len({is_there for _key, _element, is_there in shown}) == 2:
                parts = ", ".join(
                    f"{element!r} of {key} {'is' if is_there else 'is not'} there"
                    for key, element, is_there in shown
                )
                text = (
                    f"one query of process {read.process} shows a part of the transaction of process "
                    f"{operation.process}: {parts}"
                )
                yield Anomaly(FRACTURED, text, [operation, read])


def _writes(name: Any, arguments: Any) -> Iterator[tuple[str, Any]]:
    """What an operation adds: (key, element); sets have the key ""."""
    if name == "txn":
        for kind, key, element in arguments:
            if kind == "append":
                yield str(key), element
    elif name == "add":
        yield "", arguments[0]


def _elements(read: ClientOperation) -> dict[str, set[Any]]:
    """What a read saw, by key."""
    result: Any = read.result
    if read.name == "members":
        return {"": set(result)}
    if read.name == "txn":
        return {str(key): set(value or ()) for kind, key, value in result if kind == "read"}
    return {}
