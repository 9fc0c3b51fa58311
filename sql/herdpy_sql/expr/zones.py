"""Between UTC and the session's time zone, for casts and functions that PostgreSQL calls stable.

Offsets are those of ``values.time_zones``; texts are ``values.moment_output``'s.
"""

from __future__ import annotations

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY
from herdpy_sql.values import time_zones
from herdpy_sql.values.moments import check_timestamp

offset_at_utc = time_zones.offset_at_utc
abbreviation = time_zones.abbreviation


def to_local(us: int, zone: str) -> int:
    """The TIMESTAMP that a clock in ``zone`` shows at a TIMESTAMPTZ."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    return us + offset_at_utc(us, zone)


def to_utc(us: int, zone: str) -> int:
    """The TIMESTAMPTZ at which a clock in ``zone`` shows a TIMESTAMP."""
    if time_zones.is_utc(zone) or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    return check_timestamp(us - time_zones.offset_at_local(us, zone))


def to_local_as_named(us: int, name: str) -> int:
    """:func:`to_local` by a zone's name or abbreviation, as AT TIME ZONE has it. SqlError 22023."""
    if not time_zones.abbreviated(name.lower()) or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return to_local(us, name)
    return us + time_zones.abbreviation_offset(name.lower(), us, is_local=False)


def to_utc_as_named(us: int, name: str) -> int:
    """:func:`to_utc` by a zone's name or abbreviation."""
    if not time_zones.abbreviated(name.lower()) or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return to_utc(us, name)
    return check_timestamp(us - time_zones.abbreviation_offset(name.lower(), us))
