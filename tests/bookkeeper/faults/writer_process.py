"""A writer in a process of its own, to be killed or paused; its argument is the cluster's URI.

Prints the ledger's id, then each acknowledged entry's id on a line of its own, at once; ends with "ended" and
the error's name when the writer fails.
"""

from __future__ import annotations

import asyncio
import sys

from herdpy.bookkeeper import BookKeeper, BookKeeperError
from tests.bookkeeper.faults.history import content_of
from tests.bookkeeper.faults.workload import IN_FLIGHT
from tests.bookkeeper.faults.world import QUICK


def say(*words: object) -> None:
    """One line, written whole."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(uri: str) -> None:
    """Append until something ends the writer, or this process."""
    async with BookKeeper(uri, settings=QUICK) as bk:
        writer = await bk.create_ledger(3, 3, 2)
        say(writer.ledger_id)

        async def one_after_another() -> None:
            while True:
                data = content_of(writer.ledger_id, writer.last_add_pushed + 1)
                say(await writer.append_nowait(data))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(IN_FLIGHT):
                    group.create_task(one_after_another())
        except* BookKeeperError as failed:
            say("ended", type(failed.exceptions[0]).__name__)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
