"""What single reads of lists tell of broken promises: dirty, impossible and contradicting ones.

Layer: `transactions` below, `list_append` above, which looks for cycles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from herdpy.drill.checkers.transactions import Element, Lists, Read
from herdpy.drill.history import Operation, Outcome
from herdpy.drill.judging import Anomaly


def wrong_reads(lists: Lists, level: str, *, repeats: bool) -> Iterator[Anomaly]:
    """Every read that shows an anomaly on its own, or with another of its key; each reason is told once.

    repeats: a transaction must read the same list again, but for what it appended itself.
    """
    told: set[tuple[str, str, Element | int]] = set()
    partly = _appended_in_parts(lists)
    for read in lists.reads():
        for kind, about, text, others in _of_one(lists, read, partly, level != "read uncommitted"):
            if (kind, read.key, about) not in told:
                told.add((kind, read.key, about))
                yield Anomaly(kind, f"{_said(lists, read)} {text}", [*others, _operation(lists, read.by)])
        if not lists.fits(read) and ("incompatible order", read.key, 0) not in told:
            told.add(("incompatible order", read.key, 0))
            longest = lists.longest[read.key]
            text = f"{_said(lists, read)} {_shown(read)}; another read {_shown(longest)}"
            yield Anomaly(
                "incompatible order", text, [_operation(lists, read.by), _operation(lists, longest.by)]
            )
    yield from _within_transactions(lists, repeats)


_Found = tuple[str, Element | int, str, list[Operation]]


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
            yield "garbage read", element, f"saw {json.dumps(element)}, which nobody appended", []
        elif is_clean and writer.operation.final is Outcome.NOT_DONE:
            text = f"saw {json.dumps(element)}, whose transaction was told not to be done"
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


def _operation(lists: Lists, number: int) -> Operation:
    return lists.transactions[number].operation
