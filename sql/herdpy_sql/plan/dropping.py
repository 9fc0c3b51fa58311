"""What depends on what: views on tables, sequences and views; defaults on sequences; sequences on columns.

DROP asks here what would be left without a ground, and refuses or takes it along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.objects import DefinePlan
from herdpy_sql.objects import CatalogObject, SequenceDefinition, ViewDefinition
from herdpy_sql.plan.remarks import cascaded, with_remarks
from herdpy_sql.sequences import owned_by, sequences_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan, Remark
    from herdpy_sql.storage import View


@dataclass
class Dropping:
    """What a DROP takes with it, in the order it was found.

    Attributes:
        given: ids that are dropped because they were named.
        reasons: for each thing that depends on another: the line of the error's detail.
    """

    catalog: Catalog
    given: set[int]
    tables: list[Table] = field(default_factory=list)
    objects: list[CatalogObject] = field(default_factory=list)
    defaults: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, one: Table | CatalogObject) -> None:
        """Drop a relation, and what depends on it."""
        held: list[Table] | list[CatalogObject] = self.tables if isinstance(one, Table) else self.objects
        if any(other.id == one.id for other in held):
            return
        held.append(one)  # type: ignore[arg-type]
        if isinstance(one, Table):
            for sequence in owned_by(self.catalog, one):
                self.add(sequence)
        if isinstance(one, CatalogObject) and isinstance(one.definition, SequenceDefinition):
            self._defaults_of(one)
        for view in self.catalog.objects.values():
            if isinstance(view.definition, ViewDefinition) and one.id in view.definition.uses:
                if view.id not in self.given and not any(other.id == view.id for other in self.objects):
                    self.reasons.append(f"{described(view)} depends on {described(one)}")
                self.add(view)

    def _defaults_of(self, one: CatalogObject) -> None:
        dropped = {table.id for table in self.tables}
        for table in self.catalog.tables.values():
            for position, column in enumerate(table.columns):
                if table.id not in dropped and not column.dropped and one.id in sequences_of(column.default):
                    self.defaults.append((table.id, position))
                    self.reasons.append(
                        f"default value for column {column.name} of {described(table)} "
                        f"depends on {described(one)}"
                    )


def described(one: Table | CatalogObject) -> str:
    """ "table t", "view s.v"."""
    kind = "table" if isinstance(one, Table) else "type" if one.kind == "enum" else one.kind
    return f"{kind} {one.name}" if one.schema in {"", "public"} else f"{kind} {one.schema}.{one.name}"


def drop_plan(
    tag: str,
    named: Sequence[Table | CatalogObject],
    catalog: Catalog,
    *,
    cascade: bool,
    skipped: Sequence[Remark] = (),
) -> Plan:
    """Drop what was named; SqlError 2BP01 when something depends on it, unless that goes too.

    ``skipped`` is to be told of what is not there.
    """
    for one in named:
        if isinstance(one, CatalogObject) and isinstance(one.definition, SequenceDefinition):
            _refuse_identity(catalog, one)
    dropping = gather(named, catalog)
    if dropping.reasons and not cascade:
        raise depended_on(f"cannot drop {described(named[0])}", dropping.reasons)
    text = ", ".join(one.name for one in named)
    plan = DefinePlan(tag, text, (lambda view: carry_out(view, dropping)) if named else None)
    return with_remarks(plan, (*skipped, *cascaded(dropping.reasons)))


def gather(named: Sequence[Table | CatalogObject], catalog: Catalog) -> Dropping:
    """All that goes with what was named."""
    dropping = Dropping(catalog, {one.id for one in named})
    for one in sorted(named, key=lambda one: not isinstance(one, Table)):
        dropping.add(one)
    return dropping


def depended_on(what: str, reasons: Sequence[str]) -> SqlError:
    """2BP01, with a line for each thing that depends on it."""
    return SqlError(
        "2BP01",
        f"{what} because other objects depend on it",
        detail="\n".join(reasons),
        hint="Use DROP ... CASCADE to drop the dependent objects too.",
    )


def _refuse_identity(catalog: Catalog, one: CatalogObject) -> None:
    definition = one.definition
    assert isinstance(definition, SequenceDefinition)
    if definition.identity and definition.owner is not None:
        table_id, position = definition.owner
        table = catalog.tables[table_id]
        column = f"column {table.columns[position].name} of table {table.name}"
        raise SqlError(
            "2BP01",
            f"cannot drop sequence {one.name} because {column} requires it",
            hint=f"You can drop {column} instead.",
        )


def carry_out(view: View, dropping: Dropping) -> None:
    """Drop tables and objects, and take defaults away."""
    for one in reversed(dropping.objects):
        if one.id in view.catalog.objects:
            view.drop_object(one)
    for table in dropping.tables:
        view.drop_table(view.catalog.tables[table.id])
    for table_id, position in dropping.defaults:
        found = view.catalog.tables[table_id]
        columns = list(found.columns)
        columns[position] = replace(columns[position], default=None)
        view.alter_table(found, replace(found, columns=tuple(columns)))
