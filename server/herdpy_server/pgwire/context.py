"""What all connections of one server share: its settings, databases, roles, TLS.

Below ``connection``, ``conversation`` and ``opening``, each of which is given the context. The server makes
it, and replaces the settings and the authority in it when its configuration is read again: everybody reads
them here when they are needed.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.pgwire.authentication import Authority, LoopbackTrust, end_point
from herdpy_server.pgwire.subscriptions import Subscriptions
from herdpy_server.sessions.registry import SessionRegistry
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.roles.passwords import Verifier
    from herdpy_server.serving import Databases
    from herdpy_server.tracing import StatementTracer


@dataclass(frozen=True, slots=True)
class PgSettings:
    """Settings of a :class:`~herdpy_server.pgwire.server.PgServer`.

    Attributes:
        addresses, port: where to listen: addresses or names of this machine, "*" for all; port 0 is a
            free one.
        backlog: connections that the kernel keeps until they are taken.
        unix_directory: where to have the socket ``.s.PGSQL.<port>``, or None for none.
        max_connections: sessions at a time; more are refused with 53300.
        max_starting: connections that have not said who they are. When one more comes the
            oldest of them goes, so that those who never speak do not keep others out.
        startup_timeout_s: from a connection's beginning to the end of its authentication.
        max_message_bytes: the longest message of a client, up to PostgreSQL's 1 GiB.
        read_ahead_bytes: what may wait unread by the server while a statement of the connection
            runs; then its socket is not read any more.
        write_ahead_bytes: what may wait unread by the client; then nothing more is made for it.
        chunk_bytes: how much of a big result is made before others have their turn.
        tls_certificate, tls_key: files in PEM form; without them TLS is not offered.
        tls_client_ca: certificates of clients must be signed by one of these; None asks for none.
        client_certificate_required: of every TLS client; else the rules may ask for it.
        max_connections_per_user, max_connections_per_address: at a time; 0 for no limit.
        tls_required: refuse sessions without TLS, those of a Unix socket excepted.
    """

    addresses: tuple[str, ...] = ("127.0.0.1",)
    port: int = 5432
    backlog: int = 1024
    unix_directory: Path | None = None
    max_connections: int = 2000
    max_starting: int = 500
    startup_timeout_s: float = 30.0
    max_message_bytes: int = 64 << 20
    read_ahead_bytes: int = 1 << 20
    write_ahead_bytes: int = 256 << 10
    chunk_bytes: int = 64 << 10
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_required: bool = False
    client_certificate_required: bool = True
    max_connections_per_user: int = 0
    max_connections_per_address: int = 0

    def tls_context(self) -> ssl.SSLContext | None:
        """What TLS connections are made with; None when TLS is not offered.

        Raises:
            OSError: a file cannot be read, or is not what it should be (ssl.SSLError).
        """
        if self.tls_certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.tls_certificate, self.tls_key)
        if self.tls_client_ca is not None:
            context.load_verify_locations(self.tls_client_ca)
            required = self.client_certificate_required
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


class Forwarder(Protocol):
    """What forwards one session's statements to the leader.

    Attributes:
        handlers: what the session's messages are answered by.
        is_remote: a transaction of the session is open at the leader.
    """

    @property
    def handlers(self) -> Mapping[int, Callable[[Any, bytes, int, int], None]]: ...

    @property
    def is_remote(self) -> bool: ...

    def takes_again(self, error: SqlError) -> bool:
        """Whether what failed so is made again at the leader, and the client does not see the error."""

    def close(self) -> None:
        """The session has ended, or forwards no more."""


class Forwarding(Protocol):
    """How this node's sessions reach the leader, and how it knows those of other nodes.

    Attributes:
        node: this one. ``secret``: the cluster's.
        tls: gives what connections to other nodes are encrypted with; OSError: a file cannot be read.
    """

    @property
    def node(self) -> str: ...

    @property
    def secret(self) -> NodeSecret: ...

    @property
    def tls(self) -> Callable[[], ssl.SSLContext | None]: ...

    def leads(self, database: str) -> bool:
        """Whether this node leads the database now, and answers as its leader."""

    def forwarder(self, conversation: Any, handlers: Mapping[int, Any]) -> Forwarder:
        """A session is to be forwarded, whose messages are otherwise answered by ``handlers``."""


class PgContext:
    """What the parts of a server know.

    Attributes:
        databases: where sessions come from.
        settings: may be replaced at any time.
        authority: who may come in; may be replaced at any time.
        registry: the sessions by number, for every door, and the roles.
        tls: what TLS connections are made with, None for none; see :meth:`load_tls`.
        binding: what SCRAM binds to TLS connections, None for nothing.
        loop: where everything happens; there once the server has been started.
        port: the port that is listened to, once the server has been started.
        mock_key: a secret that makes answers about users who are not there.
        subscriptions: streams that nodes may take.
        is_stopping: sessions end as soon as they are idle.
        forwarding: how sessions are forwarded to the leader; None where there is no cluster.
        tracer: is given what sessions do, for traces; None where the server does not trace.
    """

    def __init__(
        self,
        databases: Databases,
        settings: PgSettings | None,
        authority: Authority | None,
        registry: SessionRegistry | None,
    ) -> None:
        """Without a ``registry`` there are no roles."""
        self.databases = databases
        # An empty registry is false, and a server's own all the same.
        self.registry = SessionRegistry() if registry is None else registry
        self.settings = settings or PgSettings()
        self.authority: Authority = authority or LoopbackTrust(self._verifier)
        self.loop: asyncio.AbstractEventLoop
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self.binding: bytes | None = None
        self.mock_key = secrets.token_bytes(32)
        self.subscriptions = Subscriptions()
        self.is_stopping = False
        self.forwarding: Forwarding | None = None
        self.tracer: StatementTracer | None = None

    def _verifier(self, user: str) -> Verifier | None:
        store = self.registry.role_store
        return None if store is None else store.verifier(user)

    def load_tls(self) -> None:
        """Read the files of TLS, again when they have changed. OSError when they cannot be used."""
        context = self.settings.tls_context()
        binding = None
        if context is not None and self.settings.tls_certificate is not None:
            pem = self.settings.tls_certificate.read_text()
            first = pem[: pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")]
            binding = end_point(ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE") :]))
        self.tls, self.binding = context, binding
