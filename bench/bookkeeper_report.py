"""What the BookKeeper benchmark prints: medians, the ratio of each pair, and what was wanted."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import machine

Figures = dict[str, Any]


@dataclass
class Row:
    """One figure of the Python client, beside Java's where there is one.

    Attributes:
        runs, peer_runs: one for each pair; the second is empty where there is nobody to compare with.
        least_ratio, most_ratio, below: what is wanted: of the median ratio of the pairs, of the median.
    """

    name: str
    unit: str
    runs: list[float]
    peer_runs: list[float] = field(default_factory=list)
    least_ratio: float | None = None
    most_ratio: float | None = None
    below: float | None = None

    @property
    def ours(self) -> float:
        """The median."""
        return statistics.median(self.runs)

    @property
    def peer(self) -> float | None:
        """Java's median."""
        return statistics.median(self.peer_runs) if self.peer_runs else None

    @property
    def ratios(self) -> list[float]:
        """Ours to Java's, pair by pair."""
        return [ours / peer for ours, peer in zip(self.runs, self.peer_runs, strict=False)]

    @property
    def wanted(self) -> str:
        """The aim in words."""
        aims = []
        if self.least_ratio is not None:
            aims.append(f">= {self.least_ratio:g} of Java")
        if self.most_ratio is not None:
            aims.append(f"<= {self.most_ratio:g} of Java")
        if self.below is not None:
            aims.append(f"< {self.below:g} {self.unit}")
        return ", ".join(aims)

    @property
    def met(self) -> bool | None:
        """Whether the aim was met; None without one."""
        if not self.wanted:
            return None
        ratio = statistics.median(self.ratios) if self.ratios else 0.0
        return (
            (self.least_ratio is None or ratio >= self.least_ratio)
            and (self.most_ratio is None or ratio <= self.most_ratio)
            and (self.below is None or self.ours < self.below)
        )

    def cells(self) -> list[str]:
        """The columns of the table."""
        ratios = self.ratios
        return [
            self.name,
            _figure(self.ours, self.unit),
            "" if self.peer is None else _figure(self.peer, self.unit),
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else "",
            self.wanted,
            {None: "", True: "yes", False: "NO"}[self.met],
        ]

    def to_dict(self) -> Figures:
        """As JSON has it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "python": self.ours,
            "java": self.peer,
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "python_runs": self.runs,
            "java_runs": self.peer_runs,
            "wanted": self.wanted,
            "met": self.met,
        }


def row(name: str, unit: str, figure: str, found: dict[str, list[Figures]], **aims: float) -> Row:
    """One figure of what both clients did in turn."""
    ours = [answer[figure] for answer in found["python"]]
    return Row(name, unit, ours, [answer[figure] for answer in found["java"]], **aims)


def report(rows: list[Row], all_runs: Figures, json_path: str | None, load: Callable[[], float]) -> None:
    """Print the table, then JSON (to ``json_path`` when given, else after the table)."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="herdpy.bookkeeper beside BookKeeper's Java client: medians, and of the ratios")
    for heading in ("", "Python", "Java", "ratio (min-max)", "wanted", "met"):
        table.add_column(heading, justify="left" if heading in ("", "wanted") else "right", no_wrap=True)
    for one in rows:
        table.add_row(*one.cells())
    Console(width=150).print(table)
    data = {
        "title": "herdpy.bookkeeper beside BookKeeper's Java client",
        "machine": machine() | {"load_at_end": round(load(), 2)},
        "rows": [one.to_dict() for one in rows],
        "runs": all_runs,
    }
    text = json.dumps(data, indent=1)
    if json_path:
        Path(json_path).write_text(text + "\n")
    else:
        print(text)


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
