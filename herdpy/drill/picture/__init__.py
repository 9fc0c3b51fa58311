"""A report as one picture (SVG): lanes over a shared time axis, and the evidence of a violation below them.

    head            the drill, the verdict, the figures asked for first
    faults          what was done to the cluster; its time is a pale band under all lanes
    leader          who led
    operations      answers a second
    latency         how long they took
    silence         where clients tried and nobody was answered
    unknown         outcomes that clients did not learn
    violations      the operations that break a promise
    felt            how long each client waited for a write around each fault: a histogram
    checks          what each checker says
    smallest        the fewest operations that show the violation

Layer: above report. `svg` writes elements, `axis` places moments, `sheet` is what parts draw on; each other
module draws some of the parts. Nothing is measured in a browser: the file looks alike wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from herdpy.drill.picture import style
from herdpy.drill.picture.evidence import draw_checks, draw_smallest, draw_violation_lines, draw_violations
from herdpy.drill.picture.head import draw_head
from herdpy.drill.picture.lanes import (
    draw_fault_bands,
    draw_faults,
    draw_felt,
    draw_latencies,
    draw_leaders,
    draw_rates,
    draw_silences,
    draw_unknown,
)
from herdpy.drill.picture.sheet import Axis, Sheet
from herdpy.drill.picture.svg import Canvas, fitted
from herdpy.drill.report import DrillReport

__all__ = ["axis_of", "picture_of"]

_BETWEEN = 14


def picture_of(report: DrillReport) -> str:
    """The picture, as the text of an SVG file."""
    canvas = Canvas(style.WIDTH)
    axis = axis_of(report)
    sheet = Sheet(canvas, axis, report)
    top = draw_head(sheet, 24)
    lanes: list[Callable[[Sheet, float], float]] = [draw_faults, draw_leaders, draw_rates, draw_latencies]
    lanes.append(draw_silences)
    if report.timeline.unknown:
        lanes.append(draw_unknown)
    if report.violations:
        lanes.append(draw_violations)
    y = top
    for draw in lanes:
        y = draw(sheet, y) + _BETWEEN
    bottom = y - _BETWEEN
    draw_fault_bands(sheet, top - 4, bottom)
    draw_violation_lines(sheet, top - 4, bottom)
    y = _axis(sheet, top - 4, bottom) + 20
    if report.timeline.felt.waits_s:
        y = draw_felt(sheet, y) + _BETWEEN
    y = draw_checks(sheet, y)
    if report.smallest and report.violations:
        y = draw_smallest(sheet, y + 6)
    if report.replay:
        y += 26
        canvas.text(style.MARGIN, y, "again:", size=12, fill=style.MUTED)
        command = report.replay_command
        shown = fitted(command, style.WIDTH - style.RIGHT - style.MARGIN - 48, 12, mono=True)
        canvas.text(style.MARGIN + 48, y, shown, size=12, mono=True, hint=command)
    return canvas.document(
        y + 22,
        title=f"herdpy drill {report.drill}: {report.state}",
        about=report.about,
        background=style.PAPER,
    )


def axis_of(report: DrillReport) -> Axis:
    """From shortly before the first thing happened, behind making tables and waiting, to the end."""
    line = report.timeline
    moments = [begin_s for begin_s, _end_s in line.phases.values()]
    moments += [fault.begin_s for fault in line.faults] + [reign.begin_s for reign in line.reigns]
    begin_s = float(math.floor(min(moments, default=0.0)))
    end_s = max(line.seconds, begin_s + 0.001)
    return Axis(begin_s, end_s, style.LEFT, style.WIDTH - style.RIGHT)


def _axis(sheet: Sheet, top: float, bottom: float) -> float:
    """Lines through all lanes at round moments, and their times below."""
    for moment in sheet.axis.ticks:
        x = sheet.axis.x(moment)
        sheet.canvas.line(x, top, x, bottom, style.GRID, under=True)
        sheet.canvas.text(x, bottom + 16, f"{moment:g} s", size=11, fill=style.MUTED, anchor="middle")
    return bottom + 20
