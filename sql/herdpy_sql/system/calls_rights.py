"""has_..._privilege and pg_has_role: what each is about, and their templates; see ``calls``.

Below ``rights_asked``, which computes their results.
"""

from __future__ import annotations

from typing import NamedTuple

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

GROUPS = frozenset(FUNCTIONS)
"""The functions' names."""


def privilege_template(name: str, count: int) -> str | None:
    """The template of a function with so many arguments; None where it is none of these."""
    takes_column = name == "has_column_privilege"
    if name not in FUNCTIONS or count not in (2 + takes_column, 3 + takes_column):
        return None
    arguments = ", ".join(f"s_argument(:{at})" for at in range(1, count + 1))
    return f"s_has_right('{name}', [{arguments}], $s_asked)"


MACROS = (
    "CREATE MACRO s_argument(x) AS CASE WHEN x IS NULL THEN NULL WHEN typeof(x) = 'VARCHAR' THEN 'n' || x"
    " ELSE 'o' || CAST(x AS VARCHAR) END",
)
"""What the templates call: an argument with "n" before a name, "o" before an id."""

_ROLE = "(SELECT min(s_r.l_oid) FROM \"lookup.role\" AS s_r WHERE s_r.l_name = replace({}, '\"', ''))"
_LETTERS = ", ".join(
    f"('{letter}', '{name}')"
    for letter, name in (
        ("a", "INSERT"), ("r", "SELECT"), ("w", "UPDATE"), ("d", "DELETE"), ("D", "TRUNCATE"),
        ("x", "REFERENCES"), ("t", "TRIGGER"), ("X", "EXECUTE"), ("U", "USAGE"), ("C", "CREATE"),
        ("T", "TEMPORARY"), ("c", "CONNECT"),
    )
)  # fmt: skip
_PART = "regexp_extract(s_a.item, '^(.*)=([a-zA-Z*]*)/(.*)$', {})"
ACL_EXPLODE = (
    "coalesce((SELECT list(struct_pack("
    f"grantor := {_ROLE.format('s_i.granted[3]')}, grantee := coalesce({_ROLE.format('s_i.granted[1]')}, 0), "
    "privilege_type := s_k.name, is_grantable := contains(s_i.granted[2], s_k.letter || '*'))) "
    f"FROM (SELECT [{', '.join(_PART.format(n) for n in (1, 2, 3))}] AS granted "
    "FROM (SELECT unnest(:1) AS item) AS s_a) AS s_i, "
    f"(VALUES {_LETTERS}) AS s_k(letter, name) WHERE contains(s_i.granted[2], s_k.letter)), [])"
)
"""The privileges in a list of aclitems, as a list of structs."""
_OWNER = "coalesce((SELECT min(s_r.l_name) FROM \"lookup.role\" AS s_r WHERE s_r.l_oid = :2), '')"
_DEFAULTS = {
    "r": "~=arwdDxt/~",
    "s": "~=rwU/~",
    "d": "=Tc/~,~=CTc/~",
    "n": "~=UC/~",
    "f": "=X/~,~=X/~",
    "l": "=U/~,~=U/~",
    "T": "=U/~,~=U/~",
    "t": "~=C/~",
    "F": "~=U/~",
    "S": "~=U/~",
    "L": "~=rw/~",
    "p": "~=sA/~",
}
_WHEN = " ".join(f"WHEN '{letter}' THEN '{items}'" for letter, items in _DEFAULTS.items())
ACL_DEFAULT = f"string_split(replace(CASE CAST(:1 AS VARCHAR) {_WHEN} END, '~', {_OWNER}), ',')"
"""What whoever owns a thing, and everybody, may do with it where nothing was granted."""
