"""Which of many dated things are kept: the last few, and one a day, a week and a month.

Pure; below ``expiry``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=Hashable)


class KeepPolicy(msgspec.Struct, frozen=True):
    """How many are kept.

    Attributes:
        last: of the newest.
        daily, weekly, monthly: the newest of each of so many days, ISO weeks and months (UTC), counted over
            those that have any.
    """

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0

    def __post_init__(self) -> None:
        if min(self.last, self.daily, self.weekly, self.monthly) < 0:
            raise ValueError("a number of backups to keep is negative")

    @property
    def keeps_any(self) -> bool:
        """Whether it says anything: one that does not is no policy."""
        return any((self.last, self.daily, self.weekly, self.monthly))


def kept(dated: Iterable[tuple[T, int]], policy: KeepPolicy) -> set[T]:
    """Those that the policy keeps.

    Args:
        dated: things, and their times in microseconds since 1970-01-01 UTC.
    """
    newest_first = sorted(dated, key=lambda one: one[1], reverse=True)
    found = {one for one, _time in newest_first[: policy.last]}
    for count, form in ((policy.daily, "%Y-%m-%d"), (policy.weekly, "%G-%V"), (policy.monthly, "%Y-%m")):
        first: dict[str, T] = {}
        for one, time_us in newest_first:
            first.setdefault(datetime.fromtimestamp(time_us / 1e6, UTC).strftime(form), one)
        found |= set(list(first.values())[:count])
    return found
