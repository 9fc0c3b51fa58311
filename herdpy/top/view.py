"""The panes of a sample: which columns each has, how a cell is written, and by what rows are sorted.

Above ``sample``, below ``screen`` and the command, which print the same panes. Data passes so: a sample's
rows become :class:`Line` after line, each with its texts and what it is sorted by. Text that came from a
server is made harmless for a terminal here: control characters in it are shown, not obeyed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from herdpy.top.sample import Rates, Row, ServerSample
from herdpy.wait_tree import WaitLine, wait_tree

_MOST_CHARACTERS = 200


class PaneColumn(NamedTuple):
    """A column: its title, the text of a row's cell, what the rows are sorted by, and its side."""

    title: str
    text: Callable[[Row], str]
    order: Callable[[Row], Any]
    is_number: bool = False


class Pane(NamedTuple):
    """A table of a sample.

    Attributes:
        part: of the sample, whose rows it shows.
        key: names a row from one sample to the next.
        sorted_by: the column of the first order, and whether the largest comes first.
    """

    title: str
    part: str
    key: Callable[[Row], str]
    columns: tuple[PaneColumn, ...]
    sorted_by: tuple[int, bool]


class Line(NamedTuple):
    """A row of a pane."""

    key: str
    cells: tuple[str, ...]
    row: Row


def printable(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Text on one line without anything that a terminal would obey."""
    shown = " ".join(text.split())
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(one)[0] == "C" else one for one in shown
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _plain(name: str, title: str | None = None) -> PaneColumn:
    def text(row: Row) -> str:
        return "-" if row[name] is None else printable(str(row[name]))

    return PaneColumn(title or name.replace("_", " "), text, lambda row: str(row[name] or ""))


def _number(name: str, title: str, text: Callable[[float], str]) -> PaneColumn:
    return PaneColumn(
        title,
        lambda row: "-" if row[name] is None else text(row[name]),
        lambda row: -1.0 if row[name] is None else float(row[name]),
        True,
    )


def count(value: float) -> str:
    """A number with separators."""
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """A time as a clock shows it, with tenths below a minute."""
    value = max(value, 0.0)
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days} d {clock}" if days else clock


def milliseconds(value: float) -> str:
    """A time in ms, with three digits."""
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def size(value: float) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit, length in (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if value >= length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.0f} B"


def _address(row: Row) -> str:
    return printable((row["address"] or "-").partition("/")[0])


def _wait(row: Row) -> str:
    blockers = ", ".join(map(str, row["blocked_by"] or ()))
    if blockers:
        return f"waits for {blockers}"
    return "-" if row["wait_event"] is None else printable(f"{row['wait_event_type']}: {row['wait_event']}")


def _age(row: Row) -> str:
    """For how long the statement, or the wait after it, has lasted; of an idle session nothing does."""
    return "-" if row["statement_s"] is None or row["state"] == "idle" else seconds(row["statement_s"])


_QUERY = PaneColumn("statement", lambda row: printable(row["query"] or ""), lambda row: row["query"] or "")
SESSIONS = Pane(
    "Sessions",
    "sessions",
    lambda row: str(row["pid"]),
    (
        _number("pid", "pid", lambda pid: str(int(pid))),
        _plain("tablespace"),
        _plain("role"),
        _plain("application"),
        PaneColumn("address", _address, _address),
        _plain("state"),
        PaneColumn("wait", _wait, _wait),
        PaneColumn(
            "age", _age, lambda row: -1.0 if row["state"] == "idle" else row["statement_s"] or 0.0, True
        ),
        _number("transaction_s", "transaction", seconds),
        _QUERY,
    ),
    (7, True),
)
STATEMENTS = Pane(
    "Statements",
    "statements",
    lambda row: f"{row['query_id']} {hash(row['query'])}",
    (
        _number("total_s", "total", seconds),
        _number("calls", "calls", count),
        _number("mean_ms", "mean", milliseconds),
        _number("max_ms", "max", milliseconds),
        _number("rows", "rows", count),
        _QUERY,
    ),
    (0, True),
)
REPLICAS = Pane(
    "Replicas",
    "replicas",
    lambda row: f"{row['tablespace']} {row['node']}",
    (
        _plain("tablespace"),
        _plain("node"),
        _plain("state"),
        _plain("applied"),
        _plain("durable"),
        _number("lag_entries", "lag, entries", count),
        _plain("problem"),
    ),
    (0, False),
)
LOGS = Pane(
    "Logs of this server",
    "log_status",
    lambda row: str(row["tablespace"]),
    (
        _plain("tablespace"),
        _plain("state"),
        _plain("leader"),
        _number("epoch", "epoch", lambda epoch: str(int(epoch))),
        _plain("applied"),
        _plain("durable"),
        _plain("log_end"),
        _number("lag_entries", "lag, entries", count),
        _number("pending", "pending commits", count),
        _plain("problem"),
    ),
    (0, False),
)
TABLESPACES = Pane(
    "Tablespaces",
    "tablespaces",
    lambda row: str(row["name"]),
    (
        _plain("name"),
        _plain("state"),
        _plain("leader"),
        _number("epoch", "epoch", lambda epoch: str(int(epoch))),
        _plain("replicas"),
        _number("expected_replicas", "expected", count),
        _number("ledgers", "ledgers", count),
        _number("log_bytes", "log", size),
    ),
    (0, False),
)
PANES = (SESSIONS, STATEMENTS, TABLESPACES, REPLICAS, LOGS)


def lines(
    pane: Pane, rows: Iterable[Row], *, sorted_by: tuple[int, bool] | None = None, having: str = ""
) -> list[Line]:
    """The rows of a pane in order.

    Args:
        sorted_by: a column, and whether the largest comes first; None: the pane's own.
        having: only rows in which a cell has this text, in any case.
    """
    column, descending = sorted_by or pane.sorted_by
    ordered = sorted(rows, key=pane.key)
    ordered.sort(key=pane.columns[column].order, reverse=descending)
    made = [Line(pane.key(row), tuple(one.text(row) for one in pane.columns), row) for row in ordered]
    return [line for line in made if any(having.casefold() in cell.casefold() for cell in line.cells)]


def waits(sample: ServerSample) -> list[tuple[WaitLine, str]]:
    """The tree of waits, and the text of each line."""
    sessions = {row["pid"]: row for row in sample.parts["sessions"]}
    tree = wait_tree({pid: row["blocked_by"] or () for pid, row in sessions.items()})
    return [(line, _wait_text(line, sessions.get(line.pid))) for line in tree]


def _wait_text(line: WaitLine, row: Row | None) -> str:
    if row is None:
        return f"{line.pid}: has gone, or is not shown"
    holds = f", {line.waiting} wait for it" if line.waiting else ""
    age_s = row["transaction_s"]
    age = "" if age_s is None else f", in its transaction for {seconds(age_s)}"
    again = " (shown above)" if line.is_repeated else ""
    query = printable(row["query"] or "", 120)
    return f"{row['pid']} {printable(str(row['role']))} {row['state'] or ''}{holds}{age}{again}: {query}"


def head_line(sample: ServerSample, found: Rates) -> str:
    """The line above the panes."""
    head, sessions = sample.head, sample.parts["sessions"]
    active = sum(row["state"] == "active" for row in sessions)
    waiting = sum(bool(row["blocked_by"]) for row in sessions)
    up_s = (sample.now - head["started"]).total_seconds()
    parts = [
        f"{sample.server}/{head['tablespace']} as {head['role']}",
        "follows" if head["follows"] else "leads",
        f"up {seconds(up_s)}",
        f"{len(sessions)} sessions, {active} active, {waiting} blocked",
    ]
    return printable(" · ".join(parts)) + "\n" + rates_line(found)


def rates_line(found: Rates) -> str:
    """Rates in words; "-" for one that is not known."""

    def shown(value: float | None, text: Callable[[float], str]) -> str:
        return "-" if value is None else text(value)

    def per_s(value: float) -> str:
        return f"{value:,.1f}/s"

    return " · ".join(
        (
            f"statements {shown(found.statements, per_s)}",
            f"commits {shown(found.commits, per_s)}",
            f"rollbacks {shown(found.rollbacks, per_s)}",
            f"log {shown(found.log_bytes, lambda value: size(value) + '/s')}",
        )
    )


def document(sample: ServerSample, found: Rates, tree: Sequence[tuple[WaitLine, str]]) -> dict[str, Any]:
    """A sample as one JSON document: numbers as they are, texts untouched."""
    return {
        "server": sample.server,
        **sample.head,
        "rates": found._asdict(),
        "waits": [line._asdict() for line, _text in tree],
        **{pane.part: sample.parts[pane.part] for pane in PANES},
        "notes": sample.notes,
    }
