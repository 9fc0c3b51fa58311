"""Sequences: numbers are taken by nextval and by an identity column, across failovers.

`check` judges that a number given later is greater, and that a row keeps the number that it was given. An
operation "number" [kind, tag] takes a number of the sequence of that kind ("sequence", "identity"); with
"identity" a row with the tag is inserted under it. "rows" answers all rows as [number, tag].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import ClientSession, SessionAnswer
from herdpy.drill.workloads.workload import Numbers, Workload


class SequenceNumbers(Workload):
    """Two sequences: one of its own, and that of a table's identity column."""

    name = "sequences"
    summary = "numbers of sequences and identity columns; none is given twice, and later ones are greater"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._tags = Numbers()
        self._sequence = f"{self.table}_own"

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE SEQUENCE {self._sequence}")
        client.session.execute(
            f"CREATE TABLE {self.table} "
            "(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tag BIGINT NOT NULL)"
        )

    def step(self, client: Client) -> None:
        """A number alone, or one with a row, by a statement or by a transaction."""
        tag = next(self._tags)
        chance = client.random.random()

        def take() -> int | None:
            return _only(client.session.execute(f"SELECT nextval('{self._sequence}')"))

        def insert() -> int | None:
            sql = f"INSERT INTO {self.table} (tag) VALUES (%s) RETURNING id"
            return _only(client.session.execute(sql, tag))

        if chance < 0.4:
            client.attempt("number", ["sequence", tag], take)
        elif chance < 0.7:
            client.attempt("number", ["identity", tag], insert)
        else:
            client.attempt("number", ["identity", tag], lambda: client.transaction(insert))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("rows", [], self._rows)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [check(history)]

    def clean_up(self, client: Client) -> None:
        """See `Workload.clean_up`."""
        super().clean_up(client)
        client.session.execute(f"DROP SEQUENCE IF EXISTS {self._sequence}")

    def _rows(self, session: ClientSession) -> list[list[int]]:
        rows = session.execute(f"SELECT id, tag FROM {self.table}").rows
        return [[int(number), int(tag)] for number, tag in rows]


def _only(answer: SessionAnswer) -> int | None:
    """The one value; None when it is done, and its answer was lost."""
    return int(answer.rows[0][0]) if answer.rows else None


NAME = "numbers"


def check(history: DrillHistory) -> Verdict:
    """Judge "number" and "rows". Kinds: number given twice, number went back; lost, undone, doubled and
    renumbered row.

    Raises: HistoryError: an operation is not as the module says.
    """
    taken: dict[str, list[ClientOperation]] = {}
    for operation in history.of("number"):
        taken.setdefault(_kind_and_tag(operation)[0], []).append(operation)
    rows = {_kind_and_tag(one)[1]: one for one in taken.get("identity", [])}
    reads = [each for each in history.of("rows") if each.outcome is OperationOutcome.DONE]
    anomalies = [
        *(anomaly for kind, those in taken.items() for anomaly in _of_one_sequence(kind, those)),
        *(anomaly for read in reads for anomaly in _of_one_read(read, rows)),
    ]
    return Verdict.of(NAME, anomalies, f"{sum(map(len, taken.values()))} numbers, {len(reads)} reads of rows")


def _of_one_sequence(kind: str, operations: list[ClientOperation]) -> Iterator[Anomaly]:
    given = [one for one in operations if one.outcome is OperationOutcome.DONE and one.result is not None]
    first: dict[int, ClientOperation] = {}
    for one in given:
        number = _number(one)
        if number in first:
            text = f"{kind} {number} was given to process {first[number].process} and process {one.process}"
            yield Anomaly("number given twice", text, [first[number], one])
        first.setdefault(number, one)
    ended = sorted(given, key=lambda each: each.returned_s)
    greatest: ClientOperation | None = None
    place = 0
    for one in sorted(given, key=lambda each: each.called_s):
        while place < len(ended) and ended[place].returned_s < one.called_s:
            if greatest is None or _number(ended[place]) > _number(greatest):
                greatest = ended[place]
            place += 1
        if greatest is not None and _number(one) < _number(greatest):
            text = f"process {one.process} was given {kind} {one.result}, after {greatest.result} was given"
            yield Anomaly("number went back", text, [greatest, one])


def _of_one_read(read: ClientOperation, rows: dict[int, ClientOperation]) -> Iterator[Anomaly]:
    seen: dict[int, int] = {}
    result: Any = read.result
    for number, tag in result:
        insert = rows.get(tag)
        if insert is None or insert.final is OperationOutcome.NOT_DONE:
            text = f"process {read.process} read row {tag}, which was reported as not inserted"
            yield Anomaly("undone row", text, [read] if insert is None else [insert, read])
        elif tag in seen:
            yield Anomaly("doubled row", f"row {tag} is there as {seen[tag]} and as {number}", [insert, read])
        elif insert.outcome is OperationOutcome.DONE and insert.result not in (None, number):
            text = f"row {tag} was inserted as {insert.result}, and is there as {number}"
            yield Anomaly("renumbered row", text, [insert, read])
        seen[tag] = number
    for tag, insert in rows.items():
        if insert.final is OperationOutcome.DONE and insert.ended_s < read.sees_from_s and tag not in seen:
            text = f"row {tag} was inserted as {insert.result}, and process {read.process} did not read it"
            yield Anomaly("lost row", text, [insert, read])


def _kind_and_tag(operation: ClientOperation) -> tuple[str, int]:
    arguments: Any = operation.arguments
    if not isinstance(arguments, list) or len(arguments) != 2:
        raise HistoryError(f"a number is taken for [kind, tag], not {arguments!r}")
    return str(arguments[0]), int(arguments[1])


def _number(operation: ClientOperation) -> int:
    if not isinstance(operation.result, int):
        raise HistoryError(f"a number is a number, not {operation.result!r}")
    return operation.result
