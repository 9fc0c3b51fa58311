"""What the parts of the broker's benchmark share: the systems that run, their load, figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from broker_run import Loaded, Run, loaded
from broker_systems import SYSTEMS, System
from measure import figure, machine
from processor_time import IDLE

_FIRST_RATE = 50.0
_LAST_RATE = 6400.0
_HALVINGS = 3
"""How often the step in which a system falls behind is halved: the rate found is within a tenth."""


@dataclass
class Figure:
    """One measured thing of one system.

    Attributes:
        aim: the aim in words, and whether it was met.
        costs: CPU a task by process in microseconds, and the machine's idle share.
    """

    name: str
    system: str
    value: float
    unit: str
    aim: str = ""
    met: bool | None = None
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Bed:
    """The systems, running, and the load that is put on them.

    Attributes:
        rate: tasks a second that are to be sustained.
        seconds: how long.
        history: finished tasks in the history, and backlog: tasks that are ready, in the parts of that name.
        batch: tasks a submission.
    """

    systems: Sequence[System]
    directory: Path
    quick: bool
    rate: float
    seconds: float
    history: int
    backlog: int
    batch: int
    _most: dict[str, float] = field(default_factory=dict)
    _loads: int = 0

    @property
    def step_s(self) -> float:
        """How long a short run takes."""
        return 2.0 if self.quick else 10.0

    @contextmanager
    def loaded(self, system: System) -> Iterator[Loaded]:
        """The system's workers and producer, for the time of the context."""
        self._loads += 1
        directory = self.directory / f"load-{self._loads}"
        directory.mkdir()
        with loaded(system, directory) as load:
            yield load

    def run(self, load: Loaded, rate: float, seconds: float) -> Run:
        """A run, said on standard error as it ends."""
        run = load.run(rate, seconds, self.batch)
        rates = f"{rate:,.0f}/s submitted, {run.rate:,.0f}/s done, {run.backlog:,} left behind"
        said = f"  {load.system.name}: {rates}, {run.cost_us:,.0f} us a task, load {os.getloadavg()[0]:.1f}"
        print(said, file=sys.stderr, flush=True)
        return run

    def most(self, load: Loaded) -> float:
        """The highest rate that the system keeps up with, by doubling it and then halving the step."""
        name = load.system.name
        if name not in self._most:
            self._most[name] = self._find_most(lambda rate: self.run(load, rate, self.step_s))
        return self._most[name]

    def _find_most(self, run: Callable[[float], Run]) -> float:
        """What falls behind even at the first rate does as much as it did of that."""
        first = run(_FIRST_RATE)
        if not first.kept_up:
            return first.rate
        kept, rate = _FIRST_RATE, _FIRST_RATE * 2
        while rate <= _LAST_RATE and run(rate).kept_up:
            kept, rate = rate, rate * 2
        for _ in range(0 if self.quick else _HALVINGS):
            middle = (kept * rate) ** 0.5
            kept, rate = (middle, rate) if run(middle).kept_up else (kept, middle)
        return kept


@contextmanager
def bed(directory: Path, names: Sequence[str], **load: object) -> Iterator[Bed]:
    """The systems of these names, running, with their data in this directory; `load` is Bed's."""
    if os.geteuid() == 0:  # PostgreSQL is another user then, which must find its own
        directory.chmod(0o755)
    with ExitStack() as stack:
        systems = [stack.enter_context(SYSTEMS[name](directory)) for name in names]
        yield Bed(systems, directory, **load)  # type: ignore[arg-type]


def report(
    title: str, figures: Sequence[Figure], circumstances: Mapping[str, object], path: str | None
) -> None:
    """Print a table with a column a system, then JSON, to the file `path` when it is given."""
    from rich.console import Console
    from rich.table import Table

    systems = list(dict.fromkeys(one.system for one in figures))
    table = Table(title=title)
    for heading in ("", *systems, "aim of HerdPy"):
        table.add_column(heading)
    for name in dict.fromkeys(one.name for one in figures):
        row = {one.system: one for one in figures if one.name == name}
        aim = next((one.aim for one in row.values() if one.aim), "")
        table.add_row(name, *(_cell(row.get(system)) for system in systems), aim)
    console = Console(width=150 if not sys.stdout.isatty() else None)
    console.print(table)
    for one in figures:
        if one.costs:
            parts = ", ".join(f"{name} {cost:.0f}" for name, cost in one.costs.items() if name != IDLE)
            console.print(f"{one.name}, {one.system}: {parts} us; {one.costs[IDLE]:.0%} idle")
    data = {
        "title": title,
        "machine": machine(),
        **circumstances,
        "lines": [asdict(one) for one in figures],
    }
    text = json.dumps(data, indent=1)
    if path:
        Path(path).write_text(text + "\n")
    else:
        print(text)


def _cell(one: Figure | None) -> str:
    if one is None:
        return ""
    return figure(one.value, one.unit) + {None: "", True: "", False: " (NO)"}[one.met]
