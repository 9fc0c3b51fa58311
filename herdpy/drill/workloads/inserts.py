"""Inserts with known ids, and sets: what was acknowledged is there, once; what was refused is not.

`check_inserts` and `check_sets` judge that. An element must be in a read if it was certainly there before the
oldest moment that the read may show: its add had returned, or another read that had returned showed it. An
unknown add may have been or not, until somebody saw it. An element that a later read shows again was not
lost; the read was stale.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from herdpy.drill.checkers import read_levels
from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Numbers, Workload


class Inserts(Workload):
    """Rows into a table without a key, where one that was inserted twice would be there twice."""

    name = "inserts"
    summary = "rows with known ids into a table without a key; each acknowledged one is there exactly once"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._ids = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (id BIGINT NOT NULL, process INTEGER)")

    def step(self, client: Client) -> None:
        """One row, by a statement alone or by a transaction."""
        row = next(self._ids)

        def insert() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s, %s)", row, client.process)

        if client.random.random() < 0.5:
            client.attempt("insert", [row], insert)
        else:
            client.attempt("insert", [row], lambda: client.transaction(insert))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("rows", [], lambda session: _numbers(session, f"SELECT id FROM {self.table}"))

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [check_inserts(history)]


class Sets(Workload):
    """Elements are added, and all of them are read now and then, at each level."""

    name = "sets"
    summary = (
        "a set that is added to and read as a whole; nothing acknowledged is missing, nothing comes and goes"
    )
    _READS, _EACH_READ = 0.02, 20

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._elements = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (id BIGINT PRIMARY KEY)")

    def step(self, client: Client) -> None:
        """Few of them read, and fewer the more elements there are to be read."""
        element = next(self._elements)
        if client.random.random() < min(self._READS, self._EACH_READ / element):
            client.read("members", [], self._members)
            return

        def add() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s)", element)

        client.attempt("add", [element], add)

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("members", [], self._members)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """Reads at other levels may be as old as these allow, and no older."""
        return [check_sets(history), read_levels.check(history)]

    def _members(self, session: ClientSession) -> list[int]:
        return _numbers(session, f"SELECT id FROM {self.table} ORDER BY id")


def _numbers(session: ClientSession, sql: str) -> list[int]:
    return [int(number) for (number,) in session.execute(sql).rows]


STALE = "stale read"

_Seen = list[tuple[ClientOperation, Counter[str]]]


def judge(history: DrillHistory, *, name: str, add: str, read: str, noun: str) -> Verdict:
    """Judge the operations `add` [element] and `read` [] of a history; `noun` is what an element is called.

    Raises: HistoryError: an element is added twice, or a read is not a list.
    """
    added: dict[str, ClientOperation] = {}
    for operation in history.of(add):
        element = _text(_only(operation))
        if element in added:
            raise HistoryError(f"{noun} {element} is added twice")
        added[element] = operation
    reads: _Seen = [
        (operation, _counted(operation))
        for operation in sorted(history.of(read), key=lambda each: each.sees_from_s)
        if operation.outcome is OperationOutcome.DONE
    ]
    anomalies = [*_unexpected(added, reads, noun), *_missing(added, reads, noun)]
    return Verdict.of(name, anomalies, f"{len(added)} of {noun} added, {len(reads)} reads")


def _unexpected(added: dict[str, ClientOperation], reads: _Seen, noun: str) -> Iterator[Anomaly]:
    """What is there and must not be, or not so often; each element is reported once."""
    reported: set[str] = set()
    for read, seen in reads:
        for element, times in seen.items():
            add = added.get(element)
            if element in reported:
                continue
            if add is None or add.called_s > read.returned_s:
                text = f"process {read.process} read {element}, which no operation had added by then"
                yield Anomaly(f"unexpected {noun}", text, [read] if add is None else [read, add])
            elif add.final is OperationOutcome.NOT_DONE:
                text = f"process {read.process} read {element}, which was reported as not added"
                yield Anomaly(f"undone {noun}", text, [add, read])
            elif times > 1:
                text = f"process {read.process} read {element}, which was added once, {times} times"
                yield Anomaly(f"doubled {noun}", text, [add, read])
            else:
                continue
            reported.add(element)


def _missing(added: dict[str, ClientOperation], reads: _Seen, noun: str) -> Iterator[Anomaly]:
    """What was there and is not. Reads come in the order of the oldest moment that they may show."""
    there_from: dict[str, tuple[float, ClientOperation]] = {
        element: (add.ended_s, add) for element, add in added.items() if add.final is OperationOutcome.DONE
    }
    seen_last: dict[str, float] = {}
    for read, seen in reads:
        for element in seen:
            add = added.get(element)
            if add is None or add.final is OperationOutcome.NOT_DONE:
                continue
            if element not in there_from or read.returned_s < there_from[element][0]:
                there_from[element] = read.returned_s, read
            seen_last[element] = max(seen_last.get(element, 0.0), read.returned_s)
    waiting = sorted(there_from.items(), key=lambda each: each[1][0], reverse=True)
    wanted: set[str] = set()
    for read, seen in reads:
        while waiting and waiting[-1][1][0] < read.sees_from_s:
            wanted.add(waiting.pop()[0])
        missing = wanted - seen.keys()
        wanted -= missing
        for element in sorted(missing, key=lambda each: there_from[each][0]):
            at_s, shown_by = there_from[element]
            add = added[element]
            operations = [add, read] if shown_by is add else [add, shown_by, read]
            known = "acknowledged" if shown_by is add else f"read by process {shown_by.process}"
            text = f"{element} was {known} at {at_s:.6f} s, and process {read.process} did not read it"
            if seen_last.get(element, 0.0) > read.returned_s:
                yield Anomaly(STALE, f"{text}, while others did later", operations)
            else:
                yield Anomaly(f"lost {noun}", f"{text}, nor did anybody later", operations)


def _only(operation: ClientOperation) -> Json:
    if not isinstance(operation.arguments, list) or len(operation.arguments) != 1:
        raise HistoryError(f"{operation.name} has one argument, not {operation.arguments!r}")
    return operation.arguments[0]


def _counted(read: ClientOperation) -> Counter[str]:
    if not isinstance(read.result, list):
        raise HistoryError(f"{read.name} answers a list, not {read.result!r}")
    return Counter(map(_text, read.result))


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


SETS = "sets"


def check_sets(history: DrillHistory) -> Verdict:
    """Judge "add" and "members". Kinds: lost, undone, doubled and unexpected element; stale read."""
    return judge(history, name=SETS, add="add", read="members", noun="element")


INSERTS = "inserts"


def check_inserts(history: DrillHistory) -> Verdict:
    """Judge "insert" and "rows". Kinds: lost, undone, doubled and unexpected insert; stale read."""
    return judge(history, name=INSERTS, add="insert", read="rows", noun="insert")
