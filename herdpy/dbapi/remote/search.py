"""Asking several servers at once which of them takes a session. Below ``leader``.

Each host has a generator, which connects and asks again now and then; one loop drives them all, so that a
host that is silent holds up nobody. The first host has a head start: where it takes the session, no other is
asked.

libpq would ask the resolver by itself, and whoever waits for a DNS server that is away waits as long as the
resolver likes. Here a thread asks (``Lookup``), and a socket says when it has an answer, so that the wait is
one of those that a search has.
"""

from __future__ import annotations

import ipaddress
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import generators

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


Host = tuple[str, int]
Conninfo = Callable[[Host, Sequence[str]], str]
"""libpq's connection string for a host, and the addresses of its name."""
WillDo = Callable[[Host, Any, Collection[Host]], bool]
"""Whether a connection to a host is one that is looked for, while these hosts have nothing better."""

HEAD_START_S = 0.25
"""The hosts after the first one are asked after so long, or as soon as it has refused."""
_ATTEMPT_TIMEOUT_S = 3.0
"""An attempt to connect is given up after so long, the next one to the same host after twice as long."""
_LOOK_S = 0.1
_COMPLAIN_S = 1.0
"""Who has only met servers that follow for so long says so to them, and again after as long."""
_STANDS, _COMPLAINS = b"SHOW in_hot_standby", b"SELECT herdpy.leader_unreached()"
_SILENT = "it does not answer"
_NOT_IT = "it is not the one that is looked for: it follows, or leads"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.1
_POLL = {0: 0, 1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}


class Refused(Exception):  # noqa: N818 - what a server said, not yet an error
    """A server does not take the connection; ``final``: nor will it later, and nor will others."""

    def __init__(self, said: str, *, final: bool, passing: bool = False) -> None:
        super().__init__(said)
        self.final = final
        self.passing = passing


class _SilentError(Exception):
    """A host did not answer in time."""


class _Wants(NamedTuple):
    """What a generator waits for: its socket (-1: none) for some events, and no longer than until."""

    socket: int
    events: int
    until: float


_Tries = Generator[_Wants, int, Any]


class _Candidate:
    """A host, and how far it has come."""

    def __init__(self, host: Host, tries: _Tries, begins: float) -> None:
        self.host = host
        self.tries = tries
        self.wants = _Wants(-1, 0, begins)
        self.has_begun = False

    def go_on(self, ready: int) -> None:
        """After what it waited for, or with 0 because the time is up. StopIteration has what was found."""
        self.wants = self.tries.send(ready) if self.has_begun else next(self.tries)
        self.has_begun = True


class Search:
    """One search among hosts.

    Attributes:
        said: what each host that did not take the session said last.
        is_stopped: whether to give up; looked at every tenth of a second.
        complains: the leader is looked for: servers that only follow are told when it cannot be reached.

    Args:
        conninfo: libpq's connection string for a host, and the addresses of its name.
        refusal: what an error of libpq means.
        patient: ask again those that do not answer; otherwise only those that refuse for the moment.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        conninfo: Conninfo,
        refusal: Callable[[psycopg.Error], Refused],
        will_do: WillDo,
        *,
        patient: bool,
    ) -> None:
        self.said: dict[Host, str] = {}
        self._hosts = list(hosts)
        self._conninfo = conninfo
        self._refusal = refusal
        self._will_do = will_do
        self.is_stopped: Callable[[], bool] = lambda: False
        self.complains = False
        self._some_will_be_ready = patient

    @property
    def is_worth_repeating(self) -> bool:
        """Whether a host answered that may do in a moment, or none that is silent was to be given up."""
        return self._some_will_be_ready

    def run(self, deadline: float) -> tuple[Host, Any] | None:
        """The first connection that will do; None when there is none by the deadline (on time.monotonic).

        Raises:
            Refused: a host refuses for good.
        """
        now = time.monotonic()
        left = [
            _Candidate(host, self._tries(host), now + (HEAD_START_S if at else 0.0))
            for at, host in enumerate(self._hosts)
        ]
        try:
            while (now := time.monotonic()) < deadline and not self.is_stopped():
                for candidate, ready in _ready(left, min(deadline, now + _LOOK_S)):
                    try:
                        candidate.go_on(ready)
                    except StopIteration as over:
                        return candidate.host, over.value
                if self.said:
                    _let_all_begin(left)
                if len(self.said) == len(left) and not self._some_will_be_ready:
                    break
            for host in self._hosts:
                self.said.setdefault(host, _SILENT)
            return None
        finally:
            for candidate in left:
                candidate.tries.close()

    def _tries(self, host: Host) -> _Tries:
        """Connect and ask until the host will do."""
        pause_s, timeout_s = _FIRST_PAUSE_S, _ATTEMPT_TIMEOUT_S
        while True:
            try:
                conn = yield from self._try(host, timeout_s)
            except _SilentError:
                self.said[host] = _SILENT
                timeout_s *= 2
            except psycopg.Error as error:
                refused = self._refusal(error)
                self.said[host] = str(refused)
                if refused.final:
                    raise refused from None
                self._some_will_be_ready = self._some_will_be_ready or refused.passing
            else:
                return conn
            yield from _pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _try(self, host: Host, timeout_s: float) -> _Tries:
        """One connection: returned as soon as it will do."""
        until = time.monotonic() + timeout_s
        addresses = (yield from _looked_up(host, until)) if is_name(host[0]) else (host[0],)
        conn = yield from _connected(self._conninfo(host, addresses), until)
        taken = False
        try:
            pause_s = _FIRST_PAUSE_S
            complain_s = time.monotonic() + (_COMPLAIN_S if self.complains else math.inf)
            says = _NOT_IT
            while not self._will_do(host, conn, self.said):
                self.said[host] = says
                self._some_will_be_ready = True
                yield from _pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                if time.monotonic() < complain_s:
                    yield from _asked(conn, _STANDS, time.monotonic() + timeout_s)
                else:
                    leader = yield from _asked(conn, _COMPLAINS, time.monotonic() + timeout_s)
                    says = f"it follows {leader}, which is not reached from here" if leader else _NOT_IT
                    complain_s = time.monotonic() + _COMPLAIN_S
            taken = True
            return conn
        finally:
            if not taken:
                conn.finish()


def _looked_up(host: Host, until: float) -> Generator[_Wants, int, list[str]]:
    lookup = Lookup(*host)
    try:
        if not (yield _Wants(lookup.answered.fileno(), 1, until)):
            raise _SilentError
        return lookup.addresses()
    except (OSError, UnicodeError) as error:
        raise psycopg.OperationalError(f"the name {host[0]} cannot be looked up: {error}") from error
    finally:
        lookup.close()


def _connected(conninfo: str, until: float) -> _Tries:
    steps = generators.connect(conninfo)
    try:
        socket, events = next(steps)
        while True:
            ready = yield _Wants(socket, int(events), until)
            if not ready:
                raise _SilentError
            socket, events = steps.send(ready)
    except StopIteration as over:
        return over.value


def _asked(conn: Any, question: bytes, until: float) -> Generator[_Wants, int, str]:
    """Have the server say again whether it leads: libpq keeps the settings that it reports.

    Returns:
        Its answer to the question; empty when it has none, as one of another version may.
    """
    conn.send_query(question)
    steps = generators.execute(conn)
    try:
        events = next(steps)
        while True:
            ready = yield _Wants(conn.socket, int(events), until)
            if not ready:
                raise _SilentError
            events = steps.send(ready)
    except StopIteration as over:
        result = over.value[-1]
        return (result.get_value(0, 0) or b"").decode() if result.ntuples else ""


def _pause(seconds: float) -> Generator[_Wants, int, None]:
    yield _Wants(-1, 0, time.monotonic() + seconds)


def _ready(left: Iterable[_Candidate], deadline: float) -> list[tuple[_Candidate, int]]:
    """Wait for something to happen; who can go on, and with which events."""
    poll = select.poll()
    by_socket: dict[int, _Candidate] = {}
    until = deadline
    for candidate in left:
        until = min(until, candidate.wants.until)
        if candidate.wants.socket >= 0:
            by_socket[candidate.wants.socket] = candidate
            poll.register(candidate.wants.socket, _POLL[candidate.wants.events])
    found = []
    for descriptor, mask in poll.poll(max(0.0, until - time.monotonic()) * 1000):
        events = (1 if mask & ~select.POLLOUT else 0) | (2 if mask & select.POLLOUT else 0)
        candidate = by_socket.pop(descriptor)
        found.append((candidate, events & candidate.wants.events or candidate.wants.events))
    now = time.monotonic()
    awake = {id(candidate) for candidate, _events in found}
    found += [(one, 0) for one in left if one.wants.until <= now and id(one) not in awake]
    return found


def _let_all_begin(left: Iterable[_Candidate]) -> None:
    for candidate in left:
        if not candidate.has_begun:
            candidate.wants = _Wants(-1, 0, 0.0)
