"""has_..._privilege and pg_has_role: what a role may do with a thing, by names or by ids.

An argument comes as a text that begins with "n" for a name and "o" for an id. What is not there is an error
where it was named, and NULL where it was an id, as in PostgreSQL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from herdpy_sql.errors import SqlError
from herdpy_sql.objects import ViewDefinition
from herdpy_sql.rights.privileges import LETTERS
from herdpy_sql.system import names
from herdpy_sql.system.contents import SCHEMAS, role_oid, user_schemas
from herdpy_sql.system.names import procedure
from herdpy_sql.system.ownership import letters_held, things
from herdpy_sql.system.state import keys_of
from herdpy_sql.system.types import by_oid, own_types
from herdpy_sql.system_relations import relations

if TYPE_CHECKING:
    from herdpy_sql.rights.held import Subject
    from herdpy_sql.system.contents import Context
    from herdpy_sql.system.state import RoleRow

_COLUMN_WORDS = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
_TABLE_WORDS = (*_COLUMN_WORDS, "DELETE", "TRUNCATE", "TRIGGER", "RULE")


class PrivilegeFunction(NamedTuple):
    """One of these functions: what it is about, and the privileges that it knows."""

    about: str
    words: tuple[str, ...]


FUNCTIONS = {
    "has_table_privilege": PrivilegeFunction("relation", _TABLE_WORDS),
    "has_any_column_privilege": PrivilegeFunction("relation", _COLUMN_WORDS),
    "has_column_privilege": PrivilegeFunction("relation", _COLUMN_WORDS),
    "has_sequence_privilege": PrivilegeFunction("sequence", ("USAGE", "SELECT", "UPDATE")),
    "has_schema_privilege": PrivilegeFunction("schema", ("CREATE", "USAGE")),
    "has_database_privilege": PrivilegeFunction("database", ("CREATE", "TEMPORARY", "TEMP", "CONNECT")),
    "has_function_privilege": PrivilegeFunction("function", ("EXECUTE",)),
    "has_type_privilege": PrivilegeFunction("type", ("USAGE",)),
    "has_language_privilege": PrivilegeFunction("language", ("USAGE",)),
    "has_tablespace_privilege": PrivilegeFunction("tablespace", ("CREATE",)),
    "has_foreign_data_wrapper_privilege": PrivilegeFunction("foreign-data wrapper", ("USAGE",)),
    "has_server_privilege": PrivilegeFunction("server", ("USAGE",)),
    "has_parameter_privilege": PrivilegeFunction("parameter", ("SET", "ALTER SYSTEM")),
    "pg_has_role": PrivilegeFunction("role", ("USAGE", "MEMBER")),
}


_GRANT, _ADMIN = " WITH GRANT OPTION", " WITH ADMIN OPTION"
_SYSTEM_COLUMNS = {"ctid": -1, "xmin": -2, "cmin": -3, "xmax": -4, "cmax": -5, "tableoid": -6}
_LANGUAGES = {"internal": 12, "c": 13, "sql": 14}
_TABLESPACES = {"pg_default": 1663}
_EVERYBODY = "npublic"
"""As an argument has it."""
_GROUPS = {"sequence": "relation"}
_OF_EVERYBODY = frozenset(
    {"function", "type", "language", "tablespace", "foreign-data wrapper", "server", "parameter"}
)
"""What everybody may use, if it is there: nothing is granted on it."""


class RightsAsked:
    """Answers one query's questions."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def answer(self, name: str, given: list[str]) -> bool | None:
        """What the function of that name says. SqlError 42P01, 42703, 42704, 3F000, 22023 ..."""
        if name == "pg_has_role":
            return self._has_role(given)
        function = FUNCTIONS[name]
        takes_column = name == "has_column_privilege"
        keys = self._keys(given[0] if len(given) == 3 + takes_column else f"n{self._context.state.user}")
        oid = _FINDERS[function.about](self._context, given[-2 - takes_column])
        subject, system = self._things.get((_GROUPS.get(function.about, function.about), oid), (None, None))
        if function.about == "sequence" and system is not None:
            self._check_sequence(oid, subject)
        is_there = self._has_column(oid, given[-2]) if takes_column else True
        wanted = letters_wanted(given[-1][1:], function.words)
        if function.about in _OF_EVERYBODY:
            return None if oid is None else True
        if system is None or not is_there:
            return None
        letters = letters_held(self._context, keys, subject, system)
        return any(one in letters for one in wanted)

    @functools.cached_property
    def _things(self) -> dict[tuple[str, int | None], tuple[Subject | None, str]]:
        return {(group, oid): (subject, system) for group, oid, subject, system in things(self._context)}

    def _keys(self, given: str) -> set[str] | None:
        """The keys of a role: None of a superuser, nothing but everybody's for an id that is no role's."""
        role = None if given == _EVERYBODY else self._role(given)
        return set() if role is None else keys_of(self._context.state, role.name)

    def _role(self, given: str) -> RoleRow | None:
        for role in self._context.state.roles():
            if given in (f"n{role.name}", f"o{role_oid(role.key)}"):
                return role
        if given[0] == "n":
            raise SqlError("42704", f'role "{given[1:]}" does not exist')
        return None

    def _check_sequence(self, oid: int | None, subject: Subject | None) -> None:
        if subject is None or subject.kind != "sequence":
            raise SqlError("42809", f'"{self._name_of(oid)}" is not a sequence')

    def _has_column(self, oid: int | None, given: str) -> bool:
        """Whether a relation has a column; of a relation that is there a name must be right (42703)."""
        names = self._columns(oid)
        if given[0] == "o":
            number = int(given[1:])
            return number in _SYSTEM_COLUMNS.values() or 0 < number <= len(names)
        if ("relation", oid) not in self._things:
            return False
        if given[1:] not in names and given[1:] not in _SYSTEM_COLUMNS:
            shown = self._name_of(oid)
            raise SqlError("42703", f'column "{given[1:]}" of relation "{shown}" does not exist')
        return True

    def _columns(self, oid: int | None) -> list[str]:
        """The names of a relation's columns by their numbers; "" for those that are not there any more."""
        catalog = self._context.catalog
        for table in catalog.tables.values():
            if table.oid == oid:
                return ["" if column.dropped or column.hidden else column.name for column in table.columns]
        for one in catalog.objects.values():
            if one.oid == oid and isinstance(one.definition, ViewDefinition):
                return [name for name, _type in one.definition.columns]
        found = next((one for one in relations().values() if one.oid == oid), None)
        return [] if found is None else list(found.arrow_schema.names)

    def _name_of(self, oid: int | None) -> str:
        named = names.relations_named(self._context.catalog)
        return next((name for (_schema, name), number in named.items() if number == oid), str(oid))

    def _has_role(self, given: list[str]) -> bool:
        role = self._role(given[0] if len(given) == 3 else f"n{self._context.state.user}")
        other = self._role(given[-2])
        words = [_role_word(word) for word in _words(given[-1][1:])]
        if (role is not None and role.superuser) or (len(given) == 3 and given[0] == given[1]):
            return True
        if role is None or other is None:
            return False
        return any(self._is_member(role, other, word) for word in words)

    def _is_member(self, role: RoleRow, other: RoleRow, word: str) -> bool:
        keys = keys_of(self._context.state, role.name, inherited=word == "USAGE")
        if keys is None:
            return True
        if not word.endswith("OPTION"):
            return other.key in keys
        own = [one for one in self._context.state.roles() if one.key in keys]
        return any(held.role == other.key and held.admin for one in own for held in one.memberships)


def letters_wanted(text: str, words: tuple[str, ...]) -> list[str]:
    """The letters that a list of privileges asks for, with * for the right to pass it on. SqlError 22023."""
    found = []
    for word in _words(text):
        plain = word.upper()
        option = plain.endswith(_GRANT)
        plain = plain.removesuffix(_GRANT)
        if plain not in words:
            raise _unrecognized(word)
        if plain != "RULE":  # there was such a privilege once
            found.append(LETTERS[plain] + "*" * option)
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _unrecognized(word: str) -> SqlError:
    return SqlError("22023", f'unrecognized privilege type: "{word}"')


def _role_word(word: str) -> str:
    plain = word.upper()
    if plain.removesuffix(_GRANT).removesuffix(_ADMIN) not in ("USAGE", "MEMBER"):
        raise _unrecognized(word)
    return plain


Finder = Callable[["Context", str], int | None]


def _named(find: Callable[[Context, str], int]) -> Finder:
    """Finds by name what must be there, and takes an id as it is."""
    return lambda context, given: find(context, given[1:]) if given[0] == "n" else int(given[1:])


def _schema(context: Context, name: str) -> int:
    found = {**SCHEMAS, **user_schemas(context.catalog)}.get(name)
    if found is None or (name == "public" and not context.catalog.has_schema(name)):
        raise SqlError("3F000", f'schema "{name}" does not exist')
    return found


def _database(context: Context, name: str) -> int:
    if name not in context.state.databases():
        raise SqlError("3D000", f'database "{name}" does not exist')
    return context.database_oid(name)


def _type(context: Context, given: str) -> int | None:
    if given[0] == "n":
        return names.type_oid(context, given[1:])
    oid = int(given[1:])
    known = oid in by_oid() or any(row["oid"] == oid for row in own_types(context.catalog))
    return oid if known else None


def _function(context: Context, given: str) -> int | None:
    """Functions have no ids here but those that pg_type names; one that is called so is enough."""
    if given[0] != "n":
        return None
    procedure(context, given[1:], strict=True, arguments=True)
    return 0


def _of(what: str, known: Mapping[str, int]) -> Finder:
    def find(context: Context, given: str) -> int | None:
        del context
        if given[0] == "n":
            if given[1:] not in known:
                raise SqlError("42704", f'{what} "{given[1:]}" does not exist')
            return known[given[1:]]
        return int(given[1:]) if int(given[1:]) in known.values() else None

    return find


def _parameter(context: Context, given: str) -> int | None:
    del context
    return 0 if given[0] == "n" else None


_FINDERS: dict[str, Finder] = {
    "relation": _named(names.relation_oid),
    "sequence": _named(names.relation_oid),
    "schema": _named(_schema),
    "database": _named(_database),
    "type": _type,
    "function": _function,
    "language": _of("language", _LANGUAGES),
    "tablespace": _of("tablespace", _TABLESPACES),
    "foreign-data wrapper": _of("foreign-data wrapper", {}),
    "server": _of("server", {}),
    "parameter": _parameter,
}
