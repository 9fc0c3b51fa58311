"""Notices that statements which define things send besides their answer, in PostgreSQL's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan, Remark


def with_remarks(plan: Plan, remarks: Iterable[Remark]) -> Plan:
    """The plan, which sends these too."""
    plan.remarks = (*plan.remarks, *remarks)
    return plan


def notice(text: str, sqlstate: str = "00000") -> Remark:
    """A notice of one line."""
    return "NOTICE", sqlstate, text


def absent(kind: str, name: str) -> Remark:
    """IF EXISTS of what does not: it is skipped."""
    return notice(f'{kind} "{name}" does not exist, skipping')


def absent_relation(catalog: Catalog, kind: str, schema: str | None, name: str) -> Remark:
    """As :func:`absent`; where even the schema is not there, of the schema."""
    if schema is not None and not catalog.has_schema(schema):
        return absent("schema", schema)
    return absent(kind, name)


def taken(name: str) -> Remark:
    """IF NOT EXISTS of a relation that does."""
    return notice(f'relation "{name}" already exists, skipping', "42P07")


def cascaded(reasons: Sequence[str]) -> tuple[Remark, ...]:
    """What CASCADE takes along, of the lines that would have been the details of its refusal."""
    found = [f"drop cascades to {reason.rsplit(' depends on ', 1)[0]}" for reason in dict.fromkeys(reasons)]
    if len(found) < 2:
        return tuple(map(notice, found))
    return (("NOTICE", "00000", f"drop cascades to {len(found)} other objects", "\n".join(found)),)


class _Creation(Protocol):
    table: Table
    if_not_exists: bool


def skips(plan: _Creation, catalog: Catalog) -> list[Remark]:
    """The notice of a table that is there and need not be made."""
    table = plan.table
    there = plan.if_not_exists and (table.schema, table.name) in catalog.relations
    return [taken(table.name)] if there else []
