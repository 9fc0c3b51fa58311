"""What all connections of one server share: settings, databases, roles, TLS.

Below ``connection``, ``conversation`` and ``opening``, each of which is given it. The server makes it, and
replaces the settings and the authority in it when its configuration is read again: everybody reads them here
when they are needed.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from typing import TYPE_CHECKING

from herdpy_server.pgwire.authority import Authority, LoopbackTrust
from herdpy_server.pgwire.scram import end_point
from herdpy_server.pgwire.settings import PgSettings
from herdpy_server.sessions.registry import SessionRegistry

if TYPE_CHECKING:
    from herdpy_server.serving import Databases
    from herdpy_server.sessions.passwords import Verifier


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
        is_stopping: sessions end as soon as they are idle.
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
        self.is_stopping = False

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
