"""CREATE TABLE ... PARTITION OF, ATTACH and DETACH PARTITION, and ALTER TABLE where there are partitions.

Above ``alter_table`` and ``indexes``, whose changes of a partitioned table are taken over to each partition.
A partition's columns stand where its parent's do, so a change of the one, made of positions, is one of the
other. What would make them differ is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterTablePlan, TableChange
from herdpy_sql.execute.partitions import (
    AlterPartitionedPlan,
    AttachPartitionPlan,
    BoundSpec,
    CreatePartitionPlan,
    DetachPartitionPlan,
    refuse_strategy,
)
from herdpy_sql.expr import Params, bind, coerce, compile_expr
from herdpy_sql.expr.scope import Scope
from herdpy_sql.parse import parse, split
from herdpy_sql.partition_bounds import HASH, LIST, MAXVALUE, MINVALUE, RANGE, BoundLimit
from herdpy_sql.plan.alter_table import changed_table, plan_alter, renamed_table
from herdpy_sql.plan.create_table import check_properties, only, properties_of
from herdpy_sql.plan.names import cascaded, new_name, skips, with_remarks
from herdpy_sql.plan.own import own
from herdpy_sql.plan.partition_keys import check_unique
from herdpy_sql.plan.rules import rules_of
from herdpy_sql.plan.scope import find_table, table_of
from herdpy_sql.plan.type_names import mark_enums
from herdpy_sql.plan.views import drop_views, refuse_retyping, rename_in_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Compiled, Plan
    from herdpy_sql.parse import Command
    from herdpy_sql.parse.commands import AlterAction

MAX_PARTITIONS = 4096
"""Of one table. A plan knows all of them, and a scan may open a cursor on each."""


def makes_partition(tree: exp.Create) -> bool:
    """Whether CREATE TABLE makes a partition of another table."""
    return any(isinstance(one, exp.PartitionedOfProperty) for one in properties_of(tree))


def create_partition(tree: exp.Create, catalog: Catalog) -> Plan:
    """The plan of CREATE TABLE ... PARTITION OF.

    SqlError 42P17 when the other table is not partitioned, 42P16 for a bound of another kind, 54000 when
    there are as many partitions as there may be, 0A000 for what partitions do not have here.
    """
    only(tree, {"this", "kind", "exists", "properties"}, "CREATE TABLE ... PARTITION OF")
    found = tree.find(exp.PartitionedOfProperty)
    assert found is not None
    rest = [one for one in properties_of(tree) if one is not found]
    if any(isinstance(one, exp.PartitionedByProperty) for one in rest):
        raise SqlError("0A000", "partitions that are partitioned themselves are not supported")
    if any(isinstance(one, exp.TemporaryProperty) for one in rest):
        raise SqlError("0A000", "temporary partitions are not supported")
    check_properties(rest)
    if isinstance(found.this, exp.Schema):
        raise SqlError("0A000", "columns and constraints of a partition of its own are not supported")
    parent = table_of(catalog, found.this)
    if parent.partition_key is None:
        raise SqlError("42P17", f'"{parent.name}" is not partitioned', table=parent.name)
    schema, name = new_name(tree.this, catalog)
    like = replace(renamed_table(parent, name), schema=schema, foreign_keys=())
    spec = _bound_spec(parent, found.args["expression"])
    _check_count(catalog, parent)
    plan = CreatePartitionPlan(parent, like, spec, if_not_exists=bool(tree.args.get("exists")))
    return with_remarks(plan, skips(plan, catalog))


def _check_count(catalog: Catalog, parent: Table) -> None:
    if len(catalog.partitions.get(parent.id, ())) >= MAX_PARTITIONS:
        raise SqlError("54000", f"tables can have at most {MAX_PARTITIONS} partitions", table=parent.name)


# --- bounds ---------------------------------------------------------------------------------------


def _bound_spec(parent: Table, node: exp.Expression) -> BoundSpec:
    """A bound's syntax with its values bound to the types of the parent's partition key."""
    assert parent.partition_key is not None
    positions = parent.partition_key.positions
    if not isinstance(node, exp.PartitionBoundSpec):
        refuse_strategy(parent, "")
        return BoundSpec()
    low, high = node.args.get("from_expressions"), node.args.get("to_expressions")
    if low is not None or high is not None:
        refuse_strategy(parent, RANGE)
        for word, given in (("FROM", low or []), ("TO", high or [])):
            if len(given) != len(positions):
                raise SqlError("42P16", f"{word} must specify exactly one value per partitioning column")
        ends = [
            tuple(_limit(parent, at, one) for at, one in zip(positions, given, strict=True))
            for given in (low or [], high or [])
        ]
        return BoundSpec(RANGE, ends[0], ends[1])
    given = node.this if isinstance(node.this, list) else None
    if given is not None:
        refuse_strategy(parent, LIST)
        return BoundSpec(LIST, values=tuple(_value(parent, positions[0], one) for one in given))
    refuse_strategy(parent, HASH)
    modulus, remainder = _count(node.this), _count(node.args.get("expression"))
    if modulus <= 0:
        raise SqlError("42P16", "modulus for hash partition must be an integer value greater than zero")
    if remainder < 0:
        raise SqlError(
            "42P16", "remainder for hash partition must be an integer value greater than or equal to zero"
        )
    if remainder >= modulus:
        raise SqlError("42P16", "remainder for hash partition must be less than modulus")
    return BoundSpec(HASH, modulus=modulus, remainder=remainder)


_MOST = (1 << 31) - 1


def _count(node: exp.Expression | None) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        raise SqlError("42601", "syntax error: MODULUS and REMAINDER are integers")
    found = int(node.name)
    if found > _MOST:
        raise SqlError("22003", f'value "{found}" is out of range for type integer')
    return found


def _limit(parent: Table, position: int, node: exp.Expression) -> Compiled | BoundLimit:
    if isinstance(node, exp.Var | exp.Column) and node.name.upper() in {"MINVALUE", "MAXVALUE"}:
        return BoundLimit(side=MINVALUE if node.name.upper() == "MINVALUE" else MAXVALUE)
    return _value(parent, position, node)


def _value(parent: Table, position: int, node: exp.Expression) -> Compiled:
    """A value of a bound, as a column of the partition key takes it."""
    column = parent.columns[position]
    if node.find(exp.Column):
        raise SqlError("0A000", "cannot use column reference in partition bound expression")
    mark_enums(node, [column.type.enum])
    params = Params()
    found = own(bind(node, Scope(clause="partition bound"), params, column.type), "partition bound")
    if len(params.types):
        raise SqlError("42P02", "there is no parameter $1")
    try:
        return compile_expr(coerce(found, column.type, "assignment", params))
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        message = f'specified value cannot be cast to type {column.type} for column "{column.name}"'
        raise SqlError("42804", message, column=column.name) from error


# --- ALTER TABLE ----------------------------------------------------------------------------------

_OF_PARTITIONS = frozenset(
    {
        "RENAME TO", "SET SCHEMA", "OWNER TO", "SET DEFAULT", "DROP DEFAULT", "REPLICA IDENTITY", "STORAGE",
        "CLUSTER ON", "ADD CONSTRAINT", "DROP CONSTRAINT",
    }
)  # fmt: skip
"""What ALTER TABLE does to a partition alone."""
_INHERITED = {
    "DROP COLUMN": "cannot drop inherited column",
    "RENAME COLUMN": "cannot rename inherited column",
    "ALTER TYPE": "cannot alter inherited column",
}
_ALONE = frozenset({"RENAME TO", "SET SCHEMA", "OWNER TO", "REPLICA IDENTITY", "STORAGE", "CLUSTER ON"})
"""What ALTER TABLE does to a partitioned table alone."""


def alter(command: Command, catalog: Catalog) -> Plan | None:
    """The plan of ALTER TABLE of a partitioned table or a partition; None of any other table."""
    (named,) = command.names
    found = catalog.find(*named)
    if found is None:
        return None
    (first, *_) = command.actions
    if first.kind in {"ATTACH PARTITION", "DETACH PARTITION"}:
        parent = find_table(catalog, *named)
        if parent.partition_key is None:
            raise SqlError("42P17", f'table "{parent.name}" is not partitioned', table=parent.name)
        return (_attach if first.kind == "ATTACH PARTITION" else _detach)(parent, first, catalog)
    if not isinstance(found, Table) or not found.is_routed:
        return None
    if found.bound is not None:
        return _alter_partition(command, found, catalog)
    return _alter_partitioned(command, found, catalog)


def _attach(parent: Table, action: AlterAction, catalog: Catalog) -> Plan:
    (statement,) = split(f"CREATE TABLE x PARTITION OF y {action.text}")
    tree = parse(statement)
    assert isinstance(tree, exp.Create)
    (node,) = properties_of(tree)
    table = find_table(catalog, action.using or None, action.name)
    spec = _bound_spec(parent, node.args["expression"])
    if table.bound is not None:
        raise SqlError("42809", f'"{table.name}" is already a partition')
    _check_count(catalog, parent)
    _check_alike(parent, table, catalog)
    return AttachPartitionPlan(parent, table, spec)


def _check_alike(parent: Table, table: Table, catalog: Catalog) -> None:
    """SqlError 42804 where the columns or constraints of a table are not its parent's to be; 0A000 where only
    their order, or the key, keeps its rows from being the parent's."""
    for name in (parent.columns[at].name for at in parent.visible):
        if name not in table.positions:
            raise SqlError("42804", f'child table is missing column "{name}"')
    for name in (table.columns[at].name for at in table.visible):
        if name not in parent.positions:
            raise SqlError(
                "42804",
                f'table "{table.name}" contains column "{name}" not found in parent "{parent.name}"',
                detail="The new partition may contain only the columns present in parent.",
            )
    for name, position in parent.positions.items():
        wanted, column = parent.columns[position], table.columns[table.positions.get(name, position)]
        if wanted.hidden:
            continue
        if column.type != wanted.type:
            raise SqlError("42804", f'child table "{table.name}" has different type for column "{name}"')
        if wanted.not_null and not column.not_null:
            raise SqlError("42804", f'column "{name}" in child table must be marked NOT NULL')
    for check in parent.checks:
        if check.name not in {one.name for one in table.checks}:
            raise SqlError("42804", f'child table is missing constraint "{check.name}"')
    _check_form(parent, table, catalog)


def _check_form(parent: Table, table: Table, catalog: Catalog) -> None:
    """SqlError 0A000 unless the rows of a table are of its parent's form."""
    reason = ""
    if table.partition_key is not None:
        reason = "partitions that are partitioned themselves"
    elif table.is_temporary:
        reason = "temporary partitions"
    elif table.foreign_keys or catalog.referencing.get(table.id):
        reason = "foreign keys of partitions"
    elif any(index.deferrable for index in table.indexes):
        reason = "DEFERRABLE constraints of partitions"
    elif parent.has_hidden_key:
        reason = "ATTACH PARTITION to a table without a primary key"
    elif table.key != parent.key:
        reason = "ATTACH PARTITION of a table with another primary key"
    elif [_form(one) for one in table.columns] != [_form(one) for one in parent.columns]:
        reason = "ATTACH PARTITION of a table whose columns stand in another order"
    elif renamed_table(table, parent.name).checks != parent.checks:
        reason = "ATTACH PARTITION of a table with other CHECK constraints"
    if reason:
        raise SqlError(
            "0A000", f"{reason} is not supported" if "PARTITION" in reason else f"{reason} are not supported"
        )


def _form(column: object) -> tuple[object, ...]:
    names = ("type", "not_null", "missing", "dropped", "generated", "hidden")
    return tuple(getattr(column, name) for name in (*names, *(() if column.dropped else ("name",))))  # type: ignore[attr-defined]


def _detach(parent: Table, action: AlterAction, catalog: Catalog) -> Plan:
    if action.options:
        raise SqlError("0A000", f"DETACH PARTITION ... {min(action.options)} is not supported")
    table = find_table(catalog, action.using or None, action.name)
    if table.bound is None or table.bound.parent != parent.id:
        raise SqlError("42P01", f'relation "{table.name}" is not a partition of relation "{parent.name}"')
    return DetachPartitionPlan(parent, table)


def _alter_partition(command: Command, table: Table, catalog: Catalog) -> Plan:
    """A partition has its parent's columns and checks, so these are changed there."""
    for action in command.actions:
        if action.kind == "ADD COLUMN":
            raise SqlError("42809", "cannot add column to a partition", table=table.name)
        if action.kind in _INHERITED:
            raise SqlError("42P16", f'{_INHERITED[action.kind]} "{action.name}"', column=action.name)
        if action.kind not in _OF_PARTITIONS:
            raise SqlError("0A000", f"ALTER TABLE ... {action.kind} of a partition is not supported")
    change = changed_table(command, table, catalog)
    new = change.table
    if any(index.parent for index in change.gone):
        raise SqlError(
            "42P16", f'cannot drop inherited constraint "{change.gone[0].name}" of relation "{table.name}"'
        )
    if new.checks != table.checks and renamed_table(new, table.name).checks != table.checks:
        raise SqlError("0A000", "CHECK constraints of a partition of its own are not supported")
    if new.foreign_keys or change.last:
        raise SqlError("0A000", "foreign keys of partitions are not supported")
    if new.key != table.key or len(new.columns) != len(table.columns):
        raise SqlError("0A000", "the primary key of a partition is its parent's")
    return plan_alter(command, catalog)


def _alter_partitioned(command: Command, table: Table, catalog: Catalog) -> Plan:
    if "ONLY" in command.options and not all(action.kind in _ALONE for action in command.actions):
        raise SqlError("0A000", "ALTER TABLE ONLY of a partitioned table is not supported")
    for action in command.actions:
        _refuse_key(table, action)
    change = changed_table(command, table, catalog)
    _refuse_difference(table, change)
    if all(action.kind in _ALONE for action in command.actions):
        return AlterTablePlan(change, rules_of)
    parts = [_followed(change, part, command.actions) for part in catalog.partitions.get(table.id, ())]
    return AlterPartitionedPlan(change, parts, rules_of)


def _refuse_key(table: Table, action: AlterAction) -> None:
    """SqlError 42P16 for a change of a column that rows are spread by."""
    assert table.partition_key is not None
    position = table.positions.get(action.name)
    if position not in table.partition_key.positions:
        return
    if action.kind in {"DROP COLUMN", "ALTER TYPE"}:
        what = "drop" if action.kind == "DROP COLUMN" else "alter"
        raise SqlError(
            "42P16",
            f'cannot {what} column "{action.name}" because it is part of the partition key of '
            f'relation "{table.name}"',
            column=action.name,
        )
    if action.kind in {"SET NOT NULL", "DROP NOT NULL"} and table.has_hidden_key:
        raise SqlError("0A000", f"ALTER COLUMN ... {action.kind} of a partition key is not supported")


def _refuse_difference(table: Table, change: TableChange) -> None:
    """SqlError 0A000 for what partitions do not follow."""
    new = change.table
    if new.key != table.key:
        raise SqlError("0A000", "another primary key of a partitioned table is not supported")
    if new.foreign_keys or change.last:
        raise SqlError("0A000", "foreign keys of partitioned tables are not supported")
    if change.sequences:
        raise SqlError("0A000", "identity and serial columns added to a partitioned table are not supported")
    for index in change.fresh:
        if index.unique:
            check_unique(new, index.parts, "UNIQUE")


def _followed(change: TableChange, part: Table, actions: Sequence[AlterAction] = ()) -> TableChange:
    """The change of a partitioned table as one of a partition; the indexes that it makes are not in it."""
    whole, parts = change.old, change.table
    columns = tuple(
        part.columns[at]
        if at < len(whole.columns) and whole.columns[at] == column
        else replace(column, identity="", default=None if column.identity else column.default)
        for at, column in enumerate(parts.columns)
    )
    gone = {index.id for index in change.gone}
    made = replace(
        part,
        columns=columns,
        checks=renamed_table(replace(part, name=whole.name, checks=parts.checks), part.name).checks,
    )
    found = TableChange(
        change.catalog,
        part,
        made,
        rewritten=change.rewritten,
        convert=change.convert,
        retyped=change.retyped,
        missing=change.missing,
        not_null=change.not_null,
        checks=change.checks,
    )
    for index in part.indexes:
        if index.parent in gone:
            found.drop_index(index)
    for action in actions:
        _follow_views(found, action)
    return found


def _follow_views(change: TableChange, action: AlterAction) -> None:
    """What a change does to the views that read the partition itself."""
    if action.kind == "RENAME COLUMN":
        rename_in_views(change, action.name, action.text)
    elif action.kind == "DROP COLUMN":
        change.remarks += cascaded(drop_views(change, action.name, cascade="CASCADE" in action.options))
    elif action.kind == "ALTER TYPE":
        refuse_retyping(change.catalog, change.old, action.name)


def followed_index(change: TableChange, catalog: Catalog, *, concurrently: bool) -> Plan:
    """The plan of CREATE INDEX on a partitioned table: a part of the index on each partition.

    SqlError 0A000 for a unique index without the partition key, and for CONCURRENTLY.
    """
    table = change.old
    if concurrently:
        raise SqlError("0A000", f'cannot create index on partitioned table "{table.name}" concurrently')
    _refuse_difference(table, change)
    parts = [_followed(change, part) for part in catalog.partitions.get(table.id, ())]
    return AlterPartitionedPlan(change, parts, rules_of, "CREATE INDEX")


__all__ = ["alter", "create_partition", "followed_index", "makes_partition"]
