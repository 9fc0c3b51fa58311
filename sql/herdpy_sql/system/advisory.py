"""The functions of advisory locks, by name.

A lock is known by one number of 64 bits or by two of 32, which never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from herdpy_sql.errors import SqlError

_ONE, _TWO = -1, -2


@dataclass(frozen=True, slots=True)
class AdvisoryCall:
    """A call of such a function.

    Attributes:
        space, key: which lock; a key of None stands for all of them.
        unlocks, tries, shared: what is done with it.
        scope: 0: until it is unlocked; 1: until the transaction ends.
    """

    space: int
    key: bytes | None
    unlocks: bool
    tries: bool
    shared: bool
    scope: int


NAMES = frozenset(
    f"pg_{verb}advisory_{scope}lock{shared}"
    for verb in ("", "try_")
    for scope in ("", "xact_")
    for shared in ("", "_shared")
) | {"pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all"}
ANSWERING = frozenset(name for name in NAMES if "try" in name or name.endswith(("unlock", "unlock_shared")))
"""Those that give a BOOLEAN; the others give nothing."""


def advisory_call(name: str, given: Sequence[object]) -> AdvisoryCall | None:
    """A call with its arguments; None when one is NULL. SqlError 42883, 22P02, 22003."""
    wanted = (0,) if name.endswith("_all") else (1, 2)
    if len(given) not in wanted:
        raise SqlError("42883", f"function {name} does not exist")
    if any(one is None for one in given):
        return None
    bits = 64 if len(given) == 1 else 32
    numbers = [_number(one, bits) for one in given]
    key = None if not numbers else b"".join(n.to_bytes(bits // 8, "big", signed=True) for n in numbers)
    return AdvisoryCall(
        _ONE if len(given) == 1 else _TWO,
        key,
        unlocks="unlock" in name,
        tries="try" in name,
        shared=name.endswith("_shared"),
        scope=int("xact" in name),
    )


def _number(value: object, bits: int) -> int:
    kind = "bigint" if bits == 64 else "integer"
    try:
        number = int(str(value))
    except ValueError:
        raise SqlError("22P02", f'invalid input syntax for type {kind}: "{value!s}"') from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise SqlError("22003", f"{kind} out of range")
    return number
