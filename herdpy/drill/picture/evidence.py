"""Below the lanes: what was checked, and of a violation the smallest history that shows it.

The operations of that history stand on a row for each client. Their time axis keeps the order of calls and
returns and nothing else: every such moment is as far from the next as any other, so that what overlaps can be
seen, whether it took a millisecond or ten seconds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from herdpy.drill import words
from herdpy.drill.history import ClientOperation, OperationOutcome
from herdpy.drill.picture import style
from herdpy.drill.picture.sheet import Sheet
from herdpy.drill.picture.svg import fitted, text_width

_SHOWN = 16
_ROW = 30
_BAR = 22
_TEXT_ROW = 19


def draw_violations(sheet: Sheet, top: float) -> float:
    """A lane with the operations that the anomalies name, where they were."""
    axis, report = sheet.axis, sheet.report
    named = [
        one for verdict in report.violations for anomaly in verdict.anomalies for one in anomaly.operations
    ]
    bottom = top + 26
    sheet.lane(top, bottom, "violations")
    seen: set[tuple[int, int]] = set()
    for one in sorted([*named, *report.smallest], key=lambda one: one.called_s):
        x, end = axis.x(one.called_s), axis.x(one.returned_s)
        if (place := (round(x), round(end))) in seen:
            continue
        seen.add(place)
        hint = f"{words.client(one)}: {words.operation(one)} ({words.outcome(one)})"
        sheet.canvas.rect(x - 1.5, top + 3, max(end - x, 3), 16, style.VIOLATED, radius=1.5, hint=hint)
    return bottom


def draw_violation_lines(sheet: Sheet, top: float, bottom: float) -> None:
    """A line through all lanes where each operation of the smallest history was called."""
    if sheet.report.violations:
        for x in sorted({round(sheet.axis.x(one.called_s)) for one in sheet.report.smallest[:_SHOWN]}):
            sheet.canvas.line(x, top, x, bottom, style.VIOLATED, dashed=True, under=True)


def draw_checks(sheet: Sheet, top: float) -> float:
    """A line for each checker."""
    canvas, report = sheet.canvas, sheet.report
    canvas.text(style.MARGIN, top + 13, "checks", size=13, bold=True)
    y = top + 13
    names = max((text_width(verdict.name, 12, bold=True) for verdict in report.verdicts), default=0)
    for verdict in report.verdicts:
        colour = style.VALID if verdict.valid else style.VIOLATED
        canvas.text(style.LEFT, y, "✓" if verdict.valid else "✗", size=14, bold=True, fill=colour)
        canvas.text(style.LEFT + 20, y, verdict.name, size=12, bold=True, fill=colour)
        x = style.LEFT + 32 + names
        summary = fitted(verdict.summary, canvas.width - style.RIGHT - x, 12)
        canvas.text(x, y, summary, size=12, hint=verdict.summary)
        y += _TEXT_ROW
    for fault, reason in report.skipped:
        text = fitted(f"{fault}: {reason}", canvas.width - style.RIGHT - style.LEFT - 90, 12)
        canvas.text(style.LEFT, y, "skipped", size=12, fill=style.FAULT_INK)
        canvas.text(style.LEFT + 64, y, text, size=12, hint=reason)
        y += _TEXT_ROW
    return y - _TEXT_ROW + 12


def draw_smallest(sheet: Sheet, top: float) -> float:
    """The smallest history that shows the violation: in a picture, and each operation in words."""
    report, canvas = sheet.report, sheet.canvas
    shown = list(report.smallest[:_SHOWN])
    first = next((anomaly for verdict in report.violations for anomaly in verdict.anomalies), None)
    left, right = style.MARGIN, canvas.width - style.RIGHT
    about = f"The smallest history that shows it: {report.about_smallest}".removesuffix(": ")
    canvas.text(left + 16, top + 26, about, size=15, bold=True, fill=style.VIOLATED)
    y = top + 26
    for line in textwrap.wrap(first.text, 150) if first is not None else []:
        y += 18
        canvas.text(left + 16, y, line, size=12)
    y = _bars(sheet, shown, y + 22)
    y = _words(sheet, shown, y + 16)
    if len(report.smallest) > _SHOWN:
        y += _TEXT_ROW
        canvas.text(left + 16, y, f"and {len(report.smallest) - _SHOWN} more operations", fill=style.MUTED)
    bottom = y + 16
    canvas.rect(
        left, top, right - left, bottom - top, style.VIOLATED_PALE, radius=8, opacity=0.55, under=True
    )
    return bottom


def _bars(sheet: Sheet, operations: Sequence[ClientOperation], top: float) -> float:
    canvas = sheet.canvas
    left, right = style.MARGIN + 110, canvas.width - style.RIGHT - 40
    clients = list(dict.fromkeys(one.process for one in operations))
    moments = sorted({moment for one in operations for moment in (one.called_s, one.returned_s)})
    step = (right - left) / max(1, len(moments) - 1)
    place = {moment: left + number * step for number, moment in enumerate(moments)}
    for row, process in enumerate(clients):
        y = top + row * _ROW
        canvas.text(left - 12, y + 15, f"client {process}", size=11, fill=style.MUTED, anchor="end")
        canvas.line(left, y + _BAR / 2, right, y + _BAR / 2, "#e6c6c6")
    for number, one in enumerate(operations, 1):
        y = top + clients.index(one.process) * _ROW
        x, end = place[one.called_s], place[one.returned_s]
        is_unknown = one.outcome is OperationOutcome.UNKNOWN
        if is_unknown:  # it may take effect any time later
            canvas.rect(end, y, right + 18 - end, _BAR, style.PAPER, stroke=style.UNKNOWN, dashed=True)
        width = max(end - x, 20)
        ink = (
            style.UNKNOWN
            if is_unknown
            else style.VIOLATED
            if one.outcome is OperationOutcome.DONE
            else style.REFUSED
        )
        canvas.rect(x, y, width, _BAR, style.PAPER, radius=4, stroke=ink, hint=words.operation(one))
        canvas.circle(x + 12, y + _BAR / 2, 8, ink)
        canvas.text(x + 12, y + 15, str(number), size=10.5, bold=True, fill=style.PAPER, anchor="middle")
        if width > 60:
            canvas.text(x + 25, y + 15, fitted(words.operation(one), width - 30, 11), size=11)
    return top + len(clients) * _ROW


def _words(sheet: Sheet, operations: Sequence[ClientOperation], top: float) -> float:
    canvas = sheet.canvas
    y = top
    for number, one in enumerate(operations, 1):
        y = top + (number - 1) * _TEXT_ROW
        canvas.text(style.MARGIN + 34, y, str(number), size=11.5, bold=True, anchor="end")
        canvas.text(style.MARGIN + 48, y, words.client(one), size=11.5, fill=style.MUTED)
        span = f"{one.called_s:.3f} to {one.returned_s:.3f} s"
        canvas.text(style.MARGIN + 270, y, span, size=11.5, fill=style.MUTED, anchor="end")
        outcome = words.outcome(one)
        end = canvas.width - style.RIGHT - 16
        room = end - style.MARGIN - 290 - text_width(outcome, 11.5) - 20
        canvas.text(
            style.MARGIN + 290, y, fitted(words.operation(one), room, 11.5, mono=True), size=11.5, mono=True
        )
        canvas.text(end, y, outcome, size=11.5, fill=style.MUTED, anchor="end")
    return y
