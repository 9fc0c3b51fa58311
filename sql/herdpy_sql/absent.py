"""What PostgreSQL 15 has and HerdPy has not, by the names of its catalog: functions, types and operators.

A statement that uses one is refused (0A000) under the name that PostgreSQL's manual has for the feature. What
PostgreSQL has not either does not exist (42883, 42704).
"""

from __future__ import annotations

import re

from herdpy_sql.errors import SqlError

_FUNCTIONS = {
    "full-text search": """
        array_to_tsvector get_current_ts_config json_to_tsvector jsonb_to_tsvector numnode
        phraseto_tsquery plainto_tsquery querytree setweight strip to_tsquery to_tsvector ts_debug
        ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank ts_rank_cd ts_rewrite ts_stat
        ts_token_type tsquery_phrase tsvector_to_array websearch_to_tsquery
    """,
    "range types": """
        datemultirange daterange int4multirange int4range int8multirange int8range isempty lower_inc
        lower_inf multirange nummultirange numrange range_agg range_intersect_agg range_merge
        tsmultirange tsrange tstzmultirange tstzrange upper_inc upper_inf
    """,
    "geometric types": """
        area box center circle diagonal diameter height isclosed ishorizontal isopen isparallel
        isperp isvertical line lseg npoints path pclose point polygon popen radius slope width
    """,
    "XML": """
        cursor_to_xml cursor_to_xmlschema database_to_xml database_to_xml_and_xmlschema
        database_to_xmlschema query_to_xml query_to_xml_and_xmlschema query_to_xmlschema
        schema_to_xml schema_to_xml_and_xmlschema schema_to_xmlschema table_to_xml
        table_to_xml_and_xmlschema table_to_xmlschema xml_is_well_formed xml_is_well_formed_content
        xml_is_well_formed_document xmlagg xmlcomment xmlconcat xmlelement xmlexists xmlforest
        xmlparse xmlpi xmlroot xmlserialize xmltable xmlvalidate xpath xpath_exists
    """,
    "SQL/JSON path": """
        jsonb_path_exists jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query
        jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first
        jsonb_path_query_first_tz jsonb_path_query_tz
    """,
    "composite types": """
        json_populate_record json_populate_recordset json_to_record json_to_recordset
        jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset
    """,
    "large objects": """
        lo_close lo_creat lo_create lo_export lo_from_bytea lo_get lo_import lo_lseek lo_lseek64
        lo_open lo_put lo_tell lo_tell64 lo_truncate lo_truncate64 lo_unlink loread lowrite
    """,
    "replication": """
        pg_copy_logical_replication_slot pg_copy_physical_replication_slot
        pg_create_logical_replication_slot pg_create_physical_replication_slot
        pg_drop_replication_slot pg_logical_emit_message pg_logical_slot_get_binary_changes
        pg_logical_slot_get_changes pg_logical_slot_peek_binary_changes pg_logical_slot_peek_changes
        pg_replication_origin_advance pg_replication_origin_create pg_replication_origin_drop
        pg_replication_origin_oid pg_replication_origin_progress
        pg_replication_origin_session_is_setup pg_replication_origin_session_progress
        pg_replication_origin_session_reset pg_replication_origin_session_setup
        pg_replication_origin_xact_reset pg_replication_origin_xact_setup
        pg_replication_slot_advance
    """,
    "": """
        acosd acosh asind asinh atan2d atand atanh brin_desummarize_range brin_summarize_new_values
        brin_summarize_range convert cosd cosh cotd current_query gin_clean_pending_list
        is_normalized json_object json_strip_nulls makeaclitem money mxid_age parse_ident
        pg_available_extension_versions pg_available_extensions pg_backup_start pg_backup_stop
        pg_client_encoding pg_collation_actual_version pg_collation_for pg_column_compression
        pg_column_is_updatable pg_column_size pg_config pg_control_checkpoint pg_control_init
        pg_control_recovery pg_control_system pg_create_restore_point pg_current_logfile
        pg_current_snapshot pg_database_collation_actual_version
        pg_describe_object pg_export_snapshot pg_filenode_relation pg_get_backend_memory_contexts
        pg_get_catalog_foreign_keys pg_get_object_address pg_get_shmem_allocations
        pg_get_statisticsobjdef_expressions pg_get_wal_replay_pause_state
        pg_get_wal_resource_managers pg_hba_file_rules pg_ident_file_mappings pg_identify_object
        pg_identify_object_as_address pg_import_system_collations pg_index_column_has_property
        pg_jit_available pg_last_committed_xact pg_last_xact_replay_timestamp
        pg_log_backend_memory_contexts pg_ls_archive_statusdir pg_ls_dir pg_ls_logdir
        pg_ls_logicalmapdir pg_ls_logicalsnapdir pg_ls_replslotdir pg_ls_waldir pg_mcv_list_items
        pg_promote pg_read_binary_file pg_read_file
        pg_relation_filepath pg_reload_conf pg_rotate_logfile pg_sequence_parameters
        pg_settings_get_flags pg_show_all_file_settings pg_size_bytes pg_sleep_for pg_sleep_until
        pg_snapshot_xip pg_snapshot_xmax pg_snapshot_xmin pg_stat_file pg_stat_get_activity
        pg_stat_reset_replication_slot pg_stat_reset_shared pg_stat_reset_single_function_counters
        pg_stat_reset_single_table_counters pg_stat_reset_slru pg_stat_reset_subscription_stats
        pg_switch_wal pg_tablespace_databases pg_timezone_abbrevs pg_timezone_names pg_trigger_depth
        pg_visible_in_snapshot pg_wal_replay_pause pg_wal_replay_resume pg_walfile_name
        pg_walfile_name_offset pg_xact_commit_timestamp pg_xact_commit_timestamp_origin
        pg_xact_status setseed sind sinh tand tanh timeofday to_ascii to_regcollation
        txid_current_snapshot txid_snapshot_xip txid_snapshot_xmax
        txid_snapshot_xmin txid_status txid_visible_in_snapshot
    """,
}
FUNCTIONS = {name: feature for feature, names in _FUNCTIONS.items() for name in names.split()}
"""The feature that a function is part of, "" of one that is alone."""

_TYPES = {
    "full-text search": "gtsvector tsquery tsvector regconfig regdictionary",
    "range types": """
        datemultirange daterange int4multirange int4range int8multirange int8range nummultirange
        numrange tsmultirange tsrange tstzmultirange tstzrange
    """,
    "geometric types": "box circle line lseg path point polygon",
    "XML": "xml",
    "SQL/JSON path": "jsonpath",
    "": """
        aclitem cid money pg_brin_bloom_summary pg_brin_minmax_multi_summary pg_dependencies pg_lsn
        pg_mcv_list pg_ndistinct pg_node_tree pg_snapshot refcursor regcollation
        tid timetz txid_snapshot xid8
    """,
}
TYPES = {name: feature for feature, names in _TYPES.items() for name in names.split()}
"""The feature that a type is part of, as of a function."""

_OPERATORS = {
    "full-text search": "@@ @@@ !!",
    "SQL/JSON path": "@?",
    "range types": "-|- &< &>",
    "geometric types": "<<| |>> &<| |&> ~= <^ >^ ?# ?- ?| ?-| ?|| ## @-@",
    "": "@ ~<~ ~<=~ ~>~ ~>=~ *= *<> *< *> *<= *>= ~<>~",
}
OPERATORS = {symbol: feature for feature, symbols in _OPERATORS.items() for symbol in symbols.split()}
"""The feature that an operator is part of, as of a function."""


def _refused(feature: str, thing: str) -> SqlError:
    return SqlError(
        "0A000", f"{feature} ({thing}) is not supported" if feature else f"{thing} is not supported"
    )


def absent_function(name: str) -> SqlError | None:
    """The refusal of a call; None where PostgreSQL has no function of the name, or HerdPy has one."""
    return _refused(FUNCTIONS[name], f"function {name}") if name in FUNCTIONS else None


def absent_operator(symbol: str) -> SqlError | None:
    """The refusal of an operator, as of a function."""
    return _refused(OPERATORS[symbol], f"operator {symbol}") if symbol in OPERATORS else None


def absent_type(written: str) -> SqlError | None:
    """The refusal of a type that is written so, with its modifiers or not, as of a function."""
    name = re.match(r"[a-z_0-9]*", written.removeprefix("pg_catalog."))
    assert name is not None
    if name.group() not in TYPES:
        return None
    shown = {"timetz": "time with time zone"}.get(written, written)
    return _refused(TYPES[name.group()], f"type {shown}")
