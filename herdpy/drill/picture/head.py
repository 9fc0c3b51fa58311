"""The head of the picture: which drill, how it ended, and the figures that an operator asks for first."""

from __future__ import annotations

from collections.abc import Iterator

from herdpy.drill import words
from herdpy.drill.history import OperationOutcome
from herdpy.drill.picture import style
from herdpy.drill.picture.sheet import Sheet
from herdpy.drill.picture.svg import fitted, text_width
from herdpy.drill.timeline import PHASES, READ, WRITE, Timeline

_TILE = 70
_TILE_GAP = 12


def draw_head(sheet: Sheet, top: float) -> float:
    """The title, the verdict and the figures."""
    canvas, report = sheet.canvas, sheet.report
    _badge(sheet, top + 4)
    seed = "" if report.seed is None else f"seed {report.seed}"
    canvas.text(style.MARGIN, top + 14, "herdpy drill", size=12, fill=style.MUTED)
    canvas.text(style.MARGIN, top + 44, report.drill, size=27, bold=True)
    width = canvas.width - 2 * style.MARGIN - 270
    canvas.text(style.MARGIN, top + 68, fitted(report.about, width, 14), size=14, hint=report.about)
    line = report.timeline
    setting = [
        words.seconds(line.seconds),
        *report.setting,
        words.counted(line.operations, "operation"),
        seed,
    ]
    canvas.text(style.MARGIN, top + 89, " · ".join(filter(None, setting)), size=12, fill=style.MUTED)
    return _tiles(sheet, top + 106)


def _badge(sheet: Sheet, top: float) -> None:
    report = sheet.report
    good = sum(1 for verdict in report.verdicts if verdict.valid)
    word = report.state.value.upper()
    ink, paper = style.STATES[report.state]
    about = (
        f"{good} of {words.counted(len(report.verdicts), 'check')} passed"
        if report.verdicts
        else "nothing judged"
    )
    width = max(text_width(word, 24, bold=True), text_width(about, 12)) + 44
    x = sheet.canvas.width - style.RIGHT - width
    sheet.canvas.rect(x, top, width, 62, paper, radius=8, stroke=ink)
    sheet.canvas.text(x + width / 2, top + 31, word, size=24, bold=True, fill=ink, anchor="middle")
    sheet.canvas.text(x + width / 2, top + 50, about, size=12, fill=ink, anchor="middle")


def _tiles(sheet: Sheet, top: float) -> float:
    tiles = list(_figures(sheet.report.timeline))
    left, right = style.MARGIN, sheet.canvas.width - style.RIGHT
    width = (right - left - _TILE_GAP * (len(tiles) - 1)) / len(tiles)
    for number, (label, figure, more) in enumerate(tiles):
        x = left + number * (width + _TILE_GAP)
        sheet.canvas.rect(x, top, width, _TILE, style.PANEL, radius=6)
        sheet.canvas.text(x + 14, top + 20, label, size=11, fill=style.MUTED)
        sheet.canvas.text(x + 14, top + 44, figure, size=20, bold=True)
        sheet.canvas.text(
            x + 14, top + 61, fitted(more, width - 20, 11), size=11, fill=style.MUTED, hint=more
        )
    return top + _TILE + 18


def _figures(line: Timeline) -> Iterator[tuple[str, str, str]]:
    for kind in (WRITE, READ):
        gap = line.gaps[kind]
        span = "" if gap is None else f"from {words.moment(gap.begin_s)} to {words.moment(gap.end_s)}"
        yield f"longest without a {kind}", words.seconds(gap.seconds if gap else None), span
    done, not_done, never = (
        line.resolved(one) for one in (OperationOutcome.DONE, OperationOutcome.NOT_DONE, None)
    )
    resolved = f"{done} done, {not_done} not done, {never} open" if line.unknown else "every outcome is known"
    yield "unknown outcomes", f"{len(line.unknown):,}", resolved
    for kind in (WRITE, READ):
        found = [(phase, line.latencies[phase][kind].p99_s) for phase in PHASES if phase in line.latencies]
        first = words.seconds(found[0][1]) if found else "-"
        rest = ", ".join(f"{phase} {words.seconds(value)}" for phase, value in found[1:])
        yield f"99 % of {kind}s within, before", first, rest or "there was no fault"
