"""Every setting of a server: its type, what is allowed, its default and what it means.

The one place that knows them: ``conf/server.toml`` is written from these structs (``fields``), values are
checked against them (``values``), and the table of docs/server.md is compared with them. A section is a table
of the file; names of settings carry their units. A section's docstring stands in the file, so it is written
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
        "logging.slow_statement_plan",
        "statistics.statements",
        "statistics.statement_bytes",
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
        tuple[str, ...], says('Where it listens: addresses or names of this machine; "*" is all of them.')
    ] = ("127.0.0.1",)
    port: Annotated[int, whole(0, 65535, "Its port; 0 picks a free port and logs it.")] = 5432
    backlog: Annotated[
        int, whole(1, 65535, "Connections that the kernel queues until the server accepts them.")
    ] = 1024
    unix_directory: Annotated[
        str, says("A directory for the socket .s.PGSQL.<port> that programs here may use; empty: none.")
    ] = ""
    database: Annotated[str, says("The only database name that clients may request; empty: any name.")] = ""
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
        whole(1, 1_000_000, "Connections that have not authenticated yet; one more closes the oldest."),
    ] = 500
    startup_timeout_s: Annotated[
        float, seconds(0.1, 3600.0, "How long a client may take to authenticate.")
    ] = 30.0
    max_message_bytes: Annotated[
        int,
        whole(64 << 10, 1 << 30, "The longest message of a client; it bounds a statement and its values."),
    ] = 64 << 20
    read_ahead_bytes: Annotated[
        int,
        whole(4 << 10, 1 << 30, "How much of a client's input is buffered while one of its statements runs."),
    ] = 1 << 20
    write_ahead_bytes: Annotated[
        int,
        whole(
            4 << 10,
            1 << 30,
            "How much output is buffered for a client that reads slowly; then its query pauses.",
        ),
    ] = 256 << 10
    chunk_bytes: Annotated[
        int, whole(4 << 10, 1 << 30, "How much of a large result is produced before other sessions run.")
    ] = 64 << 10


class TlsSection(Section, frozen=True, kw_only=True):
    """TLS for PostgreSQL's protocol. Off until a certificate and its key are given."""

    certificate: Annotated[str, says("A PEM file with the certificate and its chain.")] = ""
    key: Annotated[str, says("A PEM file with its key, without a password; readable by the server only.")] = (
        ""
    )
    client_ca: Annotated[
        str,
        says("A PEM file with the CAs of client certificates; empty: no client certificate is requested."),
    ] = ""
    client_certificate: Annotated[
        Literal["required", "optional"],
        says(
            'With client_ca: "required" of every TLS client, or "optional", where authentication.rules'
            " decide. gRPC requests one only where it is required."
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
    method: "trust" requires nothing, "scram-sha-256" the role's password, "cert" a client
    certificate whose common name is the user's name, "reject" refuses.
    clientcert: "verify-ca" also requires a client certificate, "verify-full" one with the user's name.
    """

    rules: Annotated[tuple[HostRule, ...], says("The rules, in order.")] = (
        HostRule(network="loopback", method="trust"),
        HostRule(network="all", method="scram-sha-256"),
    )
    trust_other_machines: Annotated[
        bool, says('Allow rules with "trust" for clients from other machines.')
    ] = False


class SessionsSection(Section, frozen=True, kw_only=True):
    """How much one session may hold; beyond that a statement fails and the session continues."""

    statement_bytes: Annotated[int, whole(1 << 10, 1 << 30, "The longest text of statements.")] = 16 << 20
    statements: Annotated[int, whole(1, 10_000_000, "How many prepared statements.")] = 10_000
    portals: Annotated[int, whole(1, 10_000_000, "How many portals, cursors among them.")] = 10_000
    large: Annotated[int, whole(1, 1_000_000, "How many portals with results too large for memory.")] = 64
    custom_settings: Annotated[
        int, whole(0, 10_000_000, "How many settings that HerdPy does not know (SET a.b = ...).")
    ] = 1_000


class HttpSection(Section, frozen=True, kw_only=True):
    """The page with health and metrics, for probes and Prometheus. It requires no password."""

    enabled: Annotated[bool, says("Whether the page is served.")] = True
    address: Annotated[str, says("Where it listens: an address or a name of this machine.")] = "127.0.0.1"
    port: Annotated[int, whole(0, 65535, "Its port; 0 picks a free port and logs it.")] = 8480
    tls: Annotated[
        bool, says("Serve HTTPS, with the certificate of [tls]; probes and Prometheus must use it, too.")
    ] = False


class ConsoleSection(Section, frozen=True, kw_only=True):
    """The console: pages for people below /console/ of the HTTP port.

    A role logs in by the rules of [authentication], or by OpenID Connect; where the rules trust
    this machine it opens without a login. Statements run with the role's rights.
    """

    enabled: Annotated[bool, says("Whether the console is served, where the HTTP port is.")] = True
    hosts: Annotated[
        tuple[str, ...],
        says(
            "Names by which browsers reach it, besides localhost, http.address, cluster.advertise and bare"
            " addresses; requests under any other name are refused."
        ),
    ] = ()
    allow_plain_password: Annotated[
        bool, says("Take passwords from other machines without TLS, where something else encrypts.")
    ] = False
    session_s: Annotated[float, seconds(60.0, 30 * DAY_S, "A login ends after so long.")] = 43_200.0
    idle_s: Annotated[float, seconds(10.0, 30 * DAY_S, "And when nothing was done for so long.")] = 3600.0
    max_logins: Annotated[
        int, whole(1, 100_000, "Logins at a time; one more ends the one that was idle for longest.")
    ] = 1000
    max_statements: Annotated[
        int, whole(1, 10_000, "Statements of all pages at a time; one more gets 53300.")
    ] = 32
    statement_timeout_s: Annotated[
        float, seconds(0.1, DAY_S, "How long a statement of a page may run; the SQL page may ask for more.")
    ] = 30.0
    max_rows: Annotated[int, whole(1, 100_000, "How many rows a page shows of an answer.")] = 1000
    drill_directory: Annotated[
        str,
        says(
            "Where reports of failover drills go that superusers run from the console; empty: there are none."
            " Never on a cluster on which others rely."
        ),
    ] = ""
    drill_commands: Annotated[
        str, says("The file that says how to kill, pause and cut each process, as for herdpy drill.")
    ] = ""
    drill_url: Annotated[
        str, says("How a drill's clients reach the cluster; empty: the nodes' addresses, and the tablespace.")
    ] = ""
    oidc_issuer: Annotated[
        str,
        says(
            "A provider of OpenID Connect by which roles log in: its issuer, an https URL (http on this"
            " machine); empty: none."
        ),
    ] = ""
    oidc_client_id: Annotated[
        str, says("What this console is called there; its redirect URL ends with /console/login/back.")
    ] = ""
    oidc_client_secret_file: Annotated[
        str, says("A file with its secret in the first line; empty: the client is a public one.")
    ] = ""
    oidc_scopes: Annotated[tuple[str, ...], says("What is requested of the provider.")] = (
        "openid",
        "profile",
    )
    oidc_role_claim: Annotated[
        str, says("Which claim of the identity token is the role; it must exist and may log in.")
    ] = "preferred_username"
    oidc_ca: Annotated[
        str, says("A PEM file with the CAs of the provider's certificate; empty: this machine's.")
    ] = ""


class GrpcSection(Section, frozen=True, kw_only=True):
    """gRPC: administration, health, snapshots and partitions, for operators and data pipelines.

    It authenticates by the rules of [authentication], and requires TLS once [tls] has a certificate.
    """

    enabled: Annotated[bool, says("Whether gRPC is served.")] = True
    address: Annotated[
        str, says('Where it listens: an address or a name of this machine; "*" is all of them.')
    ] = "127.0.0.1"
    port: Annotated[int, whole(0, 65535, "Its port; 0 picks a free port and logs it.")] = 8481
    max_message_bytes: Annotated[int, whole(4 << 10, 1 << 30, "The longest request.")] = 4 << 20
    max_calls: Annotated[
        int, whole(1, 1_000_000, "Concurrent calls, streams among them; further calls are refused.")
    ] = 200
    max_streams: Annotated[
        int, whole(1, 1_000_000, "Concurrent calls of one connection; further calls wait.")
    ] = 100
    max_snapshots: Annotated[
        int, whole(0, 1_000, "Snapshots at a time; each takes disk space as the store does.")
    ] = 4
    max_plans: Annotated[
        int, whole(0, 10_000, "Concurrent plans of partitions; each pins a snapshot of the store.")
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
        says(
            "This node's id, unique in the cluster; empty: an id that is made once and stored in the"
            " data directory."
        ),
    ] = ""
    advertise: Annotated[
        str,
        says("The name or address by which others reach this server; empty: the first that it listens on."),
    ] = ""
    session_timeout_s: Annotated[
        float,
        seconds(
            0.1,
            600.0,
            "ZooKeeper's session timeout: other nodes take over from a node that was silent for so long.",
        ),
    ] = 1.0
    join_timeout_s: Annotated[
        float,
        seconds(
            0.1,
            86_400.0,
            "How long a server that starts waits for the first answer of ZooKeeper. After that it ends.",
        ),
    ] = 60.0
    lease_s: Annotated[
        float,
        seconds(0.05, 60.0, "How long a leader answers reads after ZooKeeper has confirmed that it leads."),
    ] = 0.4
    supervisor: Annotated[
        bool,
        says(
            "Whether a small process waits for this server's end, and tells the cluster of it at once: others"
            " take over without waiting for the session timeout and the lease."
        ),
    ] = True
    user: Annotated[
        str,
        says(
            "The role with which this node requests snapshots of others; it needs REPLICATION. Empty:"
            " it authenticates as a node, by the secret of the cluster."
        ),
    ] = ""
    password_file: Annotated[
        str, says("A file with that role's password in its first line; empty: none is sent.")
    ] = ""
    secret_file: Annotated[
        str,
        says(
            "A file with that secret in its first line, the same for all nodes; empty: the first node"
            " makes one and stores it in ZooKeeper."
        ),
    ] = ""
    ca: Annotated[
        str,
        says(
            "A PEM file with the CAs of the nodes' certificates, used when tls.certificate is set;"
            " empty: this machine's."
        ),
    ] = ""
    replace_after_s: Annotated[
        float,
        seconds(
            1.0,
            365 * DAY_S,
            "Replicas on a node that has been away for so long are replaced on another node.",
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
    commit_delay_s: Annotated[
        float,
        seconds(
            0.0,
            0.1,
            "While others commit, too, a commit waits for so long at most for them to share its log entry; in"
            " steps of a millisecond. 0: it does not wait.",
        ),
    ] = 0.004
    commit_siblings: Annotated[
        int,
        whole(1, 1_000_000, "It waits only while so many transactions are open that have changed something."),
    ] = 5
    spare_ledgers: Annotated[
        int,
        whole(
            0,
            10_000,
            "So many of the tablespaces that a node follows have a ledger ready, should it lead them next:"
            " the failover is shorter by the time to make one. 0: none has.",
        ),
    ] = 16
    tablespace: Annotated[str, says("The tablespace that the first start makes.")] = "herdpy"
    expected_replicas: Annotated[int, whole(1, 100, "How many replicas a new tablespace gets.")] = 3
    ensemble: Annotated[
        int, whole(1, 100, "How many bookies a ledger of a new tablespace is spread over.")
    ] = 3
    write_quorum: Annotated[int, whole(1, 100, "How many bookies get each entry.")] = 3
    ack_quorum: Annotated[int, whole(1, 100, "How many must have it before a commit is acknowledged.")] = 2


class ZookeeperSection(Section, frozen=True, kw_only=True):
    """How ZooKeeper is reached, where cluster.zookeeper names it. In the clear until tls is set."""

    tls: Annotated[bool, says("Whether its servers use TLS on the ports that cluster.zookeeper names.")] = (
        False
    )
    ca: Annotated[
        str,
        says("A PEM file with the CAs of their certificates; empty: this machine's."),
    ] = ""
    certificate: Annotated[
        str, says("A PEM file with the client certificate for them; empty: none is sent.")
    ] = ""
    key: Annotated[str, says("A PEM file with its key, without a password; readable by the server only.")] = (
        ""
    )
    check_hostname: Annotated[
        bool, says("Whether their certificates must have the names in cluster.zookeeper.")
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
        seconds(0.01, 3600.0, "The interval between checkpoints; recovery replays about as much of the log."),
    ] = 1.0
    checkpoint_rows: Annotated[
        int, whole(1, 1_000_000_000, "This many changed rows in memory start a checkpoint sooner.")
    ] = 50_000
    memtable_limit_bytes: Annotated[
        int, whole(1 << 20, TIB, "Writers wait for a checkpoint when the memtable is larger than this.")
    ] = 1 << 30
    transaction_memory_bytes: Annotated[
        int,
        whole(
            0, TIB, "A transaction's changes beyond this size go to temporary files; 0: they stay in memory."
        ),
    ] = 64 << 20
    log_retention_bytes: Annotated[
        int,
        whole(
            0,
            1 << 50,
            "Closed ledgers to keep after a checkpoint has covered them, to rebuild a damaged store.",
        ),
    ] = 256 << 20
    max_ledger_bytes: Annotated[
        int, whole(1 << 20, 1 << 40, "A ledger is closed and another begun at this size.")
    ] = 64 << 20
    max_ledger_age_s: Annotated[float, seconds(1.0, 365 * DAY_S, "And at this age.")] = 3600.0
    column_cache_bytes: Annotated[
        int, whole(0, TIB, "Memory for columns that are cached between queries.")
    ] = 512 << 20
    column_segment_bytes: Annotated[
        int,
        whole(0, 1 << 50, "Disk for such columns, so that the first query after a start has them; 0: none."),
    ] = 4 << 30
    query_memory_bytes: Annotated[
        int, whole(16 << 20, TIB, "Memory of one query in DuckDB; it spills to disk beyond.")
    ] = 1 << 30
    plan_cache: Annotated[int, whole(1, 1_000_000, "How many statements' plans are cached.")] = 1000
    flashback_s: Annotated[
        float,
        seconds(0.0, 30 * DAY_S, "How long the past can be read (AS OF SYSTEM TIME); 0: not at all."),
    ] = 600.0
    flashback_bytes: Annotated[
        int,
        whole(
            0,
            1 << 50,
            "What the past may cost: bytes written since, or that the store grew by; beyond, it goes.",
        ),
    ] = 1 << 30


class WorkersSection(Section, frozen=True, kw_only=True):
    """Worker processes for queries that read many rows: joins, aggregates, whole tables.

    They start on demand. storage.query_memory_bytes and storage.column_cache_bytes hold
    for each of them.
    """

    maximum: Annotated[
        int, whole(1, 1000, "How many there may be; each runs one query at a time, further queries wait.")
    ] = 2
    memory_bytes: Annotated[
        int,
        whole(
            512 << 20,
            TIB,
            "Memory of one worker beyond what it starts with; a query that needs more fails with 53200.",
        ),
    ] = 4 << 30
    threads: Annotated[int, whole(1, 1000, "Threads that one query computes with.")] = 2
    query_timeout_s: Annotated[
        float,
        seconds(0.0, 365 * DAY_S, "How long a query may run, besides its session's limit; 0: no limit."),
    ] = 0.0
    long_query_s: Annotated[
        float,
        seconds(
            0.0,
            365 * DAY_S,
            "A query that runs for longer no longer counts toward maximum, up to twice maximum in all;"
            " 0: every query counts.",
        ),
    ] = 5.0
    queue: Annotated[
        int, whole(0, 1_000_000, "Queries that may wait for a worker; one more fails with 53000.")
    ] = 200
    queue_timeout_s: Annotated[
        float, seconds(0.0, 365 * DAY_S, "How long they wait before they fail with 53000; 0: no limit.")
    ] = 60.0
    idle_timeout_s: Annotated[
        float, seconds(0.1, 365 * DAY_S, "A worker that was idle for so long ends.")
    ] = 300.0
    niceness: Annotated[
        int, whole(0, 19, "The niceness of their processes, so that the server's own comes first.")
    ] = 10


class PublishSection(Section, frozen=True, kw_only=True):
    """Published snapshots, for readers of the log such as Spark; of a server that is not in a cluster.

    In a cluster each tablespace has these as options: ALTER TABLESPACE ... SET (snapshot_url = '...').
    """

    url: Annotated[
        str,
        says(
            "Where to: a directory, or a URL of a store such as s3://bucket/prefix; empty: none are"
            " published."
        ),
    ] = ""
    interval_s: Annotated[float, seconds(1.0, 365 * DAY_S, "How often.")] = 3600.0
    keep: Annotated[int, whole(1, 1000, "How many of the newest stay.")] = 2
    history_s: Annotated[
        float,
        seconds(
            0.0,
            3650 * DAY_S,
            "States of so long ago stay readable: snapshots and ledgers are retained for that time.",
        ),
    ] = 0.0
    niceness: Annotated[
        int,
        whole(0, 19, "The niceness of the process that writes them, so that the server's own comes first."),
    ] = 10


class BackupSection(Section, frozen=True, kw_only=True):
    """The repository of backups of all tablespaces here, and the archive of their logs. In a cluster each
    node names the same one: whoever leads a tablespace archives its log.
    """

    url: Annotated[
        str,
        says(
            "The repository: a directory, or a URL of a store such as s3://bucket/prefix; it is made where"
            " there is none. Empty: nothing is archived."
        ),
    ] = ""
    key_file: Annotated[
        str,
        says(
            "A file with the key that encrypts it, as herdpy backups key makes one; empty: it is not"
            " encrypted."
        ),
    ] = ""
    archive_interval_s: Annotated[
        float,
        seconds(
            0.0,
            DAY_S,
            "How often new entries of the log are archived: so much is lost at most together with all disks."
            " 0: nothing is archived between backups.",
        ),
    ] = 10.0
    archive_wait_bytes: Annotated[
        int,
        whole(
            0,
            1 << 50,
            "How much of the log is kept for the archive when the repository is slow or away; beyond that it"
            " is trimmed, and the archive has a gap.",
        ),
    ] = 4 << 30
    archive_wait_s: Annotated[
        float, seconds(0.0, 365 * DAY_S, "And for how long since something was archived.")
    ] = DAY_S
    full_interval_s: Annotated[
        float,
        seconds(
            0.0,
            3650 * DAY_S,
            "How often each tablespace gets a full backup; one replica makes it, a follower where there is"
            " one. 0: only on request.",
        ),
    ] = 0.0
    incremental_interval_s: Annotated[
        float,
        seconds(
            0.0,
            3650 * DAY_S,
            "And how often a backup of what changed since, or a full one where there is none. 0: only on"
            " request.",
        ),
    ] = 0.0
    keep_last: Annotated[
        int,
        whole(
            0,
            100_000,
            "How many of the newest backups of a tablespace stay when older ones are removed, after each of"
            " these backups. This and the next three 0: none is removed.",
        ),
    ] = 0
    keep_daily: Annotated[int, whole(0, 100_000, "Of how many days the newest backup stays, too.")] = 0
    keep_weekly: Annotated[int, whole(0, 100_000, "Of how many weeks the newest backup stays, too.")] = 0
    keep_monthly: Annotated[int, whole(0, 100_000, "Of how many months the newest backup stays, too.")] = 0
    jobs: Annotated[int, whole(1, 64, "How many parts of a backup are compressed and written at a time.")] = 2
    rate_bytes: Annotated[
        int, whole(0, TIB, "How much is written to it in a second at most, by each process; 0: no limit.")
    ] = 0
    niceness: Annotated[
        int,
        whole(0, 19, "The niceness of the processes that write, so that the server's own comes first."),
    ] = 10


class LoggingSection(Section, frozen=True, kw_only=True):
    """The server's log, on standard error or in a file."""

    level: Annotated[Level, says("The lowest level that is logged.")] = "info"
    levels: Annotated[
        dict[str, Level],
        says('Levels of single loggers, such as { "herdpy.checkpointer" = "debug" }.'),
    ] = field(default_factory=dict)
    format: Annotated[Literal["text", "json"], says("Plain text, or JSON with one object a line.")] = "text"
    file: Annotated[str, says("A file to append to, reopened after it was moved; empty: standard error.")] = (
        ""
    )
    slow_statement_s: Annotated[
        float, seconds(-1.0, DAY_S, "Statements that take longer are logged; 0 logs all, -1 none.")
    ] = 1.0
    slow_statement_chars: Annotated[
        int, whole(0, 1_000_000, "How many characters of such a statement are logged.")
    ] = 1000
    slow_statement_plan: Annotated[bool, says("Whether the plan of such a statement is logged, too.")] = True


class StatisticsSection(Section, frozen=True, kw_only=True):
    """What statements cost, by their normalised texts: herdpy.statements, pg_stat_statements."""

    statements: Annotated[
        int,
        whole(0, 1_000_000, "How many are kept; then the least used go. 0: they are not counted by text."),
    ] = 5000
    statement_bytes: Annotated[int, whole(64 << 10, 1 << 40, "How much their texts and plans may take.")] = (
        16 << 20
    )


class AuditSection(Section, frozen=True, kw_only=True):
    """The audit log: logins, definitions, grants and other statements by class, as one JSON object a line."""

    classes: Annotated[
        tuple[Literal["login", "role", "ddl", "write", "read", "misc", "call"], ...],
        says(
            'The classes that are logged: "login" (refused ones too), "role" (roles and rights), "ddl",'
            ' "write", "read",'
            ' "misc" (all other statements), "call" (of gRPC); empty: none.'
        ),
    ] = ()
    file: Annotated[str, says("A file to append to; empty: the server's own log.")] = ""
    rotate_bytes: Annotated[
        int, whole(4 << 10, 1 << 40, "At this size the file is renamed to <file>.1, and a new one begins.")
    ] = 64 << 20
    keep: Annotated[int, whole(1, 1000, "How many renamed files stay.")] = 10
    on_failure: Annotated[
        Literal["refuse", "continue"],
        says(
            'When the file cannot be written: "refuse" what must be audited, or "continue" without; the'
            " server's log reports the failure."
        ),
    ] = "refuse"
    statement_chars: Annotated[int, whole(0, 1_000_000, "How many characters of a statement are logged.")] = (
        4000
    )


class TracingSection(Section, frozen=True, kw_only=True):
    """Traces of statements, sent to a collector of OpenTelemetry. Off until an endpoint is given.

    A client's decision counts for its statements; sample_ratio is for those that come without a context.
    """

    endpoint: Annotated[
        str,
        says(
            'Where spans are sent: "http://127.0.0.1:4317" (gRPC), or'
            ' "http://127.0.0.1:4318/v1/traces" (HTTP); empty: nothing is traced.'
        ),
    ] = ""
    protocol: Annotated[Literal["grpc", "http/protobuf"], says("How they are sent.")] = "grpc"
    headers_file: Annotated[
        str,
        says(
            "A file with headers for the collector, one a line as name: value; readable by the server only."
        ),
    ] = ""
    service_name: Annotated[str, says("The service that the spans name.")] = "herdpy"
    sample_ratio: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="The share of statements without a context that is recorded."),
    ] = 0.0
    query_text: Annotated[
        Literal["off", "without_constants", "full"],
        says('What spans show of a statement\'s text; "full" has its constants too, but no passwords.'),
    ] = "without_constants"
    query_chars: Annotated[int, whole(0, 1_000_000, "How many characters of it.")] = 2000
    queue: Annotated[
        int, whole(16, 1_000_000, "Spans that wait for the collector; more are dropped, and counted.")
    ] = 8192


class ShutdownSection(Section, frozen=True, kw_only=True):
    """How the server ends."""

    graceful_timeout_s: Annotated[
        float,
        seconds(0.0, DAY_S, "After SIGTERM: how long sessions may continue before the server ends them."),
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
    console: ConsoleSection = field(default_factory=ConsoleSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    zookeeper: ZookeeperSection = field(default_factory=ZookeeperSection)
    grpc: GrpcSection = field(default_factory=GrpcSection)
    publish: PublishSection = field(default_factory=PublishSection)
    backup: BackupSection = field(default_factory=BackupSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    statistics: StatisticsSection = field(default_factory=StatisticsSection)
    audit: AuditSection = field(default_factory=AuditSection)
    tracing: TracingSection = field(default_factory=TracingSection)
    shutdown: ShutdownSection = field(default_factory=ShutdownSection)
