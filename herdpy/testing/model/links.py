"""What a simulated network does to messages between two hosts: delay, slowness, one-way silence.

A link is directed, from one host's name to another's. Times are virtual seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Delay:
    """A distribution of one-way delays: mostly between `low_s` and `high_s`, now and then up to `late_s`."""

    low_s: float = 0.0001
    high_s: float = 0.001
    late_s: float = 0.05
    late_share: float = 0.01

    def draw(self, rng: random.Random) -> float:
        """One delay in seconds."""
        if self.late_share and rng.random() < self.late_share:
            return rng.uniform(self.high_s, self.late_s)
        return rng.uniform(self.low_s, self.high_s)


@dataclass(slots=True)
class Link:
    """The state of one direction between two hosts.

    `bytes_per_s` None is unlimited. `split_share` is the share of writes that arrive in two halves.
    While `is_cut`, nothing arrives; what was sent meanwhile arrives after the repair, as TCP has it.
    """

    delay: Delay = field(default_factory=Delay)
    bytes_per_s: float | None = None
    split_share: float = 0.02
    is_cut: bool = False


class Links:
    """All directed links, made as they are used, from one default."""

    def __init__(self, delay: Delay | None = None, split_share: float = 0.02) -> None:
        self.delay = delay or Delay()
        self.split_share = split_share
        self._links: dict[tuple[str, str], Link] = {}

    def between(self, source: str, target: str) -> Link:
        """The link from `source` to `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.delay, split_share=self.split_share)
        return link

    def cut(self, source: str, target: str) -> None:
        """Silence one direction."""
        self.between(source, target).is_cut = True

    def repair(self, source: str, target: str) -> None:
        """Let one direction speak again."""
        self.between(source, target).is_cut = False

    def cut_links(self) -> list[tuple[str, str]]:
        """The directions that are silent now, in the order in which they were first used."""
        return [pair for pair, link in self._links.items() if link.is_cut]

    def calm(self) -> None:
        """Every link is whole and quick from now on, whatever it was made to be."""
        self.delay = Delay(late_share=0.0)
        self._links.clear()
