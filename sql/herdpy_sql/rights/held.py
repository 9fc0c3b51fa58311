"""The rights to one thing as the catalog has them; what is usual where it has none.

A thing is a :class:`Subject`. Rights lie in the catalog as objects, one for each thing of which there is
something to be said: an owner other than the system's superuser, or grants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from herdpy_sql.catalog import PUBLIC as PUBLIC_SCHEMA
from herdpy_sql.catalog import Catalog, Index, Relation, Table
from herdpy_sql.objects import SYSTEM, CatalogObject, RightsDefinition, SequenceDefinition
from herdpy_sql.rights.acl import PUBLIC, Acl, granted, split, usual

if TYPE_CHECKING:
    from herdpy_sql.storage import View


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that rights can be had to.

    Attributes:
        kind: "table", "view", "sequence", "index", "schema", "type", "database"; "tables", "sequences",
            "schemas" for what will be made.
        id: of the table or object; of an index of its table; 0 of the database and of the schema public; of
            what will be made, of the schema where, or EVERYWHERE.
        name: as messages say it.
        role: whose default privileges these are.
    """

    kind: str
    id: int
    name: str
    role: str = ""

    @property
    def on(self) -> str:
        """As the definition of its rights says it."""
        return "relation" if self.kind in {"table", "view", "sequence", "index"} else self.kind

    @property
    def called(self) -> str:
        """The name of the object that keeps its rights."""
        return f"{self.on} {self.id} {self.role}" if self.role else f"{self.on} {self.id}"


OWNED = frozenset({"schema", "view", "sequence", "enum", "function"})
"""Kinds of objects that have owners."""

DEFAULTS = frozenset({"tables", "sequences", "schemas"})
"""What default privileges are on."""

DATABASE = Subject("database", 0, "")

EVERYWHERE = -1
"""Stands for all schemas in default privileges."""


def subject_of(one: Relation) -> Subject:
    """A relation as what rights are had to; an index is its table's."""
    if isinstance(one, Index):
        return Subject("index", one.table_id, one.name)
    if isinstance(one, Table):
        return Subject("table", one.id, one.name)
    return Subject({"enum": "type"}.get(one.kind, one.kind), one.id, one.name)


def schema_subject(catalog: Catalog, name: str) -> Subject:
    """A schema by name."""
    found = catalog.object("schema", "", name)
    return Subject("schema", 0 if found is None or name == PUBLIC_SCHEMA else found.id, name)


def rights_object(catalog: Catalog, subject: Subject) -> CatalogObject | None:
    """The object that keeps a thing's rights, if there is one."""
    return catalog.object("rights", "", subject.called)


def definition(catalog: Catalog, subject: Subject) -> RightsDefinition | None:
    """What is said of a thing's rights; None where nothing is."""
    found = rights_object(catalog, subject)
    return None if found is None else cast(RightsDefinition, found.definition)


def owner_of(catalog: Catalog, subject: Subject) -> str:
    """The key of a thing's owner: of a sequence that goes with a column its table's."""
    if subject.kind == "sequence":
        one = catalog.objects.get(subject.id)
        if one is not None and isinstance(one.definition, SequenceDefinition) and one.definition.owner:
            table = catalog.tables.get(one.definition.owner[0])
            if table is not None:
                return owner_of(catalog, subject_of(table))
    found = definition(catalog, subject)
    if found is not None:
        return found.owner
    if subject.kind == "schema" and subject.id == 0:
        return owner_of(catalog, DATABASE)
    return subject.role or SYSTEM


def acl_of(catalog: Catalog, subject: Subject) -> Acl:
    """What was granted, or what is usual."""
    found = definition(catalog, subject)
    if found is not None and found.acl is not None:
        return found.acl
    owner = owner_of(catalog, subject)
    if subject.kind == "schema" and subject.id == 0:  # everybody may look into the schema public
        return ((owner, owner, "UC"), (PUBLIC, owner, "U"))
    if subject.role and subject.id != EVERYWHERE:
        return ()
    return usual(subject.kind.removesuffix("s") if subject.role else subject.kind, owner)


def granted_acl(catalog: Catalog, subject: Subject) -> Acl | None:
    """As ``acl_of``, None where nothing was said and nothing is to be shown."""
    found = definition(catalog, subject)
    if subject.kind == "schema" and subject.id == 0:
        return acl_of(catalog, subject)
    return None if found is None else found.acl


def judged_by(past: Catalog, now: Catalog) -> Catalog:
    """The definitions of the past with the rights of now.

    What is no more is its last owner's, whatever was granted then.
    """
    objects = {number: one for number, one in past.objects.items() if not _is_rights(one)}
    for number, one in past.objects.items():
        rights = one.definition
        if isinstance(rights, RightsDefinition) and not _is_there(rights, now):
            objects[number] = replace(one, definition=RightsDefinition(rights.on, rights.id, rights.owner))
    objects |= {number: one for number, one in now.objects.items() if _is_rights(one)}
    return replace(past, objects=objects, path=past.path)


def judging(now: Catalog) -> Catalog:
    """All that a statement needs rights to: what is there, and what its past has beside it."""
    if now.past is None:
        return now
    past = judged_by(now.past, now)
    return replace(now, tables={**past.tables, **now.tables}, objects={**past.objects, **now.objects})


def _is_rights(one: CatalogObject) -> bool:
    return isinstance(one.definition, RightsDefinition)


def _is_there(rights: RightsDefinition, now: Catalog) -> bool:
    """Whether what rights are to is still there; there is nothing else than relations, types and schemas that
    comes and goes."""
    if rights.on not in {"relation", "schema", "type", "function"} or rights.id <= 0:
        return True
    return rights.id in now.tables or rights.id in now.objects


def keep(view: View, subject: Subject, owner: str, acl: Acl | None) -> None:
    """Write down a thing's rights, within a statement."""
    found = rights_object(view.catalog, subject)
    made = RightsDefinition(subject.on, subject.id, owner, acl)
    if found is not None:
        if found.definition != made:
            view.put_object(replace(found, definition=made))
    elif owner != SYSTEM or acl is not None:
        view.put_object(CatalogObject(view.next_id, "", subject.called, made))


def own_new(view: View, subject: Subject, schema: str, owner: str) -> None:
    """Write down whose a new thing is, within the statement that made it.

    A sequence that goes with a column is its table's.
    """
    catalog = view.catalog
    one = catalog.objects.get(subject.id)
    if one is not None and isinstance(one.definition, SequenceDefinition) and one.definition.owner:
        return
    acl = None
    if subject.kind in {"table", "view", "sequence", "schema"}:
        kind = "table" if subject.kind == "view" else subject.kind
        where = schema_subject(catalog, schema).id if schema else EVERYWHERE
        acl = made_with(catalog, kind, where, owner)
    keep(view, subject, owner, acl)


def made_with(catalog: Catalog, kind: str, schema: int, owner: str) -> Acl | None:
    """What ALTER DEFAULT PRIVILEGES has for what ``owner`` makes in a schema; None for nothing."""
    base = definition(catalog, Subject(f"{kind}s", EVERYWHERE, "", owner))
    more = definition(catalog, Subject(f"{kind}s", schema, "", owner))
    if base is None and more is None:
        return None
    acl = base.acl if base is not None and base.acl is not None else usual(kind, owner)
    if more is not None and more.acl is not None:
        for to, by, letters in more.acl:
            has, options = split(letters)
            acl = granted(acl, to, by, has)
            if options:
                acl = granted(acl, to, by, options, option=True)
    return acl
