"""Names of relations: where a new one goes, which one an old name means, made-up names, and notices.

Identifiers of CREATE come in; names of at most 63 bytes that nothing else has go out. Names of keys and
indexes that are not given are made as PostgreSQL makes them (t_a_b_key, t_a_b_key1 ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlglot import expressions as exp

from herdpy_sql.catalog import Index, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.objects import CatalogObject
from herdpy_sql.plan.scope import PUBLIC, name_of
from herdpy_sql.sequences import fresh_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_sql.catalog import Catalog, Relation
    from herdpy_sql.execute.base import Plan, Remark

_SYSTEM = frozenset({"pg_catalog", "information_schema", "herdpy"})
MAX_NAME = 63


def checked_name(name: str) -> str:
    """PostgreSQL truncates names to 63 bytes; a silent change of a name is refused here."""
    if not name:
        raise SqlError("42601", "zero-length delimited identifier")
    if len(name.encode()) > MAX_NAME:
        raise SqlError("42622", f'identifier "{name}" is longer than {MAX_NAME} bytes')
    return name


def target_schema(catalog: Catalog, schema: str | None, name: str) -> str:
    """Where what is created goes: the schema that was named, or the first of the path.

    SqlError 3F000 when there is no such schema, 42501 for one of the system's, 42P16 for another session's.
    """
    if schema is None:
        found = next((one for one in catalog.path if not is_temporary(one)), None)
        if found is None:
            raise SqlError("3F000", "no schema has been selected to create in")
        return found
    if schema in _SYSTEM:
        raise SqlError(
            "42501",
            f'permission denied to create "{schema}.{name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    if catalog.is_others(schema):
        raise SqlError("42P16", "cannot create relations in temporary schemas of other sessions")
    if not catalog.has_schema(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    return schema


def temporary_schema(catalog: Catalog) -> str:
    """The session's own schema; one that is nobody's where it has none, as when only types are asked for."""
    return next((one for one in catalog.path if is_temporary(one)), "pg_temp_0")


def refuse_temporary_move(old: str, new: str) -> None:
    """SqlError 0A000 for what would go into, or out of, a session's own schema."""
    if is_temporary(old) or is_temporary(new) or new == "pg_temp":
        raise SqlError("0A000", "cannot move objects into or out of temporary schemas")


def object_of(catalog: Catalog, kind: str, schema: str | None, name: str) -> CatalogObject | None:
    """The sequence or view of that name; SqlError 42809 when the name is something else's."""
    found = catalog.find(schema, name)
    if found is None:
        return None
    if not isinstance(found, CatalogObject) or found.kind != kind:
        raise SqlError("42809", f'"{name}" is not a {kind}', hint=_hint(found))
    return found


def kind_of(found: Relation) -> str:
    """ "table", "index", "sequence", "view"."""
    return "table" if isinstance(found, Table) else "index" if isinstance(found, Index) else found.kind


def _hint(found: Relation) -> str:
    kind = kind_of(found)
    article = "an" if kind == "index" else "a"
    return f"Use DROP {kind.upper()} to remove {article} {kind}."


def not_there(kind: str, schema: str | None, name: str) -> SqlError:
    """42P01 in the words of DROP and ALTER."""
    shown = f"{schema}.{name}" if schema else name
    return SqlError("42P01", f'{kind} "{shown}" does not exist')


def new_name(node: exp.Expression, catalog: Catalog, *, temporary: bool = False) -> tuple[str, str]:
    """The schema and name of what is created."""
    if not isinstance(node, exp.Table):
        raise SqlError("42601", "syntax error: a table name was expected")
    database = node.args.get("db")
    name = checked_name(name_of(node.this))
    schema = None if database is None else name_of(database)
    return place_of(catalog, schema, name, temporary=temporary), name


def place_of(catalog: Catalog, schema: str | None, name: str, *, temporary: bool) -> str:
    """The schema of a relation that is created. SqlError 42P16 for two that contradict, and as above."""
    if temporary or schema == "pg_temp":
        if schema not in {None, "pg_temp"}:
            raise SqlError("42P16", "cannot create temporary relation in non-temporary schema")
        return temporary_schema(catalog)
    return target_schema(catalog, schema, name)


def on_commit(tree: exp.Expression, *, temporary: bool) -> str:
    """What ON COMMIT says becomes of a temporary table: "DROP", "DELETE", or "" where it stays."""
    found = str(tree.args.get("on_commit") or "")
    if found and not temporary:
        raise SqlError("42P16", "ON COMMIT can only be used on temporary tables")
    return "" if found == "PRESERVE" else found


def refuse_repeated(names: Sequence[str]) -> None:
    """SqlError 42P07 for a name given twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise duplicate(name)


class FreshNames:
    """Fresh names of constraints and indexes: t_a_b_key, t_a_b_key1 ..."""

    def __init__(self, table: str, catalog: Catalog, schema: str = PUBLIC) -> None:
        self.table = table
        self.taken = {table, *(name for one, name in catalog.relations if one == schema)}
        self.taken |= {table.key_name for table in catalog.tables.values() if table.schema == schema}

    def new(self, columns: Sequence[str], suffix: str) -> str:
        """A name for these columns, taken from now on."""
        found = fresh_name(self.table, columns, suffix, self.taken)
        self.taken.add(found)
        return found


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
