"""How a process that serves wants its interpreter: settings of the whole process, made once.

Beside ``database``, which works without. They are for a server's main program to call, after it has
opened its database: a library must not make them.
"""

from __future__ import annotations

import atexit
import gc
import sys

SWITCH_INTERVAL_S = 0.0005
THRESHOLDS = (20_000, 20, 50)


def settle_interpreter() -> None:
    """Keep the garbage collector and the GIL from making statements wait.

    Statements leave no cycles, so their objects go by reference counts, and collections find next to
    nothing; with the defaults they took a tenth of the loop's time under load, and looking
    through all modules and plans 80 ms at once. What is there now is never looked at again, and
    collections are few. Threads beside the loop (the log's flusher, the checkpointer) want the GIL
    for some microseconds at a time: they get it after half a millisecond instead of five.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or modules find their objects alive when the process ends
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
