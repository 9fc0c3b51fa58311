"""The gRPC door of a server, for commands that copy or publish: told by grpc://, or looked up by SQL.

Above ``servers``. A URL of the driver's (``herdpy://``, ``herdpy+zk://``, ``@profile``) leads to any server
of the cluster, which knows where each has its door; one that follows is taken first: the leader is spared.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.servers import ServerSession, literal, servers_of, session

if TYPE_CHECKING:
    from herdpy.rpc.place import Place

PASSWORD = "HERDPY_PASSWORD"
_NODES = """
SELECT n.grpc_address AS address
FROM herdpy.nodes n JOIN herdpy.replicas r ON r.node = n.node
WHERE r.tablespace = {} AND r.state IN ('following', 'leading') AND n.grpc_address IS NOT NULL
ORDER BY r.state, n.node
"""


def is_door(url: str) -> bool:
    """Whether a URL names a gRPC door itself."""
    return url.startswith(("grpc://", "grpcs://"))


def door(url: str, tablespace: str, ca: Path | None) -> tuple[Place, str]:
    """The door that a URL leads to, and the tablespace that it names if ``tablespace`` does not.

    Raises:
        CliError: the URL makes no sense, no server lets us in, or none tells of a door.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core has lines of its own for standard error
    target.needed("grpc")
    place: Any = target.needed("herdpy.rpc.place").Place
    if is_door(url):
        try:
            return place.parse(url, password=os.environ.get(PASSWORD), ca=ca), tablespace
        except ValueError as error:
            raise CliError(str(error), code=USAGE) from error
    try:
        options = servers_of(url)
    except CliError as error:
        hint = "Write grpc://host:port, or herdpy://host:port/tablespace."
        raise CliError(str(error), hint=hint, code=USAGE) from error
    wanted = tablespace or options.database or ""
    signed = options.libpq.get("sslrootcert", "system")
    like = place(
        "",
        user=options.user,
        password=options.password,
        ca=ca or (None if signed == "system" else Path(signed)),
    )
    with session(url) as asked:
        like = replace(like, tls=bool(asked.connection.pgconn.ssl_in_use))
        nodes = asked.rows(_NODES.format(literal(wanted)))
        alone = not asked.rows("SELECT node FROM herdpy.nodes")
        found = _own(asked) if alone else [str(row["address"]) for row in nodes]
    if not found:
        raise CliError(
            f"no server of tablespace {wanted} tells where its gRPC door is",
            hint="Name a door: grpc://role@host:port.",
        )
    host, _colon, port = found[0].rpartition(":")
    # A server that is alone serves what it has under any name.
    return replace(like, host=host.strip("[]"), port=int(port)), tablespace if alone else wanted


def _own(asked: ServerSession) -> list[str]:
    """Of a server that is alone: its host, and its port if the role may see that, or the usual one."""
    rows = asked.rows("SELECT value FROM herdpy.settings WHERE scope = 'server' AND name = 'grpc.port'")
    port = rows[0]["value"] if rows else target.needed("herdpy.rpc.place").DEFAULT_PORT
    return [f"{asked.connection.info.host}:{port}"] if str(port) != "0" else []
