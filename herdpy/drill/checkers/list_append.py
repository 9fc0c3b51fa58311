"""Which promises of its isolation level did a history of list transactions break?

The method is that of Elle (Kingsbury and Alvaro, 2020): lists that only grow tell their whole history to
whoever reads them, so dependencies need not be guessed, and every phenomenon of Adya's hierarchy (1999) is
a cycle of a certain shape among them, or is seen in one read. Of each knot of cycles the worst name is
given, with its smallest cycle.

At every level a read must show elements that somebody appended, each once, and lists must only grow.
Further:

    read uncommitted     no G0 (writes in a cycle)
    read committed       no G1a (aborted read), G1b (intermediate read), G1c (circular information flow)
    repeatable read,     no G-single (read skew) and no lost update, which is the G-single of one key; no long
    snapshot             fork (several anti-dependencies, none after another); reads repeat
    serializable         no G2 (any cycle of anti-dependencies, such as write skew)

With `session` the order of each client counts, with `real_time` that of all that ended before others began:
then names end in "-process" or "-realtime", but for the one that is best known as a stale read. At read
committed, where each statement reads anew, only what had ended before the whole transaction began can be
stale. Strict serializable is serializable with real time. An append that was acknowledged, and that later
ones have taken the place of in every read, is a lost append.

The parts, from the top of the file: `lists_of` takes the transactions and the order of each list from the
history (every element is appended once, so the longest list that was read of a key shows in which order its
elements came); `wrong_reads` finds what one read tells of broken promises; Dependencies is the graph of
what must come before what (Adya's arrows, the orders of one client and of real time); `check` names the
cycles. Real time would need an arrow for nearly every pair; instead each return is a node of its own on a
line of time: a transaction leads to the moment of its return, every moment to the next, and the last moment
before a call to the one that was called.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from herdpy.drill.checkers.cycles import Arrow, CycleShape, Dependency, Graph, find
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

Element = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Read:
    """One read of one list, in transaction `by`. `own` is what the transaction had appended to it before."""

    by: int
    key: str
    elements: tuple[Element, ...]
    own: tuple[Element, ...]


@dataclass(slots=True)
class ListTransaction:
    """One transaction. `appends` holds the elements by key, in order.

    is_committed: it was acknowledged, or found to be done later, or somebody saw what it appended.
    """

    number: int
    operation: ClientOperation
    appends: dict[str, list[Element]] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    is_committed: bool = False

    @property
    def sees_from_s(self) -> float:
        """The oldest moment it may show; of one that writes, its call."""
        return self.operation.called_s if self.appends else self.operation.sees_from_s


@dataclass
class Lists:
    """All transactions, who appended what, and the order of every list as far as somebody read it.

    unseen: by key, elements of committed transactions that are in no read: they come after all that are.
    """

    transactions: list[ListTransaction] = field(default_factory=list)
    writers: dict[tuple[str, Element], ListTransaction] = field(default_factory=dict)
    orders: dict[str, tuple[Element, ...]] = field(default_factory=dict)
    longest: dict[str, Read] = field(default_factory=dict)
    unseen: dict[str, list[Element]] = field(default_factory=dict)

    def writer(self, key: str, element: Element) -> ListTransaction | None:
        """Who appended it, if that is part of the history and certainly took place."""
        found = self.writers.get((key, element))
        return found if found is not None and found.is_committed else None

    def reads(self) -> list[Read]:
        """Every read of a committed transaction."""
        return [read for each in self.transactions for read in each.reads]

    def fits(self, read: Read) -> bool:
        """The read is a beginning of the longest of its key."""
        return self.orders[read.key][: len(read.elements)] == read.elements


def lists_of(history: DrillHistory) -> Lists:
    """Take a history of "txn" operations apart.

    Raises: HistoryError: a transaction is not as herdpy.drill.history describes it, or an element is appended
        twice.
    """
    lists = Lists()
    for operation in history:
        if operation.name == "txn":
            transaction = _parse(len(lists.transactions), operation)
            lists.transactions.append(transaction)
            for key, elements in transaction.appends.items():
                for element in elements:
                    if (key, element) in lists.writers:
                        raise HistoryError(f"element {element!r} is appended to {key} twice")
                    lists.writers[key, element] = transaction
    for read in lists.reads():
        for element in read.elements:
            writer = lists.writers.get((read.key, element))
            if writer is not None and writer.operation.final is OperationOutcome.UNKNOWN:
                writer.is_committed = True
        if len(read.elements) >= len(lists.orders.get(read.key, ())):
            lists.orders[read.key] = read.elements
            lists.longest[read.key] = read
    seen = {(key, element) for key, order in lists.orders.items() for element in order}
    for (key, element), writer in lists.writers.items():
        lists.orders.setdefault(key, ())
        if writer.is_committed and (key, element) not in seen:
            lists.unseen.setdefault(key, []).append(element)
    return lists


def _parse(number: int, operation: ClientOperation) -> ListTransaction:
    transaction = ListTransaction(number, operation, is_committed=operation.final is OperationOutcome.DONE)
    is_answered = operation.outcome is OperationOutcome.DONE
    asked, answered = operation.arguments, operation.result if is_answered else operation.arguments
    if not isinstance(asked, list) or not isinstance(answered, list) or len(asked) != len(answered):
        raise HistoryError(f"a transaction's result is as long as its arguments: {asked!r} -> {answered!r}")
    for part, answer in zip(asked, answered, strict=True):
        if not isinstance(part, list) or not isinstance(answer, list) or len(part) != 3 or len(answer) != 3:
            raise HistoryError(f"a part of a transaction is [name, key, value], not {part!r} -> {answer!r}")
        key = str(part[1])
        if part[0] == "append":
            transaction.appends.setdefault(key, []).append(_element(part[2]))
        elif part[0] != "read":
            raise HistoryError(f"a part of a transaction is an append or a read, not {part[0]!r}")
        elif is_answered:
            elements = [] if answer[2] is None else answer[2]
            if not isinstance(elements, list):
                raise HistoryError(f"a list was read as {elements!r}")
            own = tuple(transaction.appends.get(key, ()))
            transaction.reads.append(Read(number, key, tuple(map(_element, elements)), own))
    return transaction


def _element(value: Json) -> Element:
    if isinstance(value, (list, dict)) or value is None:
        raise HistoryError(f"an element of a list is a number or a text, not {value!r}")
    return value


def wrong_reads(lists: Lists, level: str, *, repeats: bool) -> Iterator[Anomaly]:
    """Every read that shows an anomaly on its own, or with another of its key; each reason is reported once.

    repeats: a transaction must read the same list again, but for what it appended itself.
    """
    reported: set[tuple[str, str, Element | int]] = set()
    partly = _appended_in_parts(lists)
    for read in lists.reads():
        for kind, about, text, others in _of_one(lists, read, partly, level != "read uncommitted"):
            if (kind, read.key, about) not in reported:
                reported.add((kind, read.key, about))
                yield Anomaly(kind, f"{_said(lists, read)} {text}", [*others, _operation(lists, read.by)])
        if not lists.fits(read) and ("incompatible order", read.key, 0) not in reported:
            reported.add(("incompatible order", read.key, 0))
            longest = lists.longest[read.key]
            text = f"{_said(lists, read)} {_shown(read)}; another read {_shown(longest)}"
            yield Anomaly(
                "incompatible order", text, [_operation(lists, read.by), _operation(lists, longest.by)]
            )
    yield from _within_transactions(lists, repeats)


_Found = tuple[str, Element | int, str, list[ClientOperation]]


def _of_one(
    lists: Lists, read: Read, partly: dict[str, list[tuple[int, list[Element]]]], is_clean: bool
) -> Iterator[_Found]:
    key, seen = read.key, set(read.elements)
    if len(seen) < len(read.elements):
        twice = next(each for each in read.elements if read.elements.count(each) > 1)
        yield "duplicate element", twice, f"saw {json.dumps(twice)} twice", []
    for element in read.elements:
        writer = lists.writers.get((key, element))
        if writer is None:
            yield "garbage read", element, f"saw {json.dumps(element)}, which no operation appended", []
        elif is_clean and writer.operation.final is OperationOutcome.NOT_DONE:
            text = f"saw {json.dumps(element)}, whose transaction was reported as not done"
            yield "G1a", writer.number, text, [writer.operation]
    for number, elements in partly.get(key, ()) if is_clean else ():
        missing = [each for each in elements if each not in seen]
        if number != read.by and 0 < len(missing) < len(elements):
            text = f"saw one part of what a transaction appended, and not {json.dumps(missing)}"
            yield "G1b", number, text, [_operation(lists, number)]


def _appended_in_parts(lists: Lists) -> dict[str, list[tuple[int, list[Element]]]]:
    """By key, the transactions that appended more than one element to it, and those elements."""
    found: dict[str, list[tuple[int, list[Element]]]] = {}
    for each in lists.transactions:
        for key, elements in each.appends.items():
            if len(elements) > 1:
                found.setdefault(key, []).append((each.number, elements))
    return found


def _within_transactions(lists: Lists, repeats: bool) -> Iterator[Anomaly]:
    """A transaction sees what it appended itself and, where reads repeat, nothing else that is new."""
    for each in lists.transactions:
        last: dict[str, Read] = {}
        for read in each.reads:
            before = last.get(read.key)
            last[read.key] = read
            missing = [element for element in read.own if element not in read.elements]
            others = tuple(element for element in read.elements if element not in set(read.own))
            text = ""
            if missing:
                text = f"did not see {json.dumps(missing)}, which it had appended itself"
            elif repeats and before is not None:
                first = tuple(element for element in before.elements if element not in set(before.own))
                if first != others:
                    text = f"saw {_shown(read)} where it had seen {_shown(before)} before"
            if text:
                yield Anomaly("internal", f"{_said(lists, read)} {text}", [each.operation])
                break


def _said(lists: Lists, read: Read) -> str:
    operation = _operation(lists, read.by)
    return f"a read of {read.key} by process {operation.process} at {operation.called_s:.6f} s"


def _shown(read: Read) -> str:
    """The list; of a long one its end, where it differs from others."""
    if len(read.elements) > 12:
        return f"{len(read.elements)} elements that end with {json.dumps(read.elements[-8:])}"
    return json.dumps(read.elements)


def _operation(lists: Lists, number: int) -> ClientOperation:
    return lists.transactions[number].operation


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

    def _add(
        self, before: ListTransaction, after: ListTransaction, link: Dependency, key: str, element: Element
    ) -> None:
        if before is not after:
            self.graph.add(before.number, after.number, link)
            self._why.setdefault((before.number, after.number, link), (key, element))

    def _order_writes(self) -> None:
        for key, order in self.lists.orders.items():
            last: ListTransaction | None = None
            for element in order:
                writer = self.lists.writer(key, element)
                if writer is not None:
                    if last is not None:
                        self._add(last, writer, Dependency.WW, key, element)
                    last = writer
            for element in self.lists.unseen.get(key, ()):
                writer = self.lists.writer(key, element)
                if last is not None and writer is not None:
                    self._add(last, writer, Dependency.WW, key, element)

    def _order_read(self, read: Read) -> None:
        key, by = read.key, self.lists.transactions[read.by]
        for element in reversed(read.elements):
            writer = self.lists.writer(key, element)
            if writer is not None and writer is not by:
                self._add(writer, by, Dependency.WR, key, element)
                break
        for element in self.lists.orders[key][len(read.elements) :]:
            writer = self.lists.writer(key, element)
            if writer is not None:
                self._add(by, writer, Dependency.RW, key, element)
                return
        for element in self.lists.unseen.get(key, ()):
            writer = self.lists.writer(key, element)
            if writer is not None:
                self._add(by, writer, Dependency.RW, key, element)

    def _order_processes(self) -> None:
        last: dict[int, ListTransaction] = {}
        for after in sorted(self._committed(), key=lambda each: each.operation.called_s):
            before = last.get(after.operation.process)
            if after.sees_from_s < after.operation.called_s:
                continue
            if before is not None and before.operation.ended_s <= after.operation.called_s:
                self.graph.add(before.number, after.number, Dependency.PROCESS)
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
            self.graph.add(number, moments[index], Dependency.REAL_TIME)
            if index:
                self.graph.add(moments[index - 1], moments[index], Dependency.REAL_TIME)
        for each in self._committed():
            before = bisect_left(times, each.sees_from_s)
            if before:
                self.graph.add(moments[before - 1], each.number, Dependency.REAL_TIME)

    def _committed(self) -> list[ListTransaction]:
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
        if any(link in (Dependency.WR, Dependency.RW) for _, _, link in cycle):
            return False
        return any(self._is_unseen(*self._why[arrow]) for arrow in cycle if arrow[2] == Dependency.WW)

    def _is_unseen(self, key: str, element: Element) -> bool:
        return element in self.lists.unseen.get(key, ())

    def describe(self, cycle: list[Arrow]) -> str:
        """A cycle in words, its transactions as T1, T2, ... in the order of the arrows."""
        names = {node: f"T{index}" for index, (node, _, _) in enumerate(cycle, 1)}
        return "; ".join(self._described(arrow, names) for arrow in cycle)

    def _described(self, arrow: Arrow, names: dict[int, str]) -> str:
        before, after, link = arrow
        first, second = names[before], names[after]
        if link == Dependency.PROCESS:
            process = self._operation(after).process
            return f"process {process} called {second} after {first} had returned"
        if link == Dependency.REAL_TIME:
            return (
                f"{first} had ended at {self._operation(before).ended_s:.6f} s, before {second} could begin "
                f"at {self.lists.transactions[after].sees_from_s:.6f} s"
            )
        key, element = self._why[arrow]
        shown = json.dumps(element)
        if link == Dependency.WW and self._is_unseen(key, element):
            return f"{second} appended {shown} to {key}, and reads show what {first} appended in its place"
        if link == Dependency.WW:
            return f"{second} appended {shown} to {key} after what {first} had appended"
        if link == Dependency.WR:
            return f"{second} read {shown} in {key}, which {first} appended"
        return f"{first} read {key} without {shown}, which {second} appended"

    def _operation(self, number: int) -> ClientOperation:
        return self.lists.transactions[number].operation


NAME = "lists"
STALE = "stale read"

_WRITES = CycleShape("G0", Dependency.WW, Dependency.WW)
_FLOW = CycleShape("G1c", Dependency.WR, Dependency.WW | Dependency.WR)
_SINGLE = CycleShape("G-single", Dependency.RW, Dependency.WW | Dependency.WR)
_FORK = CycleShape("long fork", Dependency.RW, Dependency.WW | Dependency.WR | Dependency.RW, lonely_rw=True)
_ANY = CycleShape("G2", Dependency.RW, Dependency.WW | Dependency.WR | Dependency.RW)

LEVELS: dict[str, tuple[CycleShape, ...]] = {
    "read uncommitted": (_WRITES,),
    "read committed": (_WRITES, _FLOW),
    "repeatable read": (_WRITES, _FLOW, _SINGLE, _FORK),
    "snapshot": (_WRITES, _FLOW, _SINGLE, _FORK),
    "serializable": (_WRITES, _FLOW, _SINGLE, _FORK, _ANY),
    "strict serializable": (_WRITES, _FLOW, _SINGLE, _FORK, _ANY),
}
"""The cycles that each isolation level forbids, worst first."""

REPEATS = ("repeatable read", "snapshot", "serializable", "strict serializable")
"""The levels at which a transaction reads the same again."""


def check(
    history: DrillHistory,
    *,
    level: str = "strict serializable",
    session: bool = False,
    real_time: bool | None = None,
) -> Verdict:
    """Judge every "txn" of the history; all of them are taken to have run at `level`.

    session: the order of each client's transactions counts, too.
    real_time: so does the order of real time; None: at strict serializable alone.

    Raises: HistoryError: a transaction is not as herdpy.drill.history says. ValueError: no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"no isolation level {level!r}; there are {', '.join(LEVELS)}")
    if real_time is None:
        real_time = level == "strict serializable"
    lists = lists_of(history)
    anomalies = list(wrong_reads(lists, level, repeats=level in REPEATS))
    dependencies = Dependencies(lists, process=session, real_time=real_time)
    for shape, cycle in find(dependencies.graph, _shapes(level, session, real_time)):
        anomalies.append(_anomaly(dependencies, shape, dependencies.without_moments(cycle)))
    summary = f"{len(lists.transactions)} transactions on {len(lists.orders)} lists at {level}"
    return Verdict.of(NAME, anomalies, summary)


def _shapes(level: str, session: bool, real_time: bool) -> Iterator[CycleShape]:
    """The forbidden shapes, those that need neither clients nor clocks first."""
    shapes = LEVELS[level]
    yield from shapes
    for link, suffix, is_wanted in (
        (Dependency.PROCESS, "process", session),
        (Dependency.REAL_TIME, "realtime", real_time),
    ):
        for shape in _with_stale_reads(shapes, link) if is_wanted else ():
            is_stale = shape.kind == _SINGLE.kind and link == Dependency.REAL_TIME
            kind = STALE if is_stale else f"{shape.kind}-{suffix}"
            yield replace(shape, kind=kind, rest=shape.rest | link)


def _with_stale_reads(shapes: tuple[CycleShape, ...], link: Dependency) -> tuple[CycleShape, ...]:
    """Read committed forbids no G-single but that whose way back ends by `link`."""
    return shapes if _SINGLE in shapes or _FLOW not in shapes else (*shapes, replace(_SINGLE, last=link))


def _anomaly(dependencies: Dependencies, shape: CycleShape, cycle: list[Arrow]) -> Anomaly:
    kind = shape.kind
    keys = {dependencies.key_of(arrow) for arrow in cycle}
    links = {link for _, _, link in cycle}
    if kind == "G-single" and len(keys) == 1 and links == {Dependency.RW, Dependency.WW}:
        kind = "lost update"
    elif dependencies.shows_lost_append(cycle):
        kind = "lost append"
    operations = [dependencies.lists.transactions[node].operation for node, _, _ in cycle]
    return Anomaly(kind, dependencies.describe(cycle), operations)
