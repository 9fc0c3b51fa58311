"""Who may come in, and how it is proved: what the door asks of whoever knows roles and rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, Protocol

from herdpy_server.sessions.passwords import Verifier

TRUST = "trust"
SCRAM = "scram-sha-256"
CERTIFICATE = "cert"
REJECT = "reject"


class Authority(Protocol):
    """Knows roles, their passwords' verifiers, and the rules for hosts."""

    def method(self, user: str, address: str | None) -> str:
        """How a user who comes from ``address`` (None: a Unix socket) proves it.

        TRUST, SCRAM, CERTIFICATE or REJECT.
        """

    def certificate(self, user: str, address: str | None) -> str:
        """Which client certificate he must show: "" none, "verify-ca" any, "verify-full" one of his name."""

    def verifier(self, user: str) -> Verifier | None:
        """What a user's password is checked with; None for one who has none, or is not there."""


class LoopbackTrust:
    """Trusts this machine, and asks everybody else for a password.

    Args:
        verifier: what a user's password is checked with; None for one who has none, or is not there.
    """

    def __init__(self, verifier: Callable[[str], Verifier | None]) -> None:
        self._verifier = verifier

    def method(self, user: str, address: str | None) -> str:
        """TRUST for loopback addresses and Unix sockets."""
        del user
        return TRUST if address is None or is_loopback(address) else SCRAM

    def certificate(self, user: str, address: str | None) -> str:
        """None."""
        del user, address
        return ""

    def verifier(self, user: str) -> Verifier | None:
        """See ``Authority``."""
        return self._verifier(user)


def common_name(certificate: dict[str, Any]) -> str:
    """The common name in a certificate, as ``SSLObject.getpeercert`` gives it; "" for none."""
    for names in certificate.get("subject", ()):
        for key, value in names:
            if key == "commonName":
                return str(value)
    return ""


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback
