"""Which promises of its isolation level did a history of list transactions break?

The method is that of Elle (Kingsbury and Alvaro, 2020): lists that only grow tell their whole history to
whoever reads them, so dependencies need not be guessed, and every phenomenon of Adya's hierarchy (1999) is
a cycle of a certain shape among them, or is seen in one read. Of each knot of cycles the worst name is
given, with its smallest cycle.

At every level a read must show elements that somebody appended, each once, and lists must only grow. Further:

    read uncommitted     no G0 (writes in a cycle)
    read committed       no G1a (aborted read), G1b (intermediate read), G1c (circular information flow)
    repeatable read,     no G-single (read skew) and no lost update, which is the G-single of one key; no long
    snapshot             fork (several anti-dependencies, none after another); reads repeat
    serializable         no G2 (any cycle of anti-dependencies, such as write skew)

With `session` the order of each client counts, with `real_time` that of all that ended before others began:
then names end in "-process" or "-realtime", but for the one that is best known as a stale read. At read
committed, where each statement reads anew, only what had ended before the whole transaction began can be
stale. Strict serializable is serializable with real time. An append that was acknowledged, and that later
ones have taken the place of in every read, is a lost append.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from herdpy.drill.checkers.cycles import Arrow, Link, Shape, find
from herdpy.drill.checkers.dependencies import Dependencies
from herdpy.drill.checkers.reads import wrong_reads
from herdpy.drill.checkers.transactions import lists_of
from herdpy.drill.history import History
from herdpy.drill.judging import Anomaly, Verdict

NAME = "lists"
STALE = "stale read"

_WRITES = Shape("G0", Link.WW, Link.WW)
_FLOW = Shape("G1c", Link.WR, Link.WW | Link.WR)
_SINGLE = Shape("G-single", Link.RW, Link.WW | Link.WR)
_FORK = Shape("long fork", Link.RW, Link.WW | Link.WR | Link.RW, lonely_rw=True)
_ANY = Shape("G2", Link.RW, Link.WW | Link.WR | Link.RW)

LEVELS: dict[str, tuple[Shape, ...]] = {
    "read uncommitted": (_WRITES,),
    "read committed": (_WRITES, _FLOW),
    "repeatable read": (_WRITES, _FLOW, _SINGLE, _FORK),
    "snapshot": (_WRITES, _FLOW, _SINGLE, _FORK),
    "serializable": (_WRITES, _FLOW, _SINGLE, _FORK, _ANY),
    "strict serializable": (_WRITES, _FLOW, _SINGLE, _FORK, _ANY),
}
"""The cycles that each isolation level forbids, worst first."""

REPEATS = ("repeatable read", "snapshot", "serializable", "strict serializable")
"""The levels at which a transaction reads the same again."""


def check(
    history: History,
    *,
    level: str = "strict serializable",
    session: bool = False,
    real_time: bool | None = None,
) -> Verdict:
    """Judge every "txn" of the history; all of them are taken to have run at `level`.

    session: the order of each client's transactions counts, too.
    real_time: so does the order of real time; None: at strict serializable alone.

    Raises: HistoryError: a transaction is not as herdpy.drill.history says. ValueError: no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"no isolation level {level!r}; there are {', '.join(LEVELS)}")
    if real_time is None:
        real_time = level == "strict serializable"
    lists = lists_of(history)
    anomalies = list(wrong_reads(lists, level, repeats=level in REPEATS))
    dependencies = Dependencies(lists, process=session, real_time=real_time)
    for shape, cycle in find(dependencies.graph, _shapes(level, session, real_time)):
        anomalies.append(_anomaly(dependencies, shape, dependencies.without_moments(cycle)))
    summary = f"{len(lists.transactions)} transactions on {len(lists.orders)} lists at {level}"
    return Verdict.of(NAME, anomalies, summary)


def _shapes(level: str, session: bool, real_time: bool) -> Iterator[Shape]:
    """The forbidden shapes, those that need neither clients nor clocks first."""
    shapes = LEVELS[level]
    yield from shapes
    for link, suffix, is_wanted in (
        (Link.PROCESS, "process", session),
        (Link.REAL_TIME, "realtime", real_time),
    ):
        for shape in _with_stale_reads(shapes, link) if is_wanted else ():
            is_stale = shape.kind == _SINGLE.kind and link == Link.REAL_TIME
            kind = STALE if is_stale else f"{shape.kind}-{suffix}"
            yield replace(shape, kind=kind, rest=shape.rest | link)


def _with_stale_reads(shapes: tuple[Shape, ...], link: Link) -> tuple[Shape, ...]:
    """Read committed forbids no G-single but that whose way back ends by `link`."""
    return shapes if _SINGLE in shapes or _FLOW not in shapes else (*shapes, replace(_SINGLE, last=link))


def _anomaly(dependencies: Dependencies, shape: Shape, cycle: list[Arrow]) -> Anomaly:
    kind = shape.kind
    keys = {dependencies.key_of(arrow) for arrow in cycle}
    links = {link for _, _, link in cycle}
    if kind == "G-single" and len(keys) == 1 and links == {Link.RW, Link.WW}:
        kind = "lost update"
    elif dependencies.shows_lost_append(cycle):
        kind = "lost append"
    operations = [dependencies.lists.transactions[node].operation for node, _, _ in cycle]
    return Anomaly(kind, dependencies.tell(cycle), operations)
