"""Telling the bookies what is confirmed when no further entry does: the explicit last add confirmed.

Beside the pipeline: each entry carries the last add confirmed of the moment it was sent, so a reader who
tails the ledger lags behind until something else is written. Here a timer, armed when the last add
confirmed moves and silent on an idle ledger, sends it to the write set of that entry unless an entry
carried it meanwhile.

Source: BookKeeper's client/ExplicitLacFlushPolicy.java, PendingWriteLacOp.java.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.errors import BookKeeperError, LedgerFencedError
from herdpy.bookkeeper.write.pipeline import Pipeline

_log = logging.getLogger("herdpy.bookkeeper.explicit_lac")


class ExplicitLac:
    """The timer of one ledger; ``interval_s`` None switches it off."""

    def __init__(
        self, ledger_id: int, digest: Digest, master_key: bytes, pipeline: Pipeline, interval_s: float | None
    ) -> None:
        self._ledger_id = ledger_id
        self._digest = digest
        self._master_key = master_key
        self._pipeline = pipeline
        self._interval_s = interval_s
        self._told = -1
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    def lac_moved(self) -> None:
        """Arm the timer. Called for every confirmation, so it does little."""
        if self._timer is None and self._interval_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def stop(self) -> None:
        """Send nothing more."""
        self._interval_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._telling is not None:
            self._telling.cancel()

    def _tick(self) -> None:
        self._timer = None
        pipeline = self._pipeline
        if pipeline.lac <= max(pipeline.carried, self._told):
            return
        if self._telling is not None and not self._telling.done():
            self.lac_moved()
            return
        self._telling = asyncio.get_running_loop().create_task(self._tell(pipeline.lac))

    async def _tell(self, lac: int) -> None:
        body = self._digest.seal_lac(self._ledger_id, lac)
        before, self._told = self._told, lac
        answers = await asyncio.gather(
            *(
                bookie.write_lac(self._ledger_id, self._master_key, body)
                for bookie in self._pipeline.write_set_of(lac)
            ),
            return_exceptions=True,
        )
        failures = [answer for answer in answers if answer is not None]
        for failure in failures:
            if isinstance(failure, LedgerFencedError):
                self._pipeline.fail(failure)
            elif not isinstance(failure, BookKeeperError):
                raise failure
        if failures:
            _log.debug(
                "explicit last add confirmed not stored everywhere",
                extra={"ledger_id": self._ledger_id, "lac": lac, "failures": [str(one) for one in failures]},
            )
        if len(failures) == len(answers):
            # Nobody has it: again at the next turn, unless an entry carries it before.
            self._told = before
            self.lac_moved()
