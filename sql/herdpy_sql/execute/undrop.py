"""UNDROP TABLE: a table that was dropped comes back, with its rows and what was part of it.

Whoever runs the plan has found the table, and reads the state of right before the drop
(:class:`DroppedTable`). It is made as a new one: ids are never used again, so indexes, sequences, comments,
rights and defaults get those of now. Rows are added in steps. What the table stood on and is no more (a
sequence that was not its own, a table that a foreign key refers to) stays away, with a notice; without a
type there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, Remark, ended
from herdpy_sql.execute.define import duplicate
from herdpy_sql.objects import (
    FIRST_USER_OID,
    CatalogObject,
    CommentDefinition,
    EnumDefinition,
    SequenceDefinition,
    ViewDefinition,
)
from herdpy_sql.rights.held import Subject, acl_of, definition, keep, owner_of, subject_of
from herdpy_sql.sequences import NEXTVAL, SequenceState, owned_by, sequence_default, sequences_of

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.foreign_keys import ForeignKey
    from herdpy_sql.rights.acl import Acl
    from herdpy_sql.storage import Snapshot, View

_ROWS = 2048
_MAX_NAME = 63


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that is no more.

    Attributes:
        table, catalog: it, and all definitions right before the drop.
        sequences: states of sequences then, by id; of one that has never given a value there is none.
        rows: opens what it held then; to be closed.
        is_role: whether a role is still there, by its key.
    """

    table: Table
    catalog: Catalog
    sequences: Mapping[int, SequenceState]
    rows: Callable[[], Snapshot]
    is_role: Callable[[str], bool]


class UndropTablePlan(Plan):
    """UNDROP TABLE; the table gets the name ``name``."""

    tag = "UNDROP TABLE"

    def __init__(self, dropped: DroppedTable, name: str) -> None:
        self.dropped = dropped
        self.name = name

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None = None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of some rows."""
        making = _Making(view, self.dropped, self.name)
        made = making.table()
        yield
        rows = 0
        snapshot = self.dropped.rows()
        try:
            images = (image for _key, image in snapshot.scan(self.dropped.table))
            decode = self.dropped.table.row_codec.decode
            while some := [decode(image) for image in islice(images, _ROWS)]:
                rows += view.insert_many(made, some)
                yield
        finally:
            snapshot.close()
        making.say_and_allow(made)
        self.remarks = tuple(making.remarks)
        return PlanOutcome(None, rows)

    def explain(self) -> list[str]:
        return [f"Undrop Table {self.name}"]


def _alone(table: Table) -> Table:
    """The table as one that is no partition. SqlError 0A000 for a partitioned table."""
    if table.partition_key is not None:
        raise SqlError("0A000", f'UNDROP TABLE of the partitioned table "{table.name}" is not supported')
    indexes = tuple(replace(index, parent=0) for index in table.indexes)
    return table if table.bound is None else replace(table, bound=None, indexes=indexes)


class _Making:
    """One run of the plan."""

    def __init__(self, view: View, dropped: DroppedTable, name: str) -> None:
        self.remarks: list[Remark] = []
        self._view, self._dropped = view, dropped
        self._old = _alone(dropped.table)
        self._name = name
        self._ids: dict[int, int] = {}  # of now by those of then
        self._taken: set[str] = set()

    def table(self) -> Table:
        """Make the table and its sequences, without rows. SqlError 42P07, 42710, 3F000, 42704, 55000."""
        view, old, catalog = self._view, self._old, self._view.catalog
        self._check(catalog)
        sequences = owned_by(self._dropped.catalog, old)
        self._taken |= {self._name}
        number = view.next_id + len(sequences)  # the sequences come right before it
        self._ids[old.id] = number
        for one in sequences:
            self._sequence(one, number)
        made = replace(old, id=number, name=self._name, key_name=self._key_name(catalog), indexes=())
        keys = [key for one in old.foreign_keys if (key := self._foreign_key(one)) is not None]
        made = replace(made, foreign_keys=tuple(keys), indexes=self._indexes(number, catalog))
        made = self._with_defaults(made)
        for parent in {one.table_id for one in made.foreign_keys} - {number}:
            view.lock_definition(catalog.tables[parent])
        view.create_table(made)
        return view.catalog.tables[number]

    def _check(self, catalog: Catalog) -> None:
        schema, name = self._old.schema, self._name
        if not catalog.has_schema(schema):
            raise SqlError("3F000", f'schema "{schema}" does not exist')
        if catalog.is_taken(schema, name):
            error = duplicate(name)
            error.hint = "UNDROP TABLE ... RENAME TO gives the table another name."
            raise error
        if catalog.object("enum", schema, name) is not None:
            raise SqlError("42710", f'type "{name}" already exists')
        for column in self._old.columns:
            enum = column.type.enum
            if enum is None or column.dropped:
                continue
            there = catalog.objects.get(enum.id)
            if there is None or not isinstance(there.definition, EnumDefinition):
                raise SqlError("42704", f'type "{enum.name}" of column "{column.name}" was dropped, too')
            if tuple(there.definition.labels) != tuple(enum.labels):
                raise SqlError(
                    "55000",
                    f'type "{enum.name}" of column "{column.name}" has other labels than it had',
                    hint="CREATE TABLE ... AS SELECT ... AS OF SYSTEM TIME gives its rows, as column::text.",
                )

    def _free(self, name: str, catalog: Catalog, what: str) -> str:
        """A name for a part of the table: its own, or one like it, with a notice."""
        found, schema = name, self._old.schema
        for number in count(1):
            if found not in self._taken and not catalog.is_taken(schema, found):
                break
            end = f"_{number}"
            found = name.encode()[: _MAX_NAME - len(end)].decode(errors="ignore") + end
        self._taken.add(found)
        if found != name:
            self._notice(f'{what} "{name}" is called "{found}" now: its name is taken')
        return found

    def _key_name(self, catalog: Catalog) -> str:
        if self._old.has_hidden_key:
            return self._old.key_name
        return self._free(self._old.key_name, catalog, "primary key")

    def _sequence(self, one: CatalogObject, table: int) -> None:
        view, given = self._view, one.definition
        assert isinstance(given, SequenceDefinition)
        assert given.owner is not None
        name = self._free(one.name, view.catalog, "sequence")
        owned = msgspec.structs.replace(given, owner=(table, given.owner[1]))
        made = CatalogObject(view.next_id, self._old.schema, name, owned)
        view.put_object(made)
        state = self._dropped.sequences.get(one.id)
        view.restart_sequence(made, SequenceState(given.start, False) if state is None else state)
        self._ids[one.id] = made.id

    def _indexes(self, table: int, catalog: Catalog) -> tuple[Index, ...]:
        made = []
        for at, one in enumerate(self._old.indexes, 1):
            self._ids[one.id] = table + at
            name = self._free(one.name, catalog, "index")
            made.append(replace(one, id=table + at, table_id=table, name=name))
        return tuple(made)

    def _with_defaults(self, table: Table) -> Table:
        """Its columns with the sequences of now; a default whose sequence is no more goes."""
        catalog = self._view.catalog
        columns = []
        for column in table.columns:
            text = column.default
            gone = [one for one in sequences_of(text) if one not in self._ids and one not in catalog.objects]
            if gone:
                self._notice(f'column "{column.name}" has no DEFAULT any more: its sequence was dropped')
                text = None
            elif text is not None:
                text = NEXTVAL.sub(lambda found: self._nextval(int(found[1])), text)
            columns.append(replace(column, default=text))
        return replace(table, columns=tuple(columns))

    def _nextval(self, oid: int) -> str:
        number = oid - FIRST_USER_OID
        return sequence_default(self._view.catalog.objects[self._ids.get(number, number)])

    def _foreign_key(self, one: ForeignKey) -> ForeignKey | None:
        """A foreign key of the table; None where what it refers to is no more."""
        if one.table_id == self._old.id:
            return replace(one, table_id=self._ids[one.table_id])
        parent = self._view.catalog.tables.get(one.table_id)
        if parent is None or not _is_unique(parent, one.referenced):
            self._notice(f'foreign key "{one.name}" stays away: what it refers to was dropped')
            return None
        self._notice(
            f'foreign key "{one.name}" is NOT VALID: ALTER TABLE ... VALIDATE CONSTRAINT checks the rows'
        )
        return replace(one, validated=False)

    # What is said of it.

    def say_and_allow(self, made: Table) -> None:
        """Comments and rights come back; notices of what others had of the table, and does not."""
        view, then = self._view, self._dropped.catalog
        for one in then.objects.values():
            comment = one.definition
            if isinstance(comment, CommentDefinition) and comment.id in self._ids:
                number = self._ids[comment.id]
                kind, _, *rest = one.name.split(" ", 2)
                said = msgspec.structs.replace(comment, id=number)
                view.put_object(CatalogObject(view.next_id, "", " ".join([kind, str(number), *rest]), said))
        self._allow(subject_of(self._old), subject_of(made))
        for sequence in owned_by(then, self._old):
            number = self._ids[sequence.id]
            self._allow(subject_of(sequence), subject_of(view.catalog.objects[number]))
        for table, key in then.referencing.get(self._old.id, ()):
            if table.id != self._old.id and table.id in view.catalog.tables:
                self._notice(f'foreign key "{key.name}" of table "{table.name}" is not brought back')
        for one in then.objects.values():
            used = one.definition.uses if isinstance(one.definition, ViewDefinition) else ()
            if self._old.id in used and one.id not in view.catalog.objects:
                self._notice(f'view "{one.name}" is not brought back')

    def _allow(self, before: Subject, now: Subject) -> None:
        then, is_role = self._dropped.catalog, self._dropped.is_role
        if definition(then, before) is None:
            return
        owner = owner_of(then, before)
        if not is_role(owner):
            owner = owner_of(self._view.catalog, now)
        acl: Acl = tuple(
            (to, by, letters) for to, by, letters in acl_of(then, before) if is_role(to) and is_role(by)
        )
        keep(self._view, now, owner, acl)

    def _notice(self, message: str) -> None:
        self.remarks.append(("NOTICE", "00000", message))


def _is_unique(table: Table, positions: Iterable[int]) -> bool:
    """Whether the key, or a unique index, has exactly these columns, which are there."""
    places = set(positions)
    if any(at >= len(table.columns) or table.columns[at].dropped for at in places):
        return False
    keys = [table.key, *(index.parts for index in table.indexes if index.unique and index.predicate is None)]
    return any({part.position for part in parts} == places for parts in keys)
