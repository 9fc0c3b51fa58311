"""The cluster: ZooKeeper's servers, bookies, HerdPy servers. Facts first, then what they mean.

Above ``findings``; the BookKeeper client and the driver below. Nothing is left behind: the ledger that
measures bookies is deleted, and the session with ZooKeeper ended.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from herdpy.doctor.findings import DoctorFinding, advice, failure, ok, warning

if TYPE_CHECKING:
    from herdpy.zookeeper_access import ZooKeeperAccess

_ANSWER_S = 3.0
_OPEN_S = 15.0
APPENDS = 32
SLOW_APPEND_S = 0.020
SKEW_S, LARGE_SKEW_S = 1.0, 60.0
_TICKS_OF_A_SESSION = 2
_FREE_SHARE = 0.05
LAG_ENTRIES = 10_000
BACKUP_AGE_S = 2 * 86_400.0


# ZooKeeper.


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSeen:
    """One of its servers. ``problem``: why it does not answer. ``mode``: empty, if it does not say.

    Attributes:
        tick_ms: its tick; None where the word "conf" is not allowed to us.
        least_session_ms: the shortest session time-out that it grants.
    """

    place: str
    problem: str = ""
    mode: str = ""
    tick_ms: int | None = None
    least_session_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class ZooKeeperFacts:
    """Attributes:
    servers: each one, as it answered.
    session_s: the time-out that a server of HerdPy requests; ``granted_s``: what it gets. None: no session.
    ahead_s: by how much ZooKeeper's clock is ahead of this machine's.
    """

    servers: Sequence[ZooKeeperSeen]
    session_s: float
    granted_s: float | None = None
    ahead_s: float | None = None
    problem: str = ""


def zookeeper_facts(
    zookeeper: str, session_s: float, access: ZooKeeperAccess, root: str = "/herdpy"
) -> ZooKeeperFacts:
    """Speak to each server alone, then to all of them as a client does."""
    places = [one.strip() for one in zookeeper.split(",") if one.strip()]
    servers = [_server(place, tls=access.tls) for place in places]
    granted, ahead, problem = _session(zookeeper, session_s, access, root)
    return ZooKeeperFacts(
        servers=servers, session_s=session_s, granted_s=granted, ahead_s=ahead, problem=problem
    )


def _server(place: str, *, tls: bool) -> ZooKeeperSeen:
    host, _, port = place.rpartition(":")
    try:
        if tls:  # four-letter words would need a certificate: that it listens must do
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
            return ZooKeeperSeen(place=place)
        said, conf = four_letters(host, int(port), "srvr"), four_letters(host, int(port), "conf")
    except OSError as error:
        return ZooKeeperSeen(place=place, problem=error.strerror or str(error) or type(error).__name__)
    mode = re.search(r"^Mode: (\w+)", said, re.MULTILINE)
    tick, least = (
        re.search(rf"^{name}=(\d+)", conf, re.MULTILINE) for name in ("tickTime", "minSessionTimeout")
    )
    problem = "it does not serve requests: no quorum" if "not currently serving" in said else ""
    return ZooKeeperSeen(
        place=place,
        problem=problem,
        mode="" if mode is None else mode[1],
        tick_ms=None if tick is None else int(tick[1]),
        least_session_ms=None if least is None else int(least[1]),
    )


def four_letters(host: str, port: int, word: str) -> str:
    """What a server answers to one of its four-letter words. OSError."""
    with socket.create_connection((host.strip("[]"), port), _ANSWER_S) as connection:
        connection.settimeout(_ANSWER_S)
        connection.sendall(word.encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def _session(
    zookeeper: str, session_s: float, access: ZooKeeperAccess, root: str
) -> tuple[float | None, float | None, str]:
    import logging

    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException

    granted: list[float] = []  # kazoo says it only to its log
    log = logging.Logger("herdpy.doctor.kazoo", 1)

    def hear(record: logging.LogRecord) -> bool:
        granted.extend(_granted_s(record.getMessage()))
        return False

    log.addFilter(hear)
    client = KazooClient(
        zookeeper, timeout=session_s, logger=log, **access.keywords(zookeeper, max(session_s, _ANSWER_S))
    )
    try:
        client.start(_OPEN_S)
        path = client.create(f"{root.rstrip('/')}-doctor-", b"", ephemeral=True, sequence=True, makepath=True)
        before_s, stat = time.time(), client.set(path, b"x")
        ahead_s = stat.mtime / 1000 - (before_s + time.time()) / 2
        client.delete(path)
        return granted[-1] if granted else None, ahead_s, ""
    except (KazooException, OSError, TimeoutError, client.handler.timeout_exception) as error:
        return None, None, str(error) or type(error).__name__
    finally:
        client.stop()
        client.close()


def _granted_s(message: str) -> list[float]:
    """The session time-out that a line of kazoo's log says was granted."""
    return [int(found) / 1000 for found in re.findall(r"negotiated session timeout: (\d+)", message)]


def judge_zookeeper(facts: ZooKeeperFacts) -> Iterator[DoctorFinding]:
    """Whether there is a quorum, whether failovers are as quick as configured, whose clock is off."""
    up = [one for one in facts.servers if not one.problem]
    for one in facts.servers:
        if one.problem:
            level = warning if len(up) * 2 > len(facts.servers) else failure
            yield level("zookeeper.servers", f"{one.place}: {one.problem}", "Start it; see its log.")
    if facts.problem:
        yield failure("zookeeper.session", facts.problem, "Start a majority of ZooKeeper's servers.")
        return
    modes = ", ".join(f"{one.place} {one.mode or 'answers'}" for one in up)
    if len(facts.servers) < 3:
        yield advice(
            "zookeeper.servers", f"{modes}: no majority survives a loss", "Have three, on three machines."
        )
    elif up:
        yield ok("zookeeper.servers", modes)
    yield _granted_finding(facts)
    if facts.ahead_s is not None:
        yield skew("zookeeper.clock", "ZooKeeper's leader", facts.ahead_s)


def _granted_finding(facts: ZooKeeperFacts) -> DoctorFinding:
    ticks = sorted({one.tick_ms for one in facts.servers if one.tick_ms})
    shown = f"session time-out {facts.session_s:g} s"
    if ticks:
        shown += f", tickTime {', '.join(map(str, ticks))} ms"
    if facts.granted_s is not None and facts.granted_s > 1.01 * facts.session_s:
        tick = int(facts.session_s * 1000 / _TICKS_OF_A_SESSION)
        return warning(
            "zookeeper.tick",
            f"{shown}: it grants {facts.granted_s:g} s",
            f"Set tickTime={tick} and minSessionTimeout={int(facts.session_s * 1000)} (conf/zookeeper.cfg):"
            " until then a failover takes so long.",
        )
    if facts.granted_s is not None and facts.granted_s < 0.99 * facts.session_s:
        return warning(
            "zookeeper.tick",
            f"{shown}: it grants only {facts.granted_s:g} s",
            "Raise maxSessionTimeout, or lower cluster.session_timeout_s.",
        )
    if ticks and ticks[-1] > facts.session_s * 1000:
        return advice(
            "zookeeper.tick", shown, "A session ends up to a tick late: have tickTime at half the time-out."
        )
    return ok("zookeeper.tick", f"{shown}, granted")


def skew(check: str, whose: str, ahead_s: float) -> DoctorFinding:
    """A clock beside this machine's."""
    shown = f"{whose} is {abs(ahead_s):.3f} s {'ahead' if ahead_s >= 0 else 'behind'}"
    what = "Run chrony on all machines: commit times and certificates depend on it."
    if abs(ahead_s) > LARGE_SKEW_S:
        return failure(check, shown, what)
    return warning(check, shown, what) if abs(ahead_s) > SKEW_S else ok(check, shown)


# Bookies.


@dataclass(frozen=True, kw_only=True)
class BookieSeen:
    """One bookie: "writable", "read-only" or "down"; None: it did not say how much space it has."""

    id: str
    state: str
    free: int | None = None
    total: int | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class BookieFacts:
    """Attributes:
    appends_s: how long each append to a test ledger took; ``appended``: to so many bookies each.
    problem: why there are none.
    """

    bookies: Sequence[BookieSeen] = ()
    appends_s: Sequence[float] = ()
    appended: int = 0
    problem: str = ""


def bookie_facts(uri: str, access: ZooKeeperAccess) -> BookieFacts:
    """List the bookies, and measure appends with a ledger that is deleted afterwards."""
    from herdpy.bookkeeper import BookKeeper, BookKeeperError, ClientSettings

    async def look() -> BookieFacts:
        settings = ClientSettings(zookeeper_timeout_s=_ANSWER_S, zookeeper_access=access)
        async with BookKeeper(uri, settings=settings) as bk:
            bookies = [
                BookieSeen(
                    id=one.id,
                    state=one.state.value,
                    free=one.free_bytes,
                    total=one.total_bytes,
                    problem=one.problem or "",
                )
                for one in await bk.bookies()
            ]
            try:
                appends, width = await _appends(bk)
            except (BookKeeperError, TimeoutError) as error:
                return BookieFacts(bookies=bookies, problem=str(error) or "no answer in time")
            return BookieFacts(bookies=bookies, appends_s=appends, appended=width)

    try:
        return asyncio.run(look())
    except BookKeeperError as error:
        return BookieFacts(problem=str(error))


async def _appends(bk: Any) -> tuple[list[float], int]:
    width = min(3, len(bk.writable_bookies()))
    if not width:
        return [], 0
    taken = []
    ledger = None
    try:
        async with asyncio.timeout(_OPEN_S):
            ledger = await bk.create_ledger(width, width, width, custom_metadata={"application": b"doctor"})
            for _ in range(APPENDS):
                began = time.perf_counter()
                await ledger.append(b"\0" * 512)
                taken.append(time.perf_counter() - began)
            await ledger.close()
    finally:
        if ledger is not None:
            await bk.delete_ledger(ledger.ledger_id)
    return taken, width


def judge_bookies(facts: BookieFacts, write_quorum: int, ack_quorum: int) -> Iterator[DoctorFinding]:
    """Whether there are enough, which are down or full, and how quick their journals are."""
    from herdpy.doctor.machine import percentile

    writable = [one for one in facts.bookies if one.state == "writable"]
    for one in facts.bookies:
        if one.state != "writable" or one.problem:
            yield warning(
                "bookies.up",
                f"{one.id} is {one.state}{f': {one.problem}' if one.problem else ''}",
                "Start it, or free space on its disks; if it is lost: docs/runbooks.md.",
            )
        elif one.free is not None and one.total and one.free < _FREE_SHARE * one.total:
            yield warning("bookies.space", f"{one.id}: {one.free >> 20} MiB are free", "Give it space.")
    shown = f"{len(writable)} of {len(facts.bookies)} take writes; an entry goes to {write_quorum}"
    if len(writable) < ack_quorum:
        yield failure("bookies.up", facts.problem or shown, "Start bookies: nothing can be committed.")
    elif len(writable) <= write_quorum:
        yield advice("bookies.up", shown, "One more can replace a lost one (docs/operations.md).")
    else:
        yield ok("bookies.up", shown)
    if not facts.appends_s:
        if writable:
            yield failure(
                "bookies.journal", facts.problem or "no append was answered", "See the bookies' logs."
            )
        return
    half, most = percentile(facts.appends_s, 0.5), percentile(facts.appends_s, 0.99)
    shown = f"an append to {facts.appended} bookies takes {1000 * half:.2f} ms (median), {1000 * most:.2f} ms"
    if half > SLOW_APPEND_S:
        yield warning(
            "bookies.journal",
            shown,
            "Give each journal a disk of its own; see journalFlushWhenQueueEmpty (conf/bookkeeper.conf).",
        )
    else:
        yield ok("bookies.journal", shown)


# Servers.


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """Rows of tables of schema ``herdpy``, by column; ``ahead_s``: of the clock, by the server's place."""

    nodes: Sequence[Mapping[str, Any]] = ()
    replicas: Sequence[Mapping[str, Any]] = ()
    tablespaces: Sequence[Mapping[str, Any]] = ()
    backups: Sequence[Mapping[str, Any]] = ()
    ahead_s: Mapping[str, float] | None = None
    problem: str = ""


def judge_servers(facts: ServerFacts, now: datetime | None = None) -> Iterator[DoctorFinding]:
    """Versions, replicas, lag, clocks, backups."""
    if facts.problem:
        yield failure("servers.reached", facts.problem, "See docs/first-errors.md.")
        return
    yield ok("servers.reached", f"{max(len(facts.nodes), 1)} servers are there")
    versions = sorted({str(one["version"]) for one in facts.nodes if one["version"]})
    if len(versions) > 1:
        yield advice("servers.versions", ", ".join(versions), "Finish the upgrade: docs/upgrades.md.")
    elif versions:
        yield ok("servers.versions", versions[0])
    yield from _replicas(facts)
    for place, ahead_s in sorted((facts.ahead_s or {}).items()):
        yield skew("servers.clock", place, ahead_s)
    yield from _backups(facts, now or datetime.now(UTC))


def _replicas(facts: ServerFacts) -> Iterator[DoctorFinding]:
    wrong = False
    for one in facts.tablespaces:
        mine = [each for each in facts.replicas if each["tablespace"] == one["name"]]
        whole = [each for each in mine if each["state"] in ("leading", "following", "alone")]
        expected = one["expected_replicas"] or 1
        if not one["leader"] and one["state"] != "alone":
            wrong = True
            yield failure("servers.replicas", f"{one['name']} has no leader", "See docs/runbooks.md.")
        if len(whole) < expected:
            wrong = True
            yield warning(
                "servers.replicas",
                f"{one['name']}: {len(whole)} of {expected} replicas follow",
                "Start the servers that are away, or add one; until then a loss may stop it.",
            )
        for each in mine:
            if each["problem"]:
                wrong = True
                yield warning(
                    "servers.replicas",
                    f"{one['name']} on {each['node']}: {each['problem']}",
                    "docs/runbooks.md",
                )
            elif (each["lag_entries"] or 0) > LAG_ENTRIES:
                wrong = True
                yield warning(
                    "servers.lag",
                    f"{one['name']} on {each['node']} is {each['lag_entries']} entries behind",
                    "Look at its disk and processor.",
                )
    if not wrong:
        yield ok("servers.replicas", f"{len(facts.replicas)} replicas, all of them follow")


def _backups(facts: ServerFacts, now: datetime) -> Iterator[DoctorFinding]:
    done: dict[str, datetime] = {}
    for one in facts.backups:
        if one["finished"] is not None:
            done[one["tablespace"]] = max(one["finished"], done.get(one["tablespace"], one["finished"]))
    for one in facts.tablespaces:
        newest = done.get(one["name"])
        if newest is None:
            yield advice(
                "servers.backups", f"{one['name']}: none is known here", "Set backup.url: docs/backup.md."
            )
        elif (age_s := (now - newest).total_seconds()) > BACKUP_AGE_S:
            yield warning(
                "servers.backups",
                f"{one['name']}: the newest is {age_s / 86400:.1f} days old",
                "See herdpy.backups for the reason, and docs/backup.md.",
            )
        else:
            yield ok("servers.backups", f"{one['name']}: the newest is {age_s / 3600:.1f} hours old")
