"""What every request and every answer of the console passes, whoever makes it.

Bottom of ``console``; pure. A page of another site may make a browser send requests here: to a name that
this site has pointed at us (DNS rebinding), which ``OwnHosts`` refuses, or to our own (cross-site requests),
which ``is_same_origin`` refuses for all that changes something. The headers forbid what the pages never do:
inline scripts, foreign content, frames.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
SAFE_METHODS = frozenset({"GET", "HEAD"})
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    # Not "no-referrer": browsers would then send "Origin: null" with forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-frame-options": "DENY",
}
_OF_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})

Headers = Mapping[str, str]


def protect(headers: list[tuple[bytes, bytes]]) -> None:
    """Add to an answer's headers those that it lacks. What may be kept by the browser says so itself."""
    there = {name.lower() for name, _value in headers}
    headers += [
        (name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in there
    ]
    if b"cache-control" not in there:
        headers.append((b"cache-control", b"no-store"))


class OwnHosts:
    """Under which names the console answers.

    Args:
        names: besides this machine's loopback names and bare addresses, which no other site can point at us.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower().rstrip(".") for name in names if name} | _LOCAL_NAMES

    def is_ours(self, host: str) -> bool:
        """Whether a request with this header Host may be answered."""
        name = name_of(host)
        return name in self._names or _address(name) is not None


def name_of(host: str) -> str:
    """The name or address of a header Host, without its port; "" for what is none."""
    try:
        found = urlsplit(f"//{host}")
        found.port  # noqa: B018 - it raises for what is no port
    except ValueError:
        return ""
    if found.username is not None or found.path or found.query or found.fragment:
        return ""
    return (found.hostname or "").rstrip(".")


def is_local_name(host: str) -> bool:
    """Whether a header Host names this machine's loopback."""
    name = name_of(host)
    address = _address(name)
    return name in _LOCAL_NAMES if address is None else address.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def came_by_proxy(headers: Headers) -> bool:
    """Whether something stands between the browser and us: the connection's address is not the browser's."""
    return any(name in headers for name in _OF_PROXIES)


def is_same_origin(headers: Headers, scheme: str) -> bool:
    """Whether one of our own pages sent a request that changes something.

    A browser says so itself (Fetch metadata, Origin); without either it is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return site is not None
    return origin.lower() == f"{scheme}://{headers.get('host', '')}".lower()


def is_arrival(headers: Headers) -> bool:
    """Whether a link of another site led here: cookies that are for our own pages are not sent then."""
    return headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") == "navigate"
