"""One thing that a statement's role must be allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.rights.held import Subject, schema_subject, subject_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Relation

OWNER = "owner"
"""As ``letters``: to be its owner."""
SUPERUSER = "superuser"
"""As ``letters``: to be a superuser; ``subject`` has the message as its name."""


@dataclass(frozen=True, slots=True)
class Need:
    """A privilege that is needed.

    Attributes:
        subject: to what.
        letters: one of these is enough; or OWNER, SUPERUSER.
        by: the key of the role that needs it; None: whoever runs the statement.
        instead: who owns this may, too: a schema's owner may drop what is in it.
        hidden: an unqualified name of what lies in a schema that the role may not look into means nothing.
    """

    subject: Subject
    letters: str
    by: str | None = None
    instead: Subject | None = None
    hidden: str = ""


def relation_needs(catalog: Catalog, one: Relation, letters: str, *, named: bool) -> Iterator[Need]:
    """To do something with a relation: to look into its schema, and the privilege.

    Args:
        named: its schema was written.
    """
    yield from schema_needs(catalog, _schema_of(catalog, one), hidden="" if named else one.name)
    yield Need(subject_of(one), letters)


def schema_needs(catalog: Catalog, name: str, letters: str = "U", hidden: str = "") -> Iterator[Need]:
    """To look into a schema, or to make something in it (letters "C"). A session's own is its own."""
    if not name.startswith("pg_temp"):
        yield Need(schema_subject(catalog, name), letters, hidden=hidden)


def owner_needs(catalog: Catalog, one: Relation, *, drops: bool = False) -> Iterator[Need]:
    """To own a relation; where it ``drops``, its schema will do."""
    schema = _schema_of(catalog, one)
    if schema.startswith("pg_temp"):
        return
    yield Need(subject_of(one), OWNER, instead=schema_subject(catalog, schema) if drops else None)


def _schema_of(catalog: Catalog, one: Relation) -> str:
    number = getattr(one, "table_id", None)  # an index is where its table is
    return catalog.tables[number].schema if number is not None else one.schema  # type: ignore[union-attr]
