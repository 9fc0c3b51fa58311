"""examples/dice.py, drilled: kill and pause whoever leads, and compare what everybody printed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from herdpy.bookkeeper import BookKeeper, LedgerState
from herdpy.testing.model import ModelCluster

ROOT = Path(__file__).parents[2]
ROLL = re.compile(r"(\d+:\d+)\troll (\d+)\t([1-6]( [1-6])*)\ttotal (\d+)")
SNAPSHOT = re.compile(r"snapshot\troll (\d+)\ttotal (\d+)")


@dataclass
class Player:
    """One dice process and what it printed so far."""

    name: str
    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def rolls(self) -> dict[int, str]:
        """Every roll that was printed, by its number."""
        return {int(found[2]): line for line in self.lines if (found := ROLL.fullmatch(line))}

    @property
    def last(self) -> int:
        """The number of the last roll that it knows of."""
        numbers = [int(re.search(r"roll (\d+)", line)[1]) for line in self.lines]
        return numbers[-1] if numbers else 0

    @property
    def led(self) -> int:
        """How many ledgers it began."""
        return sum(note.startswith("# began ledger") for note in self.notes)

    async def until(self, reached) -> None:
        """Wait until something printed makes ``reached()`` true."""
        while not reached():
            self.news.clear()
            assert self.process.returncode is None, self.notes
            await self.news.wait()

    async def _read(self, stream, into) -> None:
        while line := await stream.readline():
            into.append(line.decode().rstrip("\n"))
            self.news.set()
        self.news.set()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


class Game:
    """Dice processes around one table; none outlives the block."""

    def __init__(self, uri: str, *options: object) -> None:
        self.path = f"/dice-{uuid.uuid4().hex}"
        self.uri = uri
        self.options = ["--interval", "0.02", "--session", "2", "--game", self.path, *map(str, options)]
        self.players: list[Player] = []

    async def join(self) -> Player:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "examples" / "dice.py"),
            self.uri,
            *self.options,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        player = Player(f"player {len(self.players)}", process)
        player.tasks = [
            asyncio.ensure_future(player._read(process.stdout, player.lines)),
            asyncio.ensure_future(player._read(process.stderr, player.notes)),
        ]
        self.players.append(player)
        return player

    async def leader(self, among: list[Player], beyond: int = 0) -> Player:
        """The one among these that begins (another) ledger first, once it has rolled ``beyond`` a number."""
        began = {player.name: player.led for player in among}

        async def begins(player: Player) -> Player:
            await player.until(lambda: player.led > began[player.name] and player.last > beyond)
            return player

        tasks = [asyncio.ensure_future(begins(player)) for player in among]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return done.pop().result()

    async def everybody_reaches(self, number: int, players: list[Player]) -> None:
        await asyncio.gather(*(player.until(lambda p=player: p.last >= number) for player in players))

    async def leave(self, player: Player) -> None:
        """Ctrl-C, and nothing but a quiet end."""
        player.signal(signal.SIGINT)
        await player.process.wait()
        await asyncio.gather(*player.tasks)
        assert player.process.returncode == 0, player.notes
        assert not [note for note in player.notes if not note.startswith("# ")]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_) -> None:
        # All are killed before anything is awaited: a test that timed out is cancelled at the first await.
        for player in self.players:
            with contextlib.suppress(ProcessLookupError):
                player.process.kill()
        for player in self.players:
            await player.process.wait()
            await asyncio.gather(*player.tasks, return_exceptions=True)


def check(players: list[Player]) -> dict[int, str]:
    """All printed the same rolls at the same positions, each without a gap, but for snapshots taken."""
    everything: dict[int, str] = {}
    for player in players:
        expected = 1
        for line in player.lines:
            if snapshot := SNAPSHOT.fullmatch(line):
                assert int(snapshot[1]) >= expected, f"{player.name} went back: {line}"
                expected = int(snapshot[1]) + 1
                continue
            found = ROLL.fullmatch(line)
            assert found, f"{player.name} printed {line!r}"
            number = int(found[2])
            assert number == expected, f"{player.name} printed {line!r} instead of roll {expected}"
            assert everything.setdefault(number, line) == line, f"{player.name} differs"
            expected = number + 1
    total = 0
    for number in sorted(everything):
        found = ROLL.fullmatch(everything[number])
        total += sum(map(int, found[3].split()))
        assert int(found[5]) == total, everything[number]
    return everything


@pytest.mark.soak
def test_killing_and_pausing_the_leader_never_makes_two_sequences_differ(bookkeeper_cluster):
    async def drill():
        async with Game(bookkeeper_cluster.uri) as game:
            a, b, c = [await game.join() for _ in range(3)]
            first = await game.leader([a, b, c], beyond=10)
            await game.everybody_reaches(10, [a, b, c])

            first.signal(signal.SIGKILL)
            rest = [player for player in (a, b, c) if player is not first]
            second = await game.leader(rest, beyond=first.last + 5)
            (third,) = [player for player in rest if player is not second]

            second.signal(signal.SIGSTOP)
            paused_at = second.last
            await game.leader([third], beyond=paused_at + 5)
            second.signal(signal.SIGCONT)
            # The one that woke up was fenced: it follows now, from where it had stopped.
            await game.everybody_reaches(third.last + 10, [second, third])

            fresh = await game.join()
            await game.everybody_reaches(second.last, [fresh, second, third])
            for player in (fresh, second, third):
                await game.leave(player)
            rolls = check(game.players)
            assert list(rolls) == list(range(1, len(rolls) + 1))
            assert first.rolls.keys() | second.rolls.keys() <= third.rolls.keys() | fresh.rolls.keys()
            ledgers = {line.partition(":")[0] for line in rolls.values()}
            assert len(ledgers) >= 3
            return sorted(map(int, ledgers))

    async def all_closed(ledgers):
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            return {(await bk.ledger_metadata(ledger)).state for ledger in ledgers}

    ledgers = asyncio.run(drill())
    # Whoever left last closed its ledger on the way out.
    assert asyncio.run(all_closed(ledgers)) == {LedgerState.CLOSED}


def test_trimming_deletes_ledgers_and_newcomers_begin_with_the_snapshot(bookkeeper_cluster):
    async def drill():
        async with Game(bookkeeper_cluster.uri, "--trim", "--ledger-rolls", 5, "--dice", 2) as game:
            a, b = await game.join(), await game.join()
            leader = await game.leader([a, b], beyond=23)
            follower = b if leader is a else a
            await game.everybody_reaches(23, [follower])
            follower.signal(signal.SIGSTOP)
            away = follower.last
            await leader.until(lambda: leader.last > away + 20)
            fresh = await game.join()
            follower.signal(signal.SIGCONT)
            await game.everybody_reaches(leader.last + 5, [leader, follower, fresh])
            leader.signal(signal.SIGKILL)
            await leader.process.wait()
            heir = await game.leader([follower, fresh], beyond=leader.last + 12)
            await game.everybody_reaches(heir.last, [follower, fresh])
            for player in (follower, fresh):
                await game.leave(player)
            rolls = check(game.players)
            assert any(SNAPSHOT.fullmatch(line) for line in fresh.lines)
            assert all(len(ROLL.fullmatch(line)[3].split()) == 2 for line in rolls.values())
            ledgers = {int(line.partition(":")[0]) for line in rolls.values()}
            async with BookKeeper(bookkeeper_cluster.uri) as bk:
                kept = ledgers & set(await bk.list_ledgers())
                return ledgers, kept

    ledgers, kept = asyncio.run(drill())
    assert len(ledgers) >= 6
    assert 1 <= len(kept) <= 3


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_to_play_with_runs_until_it_is_interrupted(number):
    command = [sys.executable, str(ROOT / "examples" / "dice_cluster.py"), "--bookies", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        try:
            uri = process.stdout.readline().strip()

            async def main():
                async with BookKeeper(uri) as bk:
                    return await bk.bookies()

            (bookie,) = asyncio.run(main())
            process.send_signal(number)
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, told
    assert told == "Ctrl-C stops it and removes its data.\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((bookie.host, bookie.port))


@pytest.fixture
def dice(monkeypatch):
    """The example's module."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module("dice")


def test_a_leader_that_read_an_old_list_is_deposed_before_it_writes(dice, capsys):
    model = ModelCluster(seed=3, bookies=3)
    options = dice.options_of(["zk://unused/ledgers"])

    async def main():
        async with (
            BookKeeper(znodes=model.znodes("slow")) as bk1,
            BookKeeper(znodes=model.znodes("quick")) as bk2,
        ):
            slow, quick = dice.Dice(bk1, options), dice.Dice(bk2, options)
            await slow.list.make()
            read = await slow.list.read()
            listed, writer = await quick.begin_ledger(await quick.list.read())
            with pytest.raises(dice.DeposedError):
                await slow.begin_ledger(read)
            assert await quick.list.read() == listed
            # Its ledger, which nobody ever saw, is gone again.
            assert await bk2.list_ledgers() == [writer.ledger_id] == list(listed.ids)

    model.run(main)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([["1:0\troll 1\t3\ttotal 3"], ["1:0\troll 1\t4\ttotal 4"]], "differs"),
        ([["1:0\troll 1\t3\ttotal 3"], ["2:0\troll 1\t3\ttotal 3"]], "differs"),
        ([["1:0\troll 1\t3\ttotal 3", "1:2\troll 3\t3\ttotal 6"]], "instead of roll 2"),
        ([["1:0\troll 1\t3\ttotal 3", "1:0\troll 1\t3\ttotal 3"]], "instead of roll 2"),
        ([["1:0\troll 1\t3\ttotal 4"]], "total 4"),
        ([["snapshot\troll 5\ttotal 9", "snapshot\troll 2\ttotal 3"]], "went back"),
        ([["Traceback"]], "printed 'Traceback'"),
    ],
)
def test_the_check_sees_what_is_wrong(lines, words):
    players = [Player(f"player {n}", None, printed) for n, printed in enumerate(lines)]
    with pytest.raises(AssertionError, match=words):
        check(players)
