"""gRPC as one of the doors of the process: made from the configuration."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.config import ServerConfig
from herdpy_server.process.authority import RuleAuthority
from herdpy_server.service import GrpcServer, ServiceSettings

if TYPE_CHECKING:
    from herdpy_server.cluster.secret import NodeSecret
    from herdpy_server.service import NodeControl
    from herdpy_server.serving.tablespaces import Tablespaces
    from herdpy_server.sessions.registry import SessionRegistry

logger = logging.getLogger("herdpy.server")


class GrpcDoor:
    """gRPC, with the rules of the configuration."""

    def __init__(
        self,
        config: ServerConfig,
        tablespaces: Tablespaces,
        registry: SessionRegistry,
        node: NodeControl,
        secret: NodeSecret | None,
    ) -> None:
        """``registry`` has the sessions of the other doors, and the roles; ``secret`` is the cluster's."""
        roles = registry.role_store
        self._authority = RuleAuthority(
            config.authentication.rules, (lambda _user: None) if roles is None else roles.verifier
        )
        self.server = GrpcServer(
            tablespaces, service_settings(config), self._authority, registry, node, secret
        )

    @property
    def port(self) -> int:
        """See ``Door``."""
        return self.server.port

    async def start(self) -> None:
        """See ``Door``."""
        await self.server.start()

    async def stop(self, graceful_timeout_s: float) -> None:
        """See ``Door``."""
        await self.server.stop(graceful_timeout_s)

    def reload(self, config: ServerConfig) -> None:
        """Take over the rules, and certificate and key. Who is connected stays."""
        self._authority.set_rules(config.authentication.rules)
        self.server.settings = service_settings(config)
        try:
            self.server.load_tls()
        except OSError as error:
            logger.error("certificate and key are not taken over by gRPC: %s", error)


def service_settings(config: ServerConfig) -> ServiceSettings:
    """The configuration as gRPC's door takes it."""
    given, tls = config.grpc, config.tls
    return ServiceSettings(
        address=given.address,
        port=given.port,
        max_message_bytes=given.max_message_bytes,
        max_calls=given.max_calls,
        max_streams=given.max_streams,
        max_snapshots=given.max_snapshots,
        max_plans=given.max_plans,
        tls_certificate=Path(tls.certificate) if tls.certificate else None,
        tls_key=Path(tls.key) if tls.key else None,
        tls_client_ca=Path(tls.client_ca) if tls.client_ca and tls.client_certificate == "required" else None,
        tls_required=tls.required,
    )
