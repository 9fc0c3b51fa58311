"""Names of relations: where a new one goes, and which one an old name means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.catalog import Index, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import CatalogObject

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Relation

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


def relation_of(catalog: Catalog, schema: str | None, name: str) -> Relation | None:
    """The relation that a name means; None when there is none."""
    return catalog.find(schema, name)


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
