"""What clients do while a drill runs, and how each history is judged. `WORKLOADS` has all of them by name."""

from herdpy.drill.extensions import DrillRegistry
from herdpy.drill.workloads.bank import Bank
from herdpy.drill.workloads.indexed import Indexed
from herdpy.drill.workloads.inserts import Inserts, Sets
from herdpy.drill.workloads.list_append import ListAppend
from herdpy.drill.workloads.queue import Queue
from herdpy.drill.workloads.redefined import Redefined
from herdpy.drill.workloads.registers import Registers
from herdpy.drill.workloads.sequences import SequenceNumbers
from herdpy.drill.workloads.unique_keys import UniqueKeys
from herdpy.drill.workloads.workload import Workload

WORKLOADS: DrillRegistry[type[Workload]] = DrillRegistry(
    "workload",
    lambda one: isinstance(one, type) and issubclass(one, Workload),
    (
        Registers,
        ListAppend,
        Bank,
        Inserts,
        Sets,
        Queue,
        UniqueKeys,
        SequenceNumbers,
        Indexed,
        Redefined,
    ),
)

__all__ = ["WORKLOADS", "Workload"]
