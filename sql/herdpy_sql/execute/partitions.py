"""Partitions made, attached and detached, and changes of a partitioned table that its partitions follow.

The planner reads the bound; its values are computed when the plan runs, and are judged against the partitions
that there are then. Nobody else defines one meanwhile: the partitioned table's definition is locked. A row
that the default partition has, or that a table to be attached has, must be one that it may keep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from herdpy_sql.deferred import refuse_pending
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterTablePlan
from herdpy_sql.execute.base import Plan, PlanOutcome, ended
from herdpy_sql.execute.define import duplicate
from herdpy_sql.hidden_columns import index_names
from herdpy_sql.partition_bounds import HASH, LIST, RANGE, BoundLimit, PartitionBound
from herdpy_sql.partition_map import PartitionMap, partitions_of
from herdpy_sql.partition_texts import limits_text
from herdpy_sql.sequences import fresh_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog, Index, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.alter_table import TableChange
    from herdpy_sql.execute.base import Compiled, Row, Rules
    from herdpy_sql.storage import View

_STEP_ROWS = 64

_WRONG = "invalid bound specification for a {} partition"


@dataclass(frozen=True)
class BoundSpec:
    """A bound as it is written: its values are yet to be computed.

    Attributes:
        strategy: RANGE, LIST or HASH; "" of DEFAULT.
        low, high: of RANGE: a value, or MINVALUE or MAXVALUE. values: of LIST.
    """

    strategy: str = ""
    low: tuple[Compiled | BoundLimit, ...] = ()
    high: tuple[Compiled | BoundLimit, ...] = ()
    values: tuple[Compiled, ...] = ()
    modulus: int = 0
    remainder: int = 0

    def computed(self, parent: Table, clock: Clock) -> PartitionBound:
        """The bound of a partition of ``parent``. SqlError 42P17 for NULL in a range; of expressions."""
        assert parent.partition_key is not None

        def limits(given: Sequence[Compiled | BoundLimit]) -> tuple[BoundLimit, ...]:
            found = [one if isinstance(one, BoundLimit) else BoundLimit(one((), (), clock)) for one in given]
            if any(one.value is None and not one.side for one in found):
                raise SqlError("42P17", "cannot specify NULL in range bound")
            return _after_infinity(found)

        return PartitionBound(
            parent.id,
            parent.partition_key,
            limits(self.low),
            limits(self.high),
            tuple(dict.fromkeys(value((), (), clock) for value in self.values)),
            self.modulus,
            self.remainder,
            is_default=not self.strategy,
        )


def _after_infinity(limits: list[BoundLimit]) -> tuple[BoundLimit, ...]:
    """SqlError 42804 where a limit follows MINVALUE or MAXVALUE that is not the same."""
    for before, after in pairwise(limits):
        if before.side and after.side != before.side:
            word = "MINVALUE" if before.side < 0 else "MAXVALUE"
            raise SqlError("42804", f"every bound following {word} must also be {word}")
    return tuple(limits)


def checked_bound(spread: PartitionMap, bound: PartitionBound, name: str) -> PartitionBound:
    """The bound, which does not meet that of another partition. SqlError 42P17."""
    if bound.low:
        low, high = spread.edge(bound.low), spread.edge(bound.high)
        if low is None or (high is not None and low >= high):
            types = [spread.table.columns[at].type for at in bound.key.positions]
            raise SqlError(
                "42P17",
                f'empty range bound specified for partition "{name}"',
                detail=f"Specified lower bound {limits_text(types, bound.low)} is greater than or equal to "
                f"upper bound {limits_text(types, bound.high)}.",
            )
    if bound.modulus:
        _check_modulus(spread, bound.modulus)
    other = spread.overlapped(bound)
    if other is not None and bound.is_default:
        raise SqlError(
            "42P17", f'partition "{name}" conflicts with existing default partition "{other.name}"'
        )
    if other is not None:
        raise SqlError("42P17", f'partition "{name}" would overlap partition "{other.name}"')
    return bound


def _check_modulus(spread: PartitionMap, modulus: int) -> None:
    """SqlError 42P17 unless of two moduli the less is a factor of the greater."""
    for one in spread.partitions:
        assert one.bound is not None
        there = one.bound.modulus
        if max(there, modulus) % min(there, modulus):
            if modulus > there:
                detail = (
                    f"The new modulus {modulus} is not divisible by {there}, "
                    f'the modulus of existing partition "{one.name}".'
                )
            else:
                detail = (
                    f"The new modulus {modulus} is not a factor of {there}, "
                    f'the modulus of existing partition "{one.name}".'
                )
            raise SqlError(
                "42P17",
                "every hash partition modulus must be a factor of the next larger modulus",
                detail=detail,
            )


def _with(spread: PartitionMap, partition: Table) -> PartitionMap:
    """The partitions with one more."""
    return PartitionMap(spread.table, [*spread.partitions, partition])


def _checked_rows(view: View, spread: PartitionMap, table: Table, message: str) -> Iterator[None]:
    """SqlError 23514 when a row of ``table`` is not one that it takes among the partitions; in steps."""
    decode = table.row_codec.decode
    for count, (_, image) in enumerate(view.scan(table), 1):
        found = spread.of_row(decode(image))
        if found is None or found.id != table.id:
            raise SqlError("23514", message, table=table.name)
        if not count % _STEP_ROWS:
            yield


def _check_default(view: View, spread: PartitionMap, partition: Table) -> Iterator[None]:
    """SqlError 23514 when the default partition has rows that ``partition`` is to take; in steps."""
    default = spread.default
    if default is None:
        return
    view.lock_definition(default)
    yield from _checked_rows(
        view,
        _with(spread, partition),
        default,
        f'updated partition constraint for default partition "{default.name}" would be violated by some row',
    )


class _Steps(Plan):
    """A plan of definitions that runs in steps."""

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database, but not the tables.

        The transaction of ``view`` must keep the locks that it takes.
        """
        raise NotImplementedError


class CreatePartitionPlan(_Steps):
    """CREATE TABLE ... PARTITION OF.

    Args:
        parent: as it is. like: its definition under the partition's name, in the partition's schema.
    """

    tag = "CREATE TABLE"

    def __init__(self, parent: Table, like: Table, spec: BoundSpec, *, if_not_exists: bool) -> None:
        self.parent = parent
        self.table = like
        self.spec = spec
        self.if_not_exists = if_not_exists

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        like = self.table
        if view.catalog.is_taken(like.schema, like.name):
            if self.if_not_exists:
                return PlanOutcome(None, 0)
            raise duplicate(like.name)
        view.lock_definition(self.parent)
        catalog = view.catalog
        spread = partitions_of(catalog, self.parent)
        bound = checked_bound(spread, self.spec.computed(self.parent, clock), like.name)
        made = _as_partition(catalog, self.parent, like, bound, view.next_id)
        yield from _check_default(view, spread, made)
        view.create_table(made)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Create Table {self.table.name}"]


def _as_partition(catalog: Catalog, parent: Table, like: Table, bound: PartitionBound, number: int) -> Table:
    """The definition of a new partition with that id; its indexes are parts of the parent's."""
    taken = {name for schema, name in catalog.relations if schema == like.schema} | {like.name}
    key_name = fresh_name(like.name, (), "pkey", taken)
    taken.add(key_name)
    indexes = []
    for nth, index in enumerate(parent.indexes, 1):
        name = fresh_index_name(like, index, taken)
        indexes.append(replace(index, id=number + nth, name=name, table_id=number, parent=index.id))
    columns = tuple(
        replace(column, identity="", default=None) if column.identity else column for column in like.columns
    )
    return replace(
        like,
        id=number,
        columns=columns,
        key_name=key_name,
        indexes=tuple(indexes),
        partition_key=None,
        bound=bound,
    )


def fresh_index_name(table: Table, index: Index, taken: set[str]) -> str:
    """A name for the table's part of an index, which is taken from now on."""
    names = index_names(table, index)
    found = fresh_name(table.name, names, "key" if index.constraint else "idx", taken)
    taken.add(found)
    return found


class AttachPartitionPlan(_Steps):
    """ALTER TABLE ... ATTACH PARTITION of a table of the same columns and keys."""

    tag = "ALTER TABLE"

    def __init__(self, parent: Table, table: Table, spec: BoundSpec) -> None:
        self.parent = parent
        self.table = table
        self.spec = spec

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        refuse_pending(view.deferred, self.table, "ALTER TABLE")
        view.lock_definition(self.parent)
        view.lock_definition(self.table)
        spread = partitions_of(view.catalog, self.parent)
        bound = checked_bound(spread, self.spec.computed(self.parent, clock), self.table.name)
        missing, indexes = self._indexes()
        attached = replace(self.table, bound=bound, indexes=indexes)
        message = f'partition constraint of relation "{self.table.name}" is violated by some row'
        yield from _checked_rows(view, _with(spread, attached), self.table, message)
        yield from _check_default(view, spread, attached)
        view.alter_table(self.table, attached)
        taken = {name for schema, name in view.catalog.relations if schema == attached.schema}
        for index in missing:
            name = fresh_index_name(attached, index, taken)
            number = view.next_id
            part = replace(index, id=number, name=name, table_id=attached.id, parent=index.id)
            yield from view.create_index_slowly(view.catalog.tables[attached.id], part)
        return PlanOutcome(None, 0)

    def _indexes(self) -> tuple[list[Index], tuple[Index, ...]]:
        """The parent's indexes that the table has no part of yet; its own, in which the parts are marked."""
        own = list(self.table.indexes)
        missing = []
        for index in self.parent.indexes:
            alike = (index.parts, index.unique, index.predicate, index.constraint)
            for at, one in enumerate(own):
                if not one.parent and (one.parts, one.unique, one.predicate, one.constraint) == alike:
                    own[at] = replace(one, parent=index.id)
                    break
            else:
                missing.append(index)
        return missing, tuple(own)

    def explain(self) -> list[str]:
        return [f"Attach Partition {self.table.name} to {self.parent.name}"]


class DetachPartitionPlan(Plan):
    """ALTER TABLE ... DETACH PARTITION: the partition is a table of its own from now on."""

    tag = "ALTER TABLE"

    def __init__(self, parent: Table, table: Table) -> None:
        self.parent = parent
        self.table = table

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        view.lock_definition(self.parent)
        view.lock_definition(self.table)
        indexes = tuple(replace(index, parent=0) for index in self.table.indexes)
        view.alter_table(self.table, replace(self.table, bound=None, indexes=indexes))
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Detach Partition {self.table.name} from {self.parent.name}"]


class AlterPartitionedPlan(_Steps):
    """A change of a partitioned table, and the same change of each of its partitions.

    Args:
        change: of the partitioned table. parts: of its partitions, without the indexes that it makes.
    """

    def __init__(
        self,
        change: TableChange,
        parts: Sequence[TableChange],
        rules_of: Callable[[Table], Rules],
        tag: str = "ALTER TABLE",
    ) -> None:
        self.tag = tag
        self.change = change
        self.parts = parts
        self.rules_of = rules_of
        self.remarks = tuple(change.remarks)

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        parent = self.change.old
        view.lock_definition(parent)
        there = [one.id for one in view.catalog.partitions.get(parent.id, ())]
        if there != [part.old.id for part in self.parts]:
            raise SqlError("40001", f'the partitions of table "{parent.name}" were changed concurrently')
        yield from AlterTablePlan(self.change, self.rules_of).slices(view, params, clock, source)
        made = {index.name: index for index in view.catalog.tables[parent.id].indexes}
        for part in self.parts:
            taken = {name for schema, name in view.catalog.relations if schema == part.table.schema}
            part.fresh = []
            for index in self.change.fresh:
                name = fresh_index_name(part.table, index, taken)
                whole = made[index.name]
                part.fresh.append(replace(whole, name=name, table_id=part.old.id, parent=whole.id))
            yield from AlterTablePlan(part, self.rules_of).slices(view, params, clock, source)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        first, *rest = AlterTablePlan(self.change, self.rules_of).explain()
        return [first, *rest, f"  Partitions: {', '.join(part.old.name for part in self.parts) or '(none)'}"]


def refuse_strategy(parent: Table, strategy: str) -> None:
    """SqlError 42P16 for a bound that is not of the parent's strategy; "": DEFAULT."""
    assert parent.partition_key is not None
    own = parent.partition_key.strategy
    if not strategy and own == HASH:
        raise SqlError("42P16", "a hash-partitioned table may not have a default partition")
    if strategy and strategy != own:
        raise SqlError("42P16", _WRONG.format({RANGE: "range", LIST: "list", HASH: "hash"}[own]))
