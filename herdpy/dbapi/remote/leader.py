"""Finding the server that leads, among those that were named, and what to do when none can be connected to.

Below ``connection``, above ``wire`` and ``search``. libpq has no codes for what goes wrong before a session
begins: its words, and the servers', are all there is to give an SQLSTATE and a hint by.
"""

from __future__ import annotations

import functools
import random
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from herdpy.dbapi.errors import OperationalError, class_of
from herdpy.dbapi.remote.errors import ConnectionLostError
from herdpy.dbapi.remote.hosts import hosts_of
from herdpy.dbapi.remote.options import RemoteOptions
from herdpy.dbapi.remote.positions import Positions, positions_of
from herdpy.dbapi.remote.search import Host, Refused, Search, WillDo
from herdpy.dbapi.remote.wire import Wire

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
        self.follower_will_do = level not in ("linearizable", "leader")

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

    def _search(self, will_do: WillDo, *, patient: bool) -> Search:
        return Search(self._hosts, self._conninfo, _refusal, will_do, patient=patient)

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

        def tells(who: Host, conn: Any, _others: object) -> bool:
            return who == host or not (self.follower_will_do or _follows(conn))

        search = self._search(tells, patient=True)
        try:
            found = search.run(time.monotonic() + _PROBE_TIMEOUT_S)
        except Refused:  # it answered
            return True
        if found is None:
            return False
        found[1].finish()
        return found[0] == host


def _follows(conn: Any) -> bool:
    return bool(conn.parameter_status(b"in_hot_standby") == b"on")


def _refusal(error: psycopg.Error) -> Refused:
    said = " ".join(str(error).split())
    if "no password supplied" in said:  # the server asks for one, and there is none to be sent
        return Refused(said, final=True)
    by_server = "FATAL:" in said
    passing = by_server and (_PASSING.search(said) is not None or _FINAL.search(said) is None)
    return Refused(said, final=by_server and not passing, passing=passing)


def refused(said: str, told: str | None = None) -> Exception:
    """What is raised for good: the SQLSTATE and the advice that fit what was ``said``.

    Args:
        told: its message, where that is another.
    """
    state = next((state for pattern, state in _STATES if pattern.search(said)), "08001")
    return class_of(state)(told or said, sqlstate=state, hint=advice(said))
