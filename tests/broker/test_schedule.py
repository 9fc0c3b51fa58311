"""Schedules: when they are due, and that each time is one task."""

from __future__ import annotations

import datetime
import threading
import zoneinfo

import pytest
from herdpy_broker import schedule
from herdpy_broker.errors import InvalidValueError, NoSuchScheduleError, NoSuchTypeError, SlotTakenError
from herdpy_broker.schedule import Schedule


def at(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def cron(text, timezone="UTC", **more):
    return Schedule(name="s", type="t", cron=text, timezone=timezone, **more)


def make_due(connection, seconds=1.0):
    connection.execute(
        "UPDATE broker.schedule SET next_at = now() - $1::float8 * INTERVAL '1 second'", (seconds,)
    )


VIENNA, HOWE, KATHMANDU = "Europe/Vienna", "Australia/Lord_Howe", "Asia/Kathmandu"

TIMES = [
    ("0 * * * *", "UTC", "2026-01-01 10:00", ["2026-01-01 11:00", "2026-01-01 12:00"]),
    ("30 4 1 * *", "UTC", "2026-01-01 10:00", ["2026-02-01 04:30"]),
    ("0 9 * * 1-5", VIENNA, "2026-01-02 09:00", ["2026-01-05 08:00"]),
    ("15 6 * * *", KATHMANDU, "2026-01-01 00:00", ["2026-01-01 00:30", "2026-01-02 00:30"]),
    # Clocks go forward on March 29 at 02:00 (01:00 UTC): 02:30 does not exist, and is 03:00 on this day.
    ("30 2 * * *", VIENNA, "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
    ("0 * * * *", VIENNA, "2026-03-29 00:00", ["2026-03-29 01:00", "2026-03-29 02:00"]),
    # They go back on October 25 at 03:00 (01:00 UTC): 02:30 comes twice, and is once.
    ("30 2 * * *", VIENNA, "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ("30 * * * *", VIENNA, "2026-10-24 23:45", ["2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"]),
    # Half an hour of summer time, on October 4 at 02:00 (15:30 UTC the day before).
    ("15 2 * * *", HOWE, "2026-10-02 16:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
]


@pytest.mark.parametrize(("text", "timezone", "start", "expected"), TIMES)
def test_times_of_cron(text, timezone, start, expected):
    moment, found = at(start), []
    for _ in expected:
        moment = cron(text, timezone).after(moment)
        found.append(moment)
    assert found == [at(one) for one in expected]


def test_a_period_keeps_its_beat():
    every = Schedule(name="s", type="t", every_s=60)
    assert every.after(at("2026-01-01 00:00:10")) == at("2026-01-01 00:01:10")
    due = at("2026-01-01 00:00:00")
    assert every.after(at("2026-01-01 00:00:01"), due) == at("2026-01-01 00:01:00")
    assert every.after(at("2026-01-01 10:00:01"), due) == at("2026-01-01 10:01:00")
    assert every.after(at("2026-01-01 10:00:00"), due) == at("2026-01-01 10:01:00")


def test_what_is_due_is_submitted_once(desk):
    schedule.add(desk.connection, cron("0 0 1 1 *", payload={"a": 1}, group="g", priority=2))
    assert schedule.fire(desk.connection) == []
    make_due(desk.connection)
    (one,) = schedule.fire(desk.connection)
    view = desk.task(one)
    assert (view.type, view.payload, view.group, view.priority) == ("t", {"a": 1}, "g", 2)
    assert schedule.fire(desk.connection) == []
    (left,) = schedule.listing(desk.connection)
    now = desk.connection.execute("SELECT now()").fetchone()[0]
    assert left.next_at == cron("0 0 1 1 *").after(now)
    assert left.last_at is not None


def test_missed_times_are_made_up_for_by_one(desk):
    schedule.add(desk.connection, Schedule(name="s", type="t", every_s=60))
    make_due(desk.connection, 3600)
    assert len(schedule.fire(desk.connection)) == 1
    assert schedule.fire(desk.connection) == []


def test_two_that_look_at_once_submit_one(desk, connect):
    for name in ("a", "b", "c", "d"):
        schedule.add(desk.connection, Schedule(name=name, type="t", every_s=3600))
    make_due(desk.connection)
    fired: list[int] = []
    looks = [threading.Thread(target=lambda: fired.extend(schedule.fire(connect()))) for _ in range(4)]
    for look in looks:
        look.start()
    for look in looks:
        look.join()
    assert len(fired) == len(set(fired)) == 4


def test_a_fire_that_is_rolled_back_is_made_again(desk):
    schedule.add(desk.connection, Schedule(name="s", type="t", every_s=3600))
    make_due(desk.connection)
    with desk.connection.transaction():
        assert len(schedule.fire(desk.connection)) == 1
        desk.connection.rollback()
    assert len(schedule.fire(desk.connection)) == 1
    assert len(desk.claim()) == 1


def test_a_time_passes_while_the_task_before_lives(desk):
    schedule.add(desk.connection, Schedule(name="s", type="t", every_s=60, slot="s"))
    make_due(desk.connection)
    (one,) = schedule.fire(desk.connection)
    make_due(desk.connection)
    assert schedule.fire(desk.connection) == []
    with pytest.raises(SlotTakenError):
        schedule.run_now(desk.connection, "s")
    desk.claim()
    desk.finish(one)
    assert desk.state(schedule.run_now(desk.connection, "s")) == "ready"


def test_a_paused_schedule_rests(desk):
    schedule.add(desk.connection, Schedule(name="s", type="t", every_s=60))
    make_due(desk.connection)
    schedule.pause(desk.connection, "s")
    assert schedule.fire(desk.connection) == []
    schedule.pause(desk.connection, "s", False)
    assert len(schedule.fire(desk.connection)) == 1


def test_a_schedule_is_replaced_and_removed(connection):
    schedule.add(connection, Schedule(name="s", type="t", every_s=60))
    schedule.add(connection, cron("5 5 * * *", VIENNA))
    (left,) = schedule.listing(connection)
    assert (left.every_s, left.cron, left.timezone) == (None, "5 5 * * *", VIENNA)
    schedule.remove(connection, "s")
    assert schedule.listing(connection) == []
    for change in (schedule.remove, schedule.pause, schedule.run_now):
        with pytest.raises(NoSuchScheduleError):
            change(connection, "s")


BAD = {
    "both": Schedule(name="s", type="t", cron="* * * * *", every_s=1),
    "neither": Schedule(name="s", type="t"),
    "no name": Schedule(name="", type="t", every_s=1),
    "no period": Schedule(name="s", type="t", every_s=0),
    "not five fields": cron("* * *"),
    "no minute": cron("60 * * * *"),
    "never": cron("0 0 30 2 *"),
    "no zone": cron("* * * * *", "Europe/Nowhere"),
    "a path": cron("* * * * *", "../etc/passwd"),
    "a directory": cron("* * * * *", "Europe"),
    "payload": Schedule(name="s", type="t", every_s=1, payload={1, 2}),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_is_no_schedule_is_refused(connection, bad):
    with pytest.raises(InvalidValueError):
        schedule.add(connection, bad)
    assert schedule.listing(connection) == []


def test_a_schedule_of_an_unknown_type_is_refused(connection):
    with pytest.raises(NoSuchTypeError):
        schedule.add(connection, Schedule(name="s", type="nonesuch", every_s=60))


def test_the_tables_zones_are_known():
    assert {VIENNA, HOWE, KATHMANDU} <= zoneinfo.available_timezones()
