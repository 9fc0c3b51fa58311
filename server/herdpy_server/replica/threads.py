"""The threads of a node: what an election waits for never waits for a checkpoint. Below ``host``.

The loop's own executor has few threads, for a server's short errands (names of hosts among them). Here are
those for what takes long, and others for what a replica has to have done before it can follow or lead.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

_OPENING = 4
_CHECKPOINTS = 4


class NodeThreads:
    """Attributes:
    opening: stores are opened here, and their directories marked and put in their places.
    checkpoints: checkpoints that are asked for, the last ones of stores that are closed, and directories that
        are removed.
    """

    def __init__(self) -> None:
        self.opening = ThreadPoolExecutor(_OPENING, "herdpy-opening")
        self.checkpoints = ThreadPoolExecutor(_CHECKPOINTS, "herdpy-checkpoints")

    def close(self) -> None:
        """No more of either; what is under way comes to its end."""
        self.opening.shutdown(wait=False)
        self.checkpoints.shutdown(wait=False)
