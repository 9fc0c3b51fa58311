"""What the runner sees of a cluster: who leads while a drill runs, and what is there when it is over.

Layer: above control (the view) and history, below the runner. Nothing here changes the cluster. Each server
is asked at /status by a thread of its own, so that one which is paused holds up nobody; every change of the
leader becomes an event of the history. One that refuses connections does not lead; one that is silent leads
until another says so, or until it was silent for a while. After the drill: is all quiet, are the replicas
equal, is anything left behind?
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

import psycopg

from herdpy.bookkeeper import BookKeeper, ClientSettings
from herdpy.bookkeeper.errors import NoSuchLedgerError
from herdpy.drill.checkers.every_drill import check_replicas
from herdpy.drill.control import ClusterObserver, ProcessPlace
from herdpy.drill.control.control import ViewError, status_of
from herdpy.drill.history import DrillHistory, Json, Recorder
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.testing.zookeeper import ClusterZnodes

_EVERY_S = 0.1
_SILENT_S = 3.0
_PAGE_TIMEOUT_S = 1.0


class LeaderWatch:
    """Adds an event "leader" whenever another server leads, or none; a context manager."""

    def __init__(self, view: ClusterObserver, recorder: Recorder) -> None:
        self._tablespace = view.tablespace
        self._recorder = recorder
        self._said: dict[str, tuple[float, int | None]] = {}  # when, and the term that it leads
        self._leader: str | None = None
        self._is_known = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(place,), name=f"drill-watch-{place.name}", daemon=True)
            for place in view.places("server")
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, place: ProcessPlace) -> None:
        while not self._over.is_set():
            try:
                status = status_of(place, self._tablespace, _PAGE_TIMEOUT_S)
                term = int(status["epoch"]) if status.get("role") == "leader" else None
                said: tuple[float, int | None] | None = (time.monotonic(), term)
            except OSError as error:
                said = None if isinstance(error, TimeoutError) or _is_timeout(error) else (0.0, None)
            with self._lock:
                if said is not None:
                    self._said[place.name] = said
                self._note()
            self._over.wait(_EVERY_S)

    def _note(self) -> None:
        now = time.monotonic()
        leading = [
            (term, name)
            for name, (said_at, term) in self._said.items()
            if term is not None and now - said_at < _SILENT_S
        ]
        term, leader = max(leading) if leading else (None, None)
        if self._is_known and leader == self._leader:
            return
        if not self._is_known and leader is None:
            return  # not everybody was asked yet
        self._is_known, self._leader = True, leader
        if leader is None:
            self._recorder.event("leader", "nobody leads", server=None)
        else:
            self._recorder.event("leader", f"{leader} leads", server=leader, epoch=term)


def _is_timeout(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", None), TimeoutError)


# After the drill.

_SETTLED_S = 90.0
_AGAIN_S = 0.5
_ORPHANS_PER_TERM = 2
"""A leader makes a ledger, and then lists it: it may die in between. It makes the next one early."""


_AT_MOST = {"beats": 2}
"""The end of a session may have been answered to nobody: then the next one's znode is there beside it."""


def await_quiet(view: ClusterObserver, *, timeout_s: float = _SETTLED_S) -> str:
    """Wait until one server leads, and every other follows it and is as far; the leader. Raises ViewError."""
    leader = view.await_following(timeout_s=timeout_s)
    position = str(view.replica_status(leader).get("applied"))
    for name in view.names("server"):
        view.await_status(
            name,
            lambda one: one.get("role") in ("leader", "follower") and _lsn(one["applied"]) >= _lsn(position),
            f"come as far as {position}",
            timeout_s=timeout_s,
        )
    return leader


def compare_replicas(view: ClusterObserver, recorder: Recorder, *, timeout_s: float = _SETTLED_S) -> Verdict:
    """CHECK TABLESPACE on the leader, recorded as an operation "checksum" and judged.

    It is asked again while a replica does not answer; at the end that is an anomaly.
    """
    wanted = set(view.names("server"))
    deadline = time.monotonic() + timeout_s
    process = recorder.next_process()
    while True:
        sums: dict[str, str] = {}
        error = ""
        with recorder.call(process, "checksum", [view.tablespace]) as call:
            try:
                rows = view.run(view.await_leader(), f"CHECK TABLESPACE {view.tablespace}")
                sums = _checksums(rows)
                call.done(sums)
            except (psycopg.Error, ViewError) as problem:
                error = str(problem)
                call.not_done(error)
        if wanted <= set(sums) or time.monotonic() > deadline:
            break
        time.sleep(_AGAIN_S)
    verdict = check_replicas(DrillHistory([call.operation]))
    missing = sorted(wanted - set(sums))
    if missing:
        text = f"no checksum of {', '.join(missing)}: {error or 'they did not answer'}"
        verdict = Verdict.of(
            verdict.name, [*verdict.anomalies, Anomaly("replica missing", text)], verdict.summary
        )
    return verdict


def _checksums(rows: list[tuple[Any, ...]]) -> dict[str, str]:
    """By replica, the checksums of all relations in one text."""
    found: dict[str, list[str]] = {}
    for relation, node, count, checksum, *_same in rows:
        found.setdefault(str(node), []).append(f"{relation}={count}:{checksum}")
    return {node: " ".join(sorted(parts)) for node, parts in found.items()}


def left_behind(view: ClusterObserver, *, timeout_s: float = 30.0) -> tuple[Verdict, dict[str, Json]]:
    """What is in ZooKeeper and the bookies and belongs to nobody: a verdict, and the figures.

    Looked for again while something is found, for it may be about to go: sessions end, ledgers are closed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found, facts = _look(view)
        if not found or time.monotonic() > deadline:
            return Verdict.of("left behind", found, _summary(facts)), facts
        time.sleep(_AGAIN_S)


def _look(view: ClusterObserver) -> tuple[list[Anomaly], dict[str, Json]]:
    assert view.zookeeper is not None
    nodes = set(view.names("server"))
    root = f"{view.root}/tablespaces/{view.tablespace}"
    found: list[Anomaly] = []
    with ClusterZnodes(view.zookeeper) as znodes:
        own = {
            "nodes": znodes.children(f"{view.root}/nodes"),
            "beats": [beat.rpartition("-")[0] for beat in znodes.children(f"{view.root}/beats")],
            "replicas": znodes.children(f"{root}/replicas"),
        }
        for what, names in own.items():
            strange = sorted(set(names) - nodes)
            twice = sorted({one for one in names if names.count(one) > _AT_MOST.get(what, 1)})
            if strange or twice:
                found.append(Anomaly("znode left", f"{what} in ZooKeeper has {', '.join(strange + twice)}"))
        for what in ("checks", "readers"):
            rest = ", ".join(znodes.children(f"{root}/{what}"))
            found += [Anomaly("znode left", f"{root}/{what} has {rest}")] if rest else []
        listed = json.loads(znodes.read(f"{root}/ledgers") or b"{}")
    ledgers = listed.get("ledgers", [])
    there = asyncio.run(_ledgers_of(view.bookkeeper_uri, str(listed.get("log"))))
    newest = max((int(ledger["id"]) for ledger in ledgers), default=-1)
    wanted = {int(ledger["id"]) for ledger in ledgers}
    base = int((listed.get("base") or [-1])[0])
    unlisted = sorted(ledger for ledger in there if ledger not in wanted and ledger < newest)
    orphans = [ledger for ledger in unlisted if ledger > base]
    gone = sorted(wanted - set(there))
    left_open = sorted(ledger for ledger in wanted & set(there) if there[ledger] and ledger < newest)
    if gone:
        found.append(Anomaly("ledger gone", f"listed ledgers that BookKeeper does not have: {gone}"))
    if left_open:
        found.append(
            Anomaly("ledger left open", f"ledgers before the newest that are not closed: {left_open}")
        )
    terms = int(listed.get("epoch", 0))
    if len(orphans) > _ORPHANS_PER_TERM * max(1, terms):
        found.append(Anomaly("ledgers left", f"ledgers of this log that are not in its list: {orphans}"))
    facts: dict[str, Json] = {
        "ledgers": len(ledgers),
        "orphaned_ledgers": list(orphans),
        "trimmed_ledgers": len(unlisted) - len(orphans),  # a new leader deletes no other's for a minute
        "terms": terms,
        "znodes": {what: len(names) for what, names in own.items()},
    }
    return found, facts


async def _ledgers_of(uri: str, log: str) -> dict[int, bool]:
    """BookKeeper's ledgers of a log, and whether each is open still."""
    found: dict[int, bool] = {}
    async with BookKeeper(uri, settings=ClientSettings(zookeeper_timeout_s=10.0)) as bk:
        for ledger_id in await bk.list_ledgers():
            try:
                metadata = await bk.ledger_metadata(ledger_id)
            except NoSuchLedgerError:
                continue  # deleted this very moment
            if metadata.custom_metadata.get("log") == log.encode():
                found[ledger_id] = not metadata.is_closed
    return found


def _summary(facts: dict[str, Json]) -> str:
    orphans = facts["orphaned_ledgers"]
    assert isinstance(orphans, list)
    return (
        f"{facts['ledgers']} ledgers in the list, {len(orphans)} outside of it that the leader will sweep, "
        f"{facts['terms']} terms"
    )


def _lsn(text: Any) -> tuple[int, int]:
    ledger, _, entry = str(text).partition(":")
    return int(ledger), int(entry)
