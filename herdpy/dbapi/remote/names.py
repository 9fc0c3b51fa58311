"""Host names to addresses, within a bounded time. Below ``search``.

libpq would ask the resolver by itself, and whoever waits for a DNS server that is away waits as long as the
resolver likes. Here a thread asks, and a socket says when it has an answer, so that the wait is one of those
that a search has.
"""

from __future__ import annotations

import ipaddress
import socket
import threading

MOST_ADDRESSES = 8
"""Of one name; the rest is not tried."""


def is_name(host: str) -> bool:
    """Whether a host must be looked up: it is neither an address nor the directory of a socket."""
    if host.startswith(("/", "@")):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


class Lookup:
    """One question to the resolver, asked at once.

    Attributes:
        answered: can be read from as soon as there is an answer.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._found: list[str] = []
        self._error: Exception | None = None
        self.answered, self._tells = socket.socketpair()
        # A daemon: nothing can end a question to the resolver, and nobody waits for it at exit.
        self._thread = threading.Thread(target=self._ask, name="herdpy-lookup", daemon=True)
        self._thread.start()

    def addresses(self) -> list[str]:
        """The answer, once it is there. OSError or UnicodeError when there is none."""
        self._thread.join()  # to have answered was the last that it did
        if self._error is not None:
            raise self._error
        return self._found

    def close(self) -> None:
        """Nobody waits for the answer any more."""
        self.answered.close()

    def _ask(self) -> None:
        try:
            rows = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._found = list(dict.fromkeys(str(row[4][0]) for row in rows))[:MOST_ADDRESSES]
        except (OSError, UnicodeError) as error:
            self._error = error
        finally:
            self._tells.close()
