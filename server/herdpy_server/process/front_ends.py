"""What a server listens with, made from the configuration: PostgreSQL's protocol, and gRPC.

Between ``server``, which starts and stops front ends, and the packages that are them. The rules of the
configuration say who may connect: the first that fits decides, none means no.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from herdpy_server.config import RELOADABLE, HostRule, ServerConfig, networks_of
from herdpy_server.config.fields import all_settings, toml
from herdpy_server.pgwire.authentication import CERTIFICATE, REJECT
from herdpy_server.pgwire.context import PgSettings
from herdpy_server.pgwire.server import PgServer
from herdpy_server.pgwire.subscriptions import Subscriptions
from herdpy_server.process.archive import backup_defaults
from herdpy_server.process.audit import AuditLog
from herdpy_server.roles.passwords import Verifier
from herdpy_server.roles.role import RoleStore
from herdpy_server.service import GrpcServer, ServiceSettings
from herdpy_server.sessions.registry import SessionRegistry
from herdpy_sql.system.state import SettingRow

if TYPE_CHECKING:
    from herdpy_server.cluster.secret import NodeSecret
    from herdpy_server.service import NodeControl
    from herdpy_server.serving import Databases
    from herdpy_server.serving.node import ServedNode


_LOCAL = "127.0.0.1"


class RuleAuthority:
    """The rules, and the roles' passwords.

    Args:
        rules: in order.
        verifier: what a role's password is checked with; None for a role that has none, or is not there.
    """

    def __init__(self, rules: Sequence[HostRule], verifier: Callable[[str], Verifier | None]) -> None:
        self._verifier = verifier
        self.set_rules(rules)

    def set_rules(self, rules: Sequence[HostRule]) -> None:
        """Decide by other rules from now on; who is in already stays."""
        self._rules = [(networks_of(rule), rule) for rule in rules]

    def method(self, user: str, address: str | None) -> str:
        """How ``user`` from ``address`` (None: a Unix socket, which is this machine) proves it."""
        rule = self._rule(user, address)
        return REJECT if rule is None else rule.method

    def certificate(self, user: str, address: str | None) -> str:
        """See ``Authority``."""
        rule = self._rule(user, address)
        if rule is None:
            return ""
        return "verify-full" if rule.method == CERTIFICATE else rule.clientcert

    def _rule(self, user: str, address: str | None) -> HostRule | None:
        """The first rule that fits; None for none."""
        try:
            found = ipaddress.ip_address((address or _LOCAL).partition("%")[0])
        except ValueError:
            return None
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        for networks, rule in self._rules:
            if rule.user in ("all", user) and any(found in network for network in networks):
                return rule
        return None

    def verifier(self, user: str) -> Verifier | None:
        """See ``Authority``."""
        return self._verifier(user)


logger = logging.getLogger("herdpy.server")


class FrontEnd(Protocol):
    """Something that listens."""

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""

    async def start(self) -> None:
        """Listen; OSError when that is not possible."""

    async def stop(self, graceful_timeout_s: float) -> None:
        """Let nobody in any more; end those who are in after so long. A second call is a faster one."""

    def reload(self, config: ServerConfig) -> None:
        """Take over another configuration, as far as a running server can."""


class PostgresFrontEnd:
    """PostgreSQL's protocol, with the rules of the configuration."""

    def __init__(self, config: ServerConfig, databases: Databases, roles: RoleStore) -> None:
        self._authority = RuleAuthority(config.authentication.rules, roles.verifier)
        self._config = config
        self._setting_rows: tuple[SettingRow, ...] | None = None
        registry = SessionRegistry(roles)
        registry.configuration = self._configuration
        self._audit = AuditLog(config.audit) if config.audit.classes else None
        registry.auditor = self._audit
        self.server = PgServer(databases, pg_settings(config), self._authority, registry)

    @property
    def port(self) -> int:
        """See :class:`FrontEnd`."""
        return self.server.port

    def _configuration(self) -> Iterable[SettingRow]:
        """For herdpy.settings. There are no secrets in a configuration.

        Kept until the next reload: every query over the catalog asks.
        """
        if self._setting_rows is None:
            self._setting_rows = tuple(self._rows())
        return self._setting_rows

    def _rows(self) -> Iterator[SettingRow]:
        for one in all_settings().values():
            value = getattr(getattr(self._config, one.section), one.name)
            context = "user" if one.key in RELOADABLE else "internal"
            yield SettingRow(one.key, toml(value, one), one.description, toml(one.default, one), context)

    async def start(self) -> None:
        """See :class:`FrontEnd`."""
        await self.server.start()

    async def stop(self, graceful_timeout_s: float) -> None:
        """See :class:`FrontEnd`."""
        await self.server.stop(graceful_timeout_s)
        if self._audit is not None:
            self._audit.close()

    def reload(self, config: ServerConfig) -> None:
        """Take over the rules, and certificate and key. Who is connected stays."""
        self._config, self._setting_rows = config, None
        self._authority.set_rules(config.authentication.rules)
        self.server.context.settings = pg_settings(config)
        try:
            self.server.context.load_tls()
        except (OSError, ValueError) as error:
            logger.error("certificate and key are not taken over: %s", error)


def pg_settings(config: ServerConfig) -> PgSettings:
    """The configuration as PostgreSQL's front end takes it."""
    postgres, tls = config.postgres, config.tls
    return PgSettings(
        addresses=postgres.addresses,
        port=postgres.port,
        backlog=postgres.backlog,
        unix_directory=_path(postgres.unix_directory),
        max_connections=postgres.max_connections,
        max_starting=postgres.max_starting,
        startup_timeout_s=postgres.startup_timeout_s,
        max_message_bytes=postgres.max_message_bytes,
        read_ahead_bytes=postgres.read_ahead_bytes,
        write_ahead_bytes=postgres.write_ahead_bytes,
        chunk_bytes=postgres.chunk_bytes,
        tls_certificate=_path(tls.certificate),
        tls_key=_path(tls.key),
        tls_client_ca=_path(tls.client_ca),
        tls_required=tls.required,
        client_certificate_required=tls.client_certificate == "required",
        max_connections_per_user=postgres.max_connections_per_user,
        max_connections_per_address=postgres.max_connections_per_address,
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None


class GrpcFrontEnd:
    """gRPC, with the rules of the configuration."""

    def __init__(
        self,
        config: ServerConfig,
        tablespaces: ServedNode,
        registry: SessionRegistry,
        node: NodeControl,
        secret: NodeSecret | None,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        """``registry`` has the other front ends' sessions, and the roles; ``secret`` is the cluster's;
        ``subscriptions`` are those of PostgreSQL's protocol.
        """
        roles = registry.role_store
        self._authority = RuleAuthority(
            config.authentication.rules, (lambda _user: None) if roles is None else roles.verifier
        )
        self.server = GrpcServer(
            tablespaces, service_settings(config), self._authority, registry, node, secret, subscriptions
        )

    @property
    def port(self) -> int:
        """See ``FrontEnd``."""
        return self.server.port

    async def start(self) -> None:
        """See ``FrontEnd``."""
        await self.server.start()

    async def stop(self, graceful_timeout_s: float) -> None:
        """See ``FrontEnd``."""
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
    """The configuration as gRPC's front end takes it."""
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
        backups=backup_defaults(config),
    )
