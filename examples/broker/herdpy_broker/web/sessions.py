"""Who may see the page: everybody, or browsers that have shown the token.

Bottom of ``web``; no I/O. A browser that has shown the token keeps a random id in a cookie; here is its
digest. Programs send the token itself (``Authorization: Bearer``), for reading alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

LEAST_TOKEN = 16
"""Characters of a token at least."""
_LASTS_S = 12 * 3600.0
_MOST = 1_000
_TRIES, _TRIES_S = 10, 60.0


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is let in.

    Attributes:
        until_s: it ends then, by the clock of :class:`Sessions`.
        csrf: what every form of its pages carries.
    """

    until_s: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def has_csrf(self, given: str) -> bool:
        """Whether a form carries it."""
        return hmac.compare_digest(self.csrf.encode(), given.encode(errors="replace"))


class Sessions:
    """The browsers that are let in; one more than ``_MOST`` ends the oldest.

    Args:
        token: what they show; None: everybody is let in, with one session for all.
        clock: seconds; monotonic.
    """

    def __init__(self, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._clock = clock
        self._open: OrderedDict[bytes, Session] = OrderedDict()
        self._everybody = Session(float("inf"))
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    @property
    def needs_token(self) -> bool:
        """Whether a browser has to show the token."""
        return self._token is not None

    def wait_s(self, address: str) -> float:
        """For how many seconds no token of an address is looked at: too many were wrong. 0: it is now."""
        now_s = self._clock()
        failures = [one for one in self._failures.get(address, ()) if one > now_s - _TRIES_S]
        return 0.0 if len(failures) < _TRIES else failures[0] + _TRIES_S - now_s

    def admits(self, given: str, address: str) -> bool:
        """Whether a text that comes from an address is the token; a wrong one counts against the address.

        The comparison takes as long for all texts of a length.
        """
        if self._token is None or self.wait_s(address):
            return False
        if hmac.compare_digest(self._token.encode(), given.encode(errors="replace")):
            return True
        failures = [*self._failures.pop(address, ()), self._clock()]
        self._failures[address] = failures[-_TRIES:]
        while len(self._failures) > _MOST:
            self._failures.popitem(last=False)
        return False

    def begin(self, given: str, address: str) -> str | None:
        """Let a browser in that shows this token: the id for its cookie. None: it is not the token."""
        if not self.admits(given, address):
            return None
        while len(self._open) >= _MOST:
            self._open.popitem(last=False)
        ident = secrets.token_urlsafe(32)
        self._open[_digest(ident)] = Session(self._clock() + _LASTS_S)
        return ident

    def find(self, ident: str) -> Session | None:
        """The session of a cookie; None: it may not look."""
        if self._token is None:
            return self._everybody
        found = self._open.get(_digest(ident))
        return found if found is not None and found.until_s > self._clock() else None

    def end(self, ident: str) -> None:
        """Let it in no longer."""
        self._open.pop(_digest(ident), None)


def _digest(ident: str) -> bytes:
    return hashlib.sha256(ident.encode(errors="replace")).digest()
