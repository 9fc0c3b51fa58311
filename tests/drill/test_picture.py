"""Pictures: well-formed, complete, small however long the history is, and with no text on another one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.picture import axis_of, picture_of, style
from herdpy.drill.picture.sheet import Axis, multiples, round_up
from herdpy.drill.picture.svg import Canvas, fitted, text_width
from herdpy.drill.report import DrillReport
from herdpy.drill.timeline import timeline_of
from tests.drill.synthetic import KILL, STORM, Outage, outage_history, write_skew

SVG = "{http://www.w3.org/2000/svg}"
GOOD = Verdict("registers", True, "linearizable: 8,112 operations over 10 keys")
BAD = Verdict.of("list-append", [write_skew()], "31 transactions")


def report(history: DrillHistory, *verdicts: Verdict, drill: str = "kill-leader", **more) -> DrillReport:
    return DrillReport(
        drill=drill,
        seed=17,
        history=history,
        verdicts=verdicts,
        timeline=timeline_of(history),
        **{
            "about": "The leader is killed.",
            "setting": ["8 clients"],
            "replay": ("herdpy", "drill", drill, "--seed", "17"),
            **more,
        },
    )


def many_faults() -> DrillHistory:
    """More faults than have room on a row, with long names, to the very end."""
    outages = [
        Outage(f"lose-bookie-disk-{number}", "of a bookie " * 20, number, number, number + 4.5, "server-3")
        for number in range(27)
    ]
    return outage_history(*outages, clients=2, pause_s=0.2)


LONG = [
    ClientOperation(
        number % 9, "members", [], [*range(number * 10)], OperationOutcome.DONE, number / 2, number / 2 + 3.25
    )
    for number in range(27)
]
CASES = {
    "valid": report(outage_history(KILL), GOOD),
    "violated": report(outage_history(KILL), GOOD, BAD, smallest=write_skew().operations),
    "storm": report(outage_history(*STORM, seconds=60, followers=True), GOOD, drill="storm"),
    "many faults": report(many_faults(), GOOD),
    "long words": report(
        outage_history(KILL),
        Verdict.of("registers" * 3, [Anomaly("lost", "x" * 900, LONG)], "y" * 400),
        drill="a-drill-of-a-rather-long-name",
        about="About " * 60,
        smallest=LONG,
        skipped=[("slow-disk", "z" * 300)],
        replay=["herdpy", "drill", "w" * 300],
    ),
    "nothing": report(DrillHistory()),
    "a moment": report(
        DrillHistory([ClientOperation(1, "add", [1], None, OperationOutcome.DONE, 0.0, 0.0)]), GOOD
    ),
}


def texts_of(picture: str) -> list[ET.Element]:
    return list(ET.fromstring(picture).iter(f"{SVG}text"))


def words_of(picture: str) -> list[str]:
    """The texts, without the hints that only a pointer shows."""
    return ["".join(child.tail or "" for child in one) or (one.text or "") for one in texts_of(picture)]


def box(one: ET.Element, words: str) -> tuple[float, float, float, float]:
    """About where a text is: left, top, right, bottom."""
    x, y, size = (float(one.attrib[name]) for name in ("x", "y", "font-size"))
    # A little less than it may take: the estimate is on the safe side.
    width = 0.9 * text_width(words, size, bold="font-weight" in one.attrib, mono="font-family" in one.attrib)
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[one.get("text-anchor", "start")]
    return left, y - 0.7 * size, left + width, y


@pytest.mark.parametrize("name", CASES)
def test_no_text_lies_on_another_or_outside(name):
    picture = picture_of(CASES[name])
    root = ET.fromstring(picture)
    boxes = [
        (words, box(one, words)) for one, words in zip(texts_of(picture), words_of(picture), strict=True)
    ]
    for words, (left, top, right, bottom) in boxes:
        assert left >= 0, words
        assert right <= style.WIDTH, words
        assert 0 <= top < bottom <= float(root.attrib["height"]), words
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{one!r} lies on {other!r}"


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_drawn_beside_the_paper(name):
    root = ET.fromstring(picture_of(CASES[name]))
    height = float(root.attrib["height"])
    for one in root.iter(f"{SVG}rect"):
        x, y, width, tall = (float(one.get(side, 0)) for side in ("x", "y", "width", "height"))
        assert min(x, y, width, tall) >= 0
        assert x + width <= style.WIDTH
        assert y + tall <= height


def test_a_valid_drill_shows_its_lanes():
    words = words_of(picture_of(CASES["valid"]))
    lanes = ["faults", "leader", "operations", "latency", "silence", "unknown", "checks"]
    assert [one for one in words if one in lanes and one != "unknown"] == [x for x in lanes if x != "unknown"]
    assert {"VALID", "1 of 1 check passed", "kill-leader", "server-1 leads", "server-2 leads"} <= {*words}
    assert "violations" not in words


def test_a_violation_shows_its_operations():
    picture = picture_of(CASES["violated"])
    words = words_of(picture)
    assert {"VIOLATED", "1 of 2 checks passed", "violations"} <= {*words}
    for number, client in enumerate(("client 3", "client 5", "client 14", "client 2"), 1):
        assert str(number) in words
        assert words.count(client) == 2  # its row in the picture, and its line in the list
    assert "append x 7; read y → [1]" in words
    assert "unknown, never resolved" in words
    marks = [one for one in ET.fromstring(picture).iter(f"{SVG}rect") if one.attrib["fill"] == style.VIOLATED]
    axis = axis_of(CASES["violated"])
    assert float(marks[0].attrib["x"]) == pytest.approx(axis.x(15.0312) - 1.5, abs=0.1)


def test_what_was_not_shown_is_not_called_valid():
    words = words_of(picture_of(CASES["nothing"]))
    assert "SKIPPED" in words
    assert "VALID" not in words


def test_a_hundred_thousand_operations_make_no_larger_picture():
    small = picture_of(report(outage_history(KILL, clients=8, pause_s=0.3), GOOD))
    once = outage_history(KILL)
    history = DrillHistory(once.operations * 25, once.events)
    assert len(history) > 100_000
    large = picture_of(report(history, GOOD))
    assert len(large) < 100_000
    assert len(list(ET.fromstring(large).iter())) < len(list(ET.fromstring(small).iter())) + 40


def test_rates_add_up_to_what_was_answered():
    """The area of the writes is their number."""
    given = CASES["valid"]
    axis = axis_of(given)
    root = ET.fromstring(picture_of(given))
    writes = next(one for one in root.iter(f"{SVG}path") if one.attrib["fill"] == style.WRITES)
    heights = [float(part.split("h")[0]) for part in writes.attrib["d"].split("v")[1:]]
    ticks = {
        words: float(one.attrib["y"])
        for one, words in zip(texts_of(picture_of(given)), words_of(picture_of(given)), strict=True)
        if words in ("50", "100")
    }
    pixels_per_rate = (ticks["50"] - ticks["100"]) / 50
    counted = sum(heights) / pixels_per_rate * axis.bin_s
    expected = sum(one.count for kinds in given.timeline.latencies.values() for one in [kinds["write"]])
    assert counted == pytest.approx(expected, rel=0.02)


def test_texts_are_escaped():
    history = outage_history(KILL, clients=2)
    history.events.append(Event(1.0, "fault-begin", '</svg><script>"&\x00', {"fault": "<b>"}))
    picture = picture_of(report(history, GOOD, drill="<&'\">"))
    assert "<&'\">" in words_of(picture)
    assert "script" not in {one.tag.removeprefix(SVG) for one in ET.fromstring(picture).iter()}


def test_the_axis():
    axis = Axis(0.0, 30.0, 100.0, 400.0)
    assert (axis.x(0), axis.x(15), axis.x(99), axis.x(-1)) == (100, 250, 400, 100)
    assert (axis.bin_s, axis.bins, axis.bin_of(30.0)) == (0.2, 150, 149)
    assert axis.ticks == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
    assert (round_up(0.16, (1, 2, 5)), round_up(20.0, (1, 2, 5)), round_up(6.0, (1, 2, 5))) == (0.2, 20, 10)
    assert multiples(0.1, 0.3) == pytest.approx([0, 0.1, 0.2, 0.3])


def test_an_axis_that_begins_later():
    axis = Axis(4.0, 24.0, 100.0, 300.0)
    assert (axis.x(4.0), axis.x(9.0), axis.x(0.0)) == (100, 150, 100)
    assert (axis.bin_s, axis.bins, axis.bin_of(4.05), axis.bin_of(5.0)) == (0.2, 100, 0, 5)
    assert axis.ticks == [4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]
    assert axis.bin_ends(5) == (110.0, 112.0)


def test_what_does_not_fit_is_cut():
    assert fitted("short", 100, 12) == "short"
    cut = fitted("a text that is too long", 60, 12)
    assert cut.endswith("…")
    assert text_width(cut, 12) <= 60


def test_a_canvas_draws_what_is_under_first():
    canvas = Canvas(10)
    canvas.text(1, 1, "over")
    canvas.rect(0, 0, 1, 1, "red", under=True)
    picture = canvas.document(5, title="t", about="a", background="white")
    assert picture.index("red") < picture.index("over")
