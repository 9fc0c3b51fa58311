"""Runs a drill, on a cluster that there is or on one that is made for it.

Layer: the top of herdpy.drill, below the command line. What happens then is in `conduct`.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import reduce
from operator import or_
from pathlib import Path

import psycopg

from herdpy.dev import DevError
from herdpy.drill.conduct import Conduct, Load, Progress
from herdpy.drill.control import ClusterControl, ClusterNeeds, ControlError
from herdpy.drill.control.local import local_cluster
from herdpy.drill.control.view import ViewError
from herdpy.drill.crew import CrewError
from herdpy.drill.drill import Drill, DrillResult
from herdpy.drill.faults import FAULTS
from herdpy.drill.sessions import FailedError
from herdpy.testing import KitError

__all__ = ["DrillError", "Load", "Progress", "needs_of", "run"]


class DrillError(Exception):
    """A drill could not be carried out; this says nothing of the database's promises."""


def run(
    drill: Drill,
    *,
    control: ClusterControl | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    load: Load | None = None,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> DrillResult:
    """Carry out one drill, and judge it.

    Args:
        control: the cluster, and who does faults to it; None: a cluster that is made for it on this machine.
        seconds: how long clients run; a fault that has begun is ended first.
        seed: decides what clients and faults do; None: one that is made up, and told in the result.

    Raises:
        DrillError: it could not be carried out.
    """
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    with ExitStack() as stack:
        is_own = control is None
        conduct: Conduct | None = None
        try:
            if control is None:
                on_progress(Progress("starting a cluster", 0.0))
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-drill-"))
                control = stack.enter_context(local_cluster(Path(directory), needs_of(drill)))
            conduct = Conduct(drill, control, seconds or drill.seconds, chosen, load or Load(), on_progress)
            conduct.result.is_own = is_own
            conduct.do()
        except (ViewError, FailedError, CrewError, ControlError, KitError, DevError, psycopg.Error) as error:
            left = [] if conduct is None or is_own else conduct.tables
            there = f" (tables that are left there: {', '.join(left)})" if left else ""
            raise DrillError(f"{drill.name}: {error}{there}") from error
        return conduct.result


def needs_of(drill: Drill) -> ClusterNeeds:
    """What a cluster that is made for the drill must have."""
    return reduce(or_, (FAULTS[name].needs for name in drill.faults), drill.needs)
