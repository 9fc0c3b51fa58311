"""Where all of a cluster's picture is: boxes of nodes, bars of logs, bookies, and the lines between them.

Pure; the template draws it as SVG. Nodes stand at the top, one bar for each tablespace's log below them, and
the bookies that store the logs at the bottom. A line from a node's replica to its log is the leader's, which
writes, or a follower's, which reads. Lengths are CSS pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NODE_WIDTH, NODE_HEAD, REPLICA_HEIGHT = 248, 58, 24
BOOKIE_WIDTH, BOOKIE_HEIGHT = 158, 44
BAR_HEIGHT, BAR_STEP = 62, 80
GAP, COLUMNS, LEAST_WIDTH = 26, 4, 700
MOST_BARS, MOST_REPLICAS, HUES = 6, 6, 6
_BLOCK_LEFT, _BLOCK_GAP, _LEAST_BLOCK, _MOST_BLOCK = 10, 3, 9, 64

Row = Mapping[str, Any]

_KINDS = {
    "leading": "leading",
    "following": "following",
    "alone": "leading",
    "away": "away",
    "quarantined": "bad",
    "ahead of the log": "bad",
    "failed": "bad",
}


_REASONS = (
    ("open", "open"),
    ("reader", "reader"),
    ("archive", "archive"),
    ("snapshot", "snapshot"),
    ("past", "the past"),
    ("retention", "retention"),
    ("replica", "replica"),
    ("replica", "checkpoint"),
)
"""What begins so keeps a ledger; the first that fits is shown."""


@dataclass(slots=True)
class ReplicaDot:
    """One line of a node's box.

    Attributes:
        kind: "leading", "following", "behind", "changing", "away", "bad": how it is drawn.
        hue: the number of its tablespace's colour. ``says``: role, or how far it is behind.
    """

    tablespace: str
    kind: str
    says: str
    hue: int
    y: int
    problem: str = ""


@dataclass(slots=True)
class NodeBox:
    """One node."""

    name: str
    address: str
    version: str
    is_here: bool
    is_away: bool
    console: str
    x: int = 0
    y: int = 0
    height: int = 0
    replicas: list[ReplicaDot] = field(default_factory=list)
    more: int = 0


@dataclass(slots=True)
class LedgerBlock:
    """One ledger in its log's bar; ``kind`` says what keeps it, ``title`` all of that."""

    x: int
    width: int
    kind: str
    title: str


@dataclass(slots=True)
class LogBar:
    """The log of one tablespace."""

    name: str
    says: str
    hue: int
    y: int
    is_led: bool
    blocks: list[LedgerBlock] = field(default_factory=list)
    hidden: int = 0


@dataclass(slots=True)
class BookieBox:
    """One bookie."""

    name: str
    state: str
    says: str
    x: int = 0
    y: int = 0


@dataclass(slots=True)
class DrawnLine:
    """From (x, y1) to (x, y2), downwards."""

    x: int
    y1: int
    y2: int
    kind: str
    hue: int


@dataclass(slots=True)
class ClusterPicture:
    """All of it."""

    width: int
    height: int
    nodes: list[NodeBox]
    bars: list[LogBar]
    bookies: list[BookieBox]
    lines: list[DrawnLine]
    more_bars: int
    says: str


def draw(
    nodes: Sequence[Row],
    replicas: Sequence[Row],
    tablespaces: Sequence[Row],
    ledgers: Sequence[Row],
    bookies: Sequence[Row],
    here: str,
    scheme: str = "http",
) -> ClusterPicture:
    """Lay a cluster out.

    Args:
        nodes, replicas, tablespaces, ledgers, bookies: rows of the tables of these names in schema herdpy; of
            a server that is alone the first two and the last are empty.
        here: what this server is called where it is no node. ``scheme``: of the nodes' consoles.
    """
    boxes = _nodes(nodes, replicas, here, scheme)
    shown = list(tablespaces[:MOST_BARS])
    hues = {one["name"]: number % HUES for number, one in enumerate(shown)}
    for box in boxes:
        _fill(box, _replicas_of(box, replicas, tablespaces, alone=not nodes), hues)
    columns = min(max(len(boxes), 1), COLUMNS)
    width = max(columns * (NODE_WIDTH + GAP) - GAP, LEAST_WIDTH)
    bottom = _place(boxes, columns, width)
    bars = [_bar(one, hues[one["name"]], bottom + 52 + number * BAR_STEP) for number, one in enumerate(shown)]
    for bar in bars:
        bar.blocks, bar.hidden = _blocks([one for one in ledgers if one["tablespace"] == bar.name], width)
    stored = [BookieBox(one["bookie"], one["state"], _bookie_says(one)) for one in bookies]
    top = (bars[-1].y + BAR_HEIGHT if bars else bottom) + 44
    height = _place_bookies(stored, top, width)
    lines = [*_node_lines(boxes, bars), *_bookie_lines(stored, bars, ledgers)]
    return ClusterPicture(
        width,
        height,
        boxes,
        bars,
        stored,
        lines,
        len(tablespaces) - len(shown),
        _in_words(boxes, bars, stored),
    )


def _nodes(nodes: Sequence[Row], replicas: Sequence[Row], here: str, scheme: str) -> list[NodeBox]:
    if not nodes:
        return [NodeBox(here, "alone", "", True, False, "")]
    found = [
        NodeBox(
            one["node"],
            one["sql_address"] or "",
            one["version"] or "",
            bool(one["is_here"]),
            False,
            "" if one["is_here"] or not one["http_address"] else f"{scheme}://{one['http_address']}/console/",
        )
        for one in nodes
    ]
    there = {box.name for box in found}
    gone = dict.fromkeys(one["node"] for one in replicas if one["node"] not in there)
    return found + [NodeBox(name, "not in the cluster now", "", False, True, "") for name in gone]


def _replicas_of(
    box: NodeBox, replicas: Sequence[Row], tablespaces: Sequence[Row], *, alone: bool
) -> list[Row]:
    if not alone:
        return [one for one in replicas if one["node"] == box.name]
    return [
        {"tablespace": one["name"], "state": "alone", "is_leader": True, "lag_entries": 0, "problem": None}
        for one in tablespaces
    ]


def _fill(box: NodeBox, replicas: Sequence[Row], hues: Mapping[str, int]) -> None:
    for number, one in enumerate(replicas[:MOST_REPLICAS]):
        kind, says = _state(one)
        y = NODE_HEAD + number * REPLICA_HEIGHT + REPLICA_HEIGHT // 2
        hue = hues.get(one["tablespace"], HUES)
        box.replicas.append(ReplicaDot(one["tablespace"], kind, says, hue, y, one["problem"] or ""))
    box.more = max(len(replicas) - MOST_REPLICAS, 0)
    box.height = NODE_HEAD + len(box.replicas) * REPLICA_HEIGHT + (18 if box.more else 0) + 8


def _state(one: Row) -> tuple[str, str]:
    """How a replica is drawn, and what stands beside it."""
    state, lag = one["state"], one["lag_entries"] or 0
    if one["is_leader"] and state in ("leading", "alone"):
        return "leading", "leads" if state == "leading" else "alone"
    kind = _KINDS.get(state, "changing")
    if kind == "following":
        return ("behind", f"{lag:,} behind") if lag > 100 else ("following", "follows")
    return kind, state


def _place(boxes: Sequence[NodeBox], columns: int, width: int) -> int:
    """Put nodes into rows; where the last one ends."""
    y = 0
    for start in range(0, len(boxes), columns):
        row = boxes[start : start + columns]
        left = (width - len(row) * (NODE_WIDTH + GAP) + GAP) // 2
        height = max(box.height for box in row)
        for number, box in enumerate(row):
            box.x, box.y, box.height = left + number * (NODE_WIDTH + GAP), y, height
        y += height + GAP
    return y - GAP


def _bar(one: Row, hue: int, y: int) -> LogBar:
    leader = one.get("leader")
    if one["state"] == "alone":
        says = "files of this server"
    elif leader is None:
        says = one["state"]
    else:
        says = f"led by {leader}, term {one['epoch']}"
    return LogBar(one["name"], says, hue, y, one["state"] in ("led", "alone"))


def _blocks(ledgers: Sequence[Row], width: int) -> tuple[list[LedgerBlock], int]:
    """The newest ledgers as far as there is room, oldest first; and how many are not shown."""
    room = width - 2 * _BLOCK_LEFT
    found: list[tuple[int, Row]] = []
    for one in reversed(ledgers):
        length = one["length_bytes"] or 0
        part = math.log10(max(length, 1) / 1e4) / 4 if length else 0.0
        size = round(_LEAST_BLOCK + (_MOST_BLOCK - _LEAST_BLOCK) * min(max(part, 0.0), 1.0))
        size = _MOST_BLOCK if one["state"] == "open" else size
        if room < size + _BLOCK_GAP:
            break
        room -= size + _BLOCK_GAP
        found.append((size, one))
    blocks, x = [], _BLOCK_LEFT
    for size, one in reversed(found):
        blocks.append(LedgerBlock(x, size, keeping(one["kept_by"]), _ledger_says(one)))
        x += size + _BLOCK_GAP
    return blocks, len(ledgers) - len(found)


def keeping(kept_by: str | None) -> str:
    """The most telling reason why a ledger is there, as the colour of its block."""
    reasons = (kept_by or "").split(", ")
    if any(one.endswith("(away)") for one in reasons):
        return "away"
    for kind, beginning in _REASONS:
        if any(one.startswith(beginning) for one in reasons):
            return kind
    return "free"


def _ledger_says(one: Row) -> str:
    size = "" if one["length_bytes"] is None else f", {one['length_bytes']:,} bytes"
    why = one["kept_by"] or "nothing: it goes soon"
    return f"ledger {one['ledger_id']}{size}; kept by {why}"


def _bookie_says(one: Row) -> str:
    logs = one["open_ledgers"]
    return one["state"] if one["state"] != "writable" else f"{logs} open ledger{'' if logs == 1 else 's'}"


def _place_bookies(bookies: Sequence[BookieBox], top: int, width: int) -> int:
    columns = max((width + GAP) // (BOOKIE_WIDTH + GAP), 1)
    y = top
    for start in range(0, len(bookies), columns):
        row = bookies[start : start + columns]
        left = (width - len(row) * (BOOKIE_WIDTH + GAP) + GAP) // 2
        for number, one in enumerate(row):
            one.x, one.y = left + number * (BOOKIE_WIDTH + GAP), y
        y += BOOKIE_HEIGHT + GAP
    return y - (GAP if bookies else 44)


def _node_lines(boxes: Iterable[NodeBox], bars: Sequence[LogBar]) -> list[DrawnLine]:
    lines = []
    for box in boxes:
        by_name = {one.tablespace: one for one in box.replicas}
        for number, bar in enumerate(bars):
            one = by_name.get(bar.name)
            if one is not None:
                x = box.x + 24 + number * 26
                lines.append(DrawnLine(x, box.y + box.height, bar.y, one.kind, bar.hue))
    return lines


def _bookie_lines(
    bookies: Sequence[BookieBox], bars: Sequence[LogBar], ledgers: Sequence[Row]
) -> list[DrawnLine]:
    ensembles = {
        one["tablespace"]: one["bookies"].split(",")
        for one in ledgers
        if one["state"] == "open" and one["bookies"]
    }
    return [
        DrawnLine(one.x + 22 + number * 20, bar.y + BAR_HEIGHT, one.y, "stored", bar.hue)
        for one in bookies
        for number, bar in enumerate(bars)
        if one.name in ensembles.get(bar.name, ())
    ]


def _in_words(boxes: Sequence[NodeBox], bars: Sequence[LogBar], bookies: Sequence[BookieBox]) -> str:
    """The picture for those who hear it; the tables below it have the rest."""
    parts = [
        f"{box.name}: " + ", ".join(f"{one.tablespace} {one.says}" for one in box.replicas) for box in boxes
    ]
    logs = "; ".join(f"log of {bar.name}, {bar.says}" for bar in bars)
    return f"{'; '.join(parts)}. {logs}. {len(bookies)} bookies."
