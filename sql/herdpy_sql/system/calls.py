"""PostgreSQL's functions about the catalog and the server, as DuckDB text or as values of the session.

``CALLS`` says what a function name becomes. A *template* is DuckDB text with ``:1``, ``:2`` for the
arguments; relations named in it ("lookup.class" and so on) are those of ``lookups``. ``VALUES`` are
functions without arguments whose value the session knows. What is not named here, nor in ``NATIVE`` (the
same in DuckDB), does not exist. has_..._privilege and pg_has_role have templates too; ``rights_asked``
computes their results.
"""

from __future__ import annotations

from typing import NamedTuple

from herdpy_sql.system.advisory import NAMES

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
VECTOR_OID = 16300
ACL_DEFAULTS = {
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
"""What whoever owns a thing ("~"), and everybody, may do with it at first, by the kind of the thing."""
_WHEN = " ".join(f"WHEN '{letter}' THEN '{items}'" for letter, items in ACL_DEFAULTS.items())
ACL_DEFAULT = f"string_split(replace(CASE CAST(:1 AS VARCHAR) {_WHEN} END, '~', {_OWNER}), ',')"
"""What whoever owns a thing, and everybody, may do with it where nothing was granted."""


# ruff: noqa: E501 - a function and what it becomes in one line


CALLS: dict[str, str] = {
    # definitions
    "format_type": "coalesce((SELECT s_l.l_name || CASE WHEN s_l.l_oid = 16300 AND CAST(:2 AS BIGINT) > 0 THEN '(' || CAST(:2 AS VARCHAR) || ')' ELSE '' END "
    'FROM "lookup.type" AS s_l WHERE s_l.l_oid = CAST(:1 AS BIGINT)), s_format_type(CAST(:1 AS BIGINT), CAST(:2 AS BIGINT)))',
    "pg_get_expr": ":1",
    "pg_get_indexdef": "(SELECT CASE WHEN :3 THEN s_l.l_pretty ELSE s_l.l_text END FROM \"lookup.index\" AS s_l "
    "WHERE s_l.l_oid = :1 AND s_l.l_number = :2)",
    "pg_get_constraintdef": '(SELECT CASE WHEN :2 THEN s_l.l_pretty ELSE s_l.l_text END FROM "lookup.constraint" AS s_l '
    "WHERE s_l.l_oid = :1)",
    "pg_get_userbyid": "coalesce((SELECT s_l.l_name FROM \"lookup.role\" AS s_l WHERE s_l.l_oid = :1), "
    "'unknown (OID=' || CAST(:1 AS VARCHAR) || ')')",
    "pg_get_viewdef": '(SELECT s_l.l_text FROM "lookup.view" AS s_l WHERE s_l.l_oid = :1)',
    "pg_get_ruledef": "CAST(NULL AS VARCHAR)",
    "pg_get_triggerdef": "CAST(NULL AS VARCHAR)",
    "pg_get_functiondef": "CAST(NULL AS VARCHAR)",
    "pg_get_function_result": "CAST(NULL AS VARCHAR)",
    "pg_get_function_arguments": "CAST(NULL AS VARCHAR)",
    "pg_get_function_identity_arguments": "CAST(NULL AS VARCHAR)",
    "pg_get_function_sqlbody": "CAST(NULL AS VARCHAR)",
    "pg_get_partkeydef": "CAST(NULL AS VARCHAR)",
    "pg_partition_ancestors": "CAST(NULL AS BIGINT)",
    "pg_get_partition_constraintdef": "CAST(NULL AS VARCHAR)",
    "pg_get_statisticsobjdef_columns": "CAST(NULL AS VARCHAR)",
    "pg_get_statisticsobjdef": "CAST(NULL AS VARCHAR)",
    "pg_get_serial_sequence": '(SELECT min(s_l.l_text) FROM "lookup.serial" AS s_l'
    " WHERE s_l.l_oid = s_resolve('class', CAST(:1 AS VARCHAR), 'cast', $s_asked) AND s_l.l_column = :2)",
    "pg_get_replica_identity_index": "CAST(NULL AS BIGINT)",
    "obj_description": '(SELECT min(s_l.l_text) FROM "lookup.comment" AS s_l'
    " WHERE s_l.l_oid = :1 AND s_l.l_number = 0)",
    "col_description": '(SELECT min(s_l.l_text) FROM "lookup.comment" AS s_l'
    " WHERE s_l.l_oid = :1 AND s_l.l_number = :2)",
    "shobj_description": "CAST(NULL AS VARCHAR)",
    # names
    "to_regclass": "s_resolve('class', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "to_regtype": "s_resolve('type', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "to_regnamespace": "s_resolve('namespace', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "to_regrole": "s_resolve('role', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "to_regproc": "s_procedure('proc', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "to_regprocedure": "s_procedure('procedure', CAST(:1 AS VARCHAR), 'to', $s_asked)",
    "quote_ident": "s_quote_ident(CAST(:1 AS VARCHAR))",
    "quote_literal": "s_quote_literal(:1)",
    "quote_nullable": "coalesce(s_quote_literal(:1), 'NULL')",
    "pg_encoding_to_char": "s_encoding(:1)",
    "pg_char_to_encoding": "CASE WHEN upper(:1) IN ('UTF8', 'UTF-8', 'UNICODE') THEN 6 ELSE -1 END",
    # visibility
    "pg_table_is_visible": '(SELECT s_l.l_visible FROM "lookup.class" AS s_l WHERE s_l.l_oid = :1)',
    "pg_type_is_visible": 'coalesce((SELECT s_l.l_visible FROM "lookup.type" AS s_l WHERE s_l.l_oid = :1), true)',
    **dict.fromkeys(("pg_function_is_visible", "pg_operator_is_visible", "pg_opclass_is_visible", "pg_opfamily_is_visible", "pg_collation_is_visible", "pg_conversion_is_visible", "pg_ts_config_is_visible", "pg_ts_dict_is_visible", "pg_ts_parser_is_visible", "pg_ts_template_is_visible", "pg_statistics_obj_is_visible", "pg_relation_is_updatable"), "true"),
    **dict.fromkeys(("pg_relation_is_publishable", "pg_is_other_temp_schema", "pg_is_wal_replay_paused", "pg_index_has_property", "pg_indexam_has_property"), "false"),
    "row_security_active": "CASE WHEN typeof(:1) = 'VARCHAR' AND "
    "s_resolve('class', CAST(:1 AS VARCHAR), 'cast', $s_asked) IS NULL THEN NULL ELSE false END",
    "pg_my_temp_schema": "CAST(0 AS BIGINT)",
    # sizes: they are not kept by table
    **dict.fromkeys(("pg_relation_size", "pg_table_size", "pg_total_relation_size", "pg_indexes_size", "pg_database_size", "pg_tablespace_size", "pg_relation_filenode"), "CAST(0 AS BIGINT)"),
    "pg_size_pretty": "s_size_pretty(CAST(:1 AS BIGINT))",
    "getdatabaseencoding": "'UTF8'",
    "pg_tablespace_location": "''",
    "pg_blocking_pids": "CAST([] AS INTEGER[])",
    **dict.fromkeys(("pg_stat_get_numscans", "pg_stat_get_tuples_returned", "pg_stat_get_tuples_fetched", "pg_stat_get_live_tuples", "pg_stat_get_dead_tuples", "pg_stat_get_blocks_fetched", "pg_stat_get_blocks_hit"), "CAST(0 AS BIGINT)"),
    "pg_sequence_last_value": '(SELECT s_l.l_value FROM "lookup.sequence" AS s_l WHERE s_l.l_oid = :1 AND s_l.l_called)',
    **dict.fromkeys(("pg_stat_clear_snapshot", "pg_stat_reset"), "''"),
    # arrays
    "array_upper": "s_upper_bound(:1)",
    "array_lower": "CASE WHEN len(:1) > 0 THEN 1 END",
    "array_length": "s_upper_bound(:1)",
    "cardinality": "CAST(len(:1) AS INTEGER)",
    "array_position": "list_position(:1, :2)",
    "array_append": "list_append(:1, :2)",
    "array_cat": "list_concat(:1, :2)",
    "array_remove": "list_filter(:1, lambda e: e IS DISTINCT FROM :2)",
    "array_to_string": "array_to_string(:1, :2)",
    "generate_subscripts": "s_subscripts(:1)",
    "_pg_expandarray": "s_expand(:1)",
    "_pg_truetypid": "CAST(NULL AS BIGINT)",
    "pg_options_to_table": "CAST([] AS STRUCT(option_name VARCHAR, option_value VARCHAR)[])",
    "aclexplode": ACL_EXPLODE,
    "acldefault": ACL_DEFAULT,
    "age": "CAST(0 AS INTEGER)",
    "txid_current": "CAST(0 AS BIGINT)",
    "pg_current_xact_id_if_assigned": "CAST(NULL AS BIGINT)",
}  # fmt: skip

DEFAULTS: dict[str, tuple[str, ...]] = {
    "pg_get_indexdef": ("0", "false"),
    "pg_get_constraintdef": ("false",),
}
"""Arguments that may be left out, as DuckDB text; the last ones of the list come last."""

MOST: dict[str, int] = {
    "pg_get_expr": 3, "pg_get_viewdef": 2, "obj_description": 2, "array_length": 2, "array_upper": 2,
    "array_lower": 2, "generate_subscripts": 3,
}  # fmt: skip
"""How many arguments may be given where the text looks at fewer: pretty or not, and what has one value here."""

LISTED = "s_listed"
"""A function that gives rows, where it stands in FROM: its argument is their list."""
SETS = frozenset({"generate_subscripts", "_pg_expandarray", "pg_options_to_table", "aclexplode"})
"""Functions that give a row for each element; in DuckDB they are lists, to be unnested."""

NATIVE = frozenset(
    [
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "array_agg",
        "string_agg",
        "bool_and",
        "bool_or",
        "every",
        "coalesce",
        "nullif",
        "lower",
        "upper",
        "length",
        "char_length",
        "octet_length",
        "substring",
        "substr",
        "left",
        "right",
        "lpad",
        "rpad",
        "trim",
        "ltrim",
        "rtrim",
        "btrim",
        "replace",
        "translate",
        "concat",
        "concat_ws",
        "split_part",
        "strpos",
        "starts_with",
        "repeat",
        "reverse",
        "md5",
        "abs",
        "round",
        "date_part",
        "floor",
        "ceil",
        "ceiling",
        "greatest",
        "least",
        "mod",
        "sign",
        "regexp_replace",
        "string_to_array",
        "row_number",
        "rank",
        "dense_rank",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "date_trunc",
        "initcap",
        "ascii",
        "chr",
        "power",
    ]
)
"""Functions that DuckDB has under the same name, with the same meaning as far as catalogs need it."""

JSON = {
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "json_build_array": "json_array",
    "row_to_json": "to_json",
    "to_json": "to_json",
    "to_jsonb": "to_json",
    "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array",
    "jsonb_build_array": "json_array",
}
"""Functions that make JSON of any number of arguments, and DuckDB's names of them."""

TABLES = {
    # Of no table: none has partitions. The second column is that of WITH ORDINALITY.
    "pg_partition_ancestors": "SELECT CAST(NULL AS BIGINT) AS relid, CAST(0 AS BIGINT) AS ordinality WHERE false",
    "pg_get_keywords": 'SELECT l_word AS word, l_code AS catcode, l_text AS catdesc FROM "lookup.keyword"',
    "pg_timezone_names": 'SELECT * FROM "pg_catalog.pg_timezone_names"',
    "pg_show_all_settings": 'SELECT * FROM "pg_catalog.pg_settings"',
    "pg_prepared_statement": 'SELECT * FROM "pg_catalog.pg_prepared_statements"',
    "pg_cursor": 'SELECT * FROM "pg_catalog.pg_cursors"',
}
"""Functions that stand in FROM and give a relation."""

VALUES: dict[str, tuple[str, str]] = {
    "current_user": ("user", "VARCHAR"),
    "user": ("user", "VARCHAR"),
    "current_role": ("user", "VARCHAR"),
    "session_user": ("session_user", "VARCHAR"),
    "current_database": ("database", "VARCHAR"),
    "current_catalog": ("database", "VARCHAR"),
    "pg_backend_pid": ("pid", "INTEGER"),
    "pg_is_in_recovery": ("in_recovery", "BOOLEAN"),
    "pg_postmaster_start_time": ("started_us", "TIMESTAMPTZ"),
    "pg_conf_load_time": ("started_us", "TIMESTAMPTZ"),
    "inet_server_addr": ("", "VARCHAR"),
    "inet_server_port": ("", "INTEGER"),
    "inet_client_addr": ("client_address", "VARCHAR"),
    "inet_client_port": ("client_port", "INTEGER"),
}
"""Functions whose value is an attribute of the session's state, with its DuckDB type; "": NULL."""

_PATH = "CAST($s_path AS VARCHAR[])"
_OWN = f"list_filter({_PATH}, lambda e: starts_with(e, 'pg_temp_'))"
_NAMED = f"list_filter({_PATH}, lambda e: NOT starts_with(e, 'pg_temp_'))"
OF_PATH: dict[str, str] = {
    "current_schema": f"list_extract({_NAMED}, 1)",
    "current_schemas": f"CASE WHEN NOT :1 THEN {_NAMED} WHEN list_contains({_PATH}, 'pg_catalog') THEN {_PATH}"
    f" ELSE list_concat({_OWN}, ['pg_catalog'], {_NAMED}) END",
}
"""Functions of the schemas that there are along the search path: the session's own is no place to create in."""

PLACES = "generate_series(0, len(:1) - 1)"
"""What generate_subscripts gives for a vector, which counts from 0."""

CONSTANTS: dict[str, str] = {
    "version": "",  # filled in by ``rewrites``: it needs the package's version
}

ACTIONS = frozenset(
    {"set_config", "current_setting", "pg_cancel_backend", "pg_terminate_backend", "pg_sleep"} | NAMES
)
"""Functions that do something, or raise, when the query begins; their arguments must be constants."""

SPECIAL = (
    frozenset(CALLS)
    | GROUPS
    | frozenset(TABLES)
    | frozenset(VALUES)
    | frozenset(CONSTANTS)
    | ACTIONS
    | frozenset(OF_PATH)
    | {"hashtext"}
)
COMMON = frozenset(
    {
        "array_upper", "array_lower", "array_length",
        "cardinality", "array_position", "array_append", "array_cat", "array_remove", "array_to_string", "age",
        "generate_subscripts", "quote_ident", "quote_literal", "quote_nullable",
    }
)  # fmt: skip
"""Of those, functions that are not about the catalog: they alone do not make a query one over it."""

NAMES_OF_IDS = {
    "class": 'coalesce((SELECT s_l.l_name FROM "lookup.class" AS s_l WHERE s_l.l_oid = :1), '
    "CASE WHEN :1 = 0 THEN '-' ELSE CAST(:1 AS VARCHAR) END)",
    "type": "coalesce((SELECT s_l.l_name FROM \"lookup.type\" AS s_l WHERE s_l.l_oid = CAST(:1 AS BIGINT)), nullif(s_format_type(CAST(:1 AS BIGINT), -1), '???'), CAST(:1 AS VARCHAR))",
    **{
        kind: f'coalesce((SELECT s_quote_ident(s_l.l_name) FROM "lookup.{kind}" AS s_l WHERE s_l.l_oid = :1), '
        "CASE WHEN :1 = 0 THEN '-' ELSE CAST(:1 AS VARCHAR) END)"
        for kind in ("namespace", "role")
    },
}
"""What an id is shown as: the names behind regclass and its relatives."""
