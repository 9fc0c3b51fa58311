"""The transactions over lists of a history, and what their reads tell of the order of each list.

Layer: between the history and `list_append`. Every element is appended once in a history, so whoever is seen
in a list is known, and the longest list that was read of a key shows in which order its elements came: every
other read must be a beginning of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy.drill.history import History, HistoryError, Json, Operation, Outcome

Element = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Read:
    """One read of one list, in transaction `by`. `own` is what the transaction had appended to it before."""

    by: int
    key: str
    elements: tuple[Element, ...]
    own: tuple[Element, ...]


@dataclass(slots=True)
class Transaction:
    """One transaction. `appends` holds the elements by key, in order.

    is_committed: it was acknowledged, or told to be done later, or somebody saw what it appended.
    """

    number: int
    operation: Operation
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

    transactions: list[Transaction] = field(default_factory=list)
    writers: dict[tuple[str, Element], Transaction] = field(default_factory=dict)
    orders: dict[str, tuple[Element, ...]] = field(default_factory=dict)
    longest: dict[str, Read] = field(default_factory=dict)
    unseen: dict[str, list[Element]] = field(default_factory=dict)

    def writer(self, key: str, element: Element) -> Transaction | None:
        """Who appended it, if that is part of the history and certainly took place."""
        found = self.writers.get((key, element))
        return found if found is not None and found.is_committed else None

    def reads(self) -> list[Read]:
        """Every read of a committed transaction."""
        return [read for each in self.transactions for read in each.reads]

    def fits(self, read: Read) -> bool:
        """The read is a beginning of the longest of its key."""
        return self.orders[read.key][: len(read.elements)] == read.elements


def lists_of(history: History) -> Lists:
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
            if writer is not None and writer.operation.final is Outcome.UNKNOWN:
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


def _parse(number: int, operation: Operation) -> Transaction:
    transaction = Transaction(number, operation, is_committed=operation.final is Outcome.DONE)
    is_answered = operation.outcome is Outcome.DONE
    asked, told = operation.arguments, operation.result if is_answered else operation.arguments
    if not isinstance(asked, list) or not isinstance(told, list) or len(asked) != len(told):
        raise HistoryError(f"a transaction's result is as long as its arguments: {asked!r} -> {told!r}")
    for part, answer in zip(asked, told, strict=True):
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
