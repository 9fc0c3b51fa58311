"""Which differences follow from a statement that was refused earlier in the same script.

A script builds on its own statements: where CREATE TRIGGER was refused, later rows of the table differ, and
no answer is wrong by itself. A change that HerdPy did not carry out as PostgreSQL did puts its tables and
other objects under suspicion; a change that reads a suspect makes its own objects suspect, too, and one that
names a function those of the function's text. Other rows of a statement that names a suspect follow from the
earlier one, and so does COMMIT that rolls back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_TEXTS = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"\w+")
_OBJECT = re.compile(
    r"\b(?:on\s+(?:function|procedure|routine)|procedure|routine|from|into|update|table|only|copy|view|index"
    r"|on|references|sequence|trigger|function|policy|rule|partition|of|type|domain"
    r"|role|user|schema|inherits|prepare|cursor|declare|to)"
    r"\s+(?:if\s+(?:not\s+)?exists\s+)?(?:only\s+)?\(?\"?(?:\w+\"?\.\"?)?(\w+)",
    re.IGNORECASE,
)
_FUNCTION = re.compile(r"\s*create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+(\w+)", re.IGNORECASE)
_DRAWS = re.compile(r"\b(?:nextval|setval)\s*\(\s*'(\w+)'", re.IGNORECASE)
_QUOTED = re.compile(r"'(\w+)'\s*::\s*reg", re.IGNORECASE)
_READS = re.compile(r"\s*(?:select|values|table|with|show|explain|fetch)\b", re.IGNORECASE)
_CHANGES_IN_WITH = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s", re.IGNORECASE)
_BEGINS = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
_ENDS = re.compile(r"\s*(?:commit|end|rollback|abort|prepare\s+transaction)\b(?!\s+to\b)", re.IGNORECASE)


class Suspects:
    """The objects of a script that are not as PostgreSQL has them."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._within: dict[str, set[str]] = {}
        self._failed_in_block = False

    def follows(self, record: Mapping[str, Any]) -> bool:
        """Take the next statement of the script; whether its difference follows from an earlier one."""
        text, category = str(record.get("text", "")), record["category"]
        bare = _TEXTS.sub(" ", text)
        words = _WORD.findall(bare.lower())
        drawn = {name.lower() for name in _DRAWS.findall(text)}
        quoted = {name.lower() for name in _QUOTED.findall(text)}
        written = set[str]().union(*(self._within.get(word, ()) for word in words))
        named = bool(self._names & (drawn | quoted | written) or self._names.intersection(words))
        ended = bool(_ENDS.match(bare)) and self._failed_in_block
        differs = category != "same"
        if (made := _FUNCTION.match(text)) is not None:
            self._within[made[1].lower()] = _objects(text)
        if not self._reads(bare) and (differs or named):
            self._names |= _objects(bare) | written
        if differs:
            self._names |= drawn | written
        self._failed_in_block = differs or (self._failed_in_block and not _BEGINS.match(bare) and not ended)
        return category in ("rows", "missing") and (named or ended)

    @staticmethod
    def _reads(text: str) -> bool:
        return bool(_READS.match(text)) and not _CHANGES_IN_WITH.search(text)


def _objects(text: str) -> set[str]:
    return {name.lower() for name in _OBJECT.findall(text)}


def following(records: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each statement of a script, whether its difference follows from an earlier one."""
    suspects = Suspects()
    return [suspects.follows(record) for record in records]
