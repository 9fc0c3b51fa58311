"""Every setting of a server: its type, what is allowed, its default and what it means.

The one place that knows them, with ``clients`` and ``membership``: ``conf/server.toml`` is written from
these structs (``render``), values are checked against them (``values``), and the table of docs/server.md
is compared with them. A section is a table of the file; names of settings carry their units. A section's
docstring is told in the file, so it is written for who runs a server.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from herdpy_server.config.clients import (
    AuthenticationSection,
    GrpcSection,
    HttpSection,
    PostgresSection,
    SessionsSection,
    TlsSection,
)
from herdpy_server.config.membership import ClusterSection, ZookeeperSection
from herdpy_server.config.section import DAY_S, TIB, Section, says, seconds, whole

Level = Literal["debug", "info", "warning", "error"]


class DataSection(Section, frozen=True, kw_only=True):
    """Where the database is."""

    directory: Annotated[str, says("The data directory. Needed: here, by --data, or by the environment.")] = (
        ""
    )
    create: Annotated[
        bool, says("Make a database where there is none. Without, a volume that is not mounted is an error.")
    ] = True


class StorageSection(Section, frozen=True, kw_only=True):
    """Memory, checkpoints and the log."""

    checkpoint_interval_s: Annotated[
        float,
        seconds(0.01, 3600.0, "How often what is new goes to the store; recovery replays about as much."),
    ] = 1.0
    checkpoint_rows: Annotated[
        int, whole(1, 1_000_000_000, "So many changed rows in memory start a checkpoint sooner.")
    ] = 50_000
    memtable_limit_bytes: Annotated[
        int, whole(1 << 20, TIB, "Writers wait for a checkpoint when more than this is in memory.")
    ] = 1 << 30
    transaction_memory_bytes: Annotated[
        int,
        whole(0, TIB, "What a transaction has changed beyond that goes to temporary files; 0: nothing does."),
    ] = 64 << 20
    log_retention_bytes: Annotated[
        int, whole(0, 1 << 50, "Ledgers kept although a checkpoint is past them, to rebuild a damaged store.")
    ] = 256 << 20
    max_ledger_bytes: Annotated[
        int, whole(1 << 20, 1 << 40, "A ledger is closed and another begun at this size.")
    ] = 64 << 20
    max_ledger_age_s: Annotated[float, seconds(1.0, 365 * DAY_S, "And at this age.")] = 3600.0
    column_cache_bytes: Annotated[int, whole(0, TIB, "Memory for columns kept between queries.")] = 512 << 20
    query_memory_bytes: Annotated[
        int, whole(16 << 20, TIB, "Memory of one query in DuckDB; it spills to disk beyond.")
    ] = 1 << 30
    plan_cache: Annotated[int, whole(1, 1_000_000, "Statement texts whose plans are kept.")] = 1000


class WorkersSection(Section, frozen=True, kw_only=True):
    """Processes beside the server that answer what reads much: joins, aggregates, whole tables.

    They are started when they are wanted. storage.query_memory_bytes and storage.column_cache_bytes hold
    for each of them.
    """

    maximum: Annotated[
        int, whole(1, 1000, "How many there may be; each answers one query at a time, others wait.")
    ] = 2
    memory_bytes: Annotated[
        int,
        whole(512 << 20, TIB, "Memory of one of them beyond what it starts with; who needs more gets 53200."),
    ] = 4 << 30
    threads: Annotated[int, whole(1, 1000, "Threads that one query computes with.")] = 2
    query_timeout_s: Annotated[
        float,
        seconds(0.0, 365 * DAY_S, "How long a query may compute, beside what its session sets; 0: for ever."),
    ] = 0.0
    long_query_s: Annotated[
        float,
        seconds(
            0.0,
            365 * DAY_S,
            "A query that computes for longer leaves its place to another, and there may be twice maximum; 0:"
            " never.",
        ),
    ] = 5.0
    queue: Annotated[int, whole(0, 1_000_000, "Queries that may wait for a worker; one more gets 53000.")] = (
        200
    )
    queue_timeout_s: Annotated[
        float, seconds(0.0, 365 * DAY_S, "How long they wait before they get 53000; 0: for ever.")
    ] = 60.0
    idle_timeout_s: Annotated[
        float, seconds(0.1, 365 * DAY_S, "A worker that nobody needed for so long ends.")
    ] = 300.0
    niceness: Annotated[
        int, whole(0, 19, "How far they stand back behind the server when both want a processor (nice).")
    ] = 10


class PublishSection(Section, frozen=True, kw_only=True):
    """Snapshots for those who read the log themselves, such as Spark; for a server that is alone.

    In a cluster each tablespace has these as options: ALTER TABLESPACE ... SET (snapshot_url = '...').
    """

    url: Annotated[
        str,
        says("Where to: a directory, or a URL of a store such as s3://bucket/prefix; empty: nowhere."),
    ] = ""
    interval_s: Annotated[float, seconds(1.0, 365 * DAY_S, "How often.")] = 3600.0
    keep: Annotated[int, whole(1, 1000, "How many of the newest stay.")] = 2
    history_s: Annotated[
        float,
        seconds(
            0.0,
            3650 * DAY_S,
            "Moments of so long ago stay readable: snapshots and the log are kept for that.",
        ),
    ] = 0.0
    niceness: Annotated[
        int, whole(0, 19, "How far the process that writes them stands back behind the server (nice).")
    ] = 10


class LoggingSection(Section, frozen=True, kw_only=True):
    """What the server tells of itself, on standard error or in a file."""

    level: Annotated[Level, says("The least level that is told.")] = "info"
    levels: Annotated[
        dict[str, Level],
        says('Levels of parts of it, such as { "herdpy.checkpointer" = "debug" }.'),
    ] = field(default_factory=dict)
    format: Annotated[Literal["text", "json"], says("Lines for people, or JSON, an object a line.")] = "text"
    file: Annotated[
        str, says("A file to append to, opened again when it was moved away; empty: standard error.")
    ] = ""
    slow_statement_s: Annotated[
        float, seconds(-1.0, DAY_S, "Statements that take longer are told; 0 tells every one, -1 none.")
    ] = 1.0
    slow_statement_chars: Annotated[
        int, whole(0, 1_000_000, "How much of such a statement's text is told.")
    ] = 1000


class AuditSection(Section, frozen=True, kw_only=True):
    """Who came in, what was defined, who was granted what; by classes of statements, a JSON object a line."""

    classes: Annotated[
        tuple[Literal["login", "role", "ddl", "write", "read", "misc", "call"], ...],
        says(
            'What is told: "login" (and who was refused), "role" (roles and rights), "ddl", "write", "read",'
            ' "misc" (all other statements), "call" (of gRPC); empty: nothing.'
        ),
    ] = ()
    file: Annotated[str, says("A file to append to; empty: the server's own log.")] = ""
    rotate_bytes: Annotated[
        int, whole(4 << 10, 1 << 40, "From this size on the file becomes <file>.1, and another is begun.")
    ] = 64 << 20
    keep: Annotated[int, whole(1, 1000, "How many of those stay.")] = 10
    on_failure: Annotated[
        Literal["refuse", "continue"],
        says(
            'When the file cannot be written: "refuse" what would have to be told of, or "continue"; the'
            " server's log tells."
        ),
    ] = "refuse"
    statement_chars: Annotated[int, whole(0, 1_000_000, "How much of a statement's text is told.")] = 4000


class ShutdownSection(Section, frozen=True, kw_only=True):
    """How the server ends."""

    graceful_timeout_s: Annotated[
        float, seconds(0.0, DAY_S, "After SIGTERM: how long sessions may go on before they are ended.")
    ] = 30.0


class ServerConfig(Section, frozen=True, kw_only=True):
    """Everything that can be set, by sections."""

    data: DataSection = field(default_factory=DataSection)
    storage: StorageSection = field(default_factory=StorageSection)
    postgres: PostgresSection = field(default_factory=PostgresSection)
    tls: TlsSection = field(default_factory=TlsSection)
    authentication: AuthenticationSection = field(default_factory=AuthenticationSection)
    sessions: SessionsSection = field(default_factory=SessionsSection)
    workers: WorkersSection = field(default_factory=WorkersSection)
    http: HttpSection = field(default_factory=HttpSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    zookeeper: ZookeeperSection = field(default_factory=ZookeeperSection)
    grpc: GrpcSection = field(default_factory=GrpcSection)
    publish: PublishSection = field(default_factory=PublishSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    audit: AuditSection = field(default_factory=AuditSection)
    shutdown: ShutdownSection = field(default_factory=ShutdownSection)


RELOADABLE = frozenset(
    {
        "tls.certificate",
        "tls.key",
        "authentication.rules",
        "logging.level",
        "logging.levels",
        "logging.slow_statement_s",
        "logging.slow_statement_chars",
        "shutdown.graceful_timeout_s",
    }
)
"""Settings that a running server takes over on SIGHUP; the others need another start."""
