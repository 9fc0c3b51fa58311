"""The graph of a history's list transactions: which of them must come before which, and why in words.

Layer: `transactions` and `cycles` below, `list_append` above. The arrows are Adya's: write and write, write
and read, read and write (anti-dependency), and the orders of one client and of real time. Real time would
need an arrow for nearly every pair; instead each return is a node of its own on a line of time: a
transaction leads to the moment of its return, every moment to the next, and the last moment before a call
to whom it called.
"""

from __future__ import annotations

import json
from bisect import bisect_left

from herdpy.drill.checkers.cycles import Arrow, Graph, Link
from herdpy.drill.checkers.transactions import Element, Lists, Read, Transaction
from herdpy.drill.history import Operation


class Dependencies:
    """The graph, and what each arrow stands for. Nodes below the number of transactions are those."""

    def __init__(self, lists: Lists, *, process: bool = True, real_time: bool = True) -> None:
        self.lists = lists
        self.graph = Graph(len(lists.transactions))
        self._why: dict[Arrow, tuple[str, Element]] = {}
        self._order_writes()
        for read in lists.reads():
            if lists.fits(read):
                self._order_read(read)
        if process:
            self._order_processes()
        if real_time:
            self._order_time()

    def _add(self, before: Transaction, after: Transaction, link: Link, key: str, element: Element) -> None:
        if before is not after:
            self.graph.add(before.number, after.number, link)
            self._why.setdefault((before.number, after.number, link), (key, element))

    def _order_writes(self) -> None:
        for key, order in self.lists.orders.items():
            last: Transaction | None = None
            for element in order:
                writer = self.lists.writer(key, element)
                if writer is not None:
                    if last is not None:
                        self._add(last, writer, Link.WW, key, element)
                    last = writer
            for element in self.lists.unseen.get(key, ()):
                writer = self.lists.writer(key, element)
                if last is not None and writer is not None:
                    self._add(last, writer, Link.WW, key, element)

    def _order_read(self, read: Read) -> None:
        key, by = read.key, self.lists.transactions[read.by]
        for element in reversed(read.elements):
            writer = self.lists.writer(key, element)
            if writer is not None and writer is not by:
                self._add(writer, by, Link.WR, key, element)
                break
        for element in self.lists.orders[key][len(read.elements) :]:
            writer = self.lists.writer(key, element)
            if writer is not None:
                self._add(by, writer, Link.RW, key, element)
                return
        for element in self.lists.unseen.get(key, ()):
            writer = self.lists.writer(key, element)
            if writer is not None:
                self._add(by, writer, Link.RW, key, element)

    def _order_processes(self) -> None:
        last: dict[int, Transaction] = {}
        for after in sorted(self._committed(), key=lambda each: each.operation.called_s):
            before = last.get(after.operation.process)
            if after.sees_from_s < after.operation.called_s:
                continue
            if before is not None and before.operation.ended_s <= after.operation.called_s:
                self.graph.add(before.number, after.number, Link.PROCESS)
            last[after.operation.process] = after

    def _order_time(self) -> None:
        ended = sorted(
            (each.operation.ended_s, each.number)
            for each in self._committed()
            if each.operation.ended_s < float("inf")
        )
        times = [at_s for at_s, _ in ended]
        moments = [self.graph.add_node() for _ in ended]
        for index, (_, number) in enumerate(ended):
            self.graph.add(number, moments[index], Link.REAL_TIME)
            if index:
                self.graph.add(moments[index - 1], moments[index], Link.REAL_TIME)
        for each in self._committed():
            before = bisect_left(times, each.sees_from_s)
            if before:
                self.graph.add(moments[before - 1], each.number, Link.REAL_TIME)

    def _committed(self) -> list[Transaction]:
        return [each for each in self.lists.transactions if each.is_committed]

    def without_moments(self, cycle: list[Arrow]) -> list[Arrow]:
        """The cycle among transactions alone; a way along the line of time becomes one arrow."""
        count = len(self.lists.transactions)
        nodes = [node for node, _, _ in cycle if node < count]
        links = [link for node, _, link in cycle if node < count]
        return list(zip(nodes, [*nodes[1:], nodes[0]], links, strict=True))

    def key_of(self, arrow: Arrow) -> str | None:
        """The key that an arrow of WW, WR or RW is about."""
        why = self._why.get(arrow)
        return None if why is None else why[0]

    def shows_lost_append(self, cycle: list[Arrow]) -> bool:
        """It has no reads in it, and an element that no read shows, though reads show later ones."""
        if any(link in (Link.WR, Link.RW) for _, _, link in cycle):
            return False
        return any(self._is_unseen(*self._why[arrow]) for arrow in cycle if arrow[2] == Link.WW)

    def _is_unseen(self, key: str, element: Element) -> bool:
        return element in self.lists.unseen.get(key, ())

    def tell(self, cycle: list[Arrow]) -> str:
        """A cycle in words, its transactions as T1, T2, ... in the order of the arrows."""
        names = {node: f"T{index}" for index, (node, _, _) in enumerate(cycle, 1)}
        return "; ".join(self._tell(arrow, names) for arrow in cycle)

    def _tell(self, arrow: Arrow, names: dict[int, str]) -> str:
        before, after, link = arrow
        first, second = names[before], names[after]
        if link == Link.PROCESS:
            process = self._operation(after).process
            return f"process {process} called {second} after {first} had returned"
        if link == Link.REAL_TIME:
            return (
                f"{first} had ended at {self._operation(before).ended_s:.6f} s, before {second} could begin "
                f"at {self.lists.transactions[after].sees_from_s:.6f} s"
            )
        key, element = self._why[arrow]
        shown = json.dumps(element)
        if link == Link.WW and self._is_unseen(key, element):
            return f"{second} appended {shown} to {key}, and reads show what {first} appended in its place"
        if link == Link.WW:
            return f"{second} appended {shown} to {key} after what {first} had appended"
        if link == Link.WR:
            return f"{second} read {shown} in {key}, which {first} appended"
        return f"{first} read {key} without {shown}, which {second} appended"

    def _operation(self, number: int) -> Operation:
        return self.lists.transactions[number].operation
