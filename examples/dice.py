"""BookKeeper's tutorial: dice that all show the same rolls, whatever happens to the one that rolls.

Start a cluster, then dice in several terminals::

    python examples/dice_cluster.py                           # says zk://127.0.0.1:.../ledgers
    python examples/dice.py zk://127.0.0.1:.../ledgers

One process leads: it rolls about once a second and writes each roll into a ledger. The others follow the
ledger and print the same rolls at the same positions. Kill the leader (Ctrl-C, kill -9) or pause it
(Ctrl-Z, later fg): another one goes on where it stopped, and no two sequences ever differ. Why:

1. A roll counts only when its append is acknowledged, and followers read up to the last add confirmed. So
   whatever anybody has printed is on enough bookies to be found again.
2. A new leader first *recovers* the last ledger. That fences it: from then on the bookies refuse the old
   leader's writes, though it may not know yet that it was deposed. The ledger's end is now fixed for good.
3. The new leader applies all rolls up to that end, then makes a ledger of its own. It puts that ledger on
   the list by compare-and-set *before* it writes to it. If the list is not the one it had read, another
   leader was there first: it steps down, and nobody has seen a roll of its ledger.

The election (dice_election.py) may be wrong for a while, and two processes may believe that they lead.
Nothing but progress depends on it. The state and the list of ledgers are in dice_game.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator

from dice_election import Election  # examples/dice_election.py
from dice_game import LedgerList, Ledgers, State  # examples/dice_game.py

from herdpy.bookkeeper import BookKeeper, BookKeeperError, ClientSettings, LedgerWriter, NoSuchLedgerError
from herdpy.bookkeeper.metadata.znodes import ZnodeVersionError

PASSWORD = b"dice"


class DeposedError(Exception):
    """Another process leads, or has led meanwhile."""


class Dice:
    """One process of the game: it follows or leads, and prints every roll that it applies."""

    def __init__(self, bk: BookKeeper, options: argparse.Namespace) -> None:
        self.bk = bk
        self.options = options
        self.state = State()
        self.starts: dict[int, State] = {}
        """The state with which each ledger began: what a snapshot in its place would be."""
        self.list = LedgerList(bk.znodes, f"{options.game}/list")
        self.list_changed = asyncio.Event()

    async def play(self) -> None:
        """Follow or lead, as the election has it, until cancelled."""
        await self.list.make()
        watch = self.bk.znodes.watch_data(self.list.path, lambda _: self.list_changed.set())
        election = Election(self.bk.znodes, f"{self.options.game}/candidates")
        try:
            while True:
                leading = election.leading
                role = asyncio.create_task(self.perform(self.lead if leading else self.follow))
                try:
                    while election.leading is leading and not role.done():
                        election.changed.clear()
                        changed = asyncio.create_task(election.changed.wait())
                        await asyncio.wait({role, changed}, return_when=asyncio.FIRST_COMPLETED)
                        changed.cancel()
                finally:
                    role.cancel()
                    await asyncio.wait({role})
                if not role.cancelled():
                    role.result()  # raises what nobody foresaw
        finally:
            election.close()
            watch.cancel()

    async def perform(self, role: Callable[[], Awaitable[None]]) -> None:
        """Play a role until it fails. Whatever failed, the ledgers know what happened: begin again there."""
        try:
            await role()
        except (DeposedError, BookKeeperError) as error:
            note(f"{type(error).__name__}: {error}")
            await asyncio.sleep(self.options.interval)

    async def follow(self) -> None:
        """Print what the leader writes."""
        note("following")
        while True:
            self.list_changed.clear()
            for ledger, first in self.unread(await self.list.read()):
                reader = await self.bk.open_ledger(ledger, PASSWORD)
                try:
                    # Ends when the ledger is closed and all of it was read.
                    async for entry in reader.tail(first):
                        self.apply(ledger, entry.entry_id, entry.data)
                finally:
                    await reader.close()
            await self.list_changed.wait()

    async def lead(self) -> None:
        """Take over where the last leader stopped, and roll."""
        ledgers = await self.list.read()
        note(f"leading, from list version {ledgers.version}")
        if ledgers.ids:
            # Only the last one can be open. From here on nobody else can write to any of them.
            await (await self.bk.open_ledger(ledgers.ids[-1], PASSWORD, recover=True)).close()
        for ledger, first in self.unread(ledgers):
            reader = await self.bk.open_ledger(ledger, PASSWORD)
            try:
                async for entry in reader.read(first, reader.last_add_confirmed):
                    self.apply(ledger, entry.entry_id, entry.data)
            finally:
                await reader.close()
        while True:
            ledgers, writer = await self.begin_ledger(ledgers)
            try:
                await self.roll(writer)
            except BaseException:
                # Deposed, or asked to stop: closing tells the others at once, if we still may.
                with contextlib.suppress(BookKeeperError):
                    await writer.close()
                raise
            # This one must succeed: it proves that the ledger ends with what was applied.
            await writer.close()

    async def roll(self, writer: LedgerWriter) -> None:
        """Roll until the ledger is full."""
        for _ in range(self.options.ledger_rolls):
            data = " ".join(str(random.randint(1, 6)) for _ in range(self.options.dice)).encode()
            # Only what is acknowledged is applied: a failed append may be found by the next leader, or not.
            entry_id = await writer.append(data)
            self.apply(writer.ledger_id, entry_id, data)
            await asyncio.sleep(self.options.interval)

    async def begin_ledger(self, ledgers: Ledgers) -> tuple[Ledgers, LedgerWriter]:
        """Make the next ledger and put it on the list; with ``--trim``, take old ones off it.

        Raises:
            DeposedError: the list is not the one that was read.
        """
        await self.delete(ledgers.deleting)
        ids, snapshot, deleting = ledgers.ids, ledgers.snapshot, ()
        if self.options.trim and ids and ids[-1] in self.starts:
            # The newest finished ledger stays, so that followers close behind need not skip anything.
            ids, snapshot, deleting = ids[-1:], self.starts[ids[-1]], ids[:-1]
        writer = await self.bk.create_ledger(*self.options.quorums, password=PASSWORD)
        self.starts = {ledger: self.starts[ledger] for ledger in ids if ledger in self.starts}
        self.starts[writer.ledger_id] = self.state
        try:
            ids = (*ids, writer.ledger_id)
            changed = await self.list.change(Ledgers(ids, snapshot, deleting, ledgers.version))
        except BaseException as error:
            with contextlib.suppress(BookKeeperError):
                await writer.close()
                if isinstance(error, ZnodeVersionError):  # it is not on the list, for certain
                    await self.bk.delete_ledger(writer.ledger_id)
            if isinstance(error, ZnodeVersionError):
                raise DeposedError("another leader changed the list") from error
            raise
        note(f"began ledger {writer.ledger_id}; the list is {', '.join(map(str, ids))}")
        await self.delete(deleting)
        return changed, writer

    async def delete(self, ledgers: tuple[int, ...]) -> None:
        """Delete ledgers that are off the list; they may be gone already."""
        for ledger in ledgers:
            with contextlib.suppress(NoSuchLedgerError):
                await self.bk.delete_ledger(ledger)
                note(f"deleted ledger {ledger}")

    def unread(self, ledgers: Ledgers) -> Iterator[tuple[int, int]]:
        """What to read, in order: a ledger and its first entry that was not applied.

        Who was away for so long that its next ledger was trimmed takes the snapshot.
        """
        if self.state.rolls < ledgers.snapshot.rolls and self.state.ledger not in ledgers.ids:
            self.state = ledgers.snapshot
            print(f"snapshot\troll {self.state.rolls}\ttotal {self.state.total}", flush=True)
        if self.state.ledger in ledgers.ids:
            yield self.state.ledger, self.state.entry + 1
        for ledger in ledgers.after(self.state.ledger):
            self.starts[ledger] = self.state
            yield ledger, 0

    def apply(self, ledger: int, entry: int, data: bytes) -> None:
        """Take one roll into the state, and show it."""
        self.state = self.state.after(ledger, entry, data)
        shown = f"{ledger}:{entry}\troll {self.state.rolls}\t{data.decode()}\ttotal {self.state.total}"
        print(shown, flush=True)


def note(text: str) -> None:
    """Say what this process does; rolls alone go to standard output."""
    print(f"# {text}", file=sys.stderr, flush=True)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Dice that all show the same rolls. Start several; kill or pause the one that leads.",
        epilog="Example: python examples/dice.py zk://127.0.0.1:2181/ledgers --dice 2 --trim",
    )
    parser.add_argument("cluster", help="zk://host:port/ledgers")
    parser.add_argument("--dice", type=int, default=1, metavar="N", help="dice in a roll (1)")
    parser.add_argument("--interval", type=float, default=1.0, metavar="S", help="seconds between rolls (1)")
    parser.add_argument("--trim", action="store_true", help="keep a snapshot, delete old ledgers")
    parser.add_argument("--ledger-rolls", type=int, default=60, metavar="N", help="rolls in a ledger (60)")
    parser.add_argument("--game", default="/dice", metavar="ZNODE", help="where the game is kept (/dice)")
    parser.add_argument("--session", type=float, default=4.0, metavar="S", help="ZooKeeper session (4 s)")
    parser.add_argument(
        "--quorums", type=int, nargs=3, default=(3, 3, 2), metavar=("E", "W", "A"), help="of ledgers (3 3 2)"
    )
    options = parser.parse_args(arguments)
    if options.dice < 1 or options.ledger_rolls < 1 or options.interval <= 0:
        parser.error("--dice, --ledger-rolls and --interval must be positive")
    return options


async def main() -> None:
    """Play until SIGTERM or Ctrl-C."""
    options = options_of()
    logging.basicConfig(level=logging.WARNING, format="# %(name)s: %(message)s")
    settings = ClientSettings(zookeeper_timeout_s=options.session)
    playing = asyncio.current_task()
    assert playing is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    async with BookKeeper(options.cluster, settings=settings) as bk:
        await Dice(bk, options).play()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main())
