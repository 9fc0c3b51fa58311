"""What every request and every answer of the page passes: names of hosts, origins, headers.

Bottom of ``web``; no I/O. Another site may point its own name here (DNS rebinding): ``Hosts`` refuses that.
It may have a browser send requests here: ``is_same_origin`` refuses those that change something. The headers
forbid what the pages never do: inline scripts and styles, foreign content, frames.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Of every answer that does not say otherwise itself."""


class Hosts:
    """Under which names the page answers.

    Args:
        names: besides ``localhost`` and bare addresses, which no other site can point here.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def has(self, host: str) -> bool:
        """Whether a request with this header Host is answered."""
        name = _name_of(host)
        return name in self._names or is_address(name)


def is_address(name: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def _name_of(host: str) -> str:
    """The name or address of a header Host, without its port; "" for what is none."""
    try:
        found = urlsplit(f"//{host}")
        found.port  # noqa: B018 - it raises for what is no port
    except ValueError:
        return ""
    if found.username is not None or found.path or found.query or found.fragment:
        return ""
    return (found.hostname or "").rstrip(".")


def is_same_origin(headers: Mapping[str, str], scheme: str) -> bool:
    """Whether one of our own pages sent a request: the browser states it; without a statement it did not."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site is not None
    return origin.lower() == f"{scheme}://{headers.get('host', '')}".lower()
