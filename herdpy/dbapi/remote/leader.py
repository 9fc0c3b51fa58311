"""Finding the server that leads: several are asked at once, within a bounded time; advice when none answers.

Below ``connection``, above ``wire``. Each host has a generator, one loop drives them all, and a thread asks
the resolver (``Lookup``), so that a silent host or DNS server holds up nobody. libpq has no codes for what
goes wrong before a session begins: words are all there is to give an SQLSTATE by. ``Positions`` are the
newest commits of this process, which reads on followers name first.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import os
import random
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import generators
from psycopg.conninfo import make_conninfo

from herdpy.dbapi.errors import OperationalError, class_of
from herdpy.dbapi.options import RemoteOptions
from herdpy.dbapi.remote.hosts import hosts_of
from herdpy.dbapi.remote.wire import ConnectionLostError, Wire

Host = tuple[str, int]
_MOST_HOSTS = 1024

_shared: dict[tuple[str, Host], Positions] = {}
_lock = threading.Lock()


class Positions:
    """The newest commit in one tablespace.

    Attributes:
        newest: its position as text; empty while there is none.
    """

    def __init__(self) -> None:
        self.newest = ""
        self._newest = (-1, -1)

    def note(self, position: str) -> None:
        """There is a commit at this position."""
        found = _parts(position)
        if found <= self._newest:  # which never goes back, so this needs no lock
            return
        with _lock:
            if found > self._newest:
                self._newest, self.newest = found, position


def is_after(position: str, other: str) -> bool:
    """Whether a position is after another; an empty one is before all."""
    return _parts(position) > _parts(other)


def _parts(position: str) -> tuple[int, int]:
    ledger, _colon, entry = position.partition(":")
    return (int(ledger), int(entry)) if position else (-1, -1)


def positions_of(hosts: Collection[Host], tablespace: str) -> Positions:
    """The one that connections to any of these servers share."""
    keys = [(tablespace, host) for host in hosts]
    with _lock:
        known = [_shared[key] for key in keys if key in _shared]
        found = max(known, key=lambda one: one._newest, default=None) or Positions()
        if len(_shared) > _MOST_HOSTS:
            _shared.clear()
        _shared.update(dict.fromkeys(keys, found))
    return found


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


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
        complains: the leader is looked for: servers that only follow are notified when it cannot be reached.

    Args:
        conninfo: libpq's connection string for a host, and the addresses of its name.
        refusal: what an error of libpq means.
        patient: ask again those that do not answer; otherwise only those that refuse for the moment.
        head_start_s: after so long the hosts after the first one are tried, too.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        conninfo: Conninfo,
        refusal: Callable[[psycopg.Error], Refused],
        will_do: WillDo,
        *,
        patient: bool,
        head_start_s: float = HEAD_START_S,
    ) -> None:
        self.said: dict[Host, str] = {}
        self._hosts = list(hosts)
        self._conninfo = conninfo
        self._refusal = refusal
        self._will_do = will_do
        self.is_stopped: Callable[[], bool] = lambda: False
        self.complains = False
        self._some_will_be_ready = patient
        self._head_start_s = head_start_s

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
            _Candidate(host, self._tries(host), now + (self._head_start_s if at else 0.0))
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
                if (yield from _announced(conn, pause_s)):
                    continue
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


def _announced(conn: Any, seconds: float) -> Generator[_Wants, int, bool]:
    """Wait so long at most; whether the server has sent something meanwhile, such as that it leads now."""
    if not (yield _Wants(conn.socket, 1, time.monotonic() + seconds)):
        return False
    conn.consume_input()
    conn.is_busy()  # has libpq take in the settings that have come
    return True


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


_ADVICE = (
    (
        r"server does not support SSL",
        "Leave sslmode out, or let it be prefer; or give the server tls.certificate and tls.key.",
    ),
    (
        r"certificate verify failed|root certificate|does not match host name",
        "sslrootcert names the CAs of the server's certificate, which must have the name in the URL.",
    ),
    (
        r"client certificate|certificate authentication",
        "sslcert and sslkey name the user's certificate and its key (PEM): signed by who is in the server's "
        "tls.client_ca, and made out to the user's name. sslmode must not be disable.",
    ),
    (
        r"private key file|certificate file|certificate .* (does not|doesn't) match",
        "sslcert and sslkey name the files of the user's certificate and of its key, which only their owner "
        "may read (chmod 600).",
    ),
    (
        r"invalid response to SSL|unexpected response|expected authentication request|unsupported frontend",
        "Something else than HerdPy listens there: the URL takes the port of PostgreSQL's protocol, "
        "postgres.port, and not that of gRPC or HTTP.",
    ),
    (r"password|authentication", "Are user and password right? HERDPY_PASSWORD or a profile may have them."),
    (r"no rule|pg_hba|not permitted", "The server's authentication.rules decide which clients may connect."),
    (r"(database|tablespace) .* does not exist", "herdpy tablespace ls shows those that there are."),
    (r"looked up|failed to resolve", "Is the name of the host right?"),
    (r"Connection refused", "Is the server up, and is that its port? herdpy server starts one."),
    (
        r"not reached from here",
        "Open the way to the server that leads, or move leadership to one that is reached, on that one: "
        "ALTER TABLESPACE name LEADER 'node'.",
    ),
    (
        r"does not answer|timeout|timed out",
        "Is the network path to it open? connect_timeout limits the wait.",
    ),
    (r"follows|read-only|not ready", "herdpy status shows the leader and all problems."),
)


def advice(said: str) -> str | None:
    """What to do next; None where that is not known."""
    return next((what for words, what in _ADVICE if re.search(words, said, re.IGNORECASE)), None)


_PASSING = re.compile(r"timeout|too many", re.IGNORECASE)
_FINAL = re.compile(
    r"password|authentication|no rule|pg_hba|not permitted|not allowed|does not exist|invalid|not supported"
    r"|unsupported|malformed|requires|SSL|encrypt",
    re.IGNORECASE,
)
"""What a server says that refuses a connection for good (libpq has the words alone); the rest may pass."""
_STATES = (
    (re.compile("password|authentication", re.IGNORECASE), "28P01"),
    (re.compile("no rule|pg_hba|not permitted|not allowed", re.IGNORECASE), "28000"),
    (re.compile("database .* does not exist|tablespace .* does not exist", re.IGNORECASE), "3D000"),
)
_PROBE_TIMEOUT_S = 5.0
_PROBE_HEAD_START_S = 0.05
"""A server that is looked at has been silent already: the others are tried soon."""
_PAUSE_S = 0.02
_FIRST_LOOK_S, _LONGEST_LOOK_S = 1.0, 5.0
"""The servers that are known are searched for so long before ZooKeeper is asked who is there now."""
_KEEPALIVE = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class LeaderFinder:
    """The way to the server that leads. The one that led last is asked first.

    Attributes:
        positions: the newest commit of this process there.
        follower_will_do: a read level was asked for that one that follows may serve; until one has
            refused something.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self._options = options
        self._source = hosts_of(options)
        self.positions = Positions()
        self._hosts: list[Host] = []
        self._is_stopped = False
        self._prefers_followers = options.target == "follower"
        level = options.settings.get("herdpy.read_level", "linearizable")
        self.follower_will_do = self._prefers_followers or level not in ("linearizable", "leader")

    def connect(self, deadline: float, begin: Callable[[Wire], None], *, patient: bool) -> Wire:
        """A connection to the leader, once ``begin`` has prepared it.

        Args:
            deadline: on time.monotonic.
            patient: ask again until then, even when no server answers; otherwise only while one says
                that it is not ready, or that it only follows.

        Raises:
            OperationalError: 08001 none was found, 28P01 and the like: a server refuses for good.
        """
        self._is_stopped = False
        if not self._hosts:
            self._take(self._source.known(deadline))
        look_s = _FIRST_LOOK_S
        while True:
            search = self._search(self._will_do, patient=patient)
            search.is_stopped = lambda: self._is_stopped
            search.complains = not (self.follower_will_do or self._prefers_followers)
            until = deadline
            if self._source.can_change:
                until, look_s = min(deadline, time.monotonic() + look_s), min(2 * look_s, _LONGEST_LOOK_S)
            try:
                found = search.run(until)
            except Refused as refusal:
                raise refused(str(refusal)) from None
            if found is None:
                if self._is_stopped:
                    raise OperationalError("canceling statement due to user request", sqlstate="57014")
                if self._source.can_change and self._look_again(until, deadline, search, patient=patient):
                    continue
                said = "; ".join(f"{host}:{port}: {said}" for (host, port), said in search.said.items())
                raise OperationalError(
                    "no server was found that leads", sqlstate="08001", detail=said, hint=advice(said)
                )
            host, conn = found
            wire = Wire(conn, functools.partial(self._is_alive, host))
            try:
                begin(wire)
            except ConnectionLostError:  # it has failed this very moment
                wire.close()
                patient = True
                time.sleep(_PAUSE_S)
                continue
            except BaseException:
                wire.close()
                raise
            self._hosts.remove(host)
            self._hosts.insert(0, host)
            return wire

    def stop(self) -> None:
        """End a search that goes on, from another thread: its caller gets 57014."""
        self._is_stopped = True

    def _take(self, hosts: list[Host]) -> None:
        self._hosts = hosts
        self.positions = positions_of(hosts, self._options.database or "")
        if self._prefers_followers:
            random.shuffle(self._hosts)

    def _look_again(self, until: float, deadline: float, search: Search, *, patient: bool) -> bool:
        """Learn which servers there are now; whether that is worth another search (one had ``until``)."""
        has_more_time = time.monotonic() >= until
        before = set(self._hosts)
        try:
            self._take(self._source.again(deadline))
        except OperationalError as error:
            if not (patient or has_more_time):
                raise
            search.said["ZooKeeper", 0] = error.message
        left = time.monotonic() + _PAUSE_S < deadline
        if left and patient:
            time.sleep(_PAUSE_S)
        changed = set(self._hosts) != before
        return left and (patient or has_more_time or search.is_worth_repeating or changed)

    def _search(self, will_do: WillDo, *, patient: bool, head_start_s: float = HEAD_START_S) -> Search:
        return Search(
            self._hosts, self._conninfo, _refusal, will_do, patient=patient, head_start_s=head_start_s
        )

    def leave_followers(self) -> None:
        """One has refused what was asked of it: the leader is wanted, unless followers were asked for."""
        self.follower_will_do = self.follower_will_do and self._prefers_followers

    def _will_do(self, host: Host, conn: Any, others: Collection[Host]) -> bool:
        if _follows(conn):
            return self.follower_will_do
        # Who prefers followers takes the leader when no other host has anything to offer.
        return not self._prefers_followers or {*self._hosts} <= {*others, host}

    def _conninfo(self, host: Host, addresses: Sequence[str]) -> str:
        options = self._options
        return make_conninfo(
            host=",".join([host[0]] * len(addresses)),
            hostaddr=",".join(addresses) if not host[0].startswith(("/", "@")) else "",
            port=",".join([str(host[1])] * len(addresses)),
            user=options.user,
            password=options.password,
            dbname=options.database,
            application_name=options.application_name,
            client_encoding="UTF8",
            **{**_KEEPALIVE, **options.libpq},
        )

    def _is_alive(self, host: Host) -> bool:
        """Whether a server that is silent answers somebody else; not if another one leads meanwhile."""

        def decides(who: Host, conn: Any, _others: object) -> bool:
            return who == host or not (self.follower_will_do or _follows(conn))

        search = self._search(decides, patient=True, head_start_s=_PROBE_HEAD_START_S)
        try:
            found = search.run(time.monotonic() + _PROBE_TIMEOUT_S)
        except Refused:  # it answered
            return True
        leads = None if found is None else found[0]
        if found is not None:
            found[1].finish()
        if leads != host:  # the next search begins with the one that leads, and need not wait for the silent
            self._hosts.sort(key=lambda one: (one == host, one != leads))
        return leads == host


def _follows(conn: Any) -> bool:
    return bool(conn.parameter_status(b"in_hot_standby") == b"on")


def _refusal(error: psycopg.Error) -> Refused:
    said = " ".join(str(error).split())
    if "no password supplied" in said:  # the server asks for one, and there is none to be sent
        return Refused(said, final=True)
    by_server = "FATAL:" in said
    passing = by_server and (_PASSING.search(said) is not None or _FINAL.search(said) is None)
    return Refused(said, final=by_server and not passing, passing=passing)


def refused(said: str, message: str | None = None) -> Exception:
    """What is raised for good: the SQLSTATE and the advice that fit what was ``said``.

    Args:
        message: its message, where that is another.
    """
    state = next((state for pattern, state in _STATES if pattern.search(said)), "08001")
    return class_of(state)(message or said, sqlstate=state, hint=advice(said))
