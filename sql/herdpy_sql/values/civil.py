"""Civil dates: days since 1970-01-01 of years, months and days of the proleptic Gregorian calendar, and back.

As in H. Hinnant, "chrono-compatible low-level date algorithms", since datetime ends at year 9999. Years are
astronomical: 0 is 1 BC. Below ``moments``.
"""

from __future__ import annotations

import datetime as dt

DAY_US = 86_400_000_000
_EPOCH_ORDINAL = 719_163


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date whose astronomical year may be zero or less."""
    if 0 < year < 10_000:
        return dt.date(year, month, day).toordinal() - _EPOCH_ORDINAL
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Astronomical year, month and day of a number of days since 1970-01-01."""
    days += 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


def days_in_month(year: int, month: int) -> int:
    """Of an astronomical year."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in {4, 6, 9, 11} else 31
