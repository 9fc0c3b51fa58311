"""Foreign keys as the catalog has them: which columns refer to which, and what happens then. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_ACTION, RESTRICT, CASCADE, SET_NULL = "NO ACTION", "RESTRICT", "CASCADE", "SET NULL"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY constraint of the table that refers.

    Attributes:
        columns: positions of the referring columns.
        table_id: the table referred to (0 before ids are given: the table itself).
        referenced: positions there, one for each of ``columns``; its key or a unique index has exactly these.
        on_delete, on_update: one of the five actions.
        full: MATCH FULL: all columns are NULL or none is. Else (MATCH SIMPLE) one NULL refers to nothing.
        set_columns: what ON DELETE SET NULL and SET DEFAULT set; () for all of ``columns``.
        deferrable, deferred: whether it may be checked at COMMIT, and whether it is unless SET CONSTRAINTS
            says otherwise.
        validated: the rows that were there when it was made were checked (not so: NOT VALID).
    """

    name: str
    columns: tuple[int, ...]
    table_id: int
    referenced: tuple[int, ...]
    on_delete: str = NO_ACTION
    on_update: str = NO_ACTION
    full: bool = False
    set_columns: tuple[int, ...] = ()
    deferrable: bool = False
    deferred: bool = False
    validated: bool = True


def encode_foreign_key(one: ForeignKey) -> dict[str, object]:
    """As JSON; what is as it is by default is left out."""
    raw: dict[str, object] = {
        "name": one.name,
        "columns": list(one.columns),
        "table_id": one.table_id,
        "referenced": list(one.referenced),
    }
    for name in ("on_delete", "on_update"):
        if getattr(one, name) != NO_ACTION:
            raw[name] = getattr(one, name)
    if one.set_columns:
        raw["set_columns"] = list(one.set_columns)
    for name in ("full", "deferrable", "deferred"):
        if getattr(one, name):
            raw[name] = True
    if not one.validated:
        raw["validated"] = False
    return raw


def decode_foreign_key(raw: Mapping[str, Any]) -> ForeignKey:
    """The inverse of :func:`encode_foreign_key`."""
    lists = {"columns", "referenced", "set_columns"}
    given: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in raw.items()}
    return ForeignKey(**given)
