"""What exists beside tables and indexes: schemas, sequences, views, types and the like, as immutable values.

Below ``catalog``, which numbers them from the same ``next_id`` as tables and holds them by id. A definition
is a struct of its own for each kind; its tag in the JSON is the kind's name. They travel in the log and lie
in the store as the bytes of :func:`encode_object`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import msgspec
from msgspec import Struct

FIRST_USER_OID = 16384
"""PostgreSQL's object ids of what users make begin here."""

VIEW = "herdpy_view"
"""Where the tree of a view's query, in a statement that reads the view, has the view's object id."""

SYSTEM = "*"
"""Stands for the superuser that is there from the start, among the keys of roles."""


class SchemaDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="schema"):
    """A schema. Its object has the schema "" and its own name as name.

    Attributes:
        owner: the role that made it; "" where nobody is known.
        dropped: the schema that is there from the start ("public") is not there any more.
    """

    owner: str = ""
    dropped: bool = False


class SequenceDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="sequence"):
    """A sequence without its state, which changes too often to be a definition.

    Attributes:
        type: "smallint", "integer" or "bigint", the type of its values.
        owner: (table id, column position) of the column that it goes with; None for none.
        identity: made by GENERATED ... AS IDENTITY for that column.
    """

    start: int = 1
    increment: int = 1
    minimum: int = 1
    maximum: int = (1 << 63) - 1
    cycle: bool = False
    cache: int = 1
    type: str = "bigint"
    owner: tuple[int, int] | None = None
    identity: bool = False


class ViewDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="view"):
    """A view.

    Attributes:
        query: its text, with every name of a table qualified.
        columns: the names of its columns, their types as ``format_type`` shows them, in order.
        uses: ids of the tables, views and sequences that it reads, in order.
        check: "LOCAL" or "CASCADED", of WITH CHECK OPTION; "" for none.
    """

    query: str
    columns: tuple[tuple[str, str], ...]
    uses: tuple[int, ...] = ()
    check: str = ""


class EnumDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="enum"):
    """An enum type: its labels with their sort positions, in order."""

    labels: tuple[tuple[str, float], ...] = ()


class StatisticsDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="statistics"):
    """What ANALYZE found in a table, opaque here: ``data`` is the planner's JSON."""

    table_id: int
    data: msgspec.Raw = msgspec.Raw(b"{}")


class CommentDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="comment"):
    """What COMMENT ON says of something. Its object is named so that there is one for each thing.

    Attributes:
        on: "relation", "constraint", "schema", "type", "database", "role" ...
        id: of the table, index or object; 0 of what has a name only, which is the object's name then.
        column: position of a table's column; -1 for the thing itself.
    """

    text: str
    on: str = "relation"
    id: int = 0
    column: int = -1


class FunctionDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="function"):
    """A function or a procedure. Its object's name is the name with the types of what is given to it.

    Types are texts as ``programs.type_texts`` writes them: they outlive another name of the type.

    Attributes:
        name: as calls have it.
        language: "sql" or "plpgsql". ``source``: the program, as it was written.
        arguments: (mode, name, type, default) of each. The mode is "i" (IN), "o" (OUT), "b" (INOUT) or "t" (a
            column of RETURNS TABLE); a default is an expression, "" for none.
        returns: the type of the result, of a row where ``gives_rows``; "void", "trigger", "record".
        procedure: CALL runs it.
        volatility: "v" (VOLATILE), "s" (STABLE) or "i" (IMMUTABLE).
        strict: NULL for any argument is NULL for the result, and nothing runs.
        parallel, leakproof, cost, rows: as they were declared, for pg_proc; 0 for what is usual.
    """

    name: str
    language: str
    source: str
    arguments: tuple[tuple[str, str, str, str], ...] = ()
    returns: str = "void"
    gives_rows: bool = False
    procedure: bool = False
    volatility: str = "v"
    strict: bool = False
    parallel: str = "u"
    leakproof: bool = False
    cost: float = 0
    rows: float = 0


class RightsDefinition(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="rights"):
    """Who owns something, and what others may do with it. Its object is named so that there is one for each.

    Roles stand for themselves by their keys, which are never used again (see ``rights``).

    Attributes:
        on: "relation", "schema", "type", "database"; "tables", "sequences", "schemas" of what the owner will
            make, as ALTER DEFAULT PRIVILEGES says.
        id: of the table or object; 0 of the database, of the schema public, and of all schemas.
        owner: the role; SYSTEM for the superuser that is there from the start.
        acl: (to whom, by whom, letters) of each grant, in order; None: as is usual for such a thing.
    """

    on: str = "relation"
    id: int = 0
    owner: str = SYSTEM
    acl: tuple[tuple[str, str, str], ...] | None = None


Definition = (
    SchemaDefinition
    | SequenceDefinition
    | ViewDefinition
    | EnumDefinition
    | StatisticsDefinition
    | CommentDefinition
    | RightsDefinition
    | FunctionDefinition
)

RELATION_KINDS = frozenset({"sequence", "view"})
"""Kinds that share their names with tables and indexes."""


@dataclass(frozen=True)
class CatalogObject:
    """Something named in the catalog that is no table and no index.

    Attributes:
        id: from the catalog's ``next_id``, shared with tables and indexes.
        schema: "" for what is in none (schemas, comments).
    """

    id: int
    schema: str
    name: str
    definition: Definition

    @functools.cached_property
    def kind(self) -> str:
        """What it is: "schema", "sequence", "view", "enum", "statistics", "comment", "rights",
        "function"."""
        return str(self.definition.__struct_config__.tag)

    @property
    def oid(self) -> int:
        """Its object id, where PostgreSQL's clients want one."""
        return FIRST_USER_OID + self.id


class _Image(Struct, omit_defaults=True):
    id: int
    name: str
    definition: Definition
    schema: str = ""


_decoder = msgspec.json.Decoder(_Image)


def encode_object(one: CatalogObject) -> bytes:
    """The object as bytes, for the log and the store."""
    return msgspec.json.encode(_Image(one.id, one.name, one.definition, one.schema))


def decode_object(data: bytes) -> CatalogObject:
    """The inverse of :func:`encode_object`. ValueError (msgspec's) for what is none, or of unknown kind."""
    image = _decoder.decode(data)
    return CatalogObject(image.id, image.schema, image.name, image.definition)
