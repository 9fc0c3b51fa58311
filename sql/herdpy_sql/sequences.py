"""Sequences: which one a name means, and what follows a state of one. No I/O; the store keeps the states."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple, Protocol

from herdpy_sql.catalog import PUBLIC, Catalog, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import FIRST_USER_OID, CatalogObject, SequenceDefinition

MAX_NAME = 63
_STATE = Struct(">qB")
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*')


class SequenceState(NamedTuple):
    """How far a sequence has come: ``value`` was given last, or comes next where it was not ``called``."""

    value: int
    called: bool

    def encode(self) -> bytes:
        """As it is logged and stored: 9 bytes."""
        return _STATE.pack(self.value, self.called)

    @staticmethod
    def decode(data: bytes) -> SequenceState:
        """The inverse of :meth:`encode`."""
        value, called = _STATE.unpack(data)
        return SequenceState(value, bool(called))


class HasPath(Protocol):
    """Settings: ``path`` is where names without a schema are looked for.

    ``temporary_schema`` is where the session's temporary tables are; "" as long as there is none.
    """

    path: tuple[str, ...]
    temporary_schema: str


@dataclass
class SequenceMemory:
    """What a session remembers of sequences, and what it is known by.

    Attributes:
        settings: the session's. ``pid``: its process id, which its notifications have.
        values: the value that it was given last, by the sequence's id. ``last``: the newest's id.
    """

    settings: HasPath
    values: dict[int, int] = field(default_factory=dict)
    last: int | None = None
    pid: int = 1

    def forget(self) -> None:
        """DISCARD SEQUENCES: no value was given yet."""
        self.values.clear()
        self.last = None


def definition_of(one: CatalogObject) -> SequenceDefinition:
    """The definition of a sequence."""
    assert isinstance(one.definition, SequenceDefinition)
    return one.definition


def after(one: CatalogObject, state: SequenceState) -> SequenceState:
    """The state after the next value was given. SqlError 2200H at the end of a sequence without CYCLE."""
    what = definition_of(one)
    if not state.called:
        return SequenceState(state.value, True)
    value = state.value + what.increment
    if what.minimum <= value <= what.maximum:
        return SequenceState(value, True)
    if what.cycle:
        return SequenceState(what.minimum if what.increment > 0 else what.maximum, True)
    limit = ("maximum", what.maximum) if what.increment > 0 else ("minimum", what.minimum)
    raise SqlError("2200H", f'nextval: reached {limit[0]} value of sequence "{one.name}" ({limit[1]})')


def checked(one: CatalogObject, value: int, *, called: bool) -> SequenceState:
    """What setval makes of a sequence. SqlError 22003 for a value out of its bounds."""
    what = definition_of(one)
    if not what.minimum <= value <= what.maximum:
        raise SqlError(
            "22003",
            f'setval: value {value} is out of bounds for sequence "{one.name}" '
            f"({what.minimum}..{what.maximum})",
        )
    return SequenceState(value, called)


def find_sequence(catalog: Catalog, text: str, path: tuple[str, ...] = (PUBLIC,)) -> CatalogObject:
    """The sequence that ``text`` names, as a regclass is written: a name, a qualified name, or an object id.

    SqlError 42P01 there is none, 42809 it is something else, 42602 it is no name.
    """
    known = catalog.derived.get((text, path))
    if known is None:
        known = catalog.derived[text, path] = _find(catalog, text, path)
    assert isinstance(known, CatalogObject)
    return known


def _find(catalog: Catalog, text: str, path: Sequence[str]) -> CatalogObject:
    if text.isdecimal():
        found = catalog.objects.get(int(text) - FIRST_USER_OID)
        if found is None:
            raise SqlError("42P01", f"relation with OID {text} does not exist")
        name = found.name
    else:
        schema, name = split_name(text)
        relation = catalog.find(schema, name, path)
        if relation is None:
            raise SqlError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist')
        if not isinstance(relation, CatalogObject):
            raise SqlError("42809", f'"{name}" is not a sequence')
        found = relation
    if found.kind != "sequence":
        raise SqlError("42809", f'"{name}" is not a sequence')
    return found


def split_name(text: str) -> tuple[str | None, str]:
    """(schema or None, name) of a name as SQL writes it; SqlError 42602."""
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise SqlError("42602", "invalid name syntax")
        parts.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        at = match.end()
        if at == len(text):
            break
        if text[at] != ".":
            raise SqlError("42602", "invalid name syntax")
        at += 1
    if len(parts) > 2:
        raise SqlError("0A000", f"cross-database references are not implemented: {text}")
    return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[0])


def owned_by(catalog: Catalog, table: Table, position: int | None = None) -> list[CatalogObject]:
    """The sequences that go with a table, or with its column at ``position``."""
    found = []
    for one in catalog.objects.values():
        owner = one.definition.owner if isinstance(one.definition, SequenceDefinition) else None
        if owner is not None and owner[0] == table.id and position in {None, owner[1]}:
            found.append(one)
    return found


def relation_names(table: Table, catalog: Catalog) -> Iterator[str]:
    """The names that a table takes up in its schema: its own, its indexes', and its sequences'."""
    yield table.name
    if not table.has_hidden_key:
        yield table.key_name
    yield from (index.name for index in table.indexes)
    yield from (one.name for one in owned_by(catalog, table))


NEXTVAL = re.compile(r"nextval\('(\d+)'\)", re.IGNORECASE)
"""How the DEFAULT of a column has the sequence that it takes values of: by its object id."""


def sequence_default(one: CatalogObject) -> str:
    """The DEFAULT that takes the values of a sequence."""
    return f"nextval('{one.oid}')"


def sequences_of(text: str | None) -> list[int]:
    """Ids of the sequences that a DEFAULT takes values of."""
    return [] if text is None else [int(found) - FIRST_USER_OID for found in NEXTVAL.findall(text)]


def fresh_name(table: str, columns: Sequence[str], suffix: str, taken: Container[str]) -> str:
    """A name of at most 63 bytes, of which the table's and the columns' give way: makeObjectName's rule."""
    first, second = table.encode(), "_".join(columns).encode()[:MAX_NAME]
    for number in itertools.count():
        label = f"_{suffix}{number or ''}"
        room = MAX_NAME - len(label) - bool(second)
        one, two = len(first), len(second)
        while one + two > room:
            if one > two:
                one -= 1
            else:
                two -= 1
        parts = [part.decode(errors="ignore") for part in (first[:one], second[:two]) if part]
        name = "_".join(parts) + label
        if name not in taken:
            break
    return name
