"""The lanes about the cluster: which faults there were, and who led."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from herdpy.drill import words
from herdpy.drill.picture import style
from herdpy.drill.picture.sheet import Axis, Sheet
from herdpy.drill.picture.svg import fitted, text_width
from herdpy.drill.timeline import FaultSpan

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
