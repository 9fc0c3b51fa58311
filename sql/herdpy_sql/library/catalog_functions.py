"""Functions about the system catalog and the session: what they look up, the statement's context knows.

``system`` makes the context (:class:`CatalogContext`) of the catalog and of what the server says of itself.
Each function takes it before its arguments; only the columnar engine calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.quoting import RESERVED
from herdpy_sql.types import (
    BIGINT,
    BOOLEAN,
    INET,
    INTEGER,
    NAME,
    NUMERIC,
    OID,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Base,
    SqlType,
    array_of,
)
from herdpy_sql.values.inets import parse_inet
from herdpy_sql.values.number_vectors import numbers_of
from herdpy_sql.values.reg_types import REG_TYPES

NAMES = array_of(NAME)
TEXTS = array_of(TEXT)
CHAR_BYTE = SqlType(Base.CHAR_BYTE)


class CatalogContext(Protocol):
    """What the functions look up; every method is of ids and names as SQL has them."""

    def reg(self, base: Base, given: int | str, *, strict: bool = True) -> str | None:
        """The datum of an id, or of what a text names; of no such thing NULL, or an error if ``strict``."""

    def value(self, name: str) -> Any:
        """What the session says of itself, by the attribute's name."""

    def schemas(self, *, implicit: bool) -> Sequence[str]:
        """The schemas along the search path that are there."""

    def setting(self, name: str, *, missing_ok: bool) -> str | None:
        """The value of a setting. SqlError 42704."""

    def format_type(self, oid: int | None, modifier: int | None) -> str | None:
        """The name of a type."""

    def is_visible(self, kind: str, oid: int) -> bool | None:
        """Whether a relation's or a type's name is found without its schema; None where it is not there."""

    def text(self, kind: str, *key: int | str) -> str | None:
        """A definition, a comment, a name: by what it is of."""

    def has_right(self, name: str, given: list[str]) -> bool | None:
        """What a function of the has_..._privilege kind says; arguments begin with "n" or "o"."""

    def acted(self, number: int) -> Any:
        """What an action of the query gave that was carried out before it ran (``_ACTIONS``)."""

    def table_count(self, oid: int, what: str) -> int:
        """What is counted of a table, by what; 0 of no table."""

    def size(self, oid: int, what: str) -> int | None:
        """The bytes of a relation ("relation") or of a table's indexes ("indexes"), as of the checkpoint;
        None of no relation."""

    def database_size(self, database: str | int) -> int | None:
        """The bytes of the session's own database, by name or id; None of another one."""

    def blocking_pids(self, pid: int) -> Sequence[int]:
        """The sessions that a session waits for."""

    def last_value(self, oid: int) -> int | None:
        """The last value of a sequence that has given one."""

    def partition_ancestors(self, oid: int) -> Sequence[str]:
        """A partition or partitioned relation, and those above it, as regclass has them; of others none."""

    def partition_tree(self, oid: int) -> Sequence[tuple[str, str | None, bool, int]]:
        """It and those below it: (relation, the one above it, whether none may be below, level)."""

    def privileges(self, items: Sequence[str | None]) -> list[tuple[int, int, str, bool]]:
        """The rows of aclexplode."""

    def default_privileges(self, kind: str, owner: int) -> Sequence[str] | None:
        """What whoever owns a thing, and everybody, may do with it where nothing was granted."""


def _add(
    name: str, args: tuple[SqlType, ...], result: SqlType, call: Callable[..., Any], **more: Any
) -> None:
    add(name, args, result, call, context=True, **more)


def _names() -> None:
    for base in REG_TYPES:
        type_ = SqlType(base)

        def cast(context: CatalogContext, given: Any, base: Base = base) -> Any:
            return context.reg(base, given)

        def found(context: CatalogContext, text: str, base: Base = base) -> Any:
            return context.reg(base, text, strict=False)

        _add(f"{base.value} cast", (TEXT,), type_, cast)
        _add(f"{base.value} cast", (OID,), type_, cast)
        _add(f"to_{base.value}", (TEXT,), type_, found)
    for kind in ("table", "type", "function"):
        _add(f"pg_{kind}_is_visible", (OID,), BOOLEAN, lambda c, oid, kind=kind: c.is_visible(kind, oid))
    for kind in (
        "operator", "opclass", "opfamily", "collation", "conversion", "ts_config", "ts_dict",
        "ts_parser", "ts_template", "statistics_obj",
    ):  # fmt: skip
        _add(f"pg_{kind}_is_visible", (OID,), BOOLEAN, lambda c, oid: True)
    _add("format_type", (OID, INTEGER), TEXT, lambda c, oid, typmod: c.format_type(oid, typmod), strict=False)


def _texts() -> None:
    _add("pg_get_expr", (TEXT, OID), TEXT, lambda c, text, oid: text)
    _add("pg_get_expr", (TEXT, OID, BOOLEAN), TEXT, lambda c, text, oid, pretty: text)
    for kind in ("constraint", "view", "rule", "trigger", "function", "index", "partkey", "statisticsobj"):
        name = f"pg_get_{kind}def"
        _add(name, (OID,), TEXT, lambda c, oid, kind=kind: c.text(kind, oid))
        if kind in ("constraint", "view", "rule", "trigger"):
            pretty = kind in ("constraint", "view")
            _add(
                name,
                (OID, BOOLEAN),
                TEXT,
                lambda c, oid, flag, kind=kind, pretty=pretty: c.text(
                    f"pretty {kind}" if flag and pretty else kind, oid
                ),
            )
    _add(
        "pg_get_indexdef",
        (OID, INTEGER, BOOLEAN),
        TEXT,
        lambda c, oid, column, flag: c.text("pretty index" if flag else "index", oid, column),
    )
    for what in ("result", "arguments", "identity_arguments"):
        _add(
            f"pg_get_function_{what}", (OID,), TEXT, lambda c, oid, what=what: c.text(f"function {what}", oid)
        )
    for name in (
        "pg_get_function_sqlbody", "pg_get_partition_constraintdef", "pg_get_statisticsobjdef_columns",
    ):  # fmt: skip
        _add(name, (OID,), TEXT, lambda c, oid: None)
    _add("pg_get_userbyid", (OID,), NAME, lambda c, oid: c.text("role", oid) or f"unknown (OID={oid})")
    _add(
        "pg_get_serial_sequence",
        (TEXT, TEXT),
        TEXT,
        lambda c, table, column: c.text("serial", int(c.reg(Base.REGCLASS, table)[:10]), column),
    )
    _add("obj_description", (OID,), TEXT, lambda c, oid: c.text("comment", oid, 0))
    _add("obj_description", (OID, NAME), TEXT, lambda c, oid, catalog: c.text("comment", oid, 0, catalog))
    _add("col_description", (OID, INTEGER), TEXT, lambda c, oid, number: c.text("comment", oid, number))
    _add("shobj_description", (OID, NAME), TEXT, lambda c, oid, catalog: None)
    _add("pg_encoding_to_char", (INTEGER,), NAME, lambda c, n: {6: "UTF8", 0: "SQL_ASCII"}.get(n, ""))
    _add(
        "pg_char_to_encoding",
        (NAME,),
        INTEGER,
        lambda c, n: 6 if n.upper() in ("UTF8", "UTF-8", "UNICODE") else -1,
    )
    _add("getdatabaseencoding", (), NAME, lambda c: "UTF8")
    _add("pg_tablespace_location", (OID,), TEXT, lambda c, oid: "")


def _client_address(context: CatalogContext) -> bytes | None:
    """Where the client is; NULL of one on a Unix socket."""
    found = context.value("client_address")
    return None if found is None else parse_inet(found.partition("%")[0])


def _session() -> None:
    for name, attribute, type_ in (
        ("current_user", "user", NAME), ("user", "user", NAME), ("current_role", "user", NAME),
        ("session_user", "session_user", NAME), ("current_database", "database", NAME),
        ("current_catalog", "database", NAME), ("pg_backend_pid", "pid", INTEGER),
        ("pg_is_in_recovery", "in_recovery", BOOLEAN),
        ("pg_postmaster_start_time", "started_us", TIMESTAMPTZ),
        ("pg_conf_load_time", "started_us", TIMESTAMPTZ),
        ("inet_client_port", "client_port", INTEGER), ("version", "version", TEXT),
    ):  # fmt: skip
        _add(name, (), type_, lambda c, attribute=attribute: c.value(attribute))
    _add("inet_client_addr", (), INET, _client_address)
    _add("inet_server_addr", (), INET, lambda c: None)
    _add("inet_server_port", (), INTEGER, lambda c: None)
    _add("current_schema", (), NAME, lambda c: next(iter(c.schemas(implicit=False)), None))
    _add("current_schemas", (BOOLEAN,), NAMES, lambda c, implicit: tuple(c.schemas(implicit=implicit)))
    _add("current_setting", (TEXT,), TEXT, lambda c, name: c.setting(name, missing_ok=False))
    _add(
        "current_setting", (TEXT, BOOLEAN), TEXT, lambda c, name, missing: c.setting(name, missing_ok=missing)
    )
    for name in ("pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn"):
        _add(name, (), TEXT, _current_lsn)
    for name in ("pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn"):
        _add(name, (), TEXT, lambda c: None if (at := c.value("replay_lsn")) is None else lsn_text(at))
    add("pg_wal_lsn_diff", (TEXT, TEXT), NUMERIC, lambda a, b: Decimal(_lsn_number(a) - _lsn_number(b)))
    _add("pg_listening_channels", (), TEXT, lambda c: list(c.value("channels")), setof=True)
    _add(
        "pg_notification_queue_usage",
        (),
        SqlType(Base.DOUBLE),
        lambda c: c.value("notification_queue_usage"),
    )
    _add("pg_my_temp_schema", (), OID, lambda c: 0)
    _add("pg_is_other_temp_schema", (OID,), BOOLEAN, lambda c, oid: False)


def lsn_text(position: str) -> str:
    """A position of the log, "ledger:entry", as PostgreSQL writes its own: two hexadecimal numbers."""
    ledger, entry = (max(int(part), 0) for part in position.split(":"))
    return f"{ledger:X}/{entry:X}"


def _lsn_number(text: str) -> int:
    """A position as one number: entries within a ledger follow each other. SqlError 22P02."""
    high, slash, low = text.partition("/")
    try:
        if slash:
            return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        pass
    raise SqlError("22P02", f'invalid input syntax for type pg_lsn: "{text}"')


def _current_lsn(context: CatalogContext) -> str:
    if context.value("in_recovery"):
        hint = "WAL control functions cannot be executed during recovery."
        raise SqlError("55000", "recovery is in progress", hint=hint)
    return lsn_text(context.value("wal_lsn") or "0:0")


SIZES = frozenset({
    "pg_table_size", "pg_total_relation_size", "pg_indexes_size", "pg_relation_size", "pg_database_size",
    "pg_tablespace_size",
})  # fmt: skip
_FORKS = ("main", "fsm", "vm", "init")


def _sizes() -> None:
    regclass = SqlType(Base.REGCLASS)
    _add("pg_relation_size", (regclass,), BIGINT, lambda c, given: _size(c, given, "relation"))
    _add("pg_relation_size", (regclass, TEXT), BIGINT, _fork_size)
    _add("pg_table_size", (regclass,), BIGINT, lambda c, given: _size(c, given, "relation"))
    _add("pg_indexes_size", (regclass,), BIGINT, lambda c, given: _size(c, given, "indexes"))
    _add(
        "pg_total_relation_size", (regclass,), BIGINT, lambda c, given: _size(c, given, "relation", "indexes")
    )
    for name in ("pg_database_size", "pg_tablespace_size"):
        _add(name, (OID,), BIGINT, lambda c, given: c.database_size(given))
        _add(name, (NAME,), BIGINT, lambda c, given: c.database_size(given))


def _size(context: CatalogContext, given: str, *of: str) -> int | None:
    sizes = [context.size(int(given[:10]), what) for what in of]
    return None if None in sizes else sum(filter(None, sizes))


def _fork_size(context: CatalogContext, given: str, fork: str) -> int | None:
    """A relation has one fork here. SqlError 22023 for a name that PostgreSQL does not know."""
    if fork not in _FORKS:
        hint = 'Valid fork names are "main", "fsm", "vm", and "init".'
        raise SqlError("22023", "invalid fork name", hint=hint)
    return _size(context, given, "relation") if fork == "main" else 0


def _facts() -> None:
    _sizes()
    add("pg_ls_tmpdir", (OID,), TEXT, lambda oid: [], setof=True,
        columns=(("name", TEXT), ("size", BIGINT), ("modification", TIMESTAMPTZ)))  # fmt: skip
    _add("pg_relation_filenode", (SqlType(Base.REGCLASS),), OID, lambda c, oid: 0)
    _add("pg_relation_is_publishable", (SqlType(Base.REGCLASS),), BOOLEAN, lambda c, oid: False)
    _add(
        "pg_sequence_last_value",
        (SqlType(Base.REGCLASS),),
        BIGINT,
        lambda c, oid: c.last_value(int(oid[:10])),
    )
    _add(
        "aclexplode",
        (TEXTS,),
        TEXT,
        lambda c, items: c.privileges(items),
        setof=True,
        columns=(("grantor", OID), ("grantee", OID), ("privilege_type", TEXT), ("is_grantable", BOOLEAN)),
    )
    _add("acldefault", (CHAR_BYTE, OID), TEXTS, lambda c, kind, owner: c.default_privileges(kind, owner))


_STEP = 10 * 1024
_SIZES = ("bytes", "kB", "MB", "GB", "TB", "PB")


def size_pretty(size: int) -> str:
    """A size in bytes as pg_size_pretty writes it: units change at 10240, halves are rounded up."""
    value, unit = abs(size), 0
    if value >= _STEP:
        value, unit = value >> 9, 1  # one bit more than the unit, to round by
        while value >= 2 * _STEP - 1 and unit < len(_SIZES) - 1:
            value, unit = value >> 10, unit + 1
        value = (value + 1) >> 1
    return f"{'-' if size < 0 else ''}{value} {_SIZES[unit]}"


def _vectors() -> None:
    """INT2VECTOR and OIDVECTOR, which count from 0."""
    for vector, element in ((SqlType(Base.INT2VECTOR), SMALLINT), (SqlType(Base.OIDVECTOR), OID)):
        add("subscript", (vector, INTEGER), element, _element)
        add("subscript", (vector, BIGINT), element, _element)
        add(
            "_pg_expandarray",
            (vector,),
            TEXT,
            lambda v: [(one, place) for place, one in enumerate(numbers_of(v), 1)],
            setof=True,
            columns=(("x", element), ("n", INTEGER)),
        )
        add("array_lower", (vector, INTEGER), INTEGER, lambda v, nth: 0 if v and nth == 1 else None)
        add(
            "array_upper",
            (vector, INTEGER),
            INTEGER,
            lambda v, nth: len(v.split()) - 1 if v and nth == 1 else None,
        )
        add(
            "generate_subscripts",
            (vector, INTEGER),
            INTEGER,
            lambda v, nth: tuple(range(len(v.split()))) if nth == 1 else (),
            setof=True,
        )


def _element(vector: str, place: int) -> int | None:
    numbers = numbers_of(vector)
    return numbers[place] if 0 <= place < len(numbers) else None


_STATISTICS = (
    "numscans", "tuples_returned", "tuples_fetched", "dead_tuples", "blocks_fetched", "blocks_hit",
    "tuples_hot_updated", "mod_since_analyze", "ins_since_vacuum", "vacuum_count", "autovacuum_count",
    "analyze_count", "autoanalyze_count",
)  # fmt: skip
"""What is not counted by table: 0."""
COUNTED = {
    "tuples_inserted": "inserted",
    "tuples_updated": "updated",
    "tuples_deleted": "deleted",
    "live_tuples": "rows",
}
"""What is, by the end of the function's name."""


def _rest() -> None:
    """What has one answer here, and functions of rows."""
    add("pg_size_pretty", (BIGINT,), TEXT, size_pretty)
    add(
        "pg_get_keywords",
        (),
        TEXT,
        lambda: [(word, "R", "reserved") for word in sorted(RESERVED)],
        setof=True,
        columns=(("word", TEXT), ("catcode", CHAR_BYTE), ("catdesc", TEXT)),
    )
    regclass = SqlType(Base.REGCLASS)
    _add(
        "pg_partition_ancestors",
        (regclass,),
        regclass,
        lambda c, oid: c.partition_ancestors(int(oid[:10])),
        setof=True,
        output="relid",
    )
    _add(
        "pg_partition_root",
        (regclass,),
        regclass,
        lambda c, oid: next(reversed(c.partition_ancestors(int(oid[:10]))), None),
    )
    _add(
        "pg_partition_tree",
        (regclass,),
        TEXT,
        lambda c, oid: c.partition_tree(int(oid[:10])),
        setof=True,
        columns=(
            ("relid", regclass),
            ("parentrelid", regclass),
            ("isleaf", BOOLEAN),
            ("level", INTEGER),
        ),
    )
    add("pg_options_to_table", (TEXTS,), TEXT, lambda options: [], setof=True,
        columns=(("option_name", TEXT), ("option_value", TEXT)))  # fmt: skip
    for name in _STATISTICS:
        add(f"pg_stat_get_{name}", (OID,), BIGINT, lambda oid: 0)
    for name, what in COUNTED.items():
        _add(f"pg_stat_get_{name}", (OID,), BIGINT, lambda c, oid, what=what: c.table_count(oid, what))
    for name in ("vacuum", "autovacuum", "analyze", "autoanalyze"):
        add(f"pg_stat_get_last_{name}_time", (OID,), TIMESTAMPTZ, lambda oid: None)
    _add("pg_blocking_pids", (INTEGER,), array_of(INTEGER), lambda c, pid: tuple(c.blocking_pids(pid)))
    add("pg_safe_snapshot_blocking_pids", (INTEGER,), array_of(INTEGER), lambda pid: ())
    _add("pg_relation_is_updatable", (SqlType(Base.REGCLASS), BOOLEAN), INTEGER, lambda c, oid, flag: 28)
    add("pg_is_wal_replay_paused", (), BOOLEAN, lambda: False)
    _add("row_security_active", (SqlType(Base.REGCLASS),), BOOLEAN, lambda c, oid: False)
    add("pg_stat_clear_snapshot", (), TEXT, lambda: "")
    _add("pg_index_has_property", (SqlType(Base.REGCLASS), TEXT), BOOLEAN, lambda c, oid, name: False)
    add("pg_indexam_has_property", (OID, TEXT), BOOLEAN, lambda oid, name: False)
    add(
        "age", (TIMESTAMP, SqlType(Base.XID)), INTEGER, lambda today, xid: 0
    )  # as age of one argument is read
    _add(
        "pg_get_replica_identity_index",
        (SqlType(Base.REGCLASS),),
        SqlType(Base.REGCLASS),
        lambda c, oid: None,
    )


_RIGHTS = {
    "has_table_privilege": ((TEXT, OID),), "has_any_column_privilege": ((TEXT, OID),),
    "has_column_privilege": ((TEXT, OID), (TEXT, SMALLINT)), "has_sequence_privilege": ((TEXT, OID),),
    "has_schema_privilege": ((TEXT, OID),), "has_database_privilege": ((TEXT, OID),),
    "has_function_privilege": ((TEXT, OID),), "has_type_privilege": ((TEXT, OID),),
    "has_language_privilege": ((TEXT, OID),), "has_tablespace_privilege": ((TEXT, OID),),
    "has_foreign_data_wrapper_privilege": ((TEXT, OID),), "has_server_privilege": ((TEXT, OID),),
    "has_parameter_privilege": ((TEXT,),), "pg_has_role": ((NAME, OID),),
}  # fmt: skip
"""By function: the types that each argument between the role and the privilege may have."""


def _rights() -> None:
    for name, choices in _RIGHTS.items():
        lists: list[tuple[SqlType, ...]] = [()]
        for types in choices:
            lists = [(*one, type_) for one in lists for type_ in types]
        for middle in lists:
            for role in ((), (NAME,), (OID,)):
                args = (*role, *middle, TEXT)

                def call(context: CatalogContext, *given: Any, name: str = name, args: Any = args) -> Any:
                    shown = [
                        f"{'o' if type_ in (OID, SMALLINT) else 'n'}{value}"
                        for value, type_ in zip(given, args, strict=True)
                    ]
                    return context.has_right(name, shown)

                _add(name, args, BOOLEAN, call)


_names()
_texts()
_session()
_facts()


def _actions() -> None:
    """Functions that change something; the query has numbered them and carried them out when it runs."""
    number = (INTEGER,)
    lists: dict[str, tuple[tuple[tuple[SqlType, ...], ...], SqlType]] = {
        "set_config": (((TEXT, TEXT, BOOLEAN),), TEXT),
        "pg_sleep": (((SqlType(Base.DOUBLE),),), TEXT),
        "pg_cancel_backend": (((INTEGER,),), BOOLEAN),
        "pg_terminate_backend": (((INTEGER,), (INTEGER, BIGINT)), BOOLEAN),
        "pg_advisory_unlock_all": (((),), TEXT),
        "pg_stat_reset": (((),), TEXT),
        "pg_stat_statements_reset": (((), (OID,), (OID, OID), (OID, OID, BIGINT)), TEXT),
    }
    for name in ADVISORY_LOCKS:
        lists[name] = ((BIGINT,), (INTEGER, INTEGER)), BOOLEAN if _gives(name) else TEXT
    for name, type_ in TRANSACTION_NUMBERS.items():
        lists[name] = ((),), type_
    for name, (choices, result) in lists.items():
        for args in choices:
            _add(name, (*number, *args), result, lambda c, nth, *_args: c.acted(nth), strict=False)


TRANSACTION_NUMBERS = {
    "txid_current": BIGINT,
    "txid_current_if_assigned": BIGINT,
    "pg_current_xact_id": SqlType(Base.XID),
    "pg_current_xact_id_if_assigned": SqlType(Base.XID),
}
"""Functions that give the transaction a number, or the one that it has."""

ADVISORY_LOCKS = frozenset(
    f"pg_{verb}advisory_{scope}lock{shared}"
    for verb in ("", "try_")
    for scope in ("", "xact_")
    for shared in ("", "_shared")
) | {"pg_advisory_unlock", "pg_advisory_unlock_shared"}


def _gives(name: str) -> bool:
    """Whether a function of advisory locks gives a BOOLEAN; the others give nothing."""
    return "try" in name or name.endswith(("unlock", "unlock_shared"))


ACTIONS = frozenset(
    {
        "set_config",
        "pg_sleep",
        "pg_cancel_backend",
        "pg_terminate_backend",
        "pg_advisory_unlock_all",
        "pg_stat_reset",
        "pg_stat_statements_reset",
    }
    | ADVISORY_LOCKS
    | TRANSACTION_NUMBERS.keys()
)
"""Functions that change something: their arguments are constants and parameters."""

_actions()
_rights()
_vectors()
_rest()
