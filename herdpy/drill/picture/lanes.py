"""Lanes over the time axis: faults and leaders; rates, latencies, silences, unknown outcomes of clients.

Operations are counted in bins of the time axis (and of latency), so that a hundred thousand of them make the
same picture, and as small a file, as a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from herdpy.drill import words
from herdpy.drill.felt import percentile
from herdpy.drill.history import OperationOutcome
from herdpy.drill.picture import style
from herdpy.drill.picture.sheet import Axis, Sheet, multiples, round_up
from herdpy.drill.picture.svg import cell, fitted, point, text_width
from herdpy.drill.report import bin_words
from herdpy.drill.timeline import FOLLOWER_READ, KINDS, FaultSpan, Gap, gaps_of

_BAR = 18
_ROW = 24
_LABEL = 11.5
_NOBODY = "url(#nobody)"


def draw_fault_bands(sheet: Sheet, top: float, bottom: float) -> None:
    """A pale ground under all lanes wherever any fault is there."""
    line = sheet.report.timeline
    for begin_s, end_s in _union(line.faults, line.seconds):
        x, end = sheet.axis.x(begin_s), sheet.axis.x(end_s)
        sheet.canvas.rect(x, top, max(end - x, 1.5), bottom - top, style.FAULT_PALE, under=True)


def draw_faults(sheet: Sheet, top: float) -> float:
    """A bar for each fault, on as many rows as it takes to name them all."""
    canvas, axis, line = sheet.canvas, sheet.axis, sheet.report.timeline
    placed = list(_packed(line.faults, axis, line.seconds))
    rows = max((row for _fault, row in placed), default=0) + 1
    sheet.lane(top, top + rows * _ROW + 4, "faults")
    if not placed:
        canvas.text(axis.left + 8, top + 14, "none", size=_LABEL, fill=style.MUTED)
    for fault, row in placed:
        y = top + row * _ROW
        x, end = _ends(fault, axis, line.seconds)
        until = "the end" if fault.end_s is None else words.moment(fault.end_s)
        span = f"{words.moment(fault.begin_s)} to {until}"
        canvas.rect(
            x,
            y,
            end - x,
            _BAR,
            style.FAULT,
            radius=3,
            hint=f"{fault.name}, {span}: {fault.text}".removesuffix(": "),
        )
        _fault_label(sheet, fault, x, end, y + 13)
    return top + rows * _ROW + 4


def _fault_label(sheet: Sheet, fault: FaultSpan, x: float, end: float, y: float) -> None:
    """Inside the bar where its name has room there; otherwise beside it."""
    full, inside = f"{fault.name}: {fault.text}".removesuffix(": "), end - x - 10
    if text_width(fault.name, _LABEL, bold=True) <= inside:
        sheet.canvas.text(x + 6, y, fault.name, size=_LABEL, bold=True, fill=style.PAPER, hint=full)
        more = inside - text_width(fault.name, _LABEL, bold=True) - 10
        if more > 60 and fault.text:
            text = fitted(fault.text, more, _LABEL)
            sheet.canvas.text(end - more - 4, y, text, size=_LABEL, fill=style.PAPER)
        return
    width = text_width(fault.name, _LABEL)
    if end + 5 + width <= sheet.axis.right:
        sheet.canvas.text(end + 5, y, fault.name, size=_LABEL, fill=style.FAULT_INK, hint=full)
    else:
        sheet.canvas.text(x - 5, y, fault.name, size=_LABEL, fill=style.FAULT_INK, anchor="end", hint=full)


def _ends(fault: FaultSpan, axis: Axis, seconds: float) -> tuple[float, float]:
    x = axis.x(fault.begin_s)
    return x, max(axis.x(seconds if fault.end_s is None else fault.end_s), x + 4)


def _packed(faults: Sequence[FaultSpan], axis: Axis, seconds: float) -> Iterator[tuple[FaultSpan, int]]:
    """Each fault with the first row on which it and its name have room."""
    taken: list[float] = []
    for fault in sorted(faults, key=lambda one: one.begin_s):
        x, end = _ends(fault, axis, seconds)
        width = text_width(fault.name, _LABEL, bold=True)
        begin, until = x, end
        if width > end - x - 10:
            begin, until = (x, end + 5 + width) if end + 5 + width <= axis.right else (x - 5 - width, end)
        row = next((row for row, used in enumerate(taken) if used <= begin), len(taken))
        if row == len(taken):
            taken.append(0.0)
        taken[row] = until + 6
        yield fault, row


def _union(faults: Sequence[FaultSpan], seconds: float) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    for fault in sorted(faults, key=lambda one: one.begin_s):
        end_s = seconds if fault.end_s is None else fault.end_s
        if spans and fault.begin_s <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end_s))
        else:
            spans.append((fault.begin_s, end_s))
    return spans


def draw_leaders(sheet: Sheet, top: float) -> float:
    """A row for each server that led; where nobody did, all rows are hatched."""
    canvas, axis, line = sheet.canvas, sheet.axis, sheet.report.timeline
    servers = sorted({reign.server for reign in line.reigns if reign.server is not None})
    rows = max(1, len(servers))
    bottom = top + rows * _ROW + 4
    sheet.lane(top, bottom, "leader")
    canvas.define(
        '<pattern id="nobody" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="{style.PANEL}"/>'
        f'<rect width="2" height="6" fill="{style.REFUSED}"/></pattern>'
    )
    for row, server in enumerate(servers):
        canvas.text(
            axis.left - 8, top + row * _ROW + 13, fitted(server, 100, 11), size=11, anchor="end", hint=server
        )
    if not line.reigns:
        canvas.text(axis.left + 8, top + 14, "not known", size=_LABEL, fill=style.MUTED)
    for reign in line.reigns:
        end_s = line.seconds if reign.end_s is None else reign.end_s
        x, end = axis.x(reign.begin_s), axis.x(end_s)
        span = f"{words.moment(reign.begin_s)} to {words.moment(end_s)}"
        if reign.server is None:
            canvas.rect(x, top, max(end - x, 1.5), bottom - top - 5, _NOBODY, hint=f"no node led from {span}")
            label = f"no leader for {words.seconds(end_s - reign.begin_s)}"
            if text_width(label, 11) + 10 < end - x and rows > 0:
                middle, y = (x + end) / 2, top + (bottom - top - 5) / 2
                width = text_width(label, 11) + 4
                canvas.rect(middle - width / 2, y - 9, width, 17, style.PAPER, radius=3)
                canvas.text(middle, y + 4, label, size=11, anchor="middle")
            continue
        row = servers.index(reign.server)
        colour = style.SERVERS[row % len(style.SERVERS)]
        y = top + row * _ROW
        canvas.rect(x, y, max(end - x, 1.5), _BAR, colour, radius=3, hint=f"{reign.server} led from {span}")
        if text_width(f"{reign.server} leads", _LABEL) + 12 < end - x:
            canvas.text(x + 7, y + 13, f"{reign.server} leads", size=_LABEL, fill=style.PAPER)
    return bottom


# The clients.

_RATES = 120
_LATENCIES = 150
_LATENCY_HEIGHT = _LATENCIES - 6
_LATENCY_ROWS = 30
_SHORTEST_S = 1e-5
_LOAD_ROW = 20
_SILENCE_S = 0.5


def draw_rates(sheet: Sheet, top: float) -> float:
    """Answers a second, stacked: writes, reads, what was refused, what is unknown."""
    canvas, axis = sheet.canvas, sheet.axis
    bottom = top + _RATES
    follower_reads = [("box", style.FOLLOWER_READS, "follower reads")] * (
        FOLLOWER_READ in sheet.report.timeline.kinds
    )
    sheet.lane(top, bottom, "operations", "a second")
    sheet.legend(
        top + 50,
        [
            ("box", style.WRITES, "writes acknowledged"),
            ("box", style.READS, "reads answered"),
            *follower_reads,
            ("box", style.REFUSED, "not done"),
            ("box", style.UNKNOWN, "unknown"),
        ],
    )
    layers = _counts(sheet)
    highest = max((sum(counts) for counts in zip(*layers, strict=True)), default=0) / axis.bin_s
    if not highest:
        return bottom
    step = round_up(highest / 4, (1, 2, 2.5, 5))
    scale = (_RATES - 6) / max(highest, step)
    for value in multiples(step, highest)[1:]:
        y = bottom - value * scale
        canvas.line(axis.left, y, axis.right, y, style.GRID, under=True)
        canvas.text(
            axis.left - 8,
            y + 4,
            f"{value:,.0f}" if step >= 1 else f"{value:g}",
            size=10.5,
            fill=style.MUTED,
            anchor="end",
        )
    ground = [0.0] * axis.bins
    colours = (style.WRITES, style.READS, style.FOLLOWER_READS, style.REFUSED, style.UNKNOWN)
    for counts, colour in zip(layers, colours, strict=True):
        cells = []
        for number, count in enumerate(counts):
            if count:
                height = count / axis.bin_s * scale
                x, end = sheet.axis.bin_ends(number)
                cells.append(cell(x, bottom - ground[number] - height, end - x, height))
                ground[number] += height
        canvas.path(cells, fill=colour)
    return bottom


def _counts(sheet: Sheet) -> list[list[int]]:
    """For each layer, how many operations returned in each bin."""
    layers = [[0] * sheet.axis.bins for _ in range(len(KINDS) + 2)]
    for kind, operations in sheet.by_kind.items():
        layer_of = {
            OperationOutcome.DONE: layers[KINDS.index(kind)],
            OperationOutcome.NOT_DONE: layers[-2],
            OperationOutcome.UNKNOWN: layers[-1],
        }
        for one in operations:
            layer_of[one.outcome][sheet.axis.bin_of(one.returned_s)] += 1
    return layers


def draw_latencies(sheet: Sheet, top: float) -> float:
    """How long answers took, by when they were asked for: a map of how many, and p50 and p99 of each bin."""
    canvas, axis = sheet.canvas, sheet.axis
    bottom = top + _LATENCIES
    sheet.lane(top, bottom, "latency", "by moment of call")
    sheet.legend(
        top + 50,
        [
            ("box", style.HEAT[1], "few operations"),
            ("box", style.HEAT[4], "many"),
            ("line", style.MEDIAN, "half are faster"),
            ("line", style.TAIL, "99 % are faster"),
        ],
    )
    taken = _taken(sheet)
    found = [value for values in taken for value in values]
    if not found:
        return bottom
    scale = _LogScale.of(found, bottom)
    for power in range(scale.low, math.floor(scale.high) + 1):
        y = scale.y(10.0**power)
        canvas.line(axis.left, y, axis.right, y, style.GRID, under=True)
        if power > scale.low or scale.high - scale.low < 3:
            canvas.text(axis.left - 8, y + 4, _power(power), size=10.5, fill=style.MUTED, anchor="end")
    _heat(sheet, taken, scale)
    for part, colour in ((0.5, style.MEDIAN), (0.99, style.TAIL)):
        canvas.path(_curve(sheet, taken, part, scale), stroke=colour, width=1.6)
    return bottom


@dataclass(frozen=True)
class _LogScale:
    """From 10**low seconds at the bottom of the lane to 10**high at its top."""

    low: int
    high: float
    bottom: float

    @classmethod
    def of(cls, values: Sequence[float], bottom: float) -> _LogScale:
        low = math.floor(math.log10(min(values)))
        return cls(low, max(math.ceil(math.log10(max(values)) * 4) / 4, low + 1), bottom)

    def part(self, value: float) -> float:
        """How far up, from 0 to 1."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def y(self, value: float) -> float:
        """Where it stands."""
        return self.bottom - self.part(value) * _LATENCY_HEIGHT


def _taken(sheet: Sheet) -> list[list[float]]:
    """Of each bin, how long the answers took that were asked for in it."""
    taken: list[list[float]] = [[] for _ in range(sheet.axis.bins)]
    for one in chain.from_iterable(sheet.by_kind.values()):
        if one.outcome is OperationOutcome.DONE:
            taken[sheet.axis.bin_of(one.called_s)].append(max(one.returned_s - one.called_s, _SHORTEST_S))
    return taken


def _heat(sheet: Sheet, taken: Sequence[Sequence[float]], scale: _LogScale) -> None:
    counts: dict[tuple[int, int], int] = {}
    for number, values in enumerate(taken):
        for value in values:
            place = number, min(int(scale.part(value) * _LATENCY_ROWS), _LATENCY_ROWS - 1)
            counts[place] = counts.get(place, 0) + 1
    most = max(counts.values())
    shades: list[list[str]] = [[] for _ in style.HEAT]
    height = _LATENCY_HEIGHT / _LATENCY_ROWS
    for (number, row), count in counts.items():
        shade = int(math.log(count) / math.log(most + 1) * len(style.HEAT))
        x, end = sheet.axis.bin_ends(number)
        shades[shade].append(cell(x, scale.bottom - (row + 1) * height, end - x, height))
    for cells, colour in zip(shades, style.HEAT, strict=True):
        sheet.canvas.path(cells, fill=colour)


def _curve(sheet: Sheet, taken: Sequence[Sequence[float]], part: float, scale: _LogScale) -> list[str]:
    """A percentile of each bin, as a line that is broken where there was no answer."""
    commands: list[str] = []
    is_drawing = False
    for number, values in enumerate(taken):
        value = percentile(sorted(values), part)
        if value is not None:
            x, end = sheet.axis.bin_ends(number)
            place = (x + end) / 2, scale.y(value)
            commands.append(point("L" if is_drawing else "M", *place))
            if not is_drawing:  # a dot, if it stays alone
                commands.append(point("L", place[0] + 0.5, place[1]))
        is_drawing = value is not None
    return commands


def _power(power: int) -> str:
    """Ten to a power, of seconds, in words."""
    if power >= 0:
        return f"{10**power:,} s"
    return f"{10.0 ** (power + 3):g} ms"


def draw_silences(sheet: Sheet, top: float) -> float:
    """Where clients tried and nobody was answered, of each kind; the longest one is named."""
    axis, line = sheet.axis, sheet.report.timeline
    bottom = top + len(sheet.by_kind) * _LOAD_ROW + 4
    sheet.lane(top, bottom, "silence")
    for row, (kind, found) in enumerate(sheet.by_kind.items()):
        y = top + row * _LOAD_ROW
        sheet.canvas.text(axis.left - 8, y + 11, f"{kind}s", size=11, anchor="end")
        for gap in gaps_of(found):
            if gap.seconds >= max(axis.bin_s, _SILENCE_S):
                _silence(sheet, gap, kind, y)
        longest = line.gaps[kind]
        if longest is not None and longest.seconds >= max(axis.bin_s, _SILENCE_S):
            _silence_label(sheet, longest, kind, y + 11)
    return bottom


def _silence(sheet: Sheet, gap: Gap, kind: str, y: float) -> None:
    x, end = sheet.axis.x(gap.begin_s), sheet.axis.x(gap.end_s)
    hint = f"no {kind} was answered from {words.moment(gap.begin_s)} to {words.moment(gap.end_s)}"
    sheet.canvas.rect(x, y + 1, max(end - x, 2), 13, style.SILENCE, radius=2, hint=hint)


def _silence_label(sheet: Sheet, gap: Gap, kind: str, y: float) -> None:
    """How long it was: inside where there is room, else beside it, over whatever is there."""
    x, end = sheet.axis.x(gap.begin_s), sheet.axis.x(gap.end_s)
    label = words.seconds(gap.seconds)
    if text_width(label, 11, bold=True) + 8 <= end - x:
        sheet.canvas.text((x + end) / 2, y, label, size=11, bold=True, fill=style.PAPER, anchor="middle")
        return
    text = f"{label} without a {kind}"
    width = text_width(text, 11) + 8
    begin = end + 3 if end + 3 + width < sheet.axis.right else x - 3 - width
    sheet.canvas.rect(begin, y - 10, width, 13, style.PAPER, radius=2, opacity=0.85)
    sheet.canvas.text(begin + 4, y, text, size=11)


def draw_unknown(sheet: Sheet, top: float) -> float:
    """A mark for each operation whose client got no answer: what it was found to be later."""
    canvas, axis, line = sheet.canvas, sheet.axis, sheet.report.timeline
    bottom = top + 3 * 16 + 4
    sheet.lane(top, bottom, "unknown", "resolved")
    rows: Sequence[tuple[str, OperationOutcome | None]] = (
        ("done", OperationOutcome.DONE),
        ("not done", OperationOutcome.NOT_DONE),
        ("unresolved", None),
    )
    for row, (name, resolved) in enumerate(rows):
        y = top + row * 16 + 8
        canvas.text(axis.left - 8, y + 4, name, size=11, anchor="end")
        seen: set[int] = set()
        for one in line.unknown:
            x = axis.x(one.returned_s)
            if one.resolved is resolved and round(x / 2) not in seen:
                seen.add(round(x / 2))
                _mark(sheet, x, y, resolved)
    return bottom


def _mark(sheet: Sheet, x: float, y: float, resolved: OperationOutcome | None) -> None:
    if resolved is OperationOutcome.DONE:
        sheet.canvas.circle(x, y, 4, style.UNKNOWN)
    elif resolved is OperationOutcome.NOT_DONE:
        sheet.canvas.circle(x, y, 3.4, style.PAPER, stroke=style.UNKNOWN)
    else:
        cross = [point("M", x - 3.5, y - 3.5), point("L", x + 3.5, y + 3.5)]
        cross += [point("M", x - 3.5, y + 3.5), point("L", x + 3.5, y - 3.5)]
        sheet.canvas.path(cross, stroke=style.UNKNOWN, width=1.8)


# Below the time axis.

_FELT_HEIGHT = 74


def draw_felt(sheet: Sheet, top: float) -> float:
    """A histogram: how long each client waited for a write around each fault. Its axis is not the time."""
    canvas, axis, felt = sheet.canvas, sheet.axis, sheet.report.timeline.felt
    bottom = top + 18 + _FELT_HEIGHT
    sheet.lane(top, bottom, "felt", "clients' waits for a write")
    figures = (("half", felt.p50_s), ("99 %", felt.p99_s), ("all", felt.max_s))
    for number, (share, value) in enumerate(figures):
        text = f"{share} within {words.seconds(value)}"
        canvas.text(style.MARGIN, top + 48 + 16 * number, text, size=11, bold=True)
    bins = felt.bins
    most = max(count for _end_s, count in bins)
    step = (axis.right - axis.left) / len(bins)
    for number, (end_s, count) in enumerate(bins):
        x, height = axis.left + number * step, count / most * _FELT_HEIGHT
        middle, label = x + step / 2, bin_words(end_s)
        if count:
            hint = f"{count:,} waits of {label}"
            canvas.rect(x + 6, bottom - height, step - 12, height, style.WRITES, radius=2, hint=hint)
            canvas.text(middle, bottom - height - 4, f"{count:,}", size=11, bold=True, anchor="middle")
        canvas.text(middle, bottom + 15, label, size=11, fill=style.MUTED, anchor="middle")
    return bottom + 20
