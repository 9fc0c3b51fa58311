"""Who may come in by the rules of the configuration: the first that fits decides, none means no."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from herdpy_server.config import HostRule, networks_of
from herdpy_server.pgwire.authentication import CERTIFICATE, REJECT
from herdpy_server.roles.passwords import Verifier

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
