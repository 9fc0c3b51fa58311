"""Foreign keys kept: a view that notes what a statement writes, and what is checked or done when it is over.

Every way of writing rows goes through a view. Where tables refer to others, the statement gets a
:class:`ReferenceView` in front of the real one: writes pass through, and for each row that now refers to
another, or that was referred to, an event is noted. :meth:`ReferenceView.settle` takes the events one after
another once the statement has written all its rows, as PostgreSQL's triggers do:

- A row refers: the row that it means must be there, and is locked FOR KEY SHARE, so that it stays.
- A row has values that no other row is to have (a deferrable PRIMARY KEY or UNIQUE): there must be no other.
- A row that may have been referred to went or changed its key: the rows that refer to it are changed
  (CASCADE, SET   NULL, SET DEFAULT), by writes that are noted in turn, or must not be there (RESTRICT, NO
  ACTION).

Rows that go are locked FOR UPDATE. So of two transactions, one that refers to a row and one that takes it
away, the second waits for the first, and then meets what the first has done.

A statement's plan is put into a :class:`ReferringPlan`, which runs it over such a view and settles it.
Checks read what the view has then, and lock the rows that the answer rests on; those that are put off until
COMMIT are made by ``settle_deferred``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from herdpy.codec.arrow import array_to_datums
from herdpy_sql.deferred import NOTHING, Deferred, DeferredCheck
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.links import links_of
from herdpy_sql.execute.uniques import Keyed
from herdpy_sql.foreign_keys import CASCADE, NO_ACTION, RESTRICT, SET_NULL
from herdpy_sql.lock_modes import KEY_SHARE, TABLE_SHARE, UPDATE
from herdpy_sql.storage import MustWait
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.deferred import Name
    from herdpy_sql.execute.base import Row
    from herdpy_sql.execute.links import Child, ForeignKeyLink, Values
    from herdpy_sql.storage import Reader, View
    from herdpy_sql.types import SqlType


_STEP = 64


class Refers(NamedTuple):
    """A row of the child has these referring values now; ``nth``: its number among those of its batch."""

    link: ForeignKeyLink
    values: Values
    row: Sequence[Datum] | None
    nth: int | None = None


class Referred(NamedTuple):
    """A row of the parent had ``values``, and now has ``new``; None: it is gone."""

    link: ForeignKeyLink
    values: Values
    new: Values | None


class RowTools(Protocol):
    """What actions need of a table's definition for the rows that they change."""

    def complete(self, table: Table, row: list[Datum], clock: Clock) -> None:
        """Compute what is computed of a row, and verify it. SqlError 23502, 23514."""

    def default(self, table: Table, position: int, clock: Clock) -> Datum:
        """The DEFAULT of a column."""

    def assigned(self, value: Datum, given: SqlType, wanted: SqlType, clock: Clock) -> Datum:
        """A value of one type as a column of another takes it. SqlError 22..."""


class ReferenceView:
    """A view whose writes are noted. What is not written here is the real view's.

    Args:
        view: the real one.
        tools: for rows that actions change.

    Attributes:
        nth: the number of the row that is written now among those of a load; None where rows have none.
    """

    def __init__(self, view: View, tools: RowTools) -> None:
        self._view = view
        self._links = links_of(view.catalog)
        self._tools = tools
        self._events: deque[Refers | Referred | Keyed] = deque()
        self._put_off: list[DeferredCheck] = []
        self.nth: int | None = None
        self.get = view.get
        self.scan = view.scan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    # Writes.

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """As of the view."""
        self._view.insert(table, values)
        for link in self._links.of_child.get(table.id, ()):
            self._refers(link, values)
        self._keyed(table, values)

    def _keyed(self, table: Table, row: Sequence[Datum]) -> None:
        for one in self._links.uniques.get(table.id, ()):
            values = one.values(row)
            if None not in values:
                self._events.append(Keyed(one, values, self.nth))

    def insert_many(self, table: Table, rows: Iterable[Sequence[Datum]]) -> int:
        """As of the view."""
        links = self._links.of_child.get(table.id, ())
        if not links and table.id not in self._links.uniques:
            return self._view.insert_many(table, rows)
        taken = rows if isinstance(rows, list) else list(rows)
        count = self._view.insert_many(table, taken)
        for row in taken:
            self._keyed(table, row)
        seen: set[tuple[int, Values]] = set()
        for row in taken:
            for nth, link in enumerate(links):
                if (mark := (nth, link.referring(row))) not in seen:
                    seen.add(mark)
                    self._refers(link, row)
        return count

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        """As of the view; nothing is done where a row refers in part only (MATCH FULL, SqlError 23503)."""
        events = self._referring(table, batch, None)
        count = self._view.insert_batch(table, batch)
        self._events.extend(events)
        return count

    def added(self, table: Table, batch: pa.RecordBatch, first: int = 0) -> None:
        """The rows of a batch were put into the view in another way; ``first``: the first one's number."""
        self._events.extend(self._referring(table, batch, first))

    def _referring(
        self, table: Table, batch: pa.RecordBatch, first: int | None
    ) -> list[Refers | Referred | Keyed]:
        """What the rows of a batch refer to and must have alone, by the order of the rows."""
        found: list[tuple[int, Refers | Referred | Keyed]] = []
        for one in self._links.uniques.get(table.id, ()):
            columns = [array_to_datums(table.fields[at], batch.column(at)) for at in one.columns]
            for row, values in enumerate(zip(*columns, strict=True)):
                if None not in values:
                    found.append((row, Keyed(one, values, None if first is None else first + row)))
        for link in self._links.of_child.get(table.id, ()):
            columns = [array_to_datums(table.fields[at], batch.column(at)) for at in link.key.columns]
            seen: set[Values] = set()
            for row, values in enumerate(zip(*columns, strict=True)):
                if values not in seen:
                    seen.add(values)
                    event = _event(link, values, None, None if first is None else first + row)
                    if event is not None:
                        found.append((row, event))
        found.sort(key=itemgetter(0))
        return [event for _, event in found]

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """As of the view."""
        parents = self._links.of_parent.get(table.id, ())
        children = self._links.of_child.get(table.id, ())
        uniques = self._links.uniques.get(table.id, ())
        if not parents and not children and not uniques:
            self._view.update(table, key, image, values)
            return
        old = table.row_codec.decode(image)
        if parents and self._changes_key(table, parents, old, values):
            self._view.lock_row(table, key, UPDATE)
        self._view.update(table, key, image, values)
        for link in parents:
            before, after = link.referred(old), link.referred(values)
            if before != after and None not in before:
                self._events.append(Referred(link, before, after))
        for link in children:
            if link.referring(old) != link.referring(values):
                self._refers(link, values)
        if any(one.values(old) != one.values(values) for one in uniques):
            self._keyed(table, values)

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """As of the view."""
        parents = self._links.of_parent.get(table.id, ())
        if parents:
            self._view.lock_row(table, key, UPDATE)
            self.gone(table, image)
        self._view.delete(table, key, image)

    def gone(self, table: Table, image: bytes) -> None:
        """A row was, or will be, taken out of the view in another way."""
        parents = self._links.of_parent.get(table.id, ())
        old = table.row_codec.decode(image)
        for link in parents:
            before = link.referred(old)
            if None not in before:
                self._events.append(Referred(link, before, None))

    @staticmethod
    def _changes_key(
        table: Table, parents: Sequence[ForeignKeyLink], old: Sequence[Datum], new: Sequence[Datum]
    ) -> bool:
        if any(old[position] != new[position] for position in table.key_positions):
            return True  # who refers to the row has locked it by its key
        return any(link.referred(old) != link.referred(new) for link in parents)

    def _refers(self, link: ForeignKeyLink, row: Sequence[Datum]) -> None:
        event = _event(link, link.referring(row), row, self.nth)
        if event is not None:
            self._events.append(event)

    # What follows from them.

    @property
    def _deferred(self) -> Deferred:
        return self._view.deferred or NOTHING

    def settle(self, clock: Clock, *, within: bool = False) -> None:
        """Check and do what follows from the writes so far. SqlError as checks and actions; MustWait.

        Args:
            within: more is to be written, which rows of a table that refers to itself may refer to: those
                wait. After MustWait it can be called again, once what it wrote is undone.
        """
        if not within:
            for _ in self.settle_slowly(clock):
                pass
            return
        kept = deque(self._events)
        later = [one for one in kept if _is_of_itself(one)]
        self._events = deque(one for one in kept if not _is_of_itself(one))
        try:
            self.settle(clock)
        except MustWait:
            self._events, self._put_off = kept, []
            raise
        self._events.extend(later)

    def settle_slowly(self, clock: Clock) -> Generator[None, None, None]:
        """As :meth:`settle`, in steps."""
        events, deferred, count = self._events, self._deferred, 0
        while events:
            event = events.popleft()
            if isinstance(event, Keyed):
                self._settle_unique(event, deferred)
                count += 1
                if not count % _STEP:
                    yield
                continue
            link = event.link
            if isinstance(event, Refers):
                if deferred.defers(link.child.id, link.key):
                    key = None if event.row is None else row_key(link.child, event.row)
                    self._put_off.append(_check(link, event.values, key))
                else:
                    check_child(self._view, event.link, event.values, event.row, event.nth)
            else:
                self._act(event, deferred, clock)
            count += 1
            reads_all = link.down is None and isinstance(event, Referred)
            if reads_all or not count % _STEP:
                yield
        if self._put_off:
            self._view.deferred = deferred.with_checks(self._put_off)
            self._put_off = []

    def _settle_unique(self, event: Keyed, deferred: Deferred) -> None:
        table, index = event.unique.table, event.unique.index
        if deferred.defers(table.id, index):
            self._put_off.append(DeferredCheck((table.id, index.name), table.id, True, event.values))
        else:
            event.unique.check(self._view, event.values, event.nth)

    def _act(self, event: Referred, deferred: Deferred, clock: Clock) -> None:
        link, values, new = event
        action = link.key.on_delete if new is None else link.key.on_update
        if action == NO_ACTION and deferred.defers(link.child.id, link.key):
            self._put_off.append(_check(link, values, None, of_child=False))
        elif action == NO_ACTION:
            check_parent(self._view, link, values)
        elif action == RESTRICT:
            refuse_children(self._view, link, values)
        else:
            referring = link.child_values(values)
            if referring is not None:
                for child in link.children(self._view.newest, referring):
                    self._change(link, action, child, new, clock)
                if action not in {CASCADE, SET_NULL}:  # the default may be what it was
                    check_parent(self._view, link, values)

    def _change(
        self, link: ForeignKeyLink, action: str, child: Child, new: Values | None, clock: Clock
    ) -> None:
        key, image, row = child
        table, tools = link.child, self._tools
        if action == CASCADE and new is None:
            self.delete(table, key, image)
            return
        changed = list(row)
        if action == CASCADE:
            assert new is not None
            pairs = zip(link.key.columns, link.key.referenced, new, strict=True)
            for position, above, value in pairs:
                given, wanted = link.parent.columns[above].type, table.columns[position].type
                changed[position] = tools.assigned(value, given, wanted, clock)
        else:
            chosen = link.key.set_columns if new is None else ()
            for position in chosen or link.key.columns:
                changed[position] = None if action == SET_NULL else tools.default(table, position, clock)
        tools.complete(table, changed, clock)
        self.update(table, key, image, changed)


def _check(
    link: ForeignKeyLink, values: Values, key: bytes | None, *, of_child: bool = True
) -> DeferredCheck:
    return DeferredCheck((link.child.id, link.key.name), link.parent.id, of_child, values, key)


def _is_of_itself(event: Refers | Referred | Keyed) -> bool:
    """Whether rows of a table concern other rows of it."""
    return isinstance(event, Keyed) or event.link.child.id == event.link.parent.id


def _event(
    link: ForeignKeyLink, values: Values, row: Sequence[Datum] | None, nth: int | None
) -> Refers | None:
    """What a row notes that refers by these values: nothing with a NULL. SqlError 23503 of MATCH FULL."""
    if None not in values:
        return Refers(link, values, row, nth)
    if link.key.full and any(value is not None for value in values):
        raise numbered(mixed(link), nth)
    return None


class ReferringPlan(Plan):
    """Any statement that writes rows."""

    def __init__(self, writer: Plan, tools: RowTools) -> None:
        self.writer: Any = writer
        self.tools = tools
        self.tag = writer.tag
        self.columns = writer.columns
        self.param_types = writer.param_types
        self.source = writer.source
        self.engine = writer.engine
        self.brief = writer.brief

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return cast("Plan", self.writer).tables_written

    def _noting(self, view: View) -> tuple[View, ReferenceView]:
        noting = ReferenceView(view, self.tools)
        return cast("View", noting), noting

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        writing, noting = self._noting(view)
        outcome: PlanOutcome = self.writer.run(writing, params, clock, source)
        noting.settle(clock)
        return outcome

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> PlanOutcome:
        """Each row is a statement of its own, so what each has written is settled before the next."""
        count = 0
        for params in param_rows:
            count += self.run(view, params, clock).count
        return PlanOutcome(None, count)

    def explain(self) -> list[str]:
        return cast("Plan", self.writer).explain()

    def command_tag(self, count: int) -> str:
        return cast("Plan", self.writer).command_tag(count)


class ReferringInsert(ReferringPlan):
    """INSERT ... SELECT, and MERGE."""

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps: see InsertSelectPlan."""
        writing, noting = self._noting(view)
        outcome: PlanOutcome = yield from self.writer.slices(writing, params, clock, source)
        yield from noting.settle_slowly(clock)
        return outcome


class ReferringChange(ReferringPlan):
    """UPDATE and DELETE."""

    @property
    def matches(self) -> object:
        """How it finds its rows."""
        return self.writer.matches

    def slices(
        self, view: View, reader: Reader, params: Row, clock: Clock
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps: see UpdatePlan."""
        writing, noting = self._noting(view)
        outcome: PlanOutcome = yield from self.writer.slices(writing, reader, params, clock)
        yield from noting.settle_slowly(clock)
        return outcome


def settle_deferred(view: View, names: set[Name] | None = None) -> None:
    """Make the checks that were put off, of these constraints or of all. SqlError 23503, 23505; MustWait."""
    deferred = view.deferred
    if deferred is None or not deferred.is_pending:
        return
    links = links_of(view.catalog)
    for check in deferred.checks():
        if names is not None and check.constraint not in names:
            continue
        if (unique := links.unique(check.constraint)) is not None:
            unique.check(view, check.values)
            continue
        link = links.named(check.constraint)
        if link is None:
            continue  # dropped since
        if not check.of_child:
            check_parent(view, link, check.values)
        elif (found := link.parent_key(view, check.values)) is not None:
            view.lock_row(link.parent, found, KEY_SHARE)
        elif _is_there(view, link, check.values, check.key):
            raise not_present(link, check.values)
    view.deferred = deferred.without(names)


def check_child(
    view: View,
    link: ForeignKeyLink,
    values: Values,
    row: Sequence[Datum] | None = None,
    nth: int | None = None,
) -> None:
    """See that what a row refers to is there, and stays. SqlError 23503; MustWait."""
    found = link.parent_key(view, values)
    if found is not None:
        view.lock_row(link.parent, found, KEY_SHARE)
    elif _is_there(view, link, values, None if row is None else row_key(link.child, row)):
        raise numbered(not_present(link, values), nth)


def _is_there(view: View, link: ForeignKeyLink, values: Values, key: bytes | None) -> bool:
    """Whether a row refers by these values still: what the statement wrote it may have changed again."""
    if key is not None:
        image = view.get(link.child, key)
        if image is not None and link.refers(link.child.row_codec.decode(image), link.codec.encode(values)):
            return True
    return any(True for _ in link.children(view.newest, values))


def check_parent(view: View, link: ForeignKeyLink, values: Values) -> None:
    """See that no row refers to one that went, unless another has its values. SqlError 23503; MustWait."""
    if not link.exists(view.newest, values):
        refuse_children(view, link, values)


def refuse_children(view: View, link: ForeignKeyLink, values: Values) -> None:
    """See that no row refers to these values. SqlError 23503; MustWait."""
    referring = link.child_values(values)
    if referring is None:
        return
    for key, _, _ in link.children(view.newest, referring):
        view.lock_row(link.child, key, KEY_SHARE)  # one that is being taken away is waited for
        raise still_referenced(link, values)


def row_key(table: Table, row: Sequence[Datum]) -> bytes:
    """The key of a row."""
    return table.key_codec.encode([row[position] for position in table.key_positions])


def numbered(error: SqlError, nth: int | None) -> SqlError:
    """The error, with the row's number in its batch."""
    if nth is not None:
        error.fields["nth"] = str(nth)
    return error


_STEP_ROWS = 64


def validate_foreign_key(view: View, table: Table, name: str) -> Generator[None, None, None]:
    """Look at every row of ``table``, in steps; both tables are locked for that. SqlError 23503; MustWait."""
    link = links_of(view.catalog).named((table.id, name))
    if link is None:
        return  # dropped by the same statement
    view.lock_definition(link.parent)
    view.lock_definition(link.child)
    decode = table.row_codec.decoder(link.key.columns)
    seen: set[bytes] = set()
    for count, (_, image) in enumerate(view.scan(table), 1):
        values = decode(image)
        if None in values:
            if link.key.full and any(value is not None for value in values):
                raise mixed(link)
        elif (code := link.codec.encode(values)) not in seen:
            if link.parent_key(view, values) is None:
                raise not_present(link, values)
            seen.add(code)
        if not count % _STEP_ROWS:
            yield


def lock_children(view: View, table: Table) -> None:
    """Keep others from writing to the tables that refer to this one. MustWait."""
    for link in _from_others(view, table):
        view.lock_table(link.child, TABLE_SHARE)


def check_children(view: View, table: Table) -> Generator[None, None, None]:
    """See that all rows that refer to a table refer to rows that are there, in steps. SqlError 23503.

    For a statement that has put all of its rows in the place of others. Those that refer are locked by
    ``lock_children``. No action is done: a row that has its key again was never away.
    """
    for link in _from_others(view, table):
        decode = link.child.row_codec.decoder(link.key.columns)
        seen: set[bytes] = set()
        for count, (_, image) in enumerate(view.newest.scan(link.child), 1):
            values = decode(image)
            if None not in values and (code := link.codec.encode(values)) not in seen:
                if link.parent_key(view.newest, values) is None:
                    above = link.parent_values(values)
                    raise not_present(link, values) if above is None else still_referenced(link, above)
                seen.add(code)
            if not count % _STEP_ROWS:
                yield


def _from_others(view: View, table: Table) -> list[ForeignKeyLink]:
    """Foreign keys to a table from others; what its own rows refer to is noted as they are written."""
    links = links_of(view.catalog).of_parent.get(table.id, ())
    return [link for link in links if link.child.id != table.id]


def not_present(link: ForeignKeyLink, values: Values) -> SqlError:
    """23503: a row refers to one that is not there."""
    shown = _shown(link.child, link.key.columns, values)
    return _violation(
        link,
        f'insert or update on table "{link.child.name}" violates foreign key constraint "{link.key.name}"',
        f'Key {shown} is not present in table "{link.parent.name}".',
    )


def mixed(link: ForeignKeyLink) -> SqlError:
    """23503: some of the columns of a MATCH FULL key are NULL."""
    return _violation(
        link,
        f'insert or update on table "{link.child.name}" violates foreign key constraint "{link.key.name}"',
        "MATCH FULL does not allow mixing of null and nonnull key values.",
    )


def still_referenced(link: ForeignKeyLink, values: Values) -> SqlError:
    """23503: a row that others refer to goes, or has other values now; ``values`` are what it had."""
    shown = _shown(link.parent, link.key.referenced, values)
    return _violation(
        link,
        f'update or delete on table "{link.parent.name}" violates foreign key constraint '
        f'"{link.key.name}" on table "{link.child.name}"',
        f'Key {shown} is still referenced from table "{link.child.name}".',
    )


def _violation(link: ForeignKeyLink, message: str, detail: str) -> SqlError:
    return SqlError(
        "23503",
        message,
        detail=detail,
        schema=link.child.schema,
        table=link.child.name,
        constraint=link.key.name,
    )


def _shown(table: Table, positions: Sequence[int], values: Sequence[Datum]) -> str:
    names = ", ".join(table.columns[position].name for position in positions)
    texts = [
        "null" if value is None else to_text(table.columns[position].type)(value)
        for position, value in zip(positions, values, strict=True)
    ]
    return f"({names})=({', '.join(texts)})"
