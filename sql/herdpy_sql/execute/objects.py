"""Definitions of what is no table: changes of the catalog that the planner has made out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_sql.execute.base import Outcome, Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View

Work = Callable[["View"], None]


class DefinePlan(Plan):
    """A statement that changes definitions.

    Args:
        tag: its command tag. text: what EXPLAIN says it does. work: does it, with ids of the view's catalog.
    """

    def __init__(self, tag: str, text: str, work: Work | None) -> None:
        self.tag = tag
        self._text = text
        self._work = work

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if self._work is not None:
            self._work(view)
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"{self.tag.title()} {self._text if self._work is not None else '(nothing)'}"]
