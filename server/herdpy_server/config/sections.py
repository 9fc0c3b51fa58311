"""Every setting of a server: its type, what is allowed, its default and what it means.

The one place that knows them: ``conf/server.toml`` is written from these structs (``render``), values are
checked against them (``values``), and the table of docs/server.md is compared with them. A section is a table
of the file; names of settings carry their units. A section's docstring is told in the file, so it is written
for who runs a server. Limits and meanings are msgspec's ``Meta``, from where ``fields`` reads them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

TIB = 1 << 40
DAY_S = 86_400.0
Level = Literal["debug", "info", "warning", "error"]
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


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections are: immutable, by keyword, without unknown names."""


def whole(low: int, high: int, description: str) -> Meta:
    """A whole number within these limits, and what it means."""
    return Meta(ge=low, le=high, description=description)


def seconds(low: float, high: float, description: str) -> Meta:
    """Seconds within these limits, and what they are for."""
    return Meta(ge=low, le=high, description=description)


def says(description: str) -> Meta:
    """What a setting without limits means."""
    return Meta(description=description)


class PostgresSection(Section, frozen=True, kw_only=True):
    """PostgreSQL's protocol: where psql, drivers and applications connect."""

    addresses: Annotated[
        tuple[str, ...], says('Where it listens: addresses or names of this machine; "*" is everywhere.')
    ] = ("127.0.0.1",)
    port: Annotated[int, whole(0, 65535, "Its port; 0 takes a free one, which the log tells.")] = 5432
    backlog: Annotated[int, whole(1, 65535, "Connections that the kernel keeps until they are taken.")] = 1024
    unix_directory: Annotated[
        str, says("A directory for the socket .s.PGSQL.<port> that programs here may use; empty: none.")
    ] = ""
    database: Annotated[
        str, says("The only name of a database that clients may ask for; empty: whichever they like.")
    ] = ""
    max_connections: Annotated[int, whole(1, 1_000_000, "Sessions at a time; more get 53300.")] = 2000
    max_connections_per_user: Annotated[
        int,
        whole(0, 1_000_000, "Sessions of one user at a time, superusers' apart; 0: as many as there are."),
    ] = 0
    max_connections_per_address: Annotated[
        int,
        whole(0, 1_000_000, "Connections from one address at a time, a Unix socket's apart; 0: no limit."),
    ] = 0
    max_starting: Annotated[
        int,
        whole(
            1, 1_000_000, "Connections that have not said who they are; the oldest makes room for one more."
        ),
    ] = 500
    startup_timeout_s: Annotated[
        float, seconds(0.1, 3600.0, "How long a client may take to say who it is and to prove it.")
    ] = 30.0
    max_message_bytes: Annotated[
        int,
        whole(64 << 10, 1 << 30, "The longest message of a client; it bounds a statement and its values."),
    ] = 64 << 20
    read_ahead_bytes: Annotated[
        int, whole(4 << 10, 1 << 30, "What is read of a client while a statement of it runs.")
    ] = 1 << 20
    write_ahead_bytes: Annotated[
        int, whole(4 << 10, 1 << 30, "What may wait until the client reads it; then nothing more is made.")
    ] = 256 << 10
    chunk_bytes: Annotated[
        int, whole(4 << 10, 1 << 30, "How much of a large result is made before others have their turn.")
    ] = 64 << 10


class TlsSection(Section, frozen=True, kw_only=True):
    """TLS for PostgreSQL's protocol. Off until a certificate and its key are given."""

    certificate: Annotated[str, says("A PEM file with the certificate and those that it rests on.")] = ""
    key: Annotated[str, says("A PEM file with its key, without a password; readable by the server only.")] = (
        ""
    )
    client_ca: Annotated[
        str,
        says(
            "A PEM file: clients must show a certificate that one of these signed; empty: none is asked for."
        ),
    ] = ""
    client_certificate: Annotated[
        Literal["required", "optional"],
        says(
            'With client_ca: "required" of every TLS client, or "optional", for authentication.rules to ask'
            " for. gRPC asks for one only where it is required."
        ),
    ] = "required"
    required: Annotated[bool, says("Refuse clients without TLS, but for those on a Unix socket.")] = False


class HostRule(Section, frozen=True, kw_only=True):
    """Who may come from where, and how it is proved. Of all rules the first that fits decides."""

    method: Literal["trust", "scram-sha-256", "cert", "reject"]
    network: str = "all"
    user: str = "all"
    clientcert: Literal["", "verify-ca", "verify-full"] = ""


class AuthenticationSection(Section, frozen=True, kw_only=True):
    """How clients prove who they are. Of all rules the first that fits decides; if none does, reject.

    network: "loopback", "all", or a network such as "10.0.0.0/8". user: a role, or "all".
    method: "trust" asks for nothing, "scram-sha-256" for the role's password, "cert" for a client
    certificate whose common name is the user's name, "reject" refuses.
    clientcert: "verify-ca" asks for a client certificate besides, "verify-full" for one of the user's name.
    """

    rules: Annotated[tuple[HostRule, ...], says("The rules, in order.")] = (
        HostRule(network="loopback", method="trust"),
        HostRule(network="all", method="scram-sha-256"),
    )
    trust_other_machines: Annotated[
        bool, says('Allow rules that let clients in from other machines by "trust".')
    ] = False


class SessionsSection(Section, frozen=True, kw_only=True):
    """How much one session may keep; beyond, a statement fails and the session goes on."""

    statement_bytes: Annotated[int, whole(1 << 10, 1 << 30, "The longest text of statements.")] = 16 << 20
    statements: Annotated[int, whole(1, 10_000_000, "How many prepared statements.")] = 10_000
    portals: Annotated[int, whole(1, 10_000_000, "How many portals, cursors among them.")] = 10_000
    large: Annotated[
        int, whole(1, 1_000_000, "How many portals with answers too large to be held in memory.")
    ] = 64
    custom_settings: Annotated[
        int, whole(0, 10_000_000, "How many settings that HerdPy does not know (SET a.b = ...).")
    ] = 1_000


class HttpSection(Section, frozen=True, kw_only=True):
    """The page with health and metrics, for probes and Prometheus. It asks for no password."""

    enabled: Annotated[bool, says("Whether there is such a page.")] = True
    address: Annotated[str, says("Where it listens: an address or a name of this machine.")] = "127.0.0.1"
    port: Annotated[int, whole(0, 65535, "Its port; 0 takes a free one, which the log tells.")] = 8480


class GrpcSection(Section, frozen=True, kw_only=True):
    """gRPC: administration, health, snapshots and partitions, for operators and data pipelines.

    It asks for passwords by the rules of [authentication], and is all TLS once [tls] has a certificate.
    """

    enabled: Annotated[bool, says("Whether there is this door.")] = True
    address: Annotated[
        str, says('Where it listens: an address or a name of this machine; "*" is everywhere.')
    ] = "127.0.0.1"
    port: Annotated[int, whole(0, 65535, "Its port; 0 takes a free one, which the log tells.")] = 8481
    max_message_bytes: Annotated[int, whole(4 << 10, 1 << 30, "The longest request.")] = 4 << 20
    max_calls: Annotated[
        int, whole(1, 1_000_000, "Calls at a time, streams among them; more are refused.")
    ] = 200
    max_streams: Annotated[
        int, whole(1, 1_000_000, "Calls of one connection at a time; more wait for their turn.")
    ] = 100
    max_snapshots: Annotated[
        int, whole(0, 1_000, "Snapshots at a time; each takes disk space as the store does.")
    ] = 4
    max_plans: Annotated[
        int, whole(0, 10_000, "Plans of partitions at a time; each holds a state of the store fast.")
    ] = 16


class ClusterSection(Section, frozen=True, kw_only=True):
    """Several servers that replicate tablespaces over BookKeeper. Off until ZooKeeper is named."""

    zookeeper: Annotated[
        str, says('ZooKeeper\'s servers, "host:port,host:port"; empty: this server is alone.')
    ] = ""
    root: Annotated[str, says("Under which path of ZooKeeper this cluster is.")] = "/herdpy"
    ledgers_root: Annotated[str, says("Where BookKeeper has its metadata in ZooKeeper.")] = "/ledgers"
    node: Annotated[
        str,
        says("This node's id, unlike every other's; empty: one that the data directory keeps."),
    ] = ""
    advertise: Annotated[
        str,
        says("The name or address by which others reach this server; empty: the first that it listens on."),
    ] = ""
    session_timeout_s: Annotated[
        float,
        seconds(0.1, 600.0, "Others take over from a node that ZooKeeper has not heard for so long."),
    ] = 1.0
    lease_s: Annotated[
        float,
        seconds(0.05, 60.0, "A leader answers reads for so long after ZooKeeper confirmed that it leads."),
    ] = 0.4
    user: Annotated[
        str,
        says(
            "As which role this node asks others for snapshots: one with REPLICATION there; empty: as a node,"
            " by the secret that all nodes share."
        ),
    ] = ""
    password_file: Annotated[
        str, says("A file with that role's password in its first line; empty: none is shown.")
    ] = ""
    secret_file: Annotated[
        str,
        says(
            "A file with that secret in its first line, the same for all nodes; empty: the first node makes"
            " one and keeps it in ZooKeeper."
        ),
    ] = ""
    ca: Annotated[
        str,
        says(
            "A PEM file with those that signed the nodes' certificates, used when tls.certificate is given;"
            " empty: those that this machine knows."
        ),
    ] = ""
    replace_after_s: Annotated[
        float,
        seconds(
            1.0, 365 * DAY_S, "Replicas on a node that has been away for so long are made anew on another."
        ),
    ] = 600.0
    least_free_bytes: Annotated[
        int,
        whole(
            0,
            TIB,
            "With less than that free on the disk of its data directory a node has other replicas lead, where"
            " some can. 0: it does not look.",
        ),
    ] = 256 << 20
    tablespace: Annotated[str, says("The tablespace that the first start makes.")] = "herdpy"
    expected_replicas: Annotated[int, whole(1, 100, "How many replicas a new tablespace gets.")] = 3
    ensemble: Annotated[
        int, whole(1, 100, "How many bookies a ledger of a new tablespace is spread over.")
    ] = 3
    write_quorum: Annotated[int, whole(1, 100, "How many bookies get each entry.")] = 3
    ack_quorum: Annotated[int, whole(1, 100, "How many must have it before a commit is acknowledged.")] = 2


class ZookeeperSection(Section, frozen=True, kw_only=True):
    """How ZooKeeper is reached, where cluster.zookeeper names it. In the clear until tls is set."""

    tls: Annotated[bool, says("Its servers speak TLS, on the ports that cluster.zookeeper names.")] = False
    ca: Annotated[
        str,
        says("A PEM file with those that signed their certificates; empty: those that this machine knows."),
    ] = ""
    certificate: Annotated[
        str, says("A PEM file with the certificate that is shown to them; empty: none is.")
    ] = ""
    key: Annotated[str, says("A PEM file with its key, without a password; readable by the server only.")] = (
        ""
    )
    check_hostname: Annotated[
        bool, says("Their certificates must have the names that cluster.zookeeper has.")
    ] = True


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
