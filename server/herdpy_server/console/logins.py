"""The logins of the console, and the tries that failed: two bounded tables in memory.

Below ``authentication``. A browser keeps a random id in a cookie; here is only its digest, so nothing that
shows this table lets anybody in. A login ends when it is old, idle, logged out of, or pushed out by newer
ones.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

_ID_BYTES = 32
_MAX_TRACKED = 10_000
_FREE_TRIES = 5
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_FORGET_S = 900.0

Evidence = Literal["trust", "password", "oidc"]


@dataclass(slots=True, eq=False)
class Login:
    """One browser in which a role is logged in.

    Attributes:
        user, database: as which role, and where its statements run unless a page says otherwise.
        evidence: what it was let in for; ``proof`` is what must still be so: the password's verifier.
        csrf: what every form of its pages carries.
        messages: what the next page shows, once: (kind, text).
    """

    user: str
    database: str
    evidence: Evidence
    proof: str = field(repr=False)
    began_s: float
    used_s: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(_ID_BYTES), repr=False)
    messages: list[tuple[str, str]] = field(default_factory=list, repr=False)

    def is_csrf(self, given: str) -> bool:
        """Whether a form carries what its pages carry."""
        return hmac.compare_digest(self.csrf.encode(), given.encode(errors="replace"))


class Logins:
    """The logins there are.

    Args:
        longest_s, idle_s: how long one lasts, in all and without being used.
        most: one more pushes out the one that was idle for longest.
        clock: seconds; monotonic.
    """

    def __init__(
        self, longest_s: float, idle_s: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._longest_s = longest_s
        self._idle_s = idle_s
        self._most = most
        self._clock = clock
        self._by_digest: OrderedDict[bytes, Login] = OrderedDict()  # the longest idle first

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, user: str, database: str, evidence: Evidence, proof: str) -> tuple[str, Login]:
        """A new login, and the id for its cookie."""
        now_s = self._clock()
        self._drop_old(now_s)
        while len(self._by_digest) >= self._most:
            self._by_digest.popitem(last=False)
        ident = secrets.token_urlsafe(_ID_BYTES)
        login = Login(user, database, evidence, proof, now_s, now_s)
        self._by_digest[_digest(ident)] = login
        return ident, login

    def find(self, ident: str, *, uses: bool = True) -> Login | None:
        """The login of a cookie; None when there is none any more.

        Args:
            uses: False for what pages ask by themselves: it does not keep the login.
        """
        digest = _digest(ident)
        login = self._by_digest.get(digest)
        if login is None:
            return None
        now_s = self._clock()
        if self._is_over(login, now_s):
            del self._by_digest[digest]
            return None
        if uses:
            login.used_s = now_s
            self._by_digest.move_to_end(digest)
        return login

    def end(self, ident: str) -> None:
        """Log out; what is not there is gone already."""
        self._by_digest.pop(_digest(ident), None)

    def _is_over(self, login: Login, now_s: float) -> bool:
        return now_s - login.began_s >= self._longest_s or now_s - login.used_s >= self._idle_s

    def _drop_old(self, now_s: float) -> None:
        for digest in [one for one, login in self._by_digest.items() if self._is_over(login, now_s)]:
            del self._by_digest[digest]


def _digest(ident: str) -> bytes:
    return hashlib.sha256(ident.encode(errors="replace")).digest()


@dataclass(slots=True)
class _Failures:
    count: int = 0
    newest_s: float = 0.0
    until_s: float = 0.0


class Throttle:
    """Slows the guessing of passwords down: by the network it comes from, and by that and the role.

    After a few tries each failure doubles the wait before the next one is looked at. It is bounded: the
    oldest failures are forgotten first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MAX_TRACKED) -> None:
        self._clock = clock
        self._most = most
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def wait_s(self, address: str, user: str) -> float:
        """For how long no try is looked at; 0: it is now."""
        now_s = self._clock()
        found = [self._failures.get(key) for key in _keys(address, user)]
        return max([0.0, *(one.until_s - now_s for one in found if one is not None)])

    def tried(self, address: str, user: str) -> None:
        """A try begins. It counts as a failure until it is known to be right: many at a time count."""
        now_s = self._clock()
        for key, free in zip(_keys(address, user), (_FREE_TRIES, 4 * _FREE_TRIES), strict=True):
            one = self._failures.pop(key, None)
            if one is None or now_s - one.newest_s > _FORGET_S:
                one = _Failures()
            one.count += 1
            one.newest_s = now_s
            if one.count >= free:
                one.until_s = now_s + min(_FIRST_WAIT_S * 2.0 ** min(one.count - free, 16), _LONGEST_WAIT_S)
            self._failures[key] = one
        while len(self._failures) > self._most:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """A try was right: the role's failures are forgotten, those of its network are not."""
        key, network = _keys(address, user)
        self._failures.pop(key, None)
        if (one := self._failures.get(network)) is not None:
            one.count -= 1


def _keys(address: str, user: str) -> tuple[tuple[str, str], tuple[str, str]]:
    network = _network(address)
    return (network, user), (network, "")


def _network(address: str) -> str:
    """Of an address: IPv6's by their first 64 bits, since one machine has all the rest."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
