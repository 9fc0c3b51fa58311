"""A leader in a process of its own, to be killed or paused; its arguments: URI, path of the list, epoch.

Prints "leads", then each acknowledged transaction's number on a line of its own, at once; ends with "lost",
the error's name, and the numbers whose outcome is unknown, when another node takes the log.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from herdpy.bookkeeper import BookKeeper
from herdpy.log import Append, LogError
from herdpy.log.bookkeeper import LedgerLogSettings, ZnodeLedgerList, take_over
from tests.log_bookkeeper.kit import transaction


def say(*words: object) -> None:
    """One line, written whole."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(uri: str, path: str, epoch: int) -> None:
    """Append until the log is lost."""
    unknown: list[int] = []

    def told(appends: Sequence[Append], error: LogError | None) -> None:
        for append in appends:
            if error is None:
                say(append.transaction.timestamp_us)
            elif error.outcome == "unknown":
                unknown.append(append.transaction.timestamp_us)

    async with BookKeeper(uri) as bk:
        settings = LedgerLogSettings(max_ledger_bytes=20_000)
        takeover = await take_over(bk, ZnodeLedgerList(bk.znodes, path), settings, "child", epoch)
        log = await takeover.lead(told)
        say("leads")
        number = 0
        try:
            while True:
                appends = [log.append(transaction(number := number + 1, 50)) for _ in range(4)]
                await appends[0]
        except LogError:
            say("lost", type(log.failure).__name__, *unknown)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
