"""The page served by uvicorn, with limits on what strangers may send."""

from __future__ import annotations

import socket

import uvicorn

from herdpy_broker.errors import InvalidValueError
from herdpy_broker.web.app import BrokerApp
from herdpy_broker.web.guard import is_loopback
from herdpy_broker.web.sessions import LEAST_TOKEN

_OTHER_CONNECTIONS = 100
_MOST_HEADER_BYTES = 16 << 10
_ENDS_IN_S = 5


class PageServer(uvicorn.Server):
    """The server of a page: :meth:`serve_page` serves until SIGINT, SIGTERM, or ``should_exit``.

    Args:
        app: the page.
        host, port: where it listens, from now on; port 0 is a free one.
        most_streams: as the page has it; connections beyond them and a hundred others get 503.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, app: BrokerApp, host: str, port: int, most_streams: int) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            limit_concurrency=most_streams + _OTHER_CONNECTIONS,
            timeout_graceful_shutdown=_ENDS_IN_S,
            http="h11",
            ws="none",
        )
        super().__init__(config)
        self._page = app
        family, _kind, _protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.create_server(address[:2], family=family)

    @property
    def address(self) -> str:
        """The URL of the page, without a slash at the end."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve_page(self) -> None:
        """Serve, and close the socket."""
        with self._socket:
            self.run(sockets=[self._socket])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and then what uvicorn ends."""
        await self._page.site.poller.stop()
        await super().shutdown(sockets)


def check_access(host: str, token: str | None) -> None:
    """See that strangers need a token.

    Raises:
        InvalidValueError: other machines reach ``host`` and there is no token, or the token is short.
    """
    if token is None and not is_loopback(host):
        raise InvalidValueError(f"other machines reach {host}: give --token-file, or listen on 127.0.0.1")
    if token is not None and len(token) < LEAST_TOKEN:
        raise InvalidValueError(f"a token has at least {LEAST_TOKEN} characters")
