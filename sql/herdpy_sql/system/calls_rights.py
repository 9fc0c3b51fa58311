"""has_..._privilege and pg_has_role, as templates over the lookups of rights; see ``calls``."""

from __future__ import annotations

_NAMES = {"relation": "name", "schema": "namespace", "database": "database"}
GROUPS = {
    "has_table_privilege": "relation",
    "has_any_column_privilege": "relation",
    "has_column_privilege": "relation",
    "has_sequence_privilege": "relation",
    "has_schema_privilege": "schema",
    "has_database_privilege": "database",
}
"""By the functions' names, what they are about."""


def _thing(group: str, hole: str) -> str:
    """The id of what is named, or of what is an id already."""
    return (
        f'coalesce(TRY_CAST({hole} AS BIGINT), (SELECT min(s_n.l_oid) FROM "lookup.{_NAMES[group]}" AS s_n'
        f" WHERE s_n.l_name = CAST({hole} AS VARCHAR)))"
    )


def privilege_template(name: str, count: int) -> str | None:
    """The template of a function with so many arguments; None where it is none of these."""
    if name == "pg_has_role" and count in (2, 3):
        return _membership(count)
    group = GROUPS.get(name)
    if group is None:
        return None
    count -= name == "has_column_privilege"
    last = count + (name == "has_column_privilege")
    if count == 2:
        return (
            f'(SELECT s_may(min(s_l.l_letters), CAST(:{last} AS VARCHAR)) FROM "lookup.privilege" AS s_l'
            f" WHERE s_l.l_group = '{group}' AND s_l.l_oid = {_thing(group, ':1')})"
        )
    if count == 3:
        return (
            f'(SELECT s_may(min(s_l.l_letters), CAST(:{last} AS VARCHAR)) FROM "lookup.privileges" AS s_l'
            f" WHERE s_l.l_group = '{group}' AND s_l.l_oid = {_thing(group, ':2')}"
            " AND CAST(:1 AS VARCHAR) IN (s_l.l_role, s_l.l_number))"
        )
    return None


def _membership(count: int) -> str:
    role = "$s_user" if count == 2 else "CAST(:1 AS VARCHAR)"
    return (
        f"(SELECT bool_or(CASE WHEN upper(:{count}) LIKE 'USAGE%' THEN s_l.l_usage ELSE s_l.l_member END)"
        ' FROM "lookup.member" AS s_l'
        f" WHERE {role} IN (s_l.l_role, s_l.l_number)"
        f" AND CAST(:{count - 1} AS VARCHAR) IN (s_l.l_other, s_l.l_other_number))"
    )


MACROS = (
    "CREATE MACRO s_letter(word) AS CASE word WHEN 'INSERT' THEN 'a' WHEN 'SELECT' THEN 'r'"
    " WHEN 'UPDATE' THEN 'w'"
    " WHEN 'DELETE' THEN 'd' WHEN 'TRUNCATE' THEN 'D' WHEN 'REFERENCES' THEN 'x' WHEN 'TRIGGER' THEN 't'"
    " WHEN 'USAGE' THEN 'U' WHEN 'CREATE' THEN 'C' WHEN 'TEMPORARY' THEN 'T' WHEN 'TEMP' THEN 'T'"
    " WHEN 'CONNECT' THEN 'c' ELSE error('unrecognized privilege type: \"' || word || '\"') END",
    "CREATE MACRO s_may(letters, words) AS CASE WHEN letters IS NULL THEN NULL ELSE len(list_filter("
    "string_split(upper(words), ','), lambda w: contains(letters,"
    " s_letter(trim(replace(w, 'WITH GRANT OPTION', '')))"
    " || CASE WHEN contains(w, 'WITH GRANT OPTION') THEN '*' ELSE '' END))) > 0 END",
)
"""What the templates call."""

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
