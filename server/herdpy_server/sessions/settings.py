"""What a session can SET and SHOW: the settings that there are, and their values in one session.

Below ``block``. A :class:`Setting` has a name, a default, and a check, which gives a value as it is kept or
raises ValueError. :class:`Settings` keeps the values, with those of the open transaction on top.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from herdpy import options
from herdpy.log.entry import MAX_REQUEST_ID_BYTES
from herdpy.log.lsn import LSN, START
from herdpy_server.tablespace import Isolation
from herdpy_server.tablespace.cluster import LEVELS, Level, ReadLevel
from herdpy_server.tracing.traceparent import parse_traceparent
from herdpy_sql.catalog import is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Engine
from herdpy_sql.plan.commands import SHOWN_NAMES
from herdpy_sql.system.state import OWNER
from herdpy_sql.values import time_zones
from herdpy_sql.values.intervals import parse_interval
from herdpy_sql.values.styles import Style

MODES = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
"""The settings that are the open transaction's own; they begin as the session's defaults say."""
MESSAGE_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
"""What client_min_messages can be, the least first."""
ISOLATION_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is folded; ``check`` gives the value as it is kept, or raises ValueError.

    Attributes:
        read_only: nobody can change it. ``superusers``: they alone can.
    """

    name: str
    default: str
    description: str
    check: Check | None = None
    read_only: bool = False
    superusers: bool = False


Check = Callable[[str], str]

_KIB = {"kB": 1, "MB": 1 << 10, "GB": 1 << 20, "TB": 1 << 30}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def one_of(*values: str) -> Callable[[str], str]:
    """One of some words, in any case."""

    def check(value: str) -> str:
        lowered = value.lower()
        if lowered not in values:
            raise ValueError(f"it must be one of {', '.join(values)}")
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


def wait(value: str) -> str:
    """A duration of at least a millisecond."""
    if not 1 <= round(milliseconds(value)) < 2**31:
        raise ValueError("it is between 1 ms and 2147483647 ms")
    return duration(value)


_IN_INTERVAL = re.compile(r"interval\s*'(.*)'", re.IGNORECASE | re.DOTALL)


def zone(value: str) -> str:
    """A time zone: its name, hours east of UTC, an interval east of it, or a POSIX text."""
    interval = _IN_INTERVAL.fullmatch(value)
    if interval is not None:
        value = time_zones.of_offset(_seconds_east(interval[1]))
    elif _HOURS.fullmatch(value):
        value = time_zones.of_offset(int(float(value) * 3600))
    return time_zones.named(value)


def _seconds_east(text: str) -> int:
    """Of an interval that is a time zone."""
    months, days, us = parse_interval(text)
    if months or days:
        raise ValueError("an interval that is a time zone has neither months nor days")
    return us // 1_000_000


_HOURS = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)\s*", re.ASCII)


def level(value: str) -> str:
    """A level of messages; "info" and "fatal" are known to PostgreSQL, but ask for what others do."""
    return one_of(*MESSAGE_LEVELS)(
        {"info": "notice", "fatal": "error", "panic": "error"}.get(value.lower(), value)
    )


_ORDERS = {"YMD": "YMD"}
_LOOKS = {"ISO": "ISO", "SQL": "SQL", "GERMAN": "German"}


def datestyle(value: str, current: str) -> str:
    """DateStyle: a look, an order, or both; what is not said stays as it is, but German's order is DMY."""
    look = order = None
    for word in (part.strip().upper() for part in value.split(",")):
        found_look = "Postgres" if word.startswith("POSTGRES") else _LOOKS.get(word)
        found_order = _order_of(word)
        if word == "DEFAULT":
            found_look, found_order = "ISO", "MDY"
        elif found_look is None and found_order is None:
            raise ValueError("it is ISO, SQL, Postgres or German, and MDY, DMY or YMD")
        if (found_look and look and found_look != look) or (found_order and order and found_order != order):
            if word != "DEFAULT":
                raise ValueError("the specifications conflict")
            continue
        look, order = found_look or look, found_order or order
    now_look, _, now_order = current.partition(", ")
    if order is None:
        order = "DMY" if look == "German" else now_order
    return f"{look or now_look}, {order}"


def _order_of(word: str) -> str | None:
    if word == "DMY" or word.startswith("EURO"):
        return "DMY"
    if word == "MDY" or word.startswith(("US", "NONEURO")):
        return "MDY"
    return _ORDERS.get(word)


def digits(value: str) -> str:
    """As extra_float_digits has them."""
    if not -15 <= int(value) <= 3:
        raise SqlError(
            "22023", f'{int(value)} is outside the valid range for parameter "extra_float_digits" (-15 .. 3)'
        )
    return str(int(value))


_NAMES_OF_ENCODINGS = """
    abc alt big5 euccn eucjis2004 eucjp euckr euctw gb18030 gbk iso88591 iso88592 iso88593 iso88594
    iso88595 iso88596 iso88597 iso88598 iso88599 iso885910 iso885913 iso885914 iso885915 iso885916 johab
    koi8 koi8r koi8u latin1 latin10 latin2 latin3 latin4 latin5 latin6 latin7 latin8 latin9 mskanji
    muleinternal shiftjis shiftjis2004 sjis tcvn tcvn5712 uhc vscii win win1250 win1251 win1252 win1253
    win1254 win1255 win1256 win1257 win1258 win866 win874 win932 win936 win949 win950 windows1250
    windows1251 windows1252 windows1253 windows1254 windows1255 windows1256 windows1257 windows1258
    windows866 windows874 windows932 windows936 windows949 windows950
"""
_ENCODINGS = frozenset(_NAMES_OF_ENCODINGS.split())
"""PostgreSQL's names of encodings that texts would have to be converted to."""


def encoding(value: str) -> str:
    """client_encoding: UTF8, or SQL_ASCII, which is no conversion. SqlError 0A000 for others."""
    plain = "".join(one for one in value.lower() if one.isalnum())
    if plain in {"utf8", "unicode"}:
        return "UTF8"
    if plain == "sqlascii":
        return "SQL_ASCII"
    if plain in _ENCODINGS:
        raise SqlError("0A000", f"Conversion between {value.upper()} and UTF8 is not supported.")
    raise ValueError("it is the name of an encoding")


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


def _traceparent(value: str) -> str:
    if value and parse_traceparent(value) is None:
        raise ValueError("it is version, trace, span and flags, as 00-<32 hex>-<16 hex>-<2 hex>")
    return value


def _at_least_so_long(value: str) -> str:
    """Milliseconds, or a duration; -1 is off."""
    if value.strip().removesuffix("ms").strip() == "-1":
        return "-1"
    return duration(value)


def _only(*values: str) -> Check:
    """One of some words; of others that PostgreSQL knows SqlError 0A000, that is not done here."""

    def check(value: str) -> str:
        lowered = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}.get(
            value.lower(), value.lower()
        )
        if lowered not in values and value.lower() not in values:
            raise SqlError("0A000", f"it can only be {' or '.join(values)} here")
        return value.lower() if value.lower() in values else lowered

    return check


_EXPLAINING = {
    "log_analyze": ("off",), "log_buffers": ("off",), "log_wal": ("off",), "log_timing": ("on",),
    "log_triggers": ("off",), "log_verbose": ("off",), "log_settings": ("off",), "log_format": ("text",),
    "log_level": ("log",), "log_nested_statements": ("off",), "sample_rate": ("1",),
}  # fmt: skip
"""Of auto_explain, what there is one way to do: the value that it has."""

_SETTINGS = [
    Setting("application_name", "", "Name of the application, shown in statistics.", lambda v: v[:63]),
    Setting("array_nulls", "on", "Whether NULL in the text of an array is the null value.", nulls),
    Setting("auto_explain.log_min_duration", "-1",
            "Statements that take longer are logged with their plan; 0 logs all, -1 none.",
            _at_least_so_long, superusers=True),
    Setting("bytea_output", "hex", "How bytes are shown: hex or escape.", one_of("hex", "escape")),
    Setting("check_function_bodies", "on", "There are no functions to be checked.", boolean),
    Setting("client_encoding", "UTF8", "UTF8, or SQL_ASCII, which is the same without a name.", encoding),
    Setting("client_min_messages", "notice", "Least level of the messages sent.", level),
    Setting("datestyle", "ISO, MDY", "How dates are shown, and in which order their fields are read."),
    Setting("deadlock_timeout", "50ms", "How long a lock is waited for before a deadlock is looked for.",
            wait, superusers=True),
    Setting("default_table_access_method", "heap", "There is one way to store tables.", one_of("heap")),
    Setting("default_tablespace", "", "There is one tablespace.", one_of("")),
    Setting("default_transaction_isolation", "read committed", "Isolation of new transactions.",
            one_of(*ISOLATION_LEVELS)),
    Setting("default_transaction_read_only", "off", "Whether new transactions may not write.", boolean),
    Setting("extra_float_digits", "1", "Above 0 floats are shown exactly, else rounded.", digits),
    Setting("herdpy.early_answers", "off",
            "Whether a query in a transaction answers before what it read is durable; COMMIT waits for it.",
            boolean),
    Setting("herdpy.engine", "auto", "Which engine answers a SELECT: auto, own or columnar.",
             one_of("auto", "own", "columnar")),
    Setting("herdpy.forward", "off", "Whether a follower forwards to the leader what it may not do.",
            boolean),
    Setting("herdpy.forward_timeout", "10s", "How long a forwarded statement waits for a leader.", wait),
    Setting("herdpy.max_result_size", "0", "The largest answer of the columnar engine; 0 without a limit.",
            memory()),
    Setting("herdpy.max_staleness_ms", "1000", "How old an answer at the read level bounded may be.",
            milliseconds_text),
    Setting("herdpy.min_lsn", "", "What the read level at_lsn waits for: ledger:entry.", lsn),
    Setting("herdpy.read_level", "linearizable",
            "How new what is read must be: linearizable, bounded, at_lsn or any.", one_of(*LEVELS)),
    Setting("herdpy.request_id", "", "Name of the next commit, by which its outcome can be requested.",
            _request_id),
    Setting("herdpy.traceparent", "", "The context of a trace (W3C) for statements that come without one.",
            _traceparent),
    Setting("idle_in_transaction_session_timeout", "0", "How long a transaction may idle; 0 for ever.",
            duration),
    Setting("idle_session_timeout", "0", "How long a session may idle; 0 for ever.", duration),
    Setting("in_hot_standby", "off", "Whether this server only follows another.", read_only=True),
    Setting("integer_datetimes", "on", "Always on.", read_only=True),
    Setting("intervalstyle", "postgres", "How intervals are shown.",
            one_of("postgres", "postgres_verbose", "sql_standard", "iso_8601")),
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
_FIXED = {"autovacuum": "on", "autovacuum_max_workers": "0", "block_size": "8192", "cluster_name": "",
          "data_checksums": "off", "data_directory": "", "max_logical_replication_workers": "0",
          "max_replication_slots": "0", "max_wal_senders": "0", "max_worker_processes": "0",
          "debug_assertions": "off", "fsync": "on", "full_page_writes": "on", "hot_standby": "on",
          "lc_collate": "C", "lc_ctype": "C.UTF-8", "max_connections": "100", "max_function_args": "100",
          "max_index_keys": "32", "max_prepared_transactions": "0", "port": "5432", "segment_size": "1GB",
          "ssl": "off", "ssl_library": "OpenSSL", "superuser_reserved_connections": "0",
          "wal_block_size": "8192", "wal_level": "replica"}  # fmt: skip
_OF_NO_EFFECT = "As PostgreSQL has it; it changes nothing here."

_SETTINGS += [Setting(f"auto_explain.{name}", values[0], "How plans are logged: there is one way.",
                      _only(*values), superusers=True)
              for name, values in _EXPLAINING.items()]  # fmt: skip
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


_REQUEST_ID = "herdpy.request_id"
OF_ROLES = ("session_authorization", "role")
"""Settings that say whose rights count."""
_OF_THE_STATEMENT = frozenset({*MODES, _REQUEST_ID, "herdpy.traceparent", "herdpy.forward"})
"""Settings that go with one statement or transaction, or one of the nodes."""
_NOT_OF_ROLES = frozenset({*MODES, *OF_ROLES, _REQUEST_ID, "herdpy.traceparent"})
"""Settings that sessions of a role cannot begin with."""
MAX_CUSTOM = 1_000
"""Settings of its user's own (``SET a.b = ...``) that a session can have."""
MAX_CUSTOM_LENGTH = 65_536
"""Characters of the value of one of those."""


class Settings:
    """The settings of one session, with those of the open transaction (SET LOCAL) on top.

    Attributes:
        engine: as SHOW says it.
        style: how texts are read and written: TimeZone, DateStyle, IntervalStyle and the like.
        early_answers: in a transaction block an answer may rest on what is not durable yet.
        lock_timeout_s, statement_timeout_s: seconds, None for none. Read at every statement.
        explain_after_s: statements that take so long are logged with their plan.
        deadlock_timeout_s: after so many seconds of waiting for a lock a deadlock is looked for.
        idle_session_s, idle_transaction_s: how long the client may say nothing outside of a transaction, and
            within one; None for ever. The door's business.
        read_only: what is begun now may not write.
        isolation: of what is begun now.
        on_mode: is called before a mode of the open transaction is given a value.
        on_standby: is called after ``standby`` has changed.
        check_role: is called before a role is taken on (SET ROLE, SET SESSION AUTHORIZATION).
        on_role: is called when another role's rights count.
        request_id: the name of the next commit; empty when it has none.
        is_statements_name: the name came with a statement, so no later commit may have it.
        max_result_bytes: the largest answer of the columnar engine; 0 without a limit.
        read_level: how new what is read must be, where the database has several replicas.
        standby: the database only follows another one, so nothing may write; see :meth:`set_standby`.
        forward, forward_timeout_s: then the leader does it, and is waited for so long.
        path: the schemas where names without one are looked for, whether they exist or not.
        temporary_schema: where the session's temporary tables are; "" as long as there is none.
        commit_position: of the newest commit that had a name; empty when there was none.
        revision: another number after every change.
        max_custom: how many settings that HerdPy does not know there may be.
        of_role: what the session has begun with by its role's settings.
    """

    def __init__(self) -> None:
        self._values = {name: setting.default for name, setting in KNOWN.items()}
        self._defaults = dict(self._values)
        self.of_role: dict[str, str] = {}
        self._saved: dict[str, str] | None = None  # what to go back to; made at the first change
        self._in_transaction = False
        self.max_custom = MAX_CUSTOM
        self.standby = False
        self.on_mode: Callable[[str, str], object] = lambda _name, _value: None
        self.on_standby: Callable[[], object] = lambda: None
        self.check_role: Callable[[str, str], object] = _nobody_else
        self.on_role: Callable[[], object] = lambda: None
        self._role = ("none", "")
        self.temporary_schema = ""
        self.commit_position = ""
        self.request_id, self.is_statements_name = b"", False
        self.revision = 0
        self._derive()

    def _derive(self) -> None:
        self.revision += 1
        values = self._values
        self.forward = values["herdpy.forward"] == "on"
        self.forward_timeout_s = milliseconds(values["herdpy.forward_timeout"]) / 1000
        only_reads = self.standby and not self.forward
        values["in_hot_standby"] = "on" if only_reads else "off"
        if not self._in_transaction:
            values["transaction_read_only"] = "on" if only_reads else values["default_transaction_read_only"]
            values["transaction_isolation"] = values["default_transaction_isolation"]
            values["transaction_deferrable"] = values["default_transaction_deferrable"]
        level = values["transaction_isolation"]
        self.isolation = "read committed" if level == "read uncommitted" else cast(Isolation, level)
        self.engine = cast(Engine, values["herdpy.engine"])
        self.early_answers = values["herdpy.early_answers"] == "on"
        self.style = style_of(values)
        role = (values["role"], values["session_authorization"])
        user = role[1] if role[0] == "none" else role[0]
        self.path = path_of(values["search_path"], user, self.temporary_schema)
        self.lock_timeout_s = _seconds(values["lock_timeout"])
        self.deadlock_timeout_s = milliseconds(values["deadlock_timeout"]) / 1000
        self.statement_timeout_s = _seconds(values["statement_timeout"])
        request_id = values[_REQUEST_ID].encode()
        if request_id != self.request_id:
            self.request_id, self.is_statements_name = request_id, False
        self.read_level = ReadLevel(
            cast(Level, values["herdpy.read_level"]),
            milliseconds(values["herdpy.max_staleness_ms"]) / 1000,
            position(values["herdpy.min_lsn"]),
        )
        self.max_result_bytes = memory_bytes(values["herdpy.max_result_size"])
        explain_after = values["auto_explain.log_min_duration"]
        self.explain_after_s = math.inf if explain_after == "-1" else milliseconds(explain_after) / 1000
        self.idle_session_s = _seconds(values["idle_session_timeout"])
        self.idle_transaction_s = _seconds(values["idle_in_transaction_session_timeout"])
        self.read_only = self.standby or values["transaction_read_only"] == "on"
        if role != self._role:
            self._role = role
            self.on_role()

    def use_temporary_schema(self, name: str) -> None:
        """The session has temporary tables from now on, in a schema of its own."""
        self.temporary_schema = name
        self._derive()

    def set_standby(self, standby: bool) -> None:
        """The database begins to follow another one, or to lead.

        Where it leads again, a transaction that is open stays one that only reads.
        """
        if standby != self.standby:
            self.standby = standby
            self._derive()
            self.on_standby()

    def __getitem__(self, name: str) -> str:
        try:
            return self._values[name.lower()]
        except KeyError:
            raise _unknown(name) from None

    def __iter__(self) -> Iterator[tuple[Setting, str]]:
        for name, value in sorted(self._values.items()):
            yield KNOWN.get(name) or Setting(name, "", "A setting of its user's own."), value

    def start_with(self, name: str, value: str) -> None:
        """What the client, or the server's configuration, begins the session with: RESET goes back to it.

        Raises:
            SqlError: as :meth:`set`; settings that cannot be changed can be given here.
        """
        name = name.lower()
        setting = KNOWN.get(name)
        kept = value if setting is not None and setting.read_only else self.checked(name, value)
        self._defaults[name] = self._values[name] = kept
        self.of_role.pop(name, None)
        self._derive()

    def start_as_role(self, values: Iterable[tuple[str, str]]) -> list[SqlError]:
        """What a role begins sessions with (ALTER ROLE ... SET), before the client's :meth:`start_with`.

        Returns:
            What is wrong with those that are of no use any more, for warnings.
        """
        wrong = []
        for name, value in values:
            try:
                kept = self._checked(name, value)
            except SqlError as error:
                wrong.append(error)
                continue
            self.of_role[name] = self._defaults[name] = self._values[name] = kept
        self._derive()
        return wrong

    def checked_for_role(self, name: str, value: str | None) -> str | None:
        """A value as a role's record has it: as it was written; None for no value.

        Raises:
            SqlError: as :meth:`set`; 0A000 no role can have this setting.
        """
        if name in _NOT_OF_ROLES:
            raise SqlError("0A000", f'parameter "{name}" cannot be a setting of a role')
        kept = self.checked(name, value)
        if not self._may_set_for_role(name):
            raise SqlError("42501", f'permission denied to set parameter "{name}"')
        return kept if value is not None and name == "search_path" else value

    def _may_set_for_role(self, name: str) -> bool:
        """As in PostgreSQL: of settings that are not known, superusers alone have roles begin with them."""
        known = KNOWN.get(name)
        return self._values["is_superuser"] == "on" or (known is not None and not known.superusers)

    def not_to_reset(self, values: Mapping[str, str]) -> dict[str, str]:
        """Of a role's settings those that RESET ALL leaves, as this user may not change them."""
        return {name: value for name, value in values.items() if not self._may_set_for_role(name)}

    def set_shown(self, values: Mapping[str, str]) -> None:
        """Have SHOW say what the server is: of settings that cannot be changed."""
        self._defaults |= values
        self._values |= values
        self._derive()

    def checked(self, name: str, value: str | None) -> str:
        """A value, or the default for None, as it would be kept; SqlError as :meth:`set`."""
        setting = KNOWN.get(name.lower())
        if setting is not None and setting.superusers and self._values["is_superuser"] != "on":
            raise SqlError("42501", f'permission denied to set parameter "{setting.name}"')
        return self._checked(name, value)

    def _checked(self, name: str, value: str | None) -> str:
        """:meth:`checked`, whoever gives the value."""
        setting = KNOWN.get(name.lower())
        if setting is None:
            return self._checked_custom(name, value)
        if setting.read_only:
            raise SqlError("55P02", f'parameter "{setting.name}" cannot be changed')
        if value is None:
            return self._defaults[setting.name]
        try:
            if setting.name == "datestyle":
                value_now = self._defaults if value.strip().lower() == "default" else self._values
                kept = datestyle(value, value_now["datestyle"])
            else:
                kept = setting.check(value) if setting.check else value
        except ValueError as error:
            raise SqlError(
                "22023",
                f'invalid value for parameter "{SHOWN_NAMES.get(setting.name, setting.name)}": "{value}"',
                hint=str(error),
            ) from error
        is_mode = setting.name == "transaction_read_only"
        if self.standby and not self.forward and is_mode and kept == "off":
            raise SqlError("0A000", "cannot set transaction read-write mode during recovery")
        return kept

    def _checked_custom(self, name: str, value: str | None) -> str:
        """Settings with a dot in their names are their users' own, and may have any value."""
        if "." not in name or name.lower().startswith(("herdpy.", "auto_explain.")):
            raise _unknown(name)
        if not all(part.isidentifier() for part in name.split(".")):
            raise SqlError("42602", f'invalid configuration parameter name "{name}"')
        if name.lower() not in self._values and len(self._values) >= len(KNOWN) + self.max_custom:
            raise SqlError("53400", f"a session can have at most {self.max_custom} settings of its own")
        if len(value or "") > MAX_CUSTOM_LENGTH:
            raise SqlError("22023", f'the value of parameter "{name}" is too long')
        return self._defaults.get(name.lower(), "") if value is None else value

    def set(self, name: str, value: str | None) -> None:
        """Give a setting a value; None gives it its default.

        Raises:
            SqlError: 42704 it is not known, 55P02 it cannot be changed, 42501 not by this role,
                22023 the value is wrong, 42602 and 53400 for a setting of the user's own.
        """
        checked = self.checked(name, value)
        if self._in_transaction and name.lower() in MODES:
            self.on_mode(name.lower(), checked)
        if name.lower() in OF_ROLES:
            self.check_role(name.lower(), checked)
        self._save()
        self._values[name.lower()] = checked
        if name.lower() == "session_authorization":
            self._values["role"] = "none"
        self._derive()

    def _save(self) -> None:
        if self._in_transaction and self._saved is None:
            self._saved = dict(self._values)

    def reset(self) -> None:
        """Give every setting its default, but for those of the open transaction, and who the user is."""
        self._save()
        kept = {name: self._values[name] for name in (*MODES, *OF_ROLES)}
        self._values = {**self._values, **self._defaults, **kept}
        for name in self._values.keys() - self._defaults.keys():
            self._values[name] = ""
        self._derive()

    # For sessions whose statements are forwarded, at both ends.

    def differences(self) -> dict[str, str]:
        """What another session needs to have the same settings: those that are not as they begin."""
        return {
            name: value
            for name, value in self._values.items()
            if (name not in KNOWN or (value != KNOWN[name].default and not KNOWN[name].read_only))
            and name not in _OF_THE_STATEMENT
        }

    def beginning(self) -> dict[str, str]:
        """What RESET goes back to, where that is not the default of the setting."""
        return {
            name: value
            for name, value in self._defaults.items()
            if (name not in KNOWN or (value != KNOWN[name].default and not KNOWN[name].read_only))
            and name not in _OF_THE_STATEMENT
            and name not in OF_ROLES
        }

    def take(self, values: Mapping[str, str]) -> None:
        """Have exactly these :meth:`differences` of another session, outside of a transaction.

        What only a newer server knows is passed over. SqlError: the role is not the user's to take on.
        """
        known = {name: value for name, value in values.items() if name in KNOWN or "." in name}
        for name in OF_ROLES:
            if name in known and known[name] != self._values[name]:
                self.check_role(name, known[name])
        kept = {name: self._values[name] for name in self._values if name in _OF_THE_STATEMENT}
        shown = {name: self._values[name] for name, one in KNOWN.items() if one.read_only}
        begin = {name: setting.default for name, setting in KNOWN.items()}
        self._values = {**begin, **known, **kept, **shown}
        self._derive()

    def take_over(self, values: Mapping[str, str | None]) -> None:
        """What SET was said elsewhere for this session; None: as it begins."""
        self._save()
        for name, value in values.items():
            known = KNOWN.get(name)
            self._values[name] = value if value is not None else "" if known is None else known.default
        self._derive()

    def learn_request_id(self, name: str) -> None:
        """What was SET elsewhere for this session as the name of the next commit; "": it has none."""
        self._values[_REQUEST_ID], self.request_id = name, name.encode()
        self.is_statements_name = False

    def take_request_id(self) -> bytes:
        """The name of the commit that is made now; the next one has none."""
        taken = self.request_id
        if taken:
            self._values[_REQUEST_ID], self.request_id = "", b""
            self.is_statements_name = False
        return taken

    def name_commit(self, request_id: bytes) -> None:
        """The statement that comes now brought a name for the commit that it is, or is part of."""
        self._values[_REQUEST_ID], self.request_id = request_id.decode(), request_id
        self.is_statements_name = True

    def committed(self, position: str) -> None:
        """A commit that has a name is durable: its position is reported to its client."""
        self.commit_position = position

    def begin(self) -> None:
        """A transaction begins: remember what to go back to."""
        self._in_transaction = True
        self._saved = None

    def mark(self) -> Mapping[str, str]:
        """What a savepoint keeps of the settings, for :meth:`undo`."""
        return dict(self._values)

    def undo(self, mark: Mapping[str, str]) -> None:
        """ROLLBACK TO a savepoint: what was SET since is undone, but for the name of the commit to come."""
        if self._saved is not None and mark != self._values:
            unset = dict.fromkeys(self._values.keys() - mark.keys(), "")
            self._values = {**unset, **mark, _REQUEST_ID: self._values[_REQUEST_ID]}
            self._derive()

    def kept(self, name: str) -> str:
        """The value of a setting, "" of one that is not there yet."""
        return self._values.get(name.lower(), "")

    def end(self, *, committed: bool, local: Mapping[str, str]) -> None:
        """The transaction ended: SET is kept only when it committed, SET LOCAL never is.

        Args:
            local: what those go back to that SET LOCAL was the last to set.
        """
        saved, self._saved, self._in_transaction = self._saved, None, False
        if saved is None:
            return
        if not committed:
            self._values = saved
        else:
            self._values.update(local)
        self._derive()


def style_of(values: Mapping[str, str]) -> Style:
    """How a session with these settings reads and writes texts."""
    look, _, order = values["datestyle"].partition(", ")
    return Style(
        values["timezone"],
        look,
        order,
        values["intervalstyle"],
        int(values["extra_float_digits"]),
        values["bytea_output"],
    )


def _nobody_else(_name: str, value: str) -> None:
    """Of a database without roles."""
    if value not in {"", "none", OWNER}:
        raise SqlError("22023", f'role "{value}" does not exist')


def _unknown(name: str) -> SqlError:
    return SqlError("42704", f'unrecognized configuration parameter "{name}"')


def _seconds(value: str) -> float | None:
    amount = milliseconds(value)
    return amount / 1000 if amount else None
