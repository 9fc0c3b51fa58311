"""Partition keys and bounds as PostgreSQL's definitions have them. Above ``catalog`` and ``values``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.partition_bounds import MINVALUE
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import Base
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.partition_bounds import BoundLimit, PartitionBound
    from herdpy_sql.types import SqlType

_UNQUOTED = {Base.INTEGER: re.compile(r"[0-9]+"), Base.NUMERIC: re.compile(r"[0-9]+\.[0-9]+")}
"""The texts that PostgreSQL reads as constants of these types, and so writes without quotes."""
_NAMED = 8


def key_text(table: Table) -> str:
    """ "RANGE (id)", as pg_get_partkeydef gives it."""
    key = table.partition_key
    assert key is not None
    names = ", ".join(quote_ident(table.columns[position].name) for position in key.positions)
    return f"{key.strategy.upper()} ({names})"


def bound_text(table: Table) -> str:
    """ "FOR VALUES FROM (1) TO (10)", as pg_get_expr gives it of relpartbound."""
    bound = table.bound
    assert bound is not None
    if bound.is_default:
        return "DEFAULT"
    if bound.modulus:
        return f"FOR VALUES WITH (modulus {bound.modulus}, remainder {bound.remainder})"
    types = _types(table, bound)
    if bound.values:
        return f"FOR VALUES IN ({', '.join(_value(types[0], value) for value in bound.values)})"
    return f"FOR VALUES FROM {limits_text(types, bound.low)} TO {limits_text(types, bound.high)}"


def limits_text(types: Sequence[SqlType], limits: Sequence[BoundLimit]) -> str:
    """One end of a range: "(1, MAXVALUE)"."""
    shown = [
        ("MINVALUE" if one.side == MINVALUE else "MAXVALUE") if one.side else _value(type_, one.value)
        for type_, one in zip(types, limits, strict=True)
    ]
    return f"({', '.join(shown)})"


def partitions_named(partitions: Sequence[tuple[str, str]]) -> str:
    """Partitions by (schema, name), as an error names them: "t1, app.t2, and 7 more"."""
    names = [name if schema == PUBLIC else f"{schema}.{name}" for schema, name in partitions]
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "it has none") + more


def partitions_hint(catalog: Catalog, table: Table) -> str:
    """What a refusal of a partitioned table says of its partitions."""
    there = [(one.schema, one.name) for one in catalog.partitions.get(table.id, ())]
    return f"Its partitions: {partitions_named(there)}."


def _types(table: Table, bound: PartitionBound) -> list[SqlType]:
    return [table.columns[position].type for position in bound.key.positions]


def _value(type_: SqlType, value: Datum) -> str:
    if value is None:
        return "NULL"
    if type_.base is Base.BOOLEAN:
        return "true" if value else "false"
    text = to_text(type_)(value)
    unquoted = _UNQUOTED.get(type_.base)
    if unquoted is not None and unquoted.fullmatch(text):
        return text
    return "'" + text.replace("'", "''") + "'"
