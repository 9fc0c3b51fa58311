"""What a transaction has put off: checks of deferrable constraints, and what SET CONSTRAINTS said of them.

Below ``storage``: a view keeps one :class:`Deferred`, an immutable value, so that going back to a savepoint
is to take the one of that time. What is put off are questions, not answers: whether a row refers to nothing,
or one that went is missed, is looked up when the check is made, in what there is then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table

Name = tuple[int, str]
"""A constraint: the id of its table, its name."""


class Deferrable(Protocol):
    """A foreign key, or the index of a PRIMARY KEY or UNIQUE: it has a name, and may be deferrable."""

    @property
    def name(self) -> str:
        """Its name, as SET CONSTRAINTS has it."""

    @property
    def deferrable(self) -> bool:
        """Whether it may be checked at COMMIT."""

    @property
    def deferred(self) -> bool:
        """Whether it is unless SET CONSTRAINTS says otherwise."""


class DeferredCheck(NamedTuple):
    """A check of one constraint that is to be made.

    Attributes:
        constraint: of which; one that is gone by then is passed over.
        parent_id: the table that it refers to; of PRIMARY KEY and UNIQUE the table itself: of its rows one at
            most is to have ``values``.
        of_child: a row refers by ``values``: is there one that it refers to? Else: a row that had ``values``
            went: does one still refer to it?
        key: of the child's row, where it is known.
    """

    constraint: Name
    parent_id: int
    of_child: bool
    values: tuple[Datum, ...]
    key: bytes | None = None


class _Chain(NamedTuple):
    """A list that grows at its end and shares its beginning with what it was."""

    last: tuple[DeferredCheck, ...]
    before: _Chain | None


@dataclass(frozen=True, slots=True)
class Deferred:
    """See the module.

    Attributes:
        every: what SET CONSTRAINTS ALL said last: True for DEFERRED; None when nothing.
        named: what it said of single ones since.
    """

    every: bool | None = None
    named: tuple[tuple[Name, bool], ...] = ()
    _checks: _Chain | None = None

    def defers(self, table_id: int, one: Deferrable) -> bool:
        """Whether a constraint is checked at COMMIT now."""
        if not one.deferrable:
            return False
        for name, deferred in self.named:
            if name == (table_id, one.name):
                return deferred
        return one.deferred if self.every is None else self.every

    def with_all(self, *, deferred: bool) -> Deferred:
        """After SET CONSTRAINTS ALL."""
        return replace(self, every=deferred, named=())

    def with_named(self, names: tuple[Name, ...], *, deferred: bool) -> Deferred:
        """After SET CONSTRAINTS of some."""
        rest = tuple(one for one in self.named if one[0] not in names)
        return replace(self, named=(*rest, *((name, deferred) for name in names)))

    def with_checks(self, checks: list[DeferredCheck]) -> Deferred:
        """With further checks to be made."""
        return replace(self, _checks=_Chain(tuple(checks), self._checks))

    def without(self, done: set[Name] | None) -> Deferred:
        """Without the checks of these constraints; None: without any."""
        rest = [] if done is None else [one for one in self.checks() if one.constraint not in done]
        return replace(self, _checks=_Chain(tuple(rest), None) if rest else None)

    @property
    def is_pending(self) -> bool:
        """Whether there are checks to be made."""
        return self._checks is not None

    def checks(self) -> Iterator[DeferredCheck]:
        """The checks, in the order in which they came."""
        parts = []
        at = self._checks
        while at is not None:
            parts.append(at.last)
            at = at.before
        for part in reversed(parts):
            yield from part


NOTHING = Deferred()


def refuse_pending(deferred: Deferred | None, table: Table, what: str) -> None:
    """55006: a definition cannot change while checks that rest on it are put off."""
    if deferred is None or not deferred.is_pending:
        return
    if any(table.id == (one.constraint[0] if one.of_child else one.parent_id) for one in deferred.checks()):
        raise SqlError("55006", f'cannot {what} "{table.name}" because it has pending trigger events')
