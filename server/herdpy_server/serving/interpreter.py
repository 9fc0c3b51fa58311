"""How a process that serves wants its interpreter: settings of the whole process, made once.

Beside ``database``, which works without. They are for a server's main program to call, after it has
opened its database: a library must not make them.
"""

from __future__ import annotations

import atexit
import gc
import sys
from importlib.abc import MetaPathFinder

SWITCH_INTERVAL_S = 0.0005
THRESHOLDS = (20_000, 2, 500)


def settle_interpreter() -> None:
    """Keep the garbage collector and the GIL from making statements wait.

    Statements leave no cycles, so their objects go by reference counts, and collections find next to
    nothing; with the defaults they took a tenth of the loop's time under load, and looking
    through all modules and plans 80 ms at once. What is there now is never looked at again, and
    collections are few. Each looks at little: what a large transaction holds is seen twice, in parts of
    at most 60,000 objects (a few ms), and then left alone. Threads beside the loop (the log's flusher, the
    checkpointer) want the GIL for some microseconds at a time: they get it after half a millisecond
    instead of five.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or modules find their objects alive when the process ends
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    do_without_pandas()


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """See ``importlib.abc``."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a server does without pandas", name=fullname)


def do_without_pandas() -> None:
    """Keep pyarrow from importing pandas, where that is installed, at the first list that it is given.

    Nothing here has a use for it, and importing it takes the loop a second and 50 MB.
    """
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
