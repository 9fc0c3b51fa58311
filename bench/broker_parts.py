"""The parts of the broker's benchmark: what each does to a bed's systems, and the figures it gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing

from broker_bed import Bed, Figure
from broker_history import fill_backlog, fill_history, time_claims
from broker_run import Loaded, Run
from broker_systems import System
from meanwhile import meanwhile

P99_MS = 50.0
"""Below which the time from submission to start is to be, for 99 of 100 tasks."""
HISTORY_COSTS = 1.1
"""What a task may cost beside a long history, to what it costs beside an empty one."""


def measure_rate(bed: Bed) -> list[Figure]:
    """The highest rate each keeps up with; then, of HerdPy's, whether the rate of the aim is sustained."""
    figures = []
    for system in bed.systems:
        with bed.loaded(system) as load:
            figures.append(Figure("highest rate kept up with", system.name, bed.most(load), "tasks/s"))
            rate = bed.rate if system.is_ours else min(bed.rate, bed.most(load))
            run = bed.run(load, rate, bed.seconds)
        done = Figure(f"sustained for {bed.seconds:g} s", system.name, run.rate, "tasks/s", costs=run.costs)
        if system.is_ours:
            done.aim, done.met = f">= {bed.rate:,g} tasks/s", run.kept_up
        figures += [done, Figure("CPU of all processes a task", system.name, run.cost_us, "us")]
    return figures


def measure_latency(bed: Bed) -> list[Figure]:
    """Submission to start at half the rate of the aim, or of what a slower system keeps up with."""
    figures = []
    for system in bed.systems:
        with bed.loaded(system) as load:
            rate = bed.rate / 2 if system.is_ours else min(bed.rate, bed.most(load)) / 2
            run = bed.run(load, rate, bed.seconds / 2)
        last = Figure("submission to start, p99", system.name, run.latency_ms(0.99), "ms")
        if system.is_ours:
            last.aim, last.met = f"< {P99_MS:g} ms at {rate:,g} tasks/s", last.value < P99_MS
        figures += [
            Figure("half of that, at which latency was measured", system.name, rate, "tasks/s"),
            Figure("submission to start, p50", system.name, run.latency_ms(0.5), "ms"),
            last,
        ]
    return figures


def measure_history(bed: Bed) -> list[Figure]:
    """What a task costs, and when it starts, beside no history, a long one, and one that is forgotten."""
    figures = []
    for system in bed.systems:
        if system.connect is None:  # Redis keeps results for a day, in memory, and no history
            continue
        with bed.loaded(system) as load:
            rate = min(bed.rate, bed.most(load)) / 2
            empty = bed.run(load, rate, bed.step_s)
            with closing(system.connect()) as connection:
                fill_history(connection, system, bed.history)
            beside = bed.run(load, rate, bed.step_s)
            figures += _beside(f"{bed.history:,} finished tasks", load, empty, beside)
            if system.is_ours:
                with _forgetting(system):
                    forgetting = bed.run(load, rate, bed.step_s)
                figures += _beside("them being forgotten", load, empty, forgetting)
    return figures


def _beside(what: str, load: Loaded, empty: Run, run: Run) -> Iterator[Figure]:
    """Costs and latency beside a history, to those beside an empty one."""
    name = load.system.name
    costs = Figure(f"CPU a task beside {what}, to none", name, run.cost_us / empty.cost_us, "")
    if load.system.is_ours:
        costs.aim, costs.met = f"<= {HISTORY_COSTS:g}", costs.value <= HISTORY_COSTS
    yield costs
    for beside, one in (("none", empty), (what, run)):
        yield Figure(f"p99 of the start beside {beside}", name, one.latency_ms(0.99), "ms")


def _forgetting(system: System) -> AbstractContextManager[None]:
    """The history is forgotten meanwhile, as upkeep does it, again and again."""
    from herdpy_broker.upkeep import forget

    assert system.connect is not None
    connect = system.connect

    def work(over: threading.Event) -> None:
        with closing(connect()) as connection:
            while not over.wait(0.1):
                forget(connection, 3600.0)

    return meanwhile(work)


def measure_backlog(bed: Bed) -> list[Figure]:
    """How long a claim takes where many tasks are ready, without workers."""
    figures = []
    for system in bed.systems:
        if system.connect is None:  # a list's end: the length of the list is no matter
            continue
        with closing(system.connect()) as connection:
            alone = time_claims(connection, system)
            fill_backlog(connection, system, bed.backlog)
            beside = time_claims(connection, system)
        figures += [
            Figure("a claim of one task, few ready, p50", system.name, alone, "ms"),
            Figure(f"a claim of one task, {bed.backlog:,} ready, p50", system.name, beside, "ms"),
        ]
    return figures
