"""What the console stands on: the parts of the server that has it.

Bottom of ``console``; the server makes it once its front ends are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_server.config import ServerConfig
    from herdpy_server.pgwire.context import PgContext
    from herdpy_server.service import NodeControl
    from herdpy_server.serving.node import ServedNode


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """The parts.

    Attributes:
        context: of PostgreSQL's protocol: databases, rules, roles, sessions.
        tablespaces: those that are here.
        node: the process. ``config``: the configuration that holds now.
    """

    context: PgContext
    tablespaces: ServedNode
    node: NodeControl
    config: Callable[[], ServerConfig]

    def server_name(self) -> str:
        """What this server is called: its node, or its directory's name."""
        return self.tablespaces.node_id or self.tablespaces.path.name or "herdpy"

    def scheme(self) -> str:
        """Of the consoles of this cluster, whose nodes are configured alike."""
        return "https" if self.config().http.tls else "http"

    def default_database(self) -> str:
        """Where statements run unless a page says otherwise."""
        config = self.config()
        return config.cluster.tablespace if config.cluster.zookeeper else config.postgres.database or "herdpy"
