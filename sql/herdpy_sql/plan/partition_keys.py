"""PARTITION BY: what the rows of a new table are spread by, and which keys such a table may have.

Below ``create_table``. A row is looked for in one partition only, so every key has the partition key in it; a
table without a primary key has it behind the hidden number of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy.codec.kinds import Kind
from herdpy_sql.catalog import KeyPart
from herdpy_sql.collations import check_stored
from herdpy_sql.errors import SqlError
from herdpy_sql.partition_bounds import HASH, LIST, RANGE, PartitionKey
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table

MAX_KEY_COLUMNS = 32


def partitioned(table: Table, node: exp.PartitionedByProperty) -> Table:
    """A new table's definition as that of a partitioned one.

    Raises:
        SqlError: 22023, 42703, 42704, 42P17, 54011 for what no rows can be spread by; 0A000 for expressions,
            temporary tables, foreign keys, and keys that lack a column of the partition key.
    """
    key = _read(table, node.this)
    if table.is_temporary:
        raise SqlError("0A000", "temporary partitioned tables are not supported")
    if table.foreign_keys:
        raise SqlError("0A000", "foreign keys of partitioned tables are not supported")
    found = replace(table, partition_key=key)
    if table.has_hidden_key:
        found = replace(found, key=(*table.key, *(KeyPart(at) for at in dict.fromkeys(key.positions))))
    else:
        check_unique(found, found.key, "PRIMARY KEY")
    refuse_deferrable(table)
    for index in table.indexes:
        check_unique(found, index.parts, "UNIQUE")
    return found


def refuse_deferrable(table: Table) -> None:
    """SqlError 0A000: what is written to a table that others are parts of is not looked at part by part."""
    if any(index.deferrable for index in table.indexes):
        raise SqlError("0A000", "DEFERRABLE constraints of partitioned tables are not supported")


def check_unique(table: Table, parts: tuple[KeyPart, ...], kind: str) -> None:
    """SqlError 0A000 unless the parts of a unique index have the partition key among them."""
    assert table.partition_key is not None
    there = {part.position for part in parts}
    for position in table.partition_key.positions:
        if position not in there:
            name = table.columns[position].name
            raise SqlError(
                "0A000",
                "unique constraint on partitioned table must include all partitioning columns",
                detail=f'{kind} constraint on table "{table.name}" lacks column "{name}" '
                "which is part of the partition key.",
            )


def _read(table: Table, node: exp.Expression) -> PartitionKey:
    strategy = LIST if isinstance(node, exp.List) else str(node.this).lower()
    if strategy not in {RANGE, LIST, HASH}:
        raise SqlError("22023", f'unrecognized partitioning strategy "{strategy}"')
    if strategy == LIST and len(node.expressions) > 1:
        raise SqlError("42P17", 'cannot use "list" partition strategy with more than one column')
    if len(node.expressions) > MAX_KEY_COLUMNS:
        raise SqlError("54011", f"cannot partition using more than {MAX_KEY_COLUMNS} columns")
    return PartitionKey(strategy, tuple(_position(table, one) for one in node.expressions))


def _position(table: Table, node: exp.Expression) -> int:
    """Where a column of the partition key stands."""
    collation = None
    if isinstance(node, exp.Collate):
        node, collation = node.this, node.expression
    if not isinstance(node, exp.Column) or node.args.get("table"):
        raise SqlError("0A000", "expressions in partition keys are not supported")
    name = name_of(node.this)
    position = table.positions.get(name)
    if position is None or table.columns[position].hidden:
        raise SqlError("42703", f'column "{name}" named in partition key does not exist', column=name)
    column = table.columns[position]
    if column.generated is not None:
        raise SqlError(
            "42P17",
            "cannot use generated column in partition key",
            detail=f'Column "{name}" is a generated column.',
        )
    if column.type.kind is Kind.JSON:
        raise SqlError(
            "42704", f'data type {column.type} has no default operator class for access method "btree"'
        )
    if collation is not None:
        check_stored(collation, column.type)
    return position
