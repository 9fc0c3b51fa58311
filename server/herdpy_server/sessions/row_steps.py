"""What a prepared statement about one row does with it, by its key: from datums to the answer's bytes.

Above ``session``, below what runs it (``block_statements``), which gives it the transaction and the
clock. The row is found, locked and written to the transaction's own layer, as the plan would do it; the
answer was made before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from herdpy_server.sessions.session import Session
from herdpy_server.store import Workspace
from herdpy_server.tablespace import Transaction
from herdpy_sql.catalog import Table
from herdpy_sql.clock import Clock
from herdpy_sql.execute.change import DeletePlan, OwnMatches, UpdatePlan
from herdpy_sql.execute.insert import InsertPlan
from herdpy_sql.execute.query import PointSelect
from herdpy_sql.execute.sources import KeyGet
from herdpy_sql.plan import Plan

_NO_ROW: tuple[()] = ()


class RowStep:
    """What a statement does with its row, in whatever transaction it is: what it is run by gives it that."""

    @abstractmethod
    def apply(
        self, transaction: Transaction, workspace: Workspace, values: Sequence[Any], clock: Clock
    ) -> bytes | None:
        """Find the row, lock and write it; the answer. None: nothing was done, because it may not be answered
        at once. MustWait; any other error says no more than None does."""

    @abstractmethod
    def count(self, answer: bytes) -> int:
        """How many rows an answer is about."""


class RowKey:
    """The key of the row that a statement is about, of its parameters."""

    def __init__(self, get: KeyGet) -> None:
        equals = get.range.equals
        value = equals[0]
        self._number = -1  # of the parameter that is the key as it is
        if len(equals) == 1 and value.param is not None and value.fit is None:
            self._number = value.param
        self._encode: Callable[[Sequence[Any]], bytes] = get.range.codec.encode
        self._key: Callable[[Any, Any, Clock], bytes | None] = get.key

    def encoded(self, values: Sequence[Any], clock: Clock) -> bytes | None:
        """The key; None where no row has it."""
        if self._number < 0:
            return self._key(_NO_ROW, values, clock)
        value = values[self._number]
        if value is None:
            return None
        try:
            return self._encode((value,))
        except ValueError:  # a value that no key has
            return None


class RowUpdate(RowStep):
    """UPDATE of one row."""

    def __init__(self, plan: UpdatePlan, answers: Sequence[bytes]) -> None:
        """``answers``: for no row, and for one."""
        matches, table, rules = plan.matches, plan.table, plan.rules
        assert isinstance(matches, OwnMatches)
        assert isinstance(matches.access, KeyGet)
        self._none, self._one = answers
        self._table = table
        self._db: int = table.id
        self._mode = plan.lock_mode
        self._key = RowKey(matches.access)
        self._condition: Callable[[Any, Any, Clock], Any] | None = matches.condition
        self._decode: Callable[[bytes], tuple[Any, ...]] = table.row_codec.decode
        self._encode: Callable[[Sequence[Any]], bytes] = table.row_codec.encode
        self._assign: list[tuple[int, Callable[[Any, Any, Clock], Any]]] = list(plan.assign)
        changed = {position for position, _ in plan.assign}
        self._not_null = [position for position in rules.not_null if position in changed]
        self._verify: Callable[[Any, Clock], None] | None = rules.verify if _looks_at_rows(plan) else None
        self._patch: Callable[[bytes, Sequence[Any]], bytes] | None
        self._stays = not table.identity_full and changed.isdisjoint(_placed(table))
        self._patch = None
        if self._stays and self._verify is None and plan.reads is not None:
            self._patch = table.row_codec.patcher(sorted(changed))
            if self._patch is not None:
                self._decode = table.row_codec.sparse_decoder(plan.reads)

    def apply(
        self, transaction: Transaction, workspace: Workspace, values: Sequence[Any], clock: Clock
    ) -> bytes | None:
        db = self._db
        key = self._key.encoded(values, clock)
        image = None if key is None else workspace.newest_value(db, key)
        if key is None or image is None:
            return self._none
        row = self._decode(image)
        if self._condition is not None and self._condition(row, values, clock) is not True:
            return self._none
        workspace.locks.acquire(transaction, db, key, self._mode)
        new: list[Any] = list(row)
        for position, value in self._assign:
            new[position] = value(row, values, clock)
        for position in self._not_null:
            if new[position] is None:
                return None
        if self._verify is not None:
            self._verify(new, clock)
        if self._patch is not None:
            workspace.put_row(db, key, self._patch(image, new) or self._whole(image, new))
        elif self._stays:
            workspace.put_row(db, key, self._encode(new))
        else:
            workspace.update(self._table, key, image, new)
        return self._one

    def _whole(self, image: bytes, new: Sequence[Any]) -> bytes:
        """The new image where that is not a patch of the old one; ``new`` has the columns that change."""
        row = list(self._table.row_codec.decode(image))
        for position, _ in self._assign:
            row[position] = new[position]
        return self._encode(row)

    def count(self, answer: bytes) -> int:
        return 0 if answer is self._none else 1


class RowInsert(RowStep):
    """INSERT of one row of values."""

    def __init__(self, plan: InsertPlan, answer: bytes) -> None:
        self._answer = answer
        self._table = plan.table
        self._make: Callable[[Any, Any, Clock], Sequence[Any]] = plan.makers[0]

    def apply(
        self, transaction: Transaction, workspace: Workspace, values: Sequence[Any], clock: Clock
    ) -> bytes | None:
        workspace.insert(self._table, self._make(workspace, values, clock))
        return self._answer

    def count(self, answer: bytes) -> int:
        return 1


class RowDelete(RowStep):
    """DELETE of one row."""

    def __init__(self, plan: DeletePlan, answers: Sequence[bytes]) -> None:
        """``answers``: for no row, and for one."""
        matches = plan.matches
        assert isinstance(matches, OwnMatches)
        assert isinstance(matches.access, KeyGet)
        self._none, self._one = answers
        self._table = plan.table
        self._db: int = plan.table.id
        self._key = RowKey(matches.access)
        self._condition: Callable[[Any, Any, Clock], Any] | None = matches.condition
        self._decode: Callable[[bytes], tuple[Any, ...]] = plan.table.row_codec.decode

    def apply(
        self, transaction: Transaction, workspace: Workspace, values: Sequence[Any], clock: Clock
    ) -> bytes | None:
        key = self._key.encoded(values, clock)
        image = None if key is None else workspace.newest_value(self._db, key)
        if key is None or image is None:
            return self._none
        if self._condition is not None and self._condition(self._decode(image), values, clock) is not True:
            return self._none
        workspace.delete(self._table, key, image)
        return self._one

    def count(self, answer: bytes) -> int:
        return 0 if answer is self._none else 1


class RowRead(RowStep):
    """SELECT of one row."""

    def __init__(
        self,
        session: Session,
        plan: PointSelect,
        answer: Callable[[bytes], bytes],
        nothing: bytes,
    ) -> None:
        """``answer`` makes the answer of a row's image. ``nothing``: the answer where there is no row."""
        self._settings = session.settings
        self._checks = session.checks
        self._tablespace = session.tablespace
        self._plan = plan
        self._db: int = plan.get.table.id
        self._key = RowKey(plan.get)
        self._answer = answer
        self._nothing = nothing

    def apply(
        self, transaction: Transaction, workspace: Workspace, values: Sequence[Any], clock: Clock
    ) -> bytes | None:
        key = self._key.encoded(values, clock)
        image = None if key is None else workspace.newest_value(self._db, key)
        if workspace.read_position and not self._settings.early_answers:
            return None
        if self._tablespace.guard is not None and not self._checks.holds(self._plan):
            return None
        return self._nothing if image is None else self._answer(image)

    def count(self, answer: bytes) -> int:
        return 0 if answer is self._nothing else 1


def _placed(table: Table) -> set[int]:
    """The columns that say where a row and its index entries are."""
    found = {part.position for part in table.key}
    for index in table.indexes:
        found.update(part.position for part in index.parts)
        if index.predicate is not None:
            found.add(index.predicate)
    return found


def _looks_at_rows(plan: UpdatePlan) -> bool:
    """Whether a new row must satisfy more than that columns are not NULL."""
    rules = plan.rules
    return bool(rules.checks or rules.shapes or rules.options)


def row_write(plan: Plan, answers: Callable[[int], bytes]) -> RowStep | None:
    """What an UPDATE or DELETE by key, or an INSERT of one row does.

    Args:
        answers: the answer for so many rows.

    Returns:
        None where the plan is none of these.
    """
    if plan.columns is not None or plan.remarks:
        return None
    if any(table.partition_key is not None for table in plan.tables_written):
        return None
    if type(plan) is UpdatePlan and not plan.rules.generated:
        return RowUpdate(plan, [answers(0), answers(1)])
    if type(plan) is InsertPlan:
        return RowInsert(plan, answers(1))
    if type(plan) is DeletePlan:
        return RowDelete(plan, [answers(0), answers(1)])
    return None
