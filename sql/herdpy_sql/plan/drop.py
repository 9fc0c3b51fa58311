"""DROP and TRUNCATE: what is named, what depends on it, and what goes with it or keeps it there.

Views depend on tables, sequences and views; defaults on sequences; sequences on columns; foreign keys on the
tables and unique indexes that they refer to. :class:`Dropping` gathers what would be left without its ground;
DROP refuses that, or takes it along with CASCADE.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import PUBLIC, Index, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import TruncatePlan
from herdpy_sql.execute.define import DefinePlan, DropIndexPlan, DropTablePlan
from herdpy_sql.execute.links import unique_access
from herdpy_sql.objects import CatalogObject, FunctionDefinition, SequenceDefinition, ViewDefinition
from herdpy_sql.partition_map import parts_of_index, read_tables
from herdpy_sql.plan.names import absent_relation, cascaded, not_there, notice, object_of, with_remarks
from herdpy_sql.plan.scope import find_table
from herdpy_sql.programs.type_texts import used_ids
from herdpy_sql.sequences import owned_by, sequences_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan, Remark
    from herdpy_sql.foreign_keys import ForeignKey
    from herdpy_sql.parse import Command
    from herdpy_sql.parse.object_commands import ObjectCommand
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
            for partition in self.catalog.partitions.get(one.id, ()):
                self.add(partition)
            for sequence in owned_by(self.catalog, one):
                self.add(sequence)
        if isinstance(one, CatalogObject) and isinstance(one.definition, SequenceDefinition):
            self._defaults_of(one)
        for view in self.catalog.objects.values():
            if isinstance(view.definition, ViewDefinition) and one.id in view.definition.uses:
                if view.id not in self.given and not any(other.id == view.id for other in self.objects):
                    self.reasons.append(f"{described(view)} depends on {described(one)}")
                self.add(view)
            elif isinstance(view.definition, FunctionDefinition) and one.id in ids_used(view.definition):
                if view.id not in self.given and not any(other.id == view.id for other in self.objects):
                    self.reasons.append(f"{described(view)} depends on type {one.name}")
                self.add(view)

    def _defaults_of(self, one: CatalogObject) -> None:
        dropped = {table.id for table in self.tables} | self.given
        for table in self.catalog.tables.values():
            for position, column in enumerate(table.columns):
                if table.id not in dropped and not column.dropped and one.id in sequences_of(column.default):
                    self.defaults.append((table.id, position))
                    self.reasons.append(
                        f"default value for column {column.name} of {described(table)} "
                        f"depends on {described(one)}"
                    )


def ids_used(definition: FunctionDefinition) -> set[int]:
    """The ids of the types, tables and views that a function needs."""
    return used_ids((definition.returns, *(type_ for _mode, _name, type_, _default in definition.arguments)))


def _types_of(definition: FunctionDefinition) -> list[str]:
    """The types of a function's arguments as messages have them."""
    return [type_ for mode, _name, type_, _default in definition.arguments if mode in {"i", "b"}]


def described(one: Table | CatalogObject) -> str:
    """ "table t", "view s.v"."""
    kind = "table" if isinstance(one, Table) else "type" if one.kind == "enum" else one.kind
    is_seen = one.schema in {"", "public"} or is_temporary(one.schema)
    shown = one.name
    if not isinstance(one, Table) and isinstance(one.definition, FunctionDefinition):
        shown = f"{one.definition.name}({', '.join(_types_of(one.definition))})"
    return f"{kind} {shown}" if is_seen else f"{kind} {one.schema}.{shown}"


def drop_objects(command: ObjectCommand, catalog: Catalog, kind: str) -> Plan:
    """DROP of sequences or views; SqlError 2BP01 when something depends on one, unless that goes too."""
    named: list[CatalogObject] = []
    skipped: list[Remark] = []
    for schema, name in dict.fromkeys(command.names):
        one = object_of(catalog, kind, schema, name)
        if one is not None:
            named.append(one)
        elif "IF EXISTS" not in command.options:
            raise not_there(kind, schema, name)
        else:
            skipped.append(absent_relation(catalog, kind, schema, name))
    for one in named:
        if isinstance(one.definition, SequenceDefinition):
            _refuse_identity(catalog, one)
    dropping = gather(named, catalog)
    if dropping.reasons and "CASCADE" not in command.options:
        raise depended_on(f"cannot drop {described(named[0])}", dropping.reasons)
    text = ", ".join(one.name for one in named)
    plan = DefinePlan(command.name, text, (lambda view: carry_out(view, dropping)) if named else None)
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


CASCADE_HINT = "Use DROP ... CASCADE to drop the dependent objects too."


def references_to(catalog: Catalog, dropped: Collection[Table]) -> list[tuple[Table, ForeignKey]]:
    """The foreign keys to these tables from others."""
    numbers = {table.id for table in dropped}
    return [
        (child, one)
        for table in dropped
        for child, one in catalog.referencing.get(table.id, ())
        if child.id not in numbers
    ]


def refuse_references(catalog: Catalog, dropped: Collection[Table]) -> None:
    """2BP01 when other tables refer to those that are to be dropped."""
    found = references_to(catalog, dropped)
    if not found:
        return
    one_table = len(dropped) == 1
    what = f"table {next(iter(dropped)).name}" if one_table else "desired object(s)"
    raise SqlError(
        "2BP01",
        f"cannot drop {what} because other objects depend on {'it' if one_table else 'them'}",
        detail="\n".join(
            f"constraint {one.name} on table {child.name} depends on table {parent.name}"
            for child, one in found
            for parent in dropped
            if parent.id == one.table_id
        ),
        hint=CASCADE_HINT,
    )


def refuse_index(catalog: Catalog, table: Table, index: Index) -> None:
    """2BP01 when a foreign key refers to what only this unique index keeps unique."""
    rest = replace(table, indexes=tuple(one for one in table.indexes if one is not index))
    found = [
        (child, one)
        for child, one in catalog.referencing.get(table.id, ())
        if unique_access(rest, one.referenced) is None
    ]
    if found:
        raise SqlError(
            "2BP01",
            f"cannot drop index {index.name} because other objects depend on it",
            detail="\n".join(
                f"constraint {one.name} on table {child.name} depends on index {index.name}"
                for child, one in found
            ),
            hint=CASCADE_HINT,
        )


def truncated(catalog: Catalog, tables: Sequence[Table], *, cascade: bool) -> tuple[Table, ...]:
    """What TRUNCATE of these tables empties. SqlError 0A000 when others refer to them, without CASCADE."""
    found = list(tables)
    while others := references_to(catalog, found):
        child, one = others[0]
        if not cascade:
            parent = catalog.tables[one.table_id]
            raise SqlError(
                "0A000",
                "cannot truncate a table referenced in a foreign key constraint",
                detail=f'Table "{child.name}" references "{parent.name}".',
                hint=f'Truncate table "{child.name}" at the same time, or use TRUNCATE ... CASCADE.',
            )
        found.append(child)
    return tuple(found)


def drop(command: Command, catalog: Catalog) -> Plan:
    """The plan of DROP TABLE, DROP INDEX or TRUNCATE."""
    names = list(dict.fromkeys(command.names))
    if command.name == "TRUNCATE":
        named = [find_table(catalog, schema, name) for schema, name in names]
        if "ONLY" in command.options and any(table.partition_key is not None for table in named):
            raise SqlError(
                "42809",
                "cannot truncate only a partitioned table",
                hint="Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.",
            )
        given = tuple({table.id: table for table in read_tables(catalog, named)}.values())
        chosen = truncated(catalog, given, cascade="CASCADE" in command.options)
        also = [notice(f'truncate cascades to table "{one.name}"') for one in chosen[len(given) :]]
        return with_remarks(TruncatePlan(chosen, restart="RESTART IDENTITY" in command.options), also)
    existing = "IF EXISTS" in command.options
    if command.name == "DROP INDEX":
        skipped: list[Remark] = []
        chosen_indexes = tuple(_indexes(names, catalog, skipped, existing=existing))
        return with_remarks(DropIndexPlan(chosen_indexes), skipped)
    finder: Callable[..., Table] = find_table
    tables, remarks = [], []
    for schema, name in names:
        other = catalog.find(schema, name)
        if isinstance(other, Index):
            raise SqlError("42809", f'"{name}" is not a table', hint="Use DROP INDEX to remove an index.")
        if isinstance(other, CatalogObject):
            hint = f"Use DROP {other.kind.upper()} to remove a {other.kind}."
            raise SqlError("42809", f'"{name}" is not a table', hint=hint)
        try:
            tables.append(finder(catalog, schema, name))
        except SqlError as error:
            if error.sqlstate != "42P01":
                raise
            if not existing:
                raise SqlError("42P01", f'table "{name}" does not exist', table=name) from error
            remarks.append(absent_relation(catalog, "table", schema, name))
    tables = list({table.id: table for table in read_tables(catalog, tables)}.values())
    reasons: list[str] = []
    objects: tuple[CatalogObject, ...] = ()
    if catalog.objects and tables:
        dropping = gather(tables, catalog)
        if dropping.reasons and "CASCADE" not in command.options:
            raise depended_on(f"cannot drop {described(tables[0])}", dropping.reasons)
        objects, reasons = tuple(dropping.objects), dropping.reasons
    if "CASCADE" not in command.options:
        refuse_references(catalog, tables)
    references = references_to(catalog, tables)
    reasons = [*(f"constraint {one.name} on table {child.name}" for child, one in references), *reasons]
    detached = tuple((child.id, one.name) for child, one in references)
    return with_remarks(DropTablePlan(tuple(tables), detached, objects), [*remarks, *cascaded(reasons)])


def _indexes(
    names: Sequence[tuple[str | None, str]], catalog: Catalog, skipped: list[Remark], *, existing: bool
) -> Iterable[tuple[Table, Index]]:
    for schema, name in names:
        index = catalog.find(schema, name)
        if not isinstance(index, Index):
            owner = catalog.table_of_key(schema, name)
            if owner is not None:
                raise _required(name, owner)
            if isinstance(index, CatalogObject):
                hint = f"Use DROP {index.kind.upper()} to remove a {index.kind}."
                raise SqlError("42809", f'"{name}" is not an index', hint=hint)
            if index is not None:
                raise SqlError("42809", f'"{name}" is not an index', hint="Use DROP TABLE to remove a table.")
            if existing:
                skipped.append(absent_relation(catalog, "index", schema, name))
                continue
            if schema is not None and not catalog.has_schema(schema):
                raise SqlError("3F000", f'schema "{schema}" does not exist')
            raise SqlError("42704", f'index "{name}" does not exist')
        table = catalog.tables[index.table_id]
        if index.constraint:
            raise _required(name, table)
        if index.unique:
            refuse_index(catalog, table, index)
        if index.parent:
            raise _part_of(catalog, table, index)
        yield table, index
        yield from parts_of_index(catalog, table, index)


def _part_of(catalog: Catalog, table: Table, index: Index) -> SqlError:
    """A partition's part of an index goes with the index."""
    assert table.bound is not None
    whole = next(one for one in catalog.tables[table.bound.parent].indexes if one.id == index.parent)
    return SqlError(
        "2BP01",
        f"cannot drop index {index.name} because index {whole.name} requires it",
        hint=f"You can drop index {whole.name} instead.",
    )


def _required(name: str, table: Table) -> SqlError:
    shown = "" if table.schema == PUBLIC else f"{table.schema}."
    return SqlError(
        "2BP01",
        f"cannot drop index {shown}{name} because constraint {name} on {described(table)} requires it",
    )
