"""The settings that there are: names, defaults, and the checks of their values. ``settings`` keeps the
values.

A check gives a value as it is kept, or raises ValueError.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass

from herdpy import options
from herdpy.log.entry import MAX_REQUEST_ID_BYTES
from herdpy.log.lsn import LSN, START
from herdpy_server.sessions.notices import MESSAGE_LEVELS
from herdpy_server.tablespace.guard import LEVELS
from herdpy_sql.catalog import is_temporary

MODES = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
"""The settings that are the open transaction's own; they begin as the session's defaults say."""
ISOLATION_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is folded; ``check`` gives the value as it is kept, or raises ValueError."""

    name: str
    default: str
    description: str
    check: Check | None = None
    read_only: bool = False


Check = Callable[[str], str]

_KIB = {"kB": 1, "MB": 1 << 10, "GB": 1 << 20, "TB": 1 << 30}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def one_of(*values: str) -> Callable[[str], str]:
    """One of some words, in any case."""

    def check(value: str) -> str:
        lowered = value.lower()
        if lowered not in values:
            raise ValueError(f"one of {', '.join(values)} is wanted")
        return lowered

    return check


def boolean(value: str) -> str:
    """on or off."""
    try:
        return "on" if options.boolean(value) else "off"
    except ValueError:
        raise ValueError("expected a Boolean value") from None


def milliseconds(value: str) -> float:
    """A duration as PostgreSQL writes it: a number of milliseconds, or one with a unit."""
    amount = options.microseconds(value, "ms") / 1000
    if not 0 <= amount <= 2**31:
        raise ValueError("it is out of range")
    return amount


def milliseconds_text(value: str) -> str:
    """A duration, shown as a whole number of milliseconds."""
    return str(round(milliseconds(value)))


def position(value: str) -> LSN:
    """A position in the log as ledger:entry; START for an empty text."""
    return LSN.parse(value) if value else START


def lsn(value: str) -> str:
    """A position in the log, or nothing."""
    return str(LSN.parse(value)) if value else ""


def duration(value: str) -> str:
    """As PostgreSQL shows it: a whole number of the largest unit that allows one."""
    amount = round(milliseconds(value))
    for unit, length_us in reversed(options.UNITS_US.items()):
        length = length_us // 1000
        if amount and length and amount % length == 0:
            return f"{amount // length}{unit}"
    return "0"


def zone(value: str) -> str:
    """A time zone by its IANA name."""
    if value.upper() in {"UTC", "GMT", "Z"}:
        return "UTC"
    try:
        return zoneinfo.ZoneInfo(value).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("expected an IANA time zone") from error


def level(value: str) -> str:
    """A level of messages; "info" and "fatal" are known to PostgreSQL, but ask for what others do."""
    return one_of(*MESSAGE_LEVELS)(
        {"info": "notice", "fatal": "error", "panic": "error"}.get(value.lower(), value)
    )


def iso(value: str) -> str:
    """A style of dates: the order of day and month may be chosen, the look may not."""
    parts = [part.strip().upper() for part in value.split(",")]
    orders = {"MDY": "MDY", "US": "MDY", "NONEURO": "MDY", "DMY": "DMY", "EURO": "DMY", "YMD": "YMD"}
    for part in parts:
        if part not in orders and part not in {"ISO", "DEFAULT"}:
            raise ValueError("dates are always shown as ISO has them")
    if any(orders.get(part, "MDY") != "MDY" for part in parts):
        raise ValueError("dates are read as year, month and day, or as month, day and year")
    return "ISO, MDY"


def digits(value: str) -> str:
    """As extra_float_digits has them, as far as they mean all digits."""
    if not 1 <= int(value) <= 3:
        raise ValueError("floats are always shown with all of their digits: 1 to 3")
    return str(int(value))


def nulls(value: str) -> str:
    """As array_nulls has it."""
    if boolean(value) != "on":
        raise ValueError("NULL in the text of an array is always the null value")
    return "on"


def whole(low: int, high: int) -> Check:
    """A whole number within limits."""

    def check(value: str) -> str:
        if not low <= int(value) <= high:
            raise ValueError(f"it is between {low} and {high}")
        return str(int(value))

    return check


def real(low: float, high: float) -> Check:
    """A number within limits, shown as PostgreSQL does: with six digits."""

    def check(value: str) -> str:
        if not low <= float(value) <= high:
            raise ValueError(f"it is between {low:g} and {high:g}")
        return f"{float(value):g}"

    return check


def memory_bytes(value: str) -> int:
    """The bytes that a value of :func:`memory` is."""
    match = _AMOUNT.fullmatch(value)
    assert match is not None
    return int(match[1]) * _KIB.get(match[2], 0) * 1024


def memory(unit_kib: int = 1) -> Check:
    """An amount of memory: a number of ``unit_kib``, or one with a unit; shown with the largest that fits."""

    def check(value: str) -> str:
        match = _AMOUNT.fullmatch(value)
        if match is None or (match[2] and match[2] not in _KIB and match[2] != "B"):
            raise ValueError("units are B, kB, MB, GB, TB")
        factor = 1 / 1024 if match[2] == "B" else _KIB.get(match[2], unit_kib)
        kib = round(float(match[1]) * factor)
        if not 0 <= kib < 1 << 41:
            raise ValueError("it is out of range")
        for unit, size in reversed(_KIB.items()):
            if kib and kib % size == 0:
                return f"{kib // size}{unit}"
        return "0"

    return check


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s",]+))\s*(?:,|\Z)')
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")
USER = "$user"


def names(text: str) -> list[str]:
    """The names in a list: quoted, or in lower case. ValueError for what is no list of names."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise ValueError("expected a list of names")
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        at = match.end()
    return found


def checked_path(text: str) -> str:
    """The list as SHOW says it; ValueError."""
    return ", ".join(
        one if _PLAIN.match(one) else f'"{one.replace(chr(34), chr(34) * 2)}"' for one in names(text)
    )


def path_of(text: str, user: str, temporary: str) -> tuple[str, ...]:
    """The schemas to look in, in order, whether they exist or not; not those of other sessions.

    Args:
        user: what "$user" stands for. temporary: the session's own schema, which comes first; "" for none.
    """
    found = [user if one == USER else temporary if one == "pg_temp" else one for one in names(text)]
    if temporary and temporary not in found:
        found.insert(0, temporary)
    return tuple(one for one in found if one and (one == temporary or not is_temporary(one)))


def _request_id(value: str) -> str:
    if len(value.encode()) > MAX_REQUEST_ID_BYTES:
        raise ValueError(f"a request id has at most {MAX_REQUEST_ID_BYTES} bytes")
    return value


_SETTINGS = [
    Setting("application_name", "", "Name of the application, shown in statistics.", lambda v: v[:63]),
    Setting("array_nulls", "on", "Whether NULL in the text of an array is the null value.", nulls),
    Setting("bytea_output", "hex", "How bytes are shown: always in hexadecimal.", one_of("hex")),
    Setting("check_function_bodies", "on", "There are no functions to be checked.", boolean),
    Setting("client_encoding", "UTF8", "Always UTF8.",
            lambda v: one_of("utf8", "utf-8", "unicode")(v) and "UTF8"),
    Setting("client_min_messages", "notice", "Least level of the messages sent.", level),
    Setting("datestyle", "ISO, MDY", "How dates are shown: always ISO.", iso),
    Setting("default_table_access_method", "heap", "There is one way to store tables.", one_of("heap")),
    Setting("default_tablespace", "", "There is one tablespace.", one_of("")),
    Setting("default_transaction_isolation", "read committed", "Isolation of new transactions.",
            one_of(*ISOLATION_LEVELS)),
    Setting("default_transaction_read_only", "off", "Whether new transactions may not write.", boolean),
    Setting("extra_float_digits", "1", "Floats are always shown exactly.", digits),
    Setting("herdpy.engine", "auto", "Which engine answers a SELECT: auto, own or columnar.",
             one_of("auto", "own", "columnar")),
    Setting("herdpy.max_result_size", "0", "The largest answer of the columnar engine; 0 without a limit.",
            memory()),
    Setting("herdpy.max_staleness_ms", "1000", "How old an answer at the read level bounded may be.",
            milliseconds_text),
    Setting("herdpy.min_lsn", "", "What the read level at_lsn waits for: ledger:entry.", lsn),
    Setting("herdpy.read_level", "linearizable",
            "How new what is read must be: linearizable, bounded, at_lsn or any.", one_of(*LEVELS)),
    Setting("herdpy.request_id", "", "Name of the next commit, by which its outcome can be requested.",
            _request_id),
    Setting("idle_in_transaction_session_timeout", "0", "How long a transaction may idle; 0 for ever.",
            duration),
    Setting("idle_session_timeout", "0", "How long a session may idle; 0 for ever.", duration),
    Setting("in_hot_standby", "off", "Whether this server only follows another.", read_only=True),
    Setting("integer_datetimes", "on", "Always on.", read_only=True),
    Setting("intervalstyle", "postgres", "How intervals are shown.", one_of("postgres")),
    Setting("is_superuser", "on", "Whether the user may do everything.", read_only=True),
    Setting("jit", "off", "Whether queries are compiled: DuckDB knows best.", boolean),
    Setting("lock_timeout", "0", "How long a lock is waited for; 0 for ever.", duration),
    Setting("max_identifier_length", "63", "Longest name, in bytes.", read_only=True),
    Setting("row_security", "on", "There is no row security.", boolean),
    Setting("search_path", '"$user", public', "Schemas where names without one are looked for.",
            checked_path),
    Setting("server_encoding", "UTF8", "Always UTF8.", read_only=True),
    Setting("server_version", "15.0 (HerdPy)", "The PostgreSQL whose meaning is followed.", read_only=True),
    Setting("server_version_num", "150000", "The same as a number.", read_only=True),
    Setting("role", "none", "The role whose rights count; none: that of the session's user."),
    Setting("session_authorization", "", "The session's user."),
    Setting("standard_conforming_strings", "on", "Always on.", one_of("on")),
    Setting("statement_timeout", "0", "How long a statement may run; 0 for ever.", duration),
    Setting("synchronize_seqscans", "on", "Scans are in no order anyway.", boolean),
    Setting("synchronous_commit", "on", "Commits are always durable before they are acknowledged.",
            lambda v: v if v in {"local", "remote_write", "remote_apply"} else boolean(v)),
    Setting("timezone", "UTC", "Time zone of dates and times with a zone.", zone),
    Setting("transaction_isolation", "read committed", "Isolation of this transaction.",
            one_of(*ISOLATION_LEVELS)),
    Setting("transaction_read_only", "off", "Whether this transaction may write.", boolean),
    Setting("xmloption", "content", "There is no XML.", one_of("content", "document")),
]  # fmt: skip

_BOOLEANS = (
    "escape_string_warning geqo track_activities enable_async_append enable_bitmapscan "
    "enable_gathermerge enable_hashagg enable_hashjoin enable_incremental_sort enable_indexonlyscan "
    "enable_indexscan enable_material "
    "enable_memoize enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash "
    "enable_partition_pruning enable_seqscan enable_sort enable_tidscan"
)
_COSTS = {"cpu_index_tuple_cost": "0.005", "cpu_operator_cost": "0.0025", "cpu_tuple_cost": "0.01",
          "cursor_tuple_fraction": "0.1", "parallel_setup_cost": "1000", "parallel_tuple_cost": "0.1",
          "random_page_cost": "4", "seq_page_cost": "1"}  # fmt: skip
_NUMBERS = {"default_statistics_target": "100", "from_collapse_limit": "8", "join_collapse_limit": "8",
            "max_parallel_workers": "8", "max_parallel_workers_per_gather": "2", "tcp_keepalives_count": "0",
            "tcp_keepalives_idle": "0", "tcp_keepalives_interval": "0"}  # fmt: skip
_FIXED = {"autovacuum": "on", "block_size": "8192", "cluster_name": "", "data_checksums": "off",
          "debug_assertions": "off", "fsync": "on", "full_page_writes": "on", "hot_standby": "on",
          "lc_collate": "C", "lc_ctype": "C.UTF-8", "max_connections": "100", "max_function_args": "100",
          "max_index_keys": "32", "max_prepared_transactions": "0", "port": "5432", "segment_size": "1GB",
          "ssl": "off", "ssl_library": "OpenSSL", "superuser_reserved_connections": "0",
          "wal_block_size": "8192", "wal_level": "replica"}  # fmt: skip
_OF_NO_EFFECT = "As PostgreSQL has it; it changes nothing here."

_SETTINGS += [Setting(name, "on", _OF_NO_EFFECT, boolean) for name in _BOOLEANS.split()]
_SETTINGS += [Setting(name, value, _OF_NO_EFFECT, real(0, 1e300)) for name, value in _COSTS.items()]
_SETTINGS += [Setting(name, value, _OF_NO_EFFECT, whole(0, 2**31 - 1)) for name, value in _NUMBERS.items()]
_SETTINGS += [Setting(f"lc_{name}", "C", "The C locale.", lambda v: one_of("c", "posix")(v) and "C")
              for name in ("messages", "monetary", "numeric", "time")]  # fmt: skip
_SETTINGS += [Setting(name, value, "The client's encoding; it cannot be changed.", read_only=True)
              for name, value in _FIXED.items()]  # fmt: skip
_SETTINGS += [
    Setting("backslash_quote", "safe_encoding", _OF_NO_EFFECT, one_of("safe_encoding", "on", "off")),
    Setting("constraint_exclusion", "partition", _OF_NO_EFFECT, one_of("partition", "on", "off")),
    Setting("effective_cache_size", "4GB", _OF_NO_EFFECT, memory(8)),
    Setting("maintenance_work_mem", "64MB", _OF_NO_EFFECT, memory()),
    Setting("password_encryption", "scram-sha-256", "Always SCRAM-SHA-256.", one_of("scram-sha-256")),
    Setting("plan_cache_mode", "auto", _OF_NO_EFFECT,
            one_of("auto", "force_generic_plan", "force_custom_plan")),
    Setting("quote_all_identifiers", "off", "Names are quoted where they must be.", one_of("off")),
    Setting("session_replication_role", "origin", "There are no triggers.", one_of("origin")),
    Setting("temp_buffers", "8MB", _OF_NO_EFFECT, memory(8)),
    Setting("timezone_abbreviations", "Default", _OF_NO_EFFECT,
            lambda v: one_of("default")(v) and "Default"),
    Setting("transform_null_equals", "off", "NULL = NULL is NULL.", one_of("off")),
    Setting("transaction_deferrable", "off", "Serializable ones that only read never fail.", boolean),
    Setting("default_transaction_deferrable", "off", "Of new transactions.", boolean),
    Setting("work_mem", "4MB", _OF_NO_EFFECT, memory()),
    Setting("xmlbinary", "base64", "There is no XML.", one_of("base64", "hex")),
]  # fmt: skip

KNOWN = {setting.name: setting for setting in _SETTINGS}
