"""Faults that a drill makes happen, by name: `Fault` says what one is."""

from herdpy.drill.extensions import DrillRegistry
from herdpy.drill.faults import disks, everything, ledgers, partitions, processes, supervisors
from herdpy.drill.faults.fault import Fault
from herdpy.drill.faults.storm import Storm

_ALL: tuple[type[Fault], ...] = (
    *processes.FAULTS,
    *supervisors.FAULTS,
    *partitions.FAULTS,
    *ledgers.FAULTS,
    *disks.FAULTS,
    *everything.FAULTS,
    Storm,
)
FAULTS: DrillRegistry[type[Fault]] = DrillRegistry(
    "fault", lambda one: isinstance(one, type) and issubclass(one, Fault), _ALL
)

__all__ = ["FAULTS", "Fault"]
