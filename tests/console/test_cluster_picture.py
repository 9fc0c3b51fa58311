"""Where things are in the picture of a cluster, and what it says of them."""

from __future__ import annotations

import itertools

import pytest

from herdpy_server.console.cluster_picture import (
    BAR_HEIGHT,
    BOOKIE_WIDTH,
    MOST_BARS,
    MOST_REPLICAS,
    NODE_WIDTH,
    draw,
    keeping,
)


def node(name: str, *, here: bool = False) -> dict:
    return {
        "node": name,
        "sql_address": f"{name}:5432",
        "http_address": f"{name}:8480",
        "version": "1",
        "is_here": here,
    }


def replica(tablespace: str, name: str, state: str = "following", **more: object) -> dict:
    found = {"tablespace": tablespace, "node": name, "state": state, "is_leader": state == "leading"}
    return {**found, "lag_entries": 0, "problem": None, **more}


def tablespace(name: str, leader: str | None = "a") -> dict:
    return {"name": name, "leader": leader, "epoch": 3, "state": "led" if leader else "without leader"}


def ledger(of: str, number: int, *, kept_by: str | None = "retention", length: int | None = 1 << 20) -> dict:
    state = "open" if kept_by == "open" else "closed"
    return {
        "tablespace": of, "ledger_id": number, "state": state, "kept_by": kept_by,
        "length_bytes": None if state == "open" else length, "bookies": "b1,b2" if state == "open" else None,
    }  # fmt: skip


def bookie(name: str, state: str = "writable") -> dict:
    return {"bookie": name, "state": state, "open_ledgers": 1}


def draw_cluster(nodes=3, tablespaces=2, bookies=3, ledgers=5):
    names = [f"n{number}" for number in range(nodes)]
    spaces = [f"t{number}" for number in range(tablespaces)]
    return draw(
        [node(name, here=name == "n0") for name in names],
        [
            replica(space, name, "leading" if name == "n0" else "following")
            for space in spaces
            for name in names
        ],
        [tablespace(space, "n0") for space in spaces],
        [
            ledger(space, number, kept_by="open" if number == ledgers - 1 else "retention")
            for space in spaces
            for number in range(ledgers)
        ],
        [bookie(f"b{number}") for number in range(bookies)],
        "",
    )  # fmt: skip


@pytest.mark.parametrize("nodes", [1, 3, 4, 5, 9, 30])
@pytest.mark.parametrize("tablespaces", [0, 1, 7, 40])
@pytest.mark.parametrize("bookies", [0, 3, 17])
def test_nothing_lies_on_another_or_outside(nodes, tablespaces, bookies):
    found = draw_cluster(nodes, tablespaces, bookies, ledgers=200)
    boxes = [(one.x, one.y, NODE_WIDTH, one.height) for one in found.nodes]
    boxes += [(0, one.y, found.width, BAR_HEIGHT) for one in found.bars]
    boxes += [(one.x, one.y, BOOKIE_WIDTH, 44) for one in found.bookies]
    for x, y, width, height in boxes:
        assert x >= 0 <= y
        assert x + width <= found.width
        assert y + height <= found.height
    for one, other in itertools.combinations(boxes, 2):
        apart_x = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
        apart_y = one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
        assert apart_x or apart_y
    assert (len(found.bars), found.more_bars) == (
        min(tablespaces, MOST_BARS),
        max(tablespaces - MOST_BARS, 0),
    )
    for box in found.nodes:
        assert (len(box.replicas), box.more) == (
            min(tablespaces, MOST_REPLICAS),
            max(tablespaces - MOST_REPLICAS, 0),
        )
    for bar in found.bars:
        assert bar.hidden == 200 - len(bar.blocks) > 0
        assert bar.blocks[-1].x + bar.blocks[-1].width <= found.width
        assert bar.blocks[-1].kind == "open"


def test_lines_say_what_a_replica_does():
    nodes = [node("a", here=True), node("b"), node("c")]
    replicas = [
        replica("t", "a", "leading"), replica("t", "b", lag_entries=5000), replica("t", "c", "seeding"),
        replica("t", "gone", "away"),
    ]  # fmt: skip
    found = draw(
        nodes, replicas, [tablespace("t")], [ledger("t", 1, kept_by="open")], [bookie("b1"), bookie("b3")], ""
    )
    assert [one.kind for one in found.lines] == ["leading", "behind", "changing", "away", "stored"]
    assert [one.name for one in found.nodes if one.is_away] == ["gone"]
    assert [one.replicas[0].says for one in found.nodes] == ["leads", "5,000 behind", "seeding", "away"]
    assert [one.console for one in found.nodes] == [
        "",
        "http://b:8480/console/",
        "http://c:8480/console/",
        "",
    ]


def test_a_tablespace_without_a_leader_is_seen():
    found = draw([node("a")], [replica("t", "a")], [tablespace("t", None)], [], [], "")
    assert [(bar.is_led, bar.says) for bar in found.bars] == [(False, "without leader")]


def test_a_server_that_is_alone_is_its_own_cluster():
    found = draw([], [], [{"name": "t", "state": "alone"}], [ledger("t", 1, kept_by="open")], [], "shop")
    assert [(one.name, one.is_here, one.replicas[0].says) for one in found.nodes] == [("shop", True, "alone")]
    assert [bar.says for bar in found.bars] == ["files of this server"]


@pytest.mark.parametrize(
    ("kept_by", "kind"),
    [
        ("open", "open"),
        ("retention", "retention"),
        ("retention, replica a (away), reader: spark", "away"),
        ("checkpoint, reader: a, b", "reader"),
        ("archive, retention, replica b", "archive"),
        ("the past on b, replica b", "past"),
        ("snapshot, retention", "snapshot"),
        ("replica b", "replica"),
        (None, "free"),
    ],
)  # fmt: skip
def test_the_most_telling_reason_gives_the_colour(kept_by, kind):
    assert keeping(kept_by) == kind
