"""Time zones: by IANA name in any case, by PostgreSQL's abbreviations, by POSIX texts such as ``EST5EDT``.

``zone_of`` finds a zone by what a session's TimeZone or a text calls it, ``named`` gives the name that
SHOW has. Offsets are those at a moment or at a local time, east of UTC. A local time that a clock skips is
read with the offset that held before the change, one that it shows twice with the offset after it, as
PostgreSQL reads them (DetermineTimeZoneOffset): that is the lesser of both. Beside ``styles``, below
``moments``.
"""

from __future__ import annotations

import datetime as dt
import functools
import io
import re
import struct
import zoneinfo
from collections.abc import Iterator

from herdpy_sql.errors import SqlError

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_LEAST = (dt.datetime(1, 1, 3) - _EPOCH) // _MICROSECOND
_GREATEST = (dt.datetime(9999, 12, 29) - _EPOCH) // _MICROSECOND
_CYCLE_US = 146_097 * 86_400_000_000
"""Of 400 years, after which days of the week and of the year are the same again."""
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu"})
_LONGEST_WORD = 10
"""Letters of a word in a text that count."""

_FIXED = """
    acdt*:37800 acsst*:37800 acst:34200 act:-18000 acwst:31500 adt*:-10800 aedt*:39600 aesst*:39600
    aest:36000 aft:16200 akdt*:-28800 akst:-32400 almst*:25200 almt:21600 amt:-14400 ast:-14400 awsst*:32400
    awst:28800 azost*:0 azot:-3600 bdst*:7200 bdt:21600 bnt:28800 bort:28800 bot:-14400 bra:-10800
    brst*:-7200 brt:-10800 bst*:3600 btt:21600 cadt*:37800 cast:34200 cct:28800 cdt*:-18000 cest*:7200
    cet:3600 cetdst*:7200 chadt*:49500 chast:45900 chut:36000 clst*:-10800 cot:-18000 cst:-21600 cxt:25200
    ddut:36000 eat:10800 edt*:-14400 eest*:10800 eet:7200 eetdst*:10800 egst*:0 egt:-3600 est:-18000
    fet:10800 fjst*:46800 fjt:43200 fnst*:-3600 fnt:-7200 galt:-21600 gamt:-32400 gft:-10800 gilt:43200
    gmt:0 hkt:28800 hst:-36000 ict:25200 idt*:10800 irt:12600 ist:7200 jayt:32400 jst:32400 kdt*:36000
    kgst*:21600 kst:32400 lhst:37800 ligt:36000 mart:-34200 mdt*:-21600 mest*:7200 mesz*:7200 met:3600
    metdst*:7200 mez:3600 mht:43200 mmt:23400 mpt:36000 msd*:14400 mst:-25200 must*:18000 mut:14400
    mvt:18000 myt:28800 ndt*:-9000 nft:-12600 npt:20700 nst:-12600 nzdt*:46800 nzst:43200 nzt:43200
    pdt*:-25200 pet:-18000 pgt:36000 pht:28800 pkst*:21600 pkt:18000 pmdt*:-7200 pmst:-10800 pont:39600
    pst:-28800 pwt:32400 pyst*:-10800 ret:14400 sadt*:37800 sast:7200 sct:14400 taht:-36000 tft:18000
    tjt:18000 tot:46800 trut:36000 tvt:43200 uct:0 ulast*:32400 ut:0 utc:0 uyst*:-7200 uyt:-10800
    uzst*:21600 uzt:18000 vut:39600 wadt*:28800 wakt:43200 wast:25200 wat:3600 wdt*:32400 wet:0 wetdst*:3600
    wft:43200 wgst*:-7200 wgt:-10800 xjt:21600 yapt:36000 yekst*:21600 z:0 zulu:0
"""
_FOLLOWING = """
    amst:Asia/Yerevan anast:Asia/Anadyr anat:Asia/Anadyr arst:America/Argentina/Buenos_Aires
    art:America/Argentina/Buenos_Aires azst:Asia/Baku azt:Asia/Baku ckt:Pacific/Rarotonga
    clt:America/Santiago davt:Antarctica/Davis easst:Pacific/Easter east:Pacific/Easter
    fkst:Atlantic/Stanley fkt:Atlantic/Stanley gest:Asia/Tbilisi get:Asia/Tbilisi gyt:America/Guyana
    iot:Indian/Chagos irkst:Asia/Irkutsk irkt:Asia/Irkutsk kgt:Asia/Bishkek kost:Pacific/Kosrae
    krast:Asia/Krasnoyarsk krat:Asia/Krasnoyarsk lhdt:Australia/Lord_Howe lint:Pacific/Kiritimati
    lkt:Asia/Colombo magst:Asia/Magadan magt:Asia/Magadan mawt:Antarctica/Mawson msk:Europe/Moscow
    novst:Asia/Novosibirsk novt:Asia/Novosibirsk nut:Pacific/Niue omsst:Asia/Omsk omst:Asia/Omsk
    petst:Asia/Kamchatka pett:Asia/Kamchatka pyt:America/Asuncion sgt:Asia/Singapore tkt:Pacific/Fakaofo
    tmt:Asia/Ashgabat ulat:Asia/Ulaanbaatar vet:America/Caracas vlast:Asia/Vladivostok vlat:Asia/Vladivostok
    volt:Europe/Volgograd yakst:Asia/Yakutsk yakt:Asia/Yakutsk yekt:Asia/Yekaterinburg
"""

FIXED_OFFSETS = {
    word: int(offset) for word, _, offset in (one.partition(":") for one in _FIXED.replace("*", "").split())
}
"""Abbreviations, in lower case, that are the same seconds at all times (PostgreSQL's set "Default")."""
DAYLIGHT = frozenset(one.partition("*")[0] for one in _FIXED.split() if "*" in one)
"""Those of them that are daylight savings times."""
FOLLOWING = {word: zone for word, _, zone in (one.partition(":") for one in _FOLLOWING.split())}
"""Abbreviations that are what a zone meant by them at the time."""


@functools.lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """The names of zones, by the same in lower case."""
    return {name.lower(): name for name in zoneinfo.available_timezones()}


_POSIX_NAME = r"(?:<[A-Za-z0-9+:-]+>|[A-Za-z_/.:]+)"
_POSIX_TIME = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
_POSIX = re.compile(rf"({_POSIX_NAME}|)({_POSIX_TIME})(?:({_POSIX_NAME})({_POSIX_TIME})?(,.+)?)?", re.ASCII)
_READ_BY_PYTHON = re.compile(r"[^A-Za-z0-9+-]")
_USUAL_RULES = ",M3.2.0,M11.1.0"
"""When daylight savings time is where a POSIX text does not say it."""
_TZIF = b"TZif2" + bytes(15) + struct.pack("!6L", 0, 0, 0, 0, 1, 1) + struct.pack("!lBB", 0, 0, 0) + b"\0"


class UnknownZoneError(ValueError):
    """There is no such zone."""


@functools.lru_cache(maxsize=512)
def zone_of(name: str) -> dt.tzinfo:
    """The zone of that name. SqlError 22023 where there is none."""
    try:
        return _found(name)[1]
    except UnknownZoneError:
        raise SqlError("22023", f'time zone "{name}" not recognized') from None


def named(name: str) -> str:
    """The zone's name as SHOW has it. UnknownZoneError."""
    return _found(name)[0]


def is_zone(name: str) -> bool:
    """Whether there is a zone of that name."""
    try:
        _found(name)
    except UnknownZoneError:
        return _far_offset(name) is not None
    return True


def _far_offset(name: str) -> int | None:
    """Seconds east of UTC of a POSIX text with more hours than Python's zones have; None of any other."""
    match = _POSIX.fullmatch(name)
    if match is None or match[3] is not None:
        return None
    hours, minutes, seconds = (int(part) for part in (*match[2].lstrip("+-").split(":"), "0", "0")[:3])
    total = (hours * 60 + minutes) * 60 + seconds
    if not 24 <= hours <= 167 or minutes > 59 or seconds > 59:
        return None
    return total if match[2].startswith("-") else -total


@functools.lru_cache(maxsize=512)
def _found(name: str) -> tuple[str, dt.tzinfo]:
    known = _names().get(name.lower())
    if known is not None:
        return known, zoneinfo.ZoneInfo(known)
    try:  # which may be there without being listed
        return name, zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return name.upper(), _posix(name.upper())


def _posix(text: str) -> dt.tzinfo:
    """A zone by a POSIX text: the name, how far it is west of UTC, and what daylight savings time is."""
    match = _POSIX.fullmatch(text)
    if match is None:
        raise UnknownZoneError(text)
    standard, west, daylight, other, rules = match.groups()
    if daylight is None:
        return dt.timezone(dt.timedelta(seconds=-_posix_seconds(west)), standard.strip("<>"))
    if not standard:  # which Python does not read, nor has anyone a use for
        raise UnknownZoneError(text)
    names = [_READ_BY_PYTHON.sub("-", one.strip("<>")) for one in (standard, daylight)]
    rule = f"<{names[0]}>{west}<{names[1]}>{other or ''}{rules or _USUAL_RULES}"
    try:
        return zoneinfo.ZoneInfo.from_file(io.BytesIO(_TZIF + _TZIF + f"\n{rule}\n".encode()), key=text)
    except ValueError:
        raise UnknownZoneError(text) from None


def _posix_seconds(text: str) -> int:
    hours, minutes, seconds = (int(part) for part in (*text.lstrip("+-").split(":"), "0", "0")[:3])
    if hours > 167 or minutes > 59 or seconds > 59:
        raise UnknownZoneError(text)
    total = (hours * 60 + minutes) * 60 + seconds
    if total >= 86_400:
        raise UnknownZoneError(text)
    return -total if text.startswith("-") else total


def of_offset(seconds: int) -> str:
    """The name of the zone that is always so many seconds east of UTC: ``<+02>-02``."""
    hours, rest = divmod(abs(seconds), 3_600)
    shown = f"{hours:02d}"
    if rest:
        shown += f":{rest // 60:02d}"
    if rest % 60:
        shown += f":{rest % 60:02d}"
    return f"<{'-' if seconds < 0 else '+'}{shown}>{'+' if seconds < 0 else '-'}{shown}"


def is_utc(zone: str) -> bool:
    """Whether a zone's clocks show UTC, by its name."""
    return zone in _UTC_NAMES


def offset_at_utc(us: int, zone: str) -> int:
    """The zone's offset in microseconds at a moment of UTC. SqlError 22023 for an unknown zone."""
    if zone in _UTC_NAMES:
        return 0
    offset = _at_utc(us, zone_of(zone)).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def offset_at_local(us: int, zone: str) -> int:
    """The same at a local time."""
    if zone in _UTC_NAMES:
        return 0
    try:
        local, there = _within(us), zone_of(zone)
    except SqlError:
        far = _far_offset(zone)
        if far is None:
            raise
        return far * 1_000_000
    before, after = (local.replace(tzinfo=there, fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None
    assert after is not None
    return min(before, after) // _MICROSECOND


def abbreviation(us: int, zone: str) -> str:
    """What a zone calls itself at a moment: "UTC", "CET"."""
    if zone in _UTC_NAMES:
        return "GMT" if zone.endswith("GMT") else "UTC"
    return _at_utc(us, zone_of(zone)).tzname() or ""


def _within(us: int) -> dt.datetime:
    """A time that Python has, at which zones are as they are at this one."""
    if us > _GREATEST:
        us -= -(-(us - _GREATEST) // _CYCLE_US) * _CYCLE_US
    return _EPOCH + dt.timedelta(microseconds=max(us, _LEAST))


def _at_utc(us: int, zone: dt.tzinfo) -> dt.datetime:
    return _within(us).replace(tzinfo=dt.UTC).astimezone(zone)


def abbreviated(word: str) -> bool:
    """Whether a word, in lower case, is an abbreviation."""
    return word[:_LONGEST_WORD] in FIXED_OFFSETS or word[:_LONGEST_WORD] in FOLLOWING


def abbreviation_offset(word: str, us: int, *, is_local: bool = True) -> int:
    """Microseconds east of UTC of what an abbreviation, in lower case, means at a time, local or of UTC."""
    word = word[:_LONGEST_WORD]
    fixed = FIXED_OFFSETS.get(word)
    if fixed is not None:
        return fixed * 1_000_000
    if is_local:
        us -= offset_at_local(us, FOLLOWING[word])
    return _meant(word.upper(), us // 1_000_000) * 1_000_000


def zone_meant(name: str) -> str:
    """The zone that an abbreviation is of, or is always; any other name as it is."""
    word = name.lower()[:_LONGEST_WORD]
    fixed = FIXED_OFFSETS.get(word)
    return FOLLOWING.get(word, name) if fixed is None else of_offset(fixed)


@functools.lru_cache(maxsize=4096)
def _meant(word: str, utc_s: int) -> int:
    """What the zone of an abbreviation meant by it when it last used it, or when it first did."""
    name = FOLLOWING[word.lower()]
    zone = zone_of(name)
    for moment in _around(utc_s * 1_000_000):
        shown = _at_utc(moment, zone)
        if shown.tzname() == word:
            return int((shown.utcoffset() or dt.timedelta()).total_seconds())
    return offset_at_utc(utc_s * 1_000_000, name) // 1_000_000


def _around(us: int) -> Iterator[int]:
    """Moments before one, back to the first zones, and then after it, as long as zones change."""
    near = min(max(us, _FIRST_ZONES_US), _LAST_CHANGES_US)
    yield us
    yield from range(near, _FIRST_ZONES_US - 1, -_DAYS_US)
    yield from range(near + _DAYS_US, _LAST_CHANGES_US + 1, _DAYS_US)


_DAYS_US = 10 * 86_400_000_000
_FIRST_ZONES_US = -130 * 366 * 86_400_000_000
_LAST_CHANGES_US = 130 * 366 * 86_400_000_000
