"""What pages show, and what their buttons do."""

from __future__ import annotations

import pytest
from herdpy_broker import claim, finish, groups, reading, schedule, types, workers
from herdpy_broker.schedule import Schedule
from herdpy_broker.submission import Submission, submit

NASTY = "<script>alert('x')</script>&\"'"


def press(served, client, path, **fields):
    """Send a form as a browser does; the page that follows."""
    csrf = client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
    data = {"csrf": csrf, "back": "/", **fields}
    return client.post(path, data=data, headers=served.same_origin, follow_redirects=True)


def die(connection, task_id, error="boom"):
    """Have a task become a dead letter."""
    worker = workers.register(connection, "w", 1, 60.0)
    (task,) = claim.claim(connection, worker, reading.task(connection, task_id).group, 1)
    assert task.id == task_id
    finish.fail(connection, worker, task_id, error, may_retry=False)
    workers.leave(connection, worker)


def test_an_empty_broker_tells_what_to_do(client, connection):
    page = client.get("/").text
    assert "There is no group yet: submit a task." in page
    assert "herdpy-broker work" in page


def test_the_overview_shows_groups_workers_and_slots(served, client, connection):
    submit(connection, Submission("mail", group="news", slot="a"))
    submit(connection, Submission("mail", group="news", slot="a", waits_for_slot=True))
    submit(connection, Submission("mail", group="news", delay_s=3600))
    worker = workers.register(connection, "printer", 4, 60.0)
    claim.claim(connection, worker, "news", 1)
    groups.set_group(connection, "quiet", weight=7, max_running=3, paused=True)
    page = press(served, client, "/group/pause?name=other&paused=true").text
    assert "Group other is paused." in page
    for part in ("1 of 4", "printer", "1 / 1", ">7<", "paused", '<a href="/group?name=news">news</a>'):
        assert part in page, part


def test_names_payloads_and_errors_are_escaped(client, connection):
    types.define(connection, NASTY)
    ident = submit(connection, Submission(NASTY, {"a": NASTY}, group=NASTY))
    die(connection, ident, NASTY)
    for path in ("/", f"/task?id={ident}", "/dead", f"/dead?group={NASTY}", "/group"):
        page = client.get(path, params={"name": NASTY} if path == "/group" else None).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page or path == "/group"
    connection.execute("DELETE FROM broker.dead")
    connection.execute("DELETE FROM broker.task_type WHERE name <> 'mail'")


def test_a_task_is_shown_as_long_as_it_lives_and_after(client, connection):
    first = submit(connection, Submission("mail", {"to": "ann"}, batch="b", deadline_s=60))
    second = submit(connection, Submission("mail", after=(first,)))
    page = client.get(f"/task?id={first}").text
    assert "These wait for it" in page
    assert f'href="/task?id={second}"' in page
    assert "&#34;to&#34;: &#34;ann&#34;" in page
    assert "Cancel" in page
    assert "It waits for" in client.get(f"/task?id={second}").text
    worker = workers.register(connection, "w", 1, 60.0)
    claim.claim(connection, worker, "default", 1)
    finish.finish(connection, worker, [(first, {"sent": True})])
    page = client.get(f"/task?id={first}").text
    assert "&#34;sent&#34;: true" in page
    assert "Cancel" not in page


def test_a_long_payload_is_cut(client, connection):
    ident = submit(connection, Submission("mail", "x" * 200_000))
    page = client.get(f"/task?id={ident}").text
    assert "characters in all" in page
    assert len(page) < 100_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/task", 400),
        ("/task?id=abc", 400),
        ("/task?id=-1", 400),
        ("/task?id=99999999999999999999", 400),
        ("/task?id=%D9%A1", 400),
        ("/task?id=999999999", 404),
        ("/group?name=x&state=gone", 400),
        ("/dead?reason=none", 400),
        ("/dead?before=x", 400),
        ("/live?page=nothing", 404),
        ("/live?page=task&id=x", 400),
        ("/nowhere", 404),
        ("/static/..%2fapp.py", 404),
    ],
)
def test_bad_addresses_are_answered(client, path, status):
    assert client.get(path).status_code == status


def test_cancel_and_retry_and_discard(served, client, connection):
    ident = submit(connection, Submission("mail"))
    assert f"Task {ident} is cancelled." in press(served, client, f"/task/cancel?id={ident}").text
    assert reading.task(connection, ident).state == "cancelled"
    again = press(served, client, f"/task/cancel?id={ident}")
    assert (again.status_code, "does not live" in again.text) == (409, True)
    ident = submit(connection, Submission("mail"))
    die(connection, ident)
    assert f"Task {ident} is tried again." in press(served, client, f"/dead/retry?id={ident}").text
    assert reading.task(connection, ident).state == "ready"
    die(connection, ident)
    assert "given up" in press(served, client, f"/dead/discard?id={ident}").text
    assert reading.task(connection, ident).state == "discarded"


def test_the_selected_and_all_of_a_filter_are_retried(served, client, connection):
    ids = [submit(connection, Submission("mail", group=group)) for group in ("a", "a", "b", "b", "b")]
    for ident in ids:
        die(connection, ident)
    page = press(served, client, "/dead/retry-selected", id=[ids[0], ids[2], 999_999_999]).text
    assert "2 tasks are tried again. 1 was no dead letter any more." in page
    assert press(served, client, "/dead/retry-selected").status_code == 400
    page = press(served, client, "/dead/retry-all?group=b&type=&reason=failed").text
    assert "2 tasks are tried again." in page
    assert [row[0] for row in connection.execute("SELECT id FROM broker.dead")] == [ids[1]]


def test_dead_letters_are_read_on_from_the_last(client, connection):
    columns = "id, type, group_name, priority, attempts, max_attempts, reason, submitted_at"
    rows = "SELECT g, 'mail', 'many', 0, 3, 3, 'failed', now() FROM generate_series(1, 150) g(g)"
    connection.execute(f"INSERT INTO broker.dead ({columns}) {rows}")
    page = client.get("/dead?group=many").text
    assert page.count('type="checkbox"') == 100
    assert "before=51" in page
    older = client.get("/dead?group=many&before=51").text
    assert older.count('type="checkbox"') == 50
    assert "Older ones" not in older


def test_a_group_is_set_in_parts(served, client, connection):
    submit(connection, Submission("mail", group="news"))
    page = press(served, client, "/group/set", name="news", weight="5", max_running="7").text
    assert "Group news is set." in page
    press(served, client, "/group/pause?name=news&paused=true")
    row = "SELECT weight, max_running, paused FROM broker.task_group WHERE name = 'news'"
    assert connection.execute(row).fetchall() == [(5, 7, True)]
    press(served, client, "/group/set", name="news", weight="2", max_running="")
    press(served, client, "/group/pause?name=news&paused=false")
    assert connection.execute(row).fetchall() == [(2, None, False)]
    for weight in ("0", "x", "99999999999", ""):
        assert press(served, client, "/group/set", name="news", weight=weight).status_code == 400
    assert press(served, client, "/group/set", name="", weight="1").status_code == 400


def test_schedules_are_paused_and_run(served, client, connection):
    schedule.add(
        connection, Schedule(name="nightly", type="mail", cron="0 3 * * *", timezone="Europe/Vienna")
    )
    assert (
        "Europe/Vienna" in client.get("/schedules").text
        or "nightly"
        in press(served, client, "/schedules/pause?name=nightly&paused=true", back="/schedules").text
    )
    page = press(served, client, "/schedules/pause?name=nightly&paused=true", back="/schedules").text
    assert "Schedule nightly is paused." in page
    assert "Resume" in page
    assert "has submitted task" in press(served, client, "/schedules/run?name=nightly").text
    assert connection.execute("SELECT count(*) FROM broker.task").fetchall() == [(1,)]
    assert press(served, client, "/schedules/run?name=none").status_code == 409


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example/", "/\\evil.example", "evil"])
def test_a_form_leads_back_to_this_site_alone(served, client, connection, back):
    ident = submit(connection, Submission("mail"))
    csrf = client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
    answer = client.post(
        f"/task/cancel?id={ident}", data={"csrf": csrf, "back": back}, headers=served.same_origin
    )
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/?message=")
