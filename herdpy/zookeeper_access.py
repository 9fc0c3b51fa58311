"""How a ZooKeeper is talked to: in the clear or by TLS, and how long for one host of several.

For all that stand on kazoo: the driver (``herdpy.dbapi.remote.hosts``), the BookKeeper client, the server. It
imports nothing of theirs, and kazoo only when a session is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from kazoo.handlers.threading import SequentialThreadingHandler


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """What a client needs besides ZooKeeper's hosts.

    Attributes:
        tls: the hosts speak TLS (their secureClientPort).
        ca: a PEM file with who signed their certificates; None: those that this machine knows.
        certificate, key: PEM files of the certificate that is shown to them, for a ZooKeeper that asks for
            one (``ssl.clientAuth``); None: none is.
        check_hostname: their certificates must have the names by which they are reached.
    """

    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    def keywords(self, hosts: str, session_s: float) -> dict[str, Any]:
        """What ``KazooClient`` takes for it.

        Args:
            hosts: "host:port,host:port", perhaps with a path behind them.
            session_s: the session time-out that is asked for: all hosts together are tried for so long.
        """
        return {"handler": _handler(self, session_s / (hosts.count(",") + 1)), "use_ssl": self.tls}

    def context(self) -> ssl.SSLContext:
        """What TLS is spoken with. OSError (ssl.SSLError is one) when a file cannot be used."""
        import ssl

        context = ssl.create_default_context(cafile=self.ca)
        context.check_hostname = self.check_hostname
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def _handler(access: ZooKeeperAccess, connect_s: float) -> SequentialThreadingHandler:
    """kazoo's threads, whose connections are made here.

    Of itself kazoo gives each host the whole session time-out, so that after one that is dead the session is
    over; and it leaves a socket open when TLS fails on it.
    """
    import socket

    from kazoo.handlers.threading import SequentialThreadingHandler

    class Handler(SequentialThreadingHandler):  # type: ignore[misc]
        def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> Any:
            made = socket.create_connection(address, min(timeout, connect_s))
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return access.context().wrap_socket(made, server_hostname=hostname) if access.tls else made
            except BaseException:
                made.close()
                raise

    return Handler()


IN_THE_CLEAR = ZooKeeperAccess()
