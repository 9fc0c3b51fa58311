"""Graphs of transactions whose arrows say "must come before", and the smallest cycles of a shape in them.

Layer: below the checkers of transactions; it knows nothing of what transactions did. An order of all of them
exists where there is no cycle; which arrows a cycle has decides its name. Cycles live inside strongly
connected components, "knots" here (Tarjan 1972), and in those alone they are searched for, breadth first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntFlag

FIRST_ARROWS = 200
"""In one knot the search begins at no more arrows than these."""


class Dependency(IntFlag):
    """Why one transaction must come before another.

    WW: the other overwrote what it wrote. WR: the other read what it wrote. RW: the other overwrote what it
    read (an anti-dependency). PROCESS: the same client made the other later. REAL_TIME: it had ended before
    the other began.
    """

    WW = 1
    WR = 2
    RW = 4
    PROCESS = 8
    REAL_TIME = 16


@dataclass(frozen=True, slots=True)
class CycleShape:
    """Which cycles are looked for: an arrow of `first`, and a way back along `rest`.

    lonely_rw: no two RW arrows follow each other on it.
    last: the way back ends with such an arrow.
    """

    kind: str
    first: Dependency
    rest: Dependency
    lonely_rw: bool = False
    last: Dependency | None = None


Arrow = tuple[int, int, Dependency]


class Graph:
    """Nodes 0 to count - 1, and more that `add_node` makes; several kinds of arrow between two nodes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arrows: list[dict[int, Dependency]] = [{} for _ in range(count)]

    def add_node(self) -> int:
        """One more node, which does not count when cycles are measured."""
        self.arrows.append({})
        return len(self.arrows) - 1

    def add(self, before: int, after: int, link: Dependency) -> None:
        """`before` must come before `after`. Nothing comes before itself: such an arrow is not kept."""
        if before != after:
            self.arrows[before][after] = self.arrows[before].get(after, Dependency(0)) | link


def find(graph: Graph, shapes: Iterable[CycleShape]) -> Iterator[tuple[CycleShape, list[Arrow]]]:
    """For each shape, worst first, the smallest cycle of each knot that has no cycle of a worse shape."""
    named: list[set[int]] = []
    for shape in shapes:
        for knot in knots(graph, shape.first | shape.rest):
            inside = set(knot)
            if any(known <= inside for known in named):
                continue
            cycle = smallest_cycle(graph, shape, inside)
            if cycle is not None:
                named.append({node for node, _, _ in cycle})
                yield shape, cycle


def knots(graph: Graph, links: Dependency) -> list[list[int]]:
    """The strongly connected components of more than one node, over arrows of these links."""
    found: list[list[int]] = []
    order = [-1] * len(graph.arrows)
    lowest = [0] * len(graph.arrows)
    is_open = [False] * len(graph.arrows)
    open_nodes: list[int] = []
    count = 0
    for root in range(len(graph.arrows)):
        if order[root] >= 0:
            continue
        path = [(root, _successors(graph, root, links))]
        order[root] = lowest[root] = count
        count += 1
        open_nodes.append(root)
        is_open[root] = True
        while path:
            node, successors = path[-1]
            for after in successors:
                if order[after] < 0:
                    order[after] = lowest[after] = count
                    count += 1
                    open_nodes.append(after)
                    is_open[after] = True
                    path.append((after, _successors(graph, after, links)))
                    break
                if is_open[after]:
                    lowest[node] = min(lowest[node], order[after])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    knot: list[int] = []
                    while not knot or knot[-1] != node:
                        knot.append(open_nodes.pop())
                        is_open[knot[-1]] = False
                    if len(knot) > 1:
                        found.append(knot)
    return found


def _successors(graph: Graph, node: int, links: Dependency) -> Iterator[int]:
    return iter([after for after, has in graph.arrows[node].items() if has & links])


def smallest_cycle(graph: Graph, shape: CycleShape, inside: set[int]) -> list[Arrow] | None:
    """The smallest cycle of this shape among the nodes `inside`, beginning with its first arrow."""
    firsts = [
        (node, after)
        for node in sorted(inside)
        for after, has in sorted(graph.arrows[node].items())
        if has & shape.first and after in inside
    ]
    step = max(1, len(firsts) // FIRST_ARROWS)
    best: list[Arrow] | None = None
    for node, after in firsts[::step]:
        limit = graph.count if best is None else _length(graph, best) - 2
        way = _way(graph, shape, after, node, inside, limit)
        if way is not None:
            best = [(node, after, shape.first), *way]
            if _length(graph, best) == 2:
                break
    return best


def _length(graph: Graph, cycle: list[Arrow]) -> int:
    return sum(node < graph.count for node, _, _ in cycle)


def _way(
    graph: Graph, shape: CycleShape, start: int, goal: int, inside: set[int], limit: int
) -> list[Arrow] | None:
    """The shortest way from start to goal, after an arrow of `shape.first`; no longer than `limit`."""
    begin = (start, shape.lonely_rw and shape.first == Dependency.RW)
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Dependency]] = {}
    lengths = {begin: 0}
    waiting = deque([begin])
    while waiting:
        place = waiting.popleft()
        node, after_rw = place
        if lengths[place] >= limit:
            break
        for after, has in graph.arrows[node].items():
            if after not in inside:
                continue
            for link in _each(has & shape.rest):
                is_rw = shape.lonely_rw and link == Dependency.RW
                if is_rw and after_rw:
                    continue
                if after == goal:
                    if (shape.last is not None and link != shape.last) or (is_rw and begin[1]):
                        continue
                    return [*_back(came, begin, place), (node, after, link)]
                following = (after, is_rw)
                length = lengths[place] + (after < graph.count)
                if length < lengths.get(following, limit + 1):
                    lengths[following] = length
                    came[following] = (place, link)
                    if after < graph.count:
                        waiting.append(following)
                    else:
                        waiting.appendleft(following)
    return None


def _each(links: Dependency) -> Iterator[Dependency]:
    return (link for link in Dependency if link & links)


def _back(
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Dependency]],
    begin: tuple[int, bool],
    end: tuple[int, bool],
) -> list[Arrow]:
    arrows: list[Arrow] = []
    place = end
    while place != begin:
        before, link = came[place]
        arrows.append((before[0], place[0], link))
        place = before
    return arrows[::-1]
