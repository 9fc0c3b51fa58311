"""How strongly a row or a table is locked, and which locks exclude one another: PostgreSQL's modes.

A mode is a small number; what an owner has of one thing is a *mask* with a bit for each mode. Rows have four,
tables eight, named as the statements that ask for them are.
"""

from __future__ import annotations

KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE = range(4)
"""Of rows: FOR KEY SHARE ... FOR UPDATE; each is stronger than the one before."""
(
    ACCESS_SHARE,
    ROW_SHARE,
    ROW_EXCLUSIVE,
    SHARE_UPDATE_EXCLUSIVE,
    TABLE_SHARE,
    SHARE_ROW_EXCLUSIVE,
    EXCLUSIVE,
    ACCESS_EXCLUSIVE,
) = range(4, 12)
"""Of tables: what LOCK TABLE names."""

_EXCLUDED: dict[int, tuple[int, ...]] = {
    KEY_SHARE: (UPDATE,),
    SHARE: (NO_KEY_UPDATE, UPDATE),
    NO_KEY_UPDATE: (SHARE, NO_KEY_UPDATE, UPDATE),
    UPDATE: (KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE),
    ACCESS_SHARE: (ACCESS_EXCLUSIVE,),
    ROW_SHARE: (EXCLUSIVE, ACCESS_EXCLUSIVE),
    ROW_EXCLUSIVE: (TABLE_SHARE, SHARE_ROW_EXCLUSIVE, EXCLUSIVE, ACCESS_EXCLUSIVE),
    SHARE_UPDATE_EXCLUSIVE: tuple(range(SHARE_UPDATE_EXCLUSIVE, ACCESS_EXCLUSIVE + 1)),
    TABLE_SHARE: (
        ROW_EXCLUSIVE,
        SHARE_UPDATE_EXCLUSIVE,
        SHARE_ROW_EXCLUSIVE,
        EXCLUSIVE,
        ACCESS_EXCLUSIVE,
    ),
    SHARE_ROW_EXCLUSIVE: tuple(range(ROW_EXCLUSIVE, ACCESS_EXCLUSIVE + 1)),
    EXCLUSIVE: tuple(range(ROW_SHARE, ACCESS_EXCLUSIVE + 1)),
    ACCESS_EXCLUSIVE: tuple(range(ACCESS_SHARE, ACCESS_EXCLUSIVE + 1)),
}

CONFLICTS: tuple[int, ...] = tuple(sum(1 << other for other in _EXCLUDED[mode]) for mode in range(12))
"""By mode: the mask of those that another owner may not have at the same time."""

COVERED_BY: tuple[int, ...] = tuple(
    sum(
        1 << other
        for other in range(12)
        if (other < ACCESS_SHARE) is (mode < ACCESS_SHARE) and CONFLICTS[mode] & ~CONFLICTS[other] == 0
    )
    for mode in range(12)
)
"""By mode: the mask of those that exclude all that it does; who has one of them has it."""

TABLE_MODES = {
    "ACCESS SHARE": ACCESS_SHARE,
    "ROW SHARE": ROW_SHARE,
    "ROW EXCLUSIVE": ROW_EXCLUSIVE,
    "SHARE UPDATE EXCLUSIVE": SHARE_UPDATE_EXCLUSIVE,
    "SHARE": TABLE_SHARE,
    "SHARE ROW EXCLUSIVE": SHARE_ROW_EXCLUSIVE,
    "EXCLUSIVE": EXCLUSIVE,
    "ACCESS EXCLUSIVE": ACCESS_EXCLUSIVE,
}
"""The words of LOCK TABLE."""
