"""has_..._privilege and pg_has_role, as templates over the lookups of rights; see ``calls``."""

from __future__ import annotations

from herdpy_sql.system.rights_asked import FUNCTIONS

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
