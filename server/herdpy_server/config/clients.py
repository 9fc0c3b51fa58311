"""The sections on who comes in: the doors of a server, how clients prove who they are, what one may keep.

Beside ``sections``, which puts them into the configuration, and says how sections are written.
"""

from __future__ import annotations

from typing import Annotated, Literal

from herdpy_server.config.section import Section, says, seconds, whole


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
