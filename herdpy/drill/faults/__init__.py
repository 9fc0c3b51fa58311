"""Faults that a drill makes happen, by name: `Fault` says what one is."""

from collections.abc import Mapping

from herdpy.drill.faults import disks, everything, ledgers, partitions, processes
from herdpy.drill.faults.fault import Fault
from herdpy.drill.faults.storm import Storm

_ALL: tuple[type[Fault], ...] = (
    *processes.FAULTS,
    *partitions.FAULTS,
    *ledgers.FAULTS,
    *disks.FAULTS,
    *everything.FAULTS,
    Storm,
)
FAULTS: Mapping[str, type[Fault]] = {fault.name: fault for fault in _ALL}

__all__ = ["FAULTS", "Fault"]
