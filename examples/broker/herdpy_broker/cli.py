"""The command ``herdpy-broker``: submit and look after tasks, run workers, serve the page.

Layer 4. Every command works on one database (``--url``, or the environment variable HERDPY_URL). It ends
with 0, with 1 where it failed, and with 2 where it was used wrongly; an error is one line.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import click
import typer

import herdpy
from herdpy_broker import groups as group_settings
from herdpy_broker import letters, listing, reading, schedule, schema, types
from herdpy_broker.errors import BrokerError, InvalidValueError
from herdpy_broker.listing import DeadFilter
from herdpy_broker.overview import STATES, Overview, overview
from herdpy_broker.retrying import retry_chosen, retry_each
from herdpy_broker.schedule import Schedule
from herdpy_broker.submission import BATCH_MOST, Submission, submit, submit_all
from herdpy_broker.tables import json_lines, table
from herdpy_broker.terminal import (
    batches,
    connected,
    database,
    fail,
    failing,
    opened,
    parsed,
    progress,
    refuse,
    show,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A broker of tasks on HerdPy. The database is --url, or the environment variable HERDPY_URL.",
)

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="HERDPY_URL", show_envvar=False, help="The database (or HERDPY_URL)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Of this group alone.")]
Type = Annotated[str | None, typer.Option("--type", "-t", help="Of this type alone.")]
Reason = Annotated[str | None, typer.Option("--reason", help=f"One of: {', '.join(listing.REASONS)}.")]
Most = Annotated[int, typer.Option("--most", "-n", help="Rows at most.")]


_TOP_GROUPS = 30


@app.command()
def migrate(url: Url = None) -> None:
    """Make the broker's tables, or bring them to this program's version.

    Example: herdpy-broker migrate --url herdpy://db1,db2,db3/herdpy
    """
    with failing():
        with herdpy.connect(database(url), autocommit=True) as connection:
            before = schema.version(connection)
            schema.migrate(connection)
        now = f"The broker's tables have version {schema.VERSION}"
        typer.echo(f"{now} already." if before == schema.VERSION else f"{now}.")


@app.command("submit")
def submit_task(
    type: Annotated[str, typer.Argument(help="Its type: `herdpy-broker type` defines one.")],
    payload: Annotated[str | None, typer.Argument(help="What its handler gets, as JSON.")] = None,
    url: Url = None,
    group: Annotated[str, typer.Option("--group", "-g", help="Whose task it is.")] = "default",
    priority: Annotated[int, typer.Option("--priority", "-p", help="Higher ones are first.")] = 0,
    delay_s: Annotated[float, typer.Option("--delay", help="Seconds until it may start.")] = 0.0,
    deadline_s: Annotated[
        float | None, typer.Option("--deadline", help="Seconds after which it must have been started.")
    ] = None,
    slot: Annotated[str | None, typer.Option("--slot", help="One living task has it.")] = None,
    waits_for_slot: Annotated[
        bool, typer.Option("--wait-for-slot", help="Wait for a slot that is taken.")
    ] = False,
    after: Annotated[
        list[int] | None, typer.Option("--after", help="A task that must be done before.")
    ] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="A name to find it by.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", help="Instead of its type's.")] = None,
) -> None:
    """Submit a task; its id is printed.

    Example: herdpy-broker submit mail '{"to": "ann@example.com"}' --group news --delay 60
    """
    with failing():
        value = parsed("the payload", payload)
    submission = Submission(
        type=type,
        payload=value,
        group=group,
        priority=priority,
        delay_s=delay_s,
        deadline_s=deadline_s,
        slot=slot,
        waits_for_slot=waits_for_slot,
        after=tuple(after or ()),
        batch=batch,
        max_attempts=max_attempts,
    )
    with connected(url) as connection:
        typer.echo(submit(connection, submission))


@app.command("submit-file")
def submit_file(
    file: Annotated[
        Path, typer.Argument(help='A JSON object a line: {"type": ..., "payload": ...}; - is stdin.')
    ],
    url: Url = None,
    at_once: Annotated[int, typer.Option("--at-once", help="Tasks of a transaction.")] = 1_000,
) -> None:
    """Submit a task a line; each line has the arguments of a submission by name.

    Lines are submitted in transactions of --at-once tasks. An error tells how many were submitted before.

    Example: herdpy-broker submit-file tasks.jsonl
    """
    if not 0 < at_once <= BATCH_MOST:
        refuse(f"--at-once is from 1 to {BATCH_MOST}")
    done = 0
    with connected(url) as connection, opened(file) as lines:
        try:
            for submissions in batches(lines, at_once):
                submit_all(connection, submissions)
                done += len(submissions)
                progress(f"{done} tasks submitted")
        except InvalidValueError as error:
            refuse(f"{error} ({done} tasks were submitted before)")
        except (BrokerError, herdpy.Error) as error:
            fail(f"{error} ({done} tasks were submitted before)")
    typer.echo(f"{done} tasks submitted.")


@app.command("tasks")
def list_tasks(
    url: Url = None,
    state: Annotated[str, typer.Option("--state", "-s", help=f"One of: {', '.join(STATES)}.")] = "ready",
    group: Group = None,
    type: Type = None,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List living tasks of a state, in the order in which workers take them.

    Example: herdpy-broker tasks --state running --group news
    """
    with connected(url) as connection:
        rows = listing.tasks(connection, state, group, type, most)
    names = ("id", "type", "group", "priority", "attempts", "submitted_at", "ready_at", "worker", "error")
    show(rows, names, as_json=as_json)


@app.command("task")
def show_task(
    id: Annotated[int, typer.Argument(help="Its id.")], url: Url = None, as_json: Json = False
) -> None:
    """Show a task, wherever it is: living, finished or dead.

    Example: herdpy-broker task 4711
    """
    with connected(url) as connection:
        view = reading.task(connection, id)
    if as_json:
        typer.echo(json_lines([view]))
        return
    fields = [(name, getattr(view, name)) for name in view.__slots__]
    shown = [(name, json.dumps(value) if isinstance(value, dict | list) else value) for name, value in fields]
    typer.echo(table(("field", "value"), [pair for pair in shown if pair[1] is not None]))


@app.command("dead")
def list_dead(
    url: Url = None,
    group: Group = None,
    type: Type = None,
    reason: Reason = None,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List dead letters, the highest id first.

    Example: herdpy-broker dead --reason failed --group news
    """
    with connected(url) as connection:
        rows = listing.dead_letters(connection, DeadFilter(group, type, reason), most=most)
    show(rows, ("id", "type", "group", "reason", "attempts", "died_at", "error"), as_json=as_json)


@app.command("cancel")
def cancel_tasks(ids: Annotated[list[int], typer.Argument(help="Their ids.")], url: Url = None) -> None:
    """Cancel living tasks; the tasks that need them die.

    Example: herdpy-broker cancel 4711 4712
    """
    with connected(url) as connection:
        for ident in ids:
            letters.cancel(connection, ident)
            typer.echo(f"Task {ident} is cancelled.")


def _retry_progress(looked_at: int) -> None:
    progress(f"{looked_at} dead letters looked at")


@app.command("retry")
def retry_tasks(
    ids: Annotated[list[int] | None, typer.Argument(help="Their ids.")] = None,
    url: Url = None,
    all: Annotated[bool, typer.Option("--all", help="All dead letters of the filter.")] = False,
    group: Group = None,
    type: Type = None,
    reason: Reason = None,
) -> None:
    """Take dead letters up again: those named, or all of a filter.

    Example: herdpy-broker retry --all --reason "worker died"
    """
    chosen = (group, type, reason)
    if bool(ids) == all:
        refuse("name tasks, or give --all")
    if ids and any(chosen):
        refuse("a filter goes with --all, not with ids")
    with connected(url) as connection:
        if ids:
            done, missed = retry_each(connection, ids)
        else:
            done, missed = retry_chosen(connection, DeadFilter(*chosen), progress=_retry_progress)
    typer.echo(f"{done} tried again." + (f" {missed} were no dead letters." if missed else ""))
    if missed and ids:
        raise typer.Exit(1)


@app.command("groups")
def list_groups(url: Url = None, as_json: Json = False) -> None:
    """List groups, how many of their tasks are in which state, and their dead letters.

    Example: herdpy-broker groups --json
    """
    with connected(url) as connection:
        found = overview(connection)
    rows = []
    for one in found.all_groups():
        had = {**one.counts, "oldest_ready_s": one.oldest_ready_s, "dead": one.dead}
        set_to = {name: getattr(one.settings, name) for name in ("weight", "max_running", "paused")}
        rows.append({"group": one.settings.name, **had, **set_to})
    names = ("group", *STATES, "oldest_ready_s", "dead", "weight", "max_running", "paused")
    if not as_json:
        typer.echo(table(names, [[row[name] for name in names] for row in rows]))
    elif rows:
        typer.echo(json_lines(rows))


@app.command("group")
def set_group(
    name: Annotated[str, typer.Argument(help="Its name.")],
    url: Url = None,
    weight: Annotated[int | None, typer.Option("--weight", help="Its share among groups with work.")] = None,
    max_running: Annotated[
        int | None, typer.Option("--max-running", help="Running tasks at most; 0: no limit.")
    ] = None,
    paused: Annotated[
        bool | None, typer.Option("--pause/--resume", help="Whether its tasks are given out.")
    ] = None,
) -> None:
    """Set a group; what is not given stays as it is.

    Example: herdpy-broker group news --weight 3 --max-running 20
    """
    with connected(url) as connection:
        group_settings.change_group(connection, name, weight=weight, max_running=max_running, paused=paused)
    typer.echo(f"Group {name} is set.")


@app.command("types")
def list_types(url: Url = None, as_json: Json = False) -> None:
    """List the types of tasks, and how they are tried again.

    Example: herdpy-broker types
    """
    with connected(url) as connection:
        rows = listing.types(connection)
    show(rows, ("name", "max_attempts", "backoff_s", "backoff_factor", "backoff_most_s"), as_json=as_json)


@app.command("type")
def define_type(
    name: Annotated[str, typer.Argument(help="Its name.")],
    url: Url = None,
    max_attempts: Annotated[int, typer.Option("--max-attempts", help="Attempts of a task.")] = 3,
    backoff_s: Annotated[float, typer.Option("--backoff", help="Seconds before the second attempt.")] = 1.0,
    backoff_factor: Annotated[
        float, typer.Option("--factor", help="Each later wait is so many times as long.")
    ] = 2.0,
    backoff_most_s: Annotated[
        float, typer.Option("--backoff-most", help="Seconds of a wait at most.")
    ] = 300.0,
) -> None:
    """Define a type of tasks, or set all of its settings.

    Example: herdpy-broker type mail --max-attempts 5 --backoff 10
    """
    with connected(url) as connection:
        types.define(connection, name, max_attempts, backoff_s, backoff_factor, backoff_most_s)
    typer.echo(f"Type {name} is defined.")


@app.command("workers")
def list_workers(url: Url = None, as_json: Json = False) -> None:
    """List the workers that are registered.

    Example: herdpy-broker workers
    """
    with connected(url) as connection:
        rows = overview(connection).workers
    show(rows, ("id", "name", "running", "capacity", "lease_s", "started_at", "seen_at"), as_json=as_json)


@app.command("schedules")
def list_schedules(url: Url = None, as_json: Json = False) -> None:
    """List schedules, and when each fires next.

    Example: herdpy-broker schedules
    """
    with connected(url) as connection:
        rows = schedule.listing(connection)
    names = ("name", "cron", "every_s", "timezone", "type", "group", "paused", "next_at", "last_at")
    show(rows, names, as_json=as_json)


@app.command("schedule")
def add_schedule(
    name: Annotated[str, typer.Argument(help="Its name; one that exists is replaced.")],
    type: Annotated[str, typer.Argument(help="The type of its tasks.")],
    payload: Annotated[str | None, typer.Argument(help="The payload of its tasks, as JSON.")] = None,
    url: Url = None,
    cron: Annotated[str | None, typer.Option("--cron", help="Minute, hour, day, month, day of week.")] = None,
    every_s: Annotated[
        float | None, typer.Option("--every", help="Seconds from one time to the next.")
    ] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="Of --cron.")] = "UTC",
    group: Annotated[str, typer.Option("--group", "-g", help="The group of its tasks.")] = "default",
    priority: Annotated[int, typer.Option("--priority", "-p", help="The priority of its tasks.")] = 0,
    slot: Annotated[
        str | None, typer.Option("--slot", help="No new task while one with this slot lives.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="It rests until it is resumed.")] = False,
) -> None:
    """Submit a task again and again: by --cron, or every --every seconds.

    Example: herdpy-broker schedule report mail --cron "0 3 * * *" --timezone Europe/Vienna
    """
    with connected(url) as connection:
        added = Schedule(
            name=name,
            type=type,
            payload=parsed("the payload", payload),
            cron=cron,
            every_s=every_s,
            timezone=timezone,
            group=group,
            priority=priority,
            slot=slot,
            paused=paused,
        )
        schedule.add(connection, added)
    typer.echo(f"Schedule {name} is set.")


@app.command("unschedule")
def remove_schedule(name: Annotated[str, typer.Argument(help="Its name.")], url: Url = None) -> None:
    """Remove a schedule; tasks that it submitted stay.

    Example: herdpy-broker unschedule report
    """
    with connected(url) as connection:
        schedule.remove(connection, name)
    typer.echo(f"Schedule {name} is removed.")


@app.command("top")
def watch(
    url: Url = None,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.2, help="Seconds between two looks.")
    ] = 2.0,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="So many looks; 0: until Ctrl-C.")] = 0,
) -> None:
    """Watch the groups and workers.

    Example: herdpy-broker top --interval 5
    """
    with connected(url) as connection, contextlib.suppress(KeyboardInterrupt):
        before = None
        for look in itertools.count(1):
            found = overview(connection)
            if sys.stdout.isatty():
                click.clear()
            typer.echo(_top(found, before))
            before = found
            if look == count:
                return
            time.sleep(interval_s)


def _top(found: Overview, before: Overview | None) -> str:
    """The text of one look."""
    submitted = "-"
    if before is not None:
        seconds = (found.at - before.at).total_seconds()
        submitted = f"{(found.highest_id - before.highest_id) / seconds:.1f}/s"
    head = [f"{found.at:%H:%M:%S} UTC", *(f"{state} {found.count(state)}" for state in STATES)]
    head += [f"dead {found.dead_letters()}", f"submitted {submitted}", f"workers {len(found.workers)}"]
    rows = [
        [one.settings.name, *(one.counts[state] for state in STATES), one.oldest_ready_s]
        for one in found.all_groups()[:_TOP_GROUPS]
    ]
    return "  ".join(head) + "\n\n" + table(["group", *STATES, "oldest_ready_s"], rows)


@app.command()
def work(
    handlers: Annotated[str, typer.Argument(help="MODULE:NAME of a mapping from types to handlers.")],
    url: Url = None,
    name: Annotated[str, typer.Option("--name", help="What people see; else host and process.")] = "",
    capacity: Annotated[int, typer.Option("--capacity", "-c", help="Tasks at a time.")] = 10,
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="Of these groups alone.")] = None,
    lease_s: Annotated[
        float, typer.Option("--lease", help="Seconds without a beat until it is given up.")
    ] = 10.0,
    in_processes: Annotated[
        bool, typer.Option("--processes", help="Handlers run in processes of their own.")
    ] = False,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C; tasks that run then may end.

    MODULE is imported from the working directory, too.

    Example: herdpy-broker work shop.tasks:HANDLERS --capacity 20 --group news
    """
    from herdpy_broker.child import handlers_named
    from herdpy_broker.process_worker import ProcessWorker
    from herdpy_broker.worker import Worker

    sys.path.insert(0, os.getcwd())
    settings = {"name": name, "capacity": capacity, "groups": groups or None, "lease_s": lease_s}
    with failing():
        try:
            found = handlers_named(handlers)
        except (ValueError, TypeError) as error:
            refuse(str(error))
        with connected(url):
            typer.echo(f"Working on {', '.join(sorted(found))}.", err=True)
        given = database(url)
        worker = (
            ProcessWorker(given, handlers, **settings) if in_processes else Worker(given, found, **settings)
        )
        worker.run()


@app.command()
def serve(
    url: Url = None,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; beyond this machine a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8090,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file with the token, at least 16 characters.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name under which browsers may ask.")
    ] = None,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds between two reads.")
    ] = 1.0,
    most_streams: Annotated[
        int, typer.Option("--streams", min=1, max=10_000, help="Pages that are live at a time.")
    ] = 100,
) -> None:
    """Serve the page, and /metrics for Prometheus.

    Example: herdpy-broker serve --host 0.0.0.0 --token-file /etc/broker-token --allow-host broker.example.com
    """
    try:
        from herdpy_broker.web.app import BrokerApp
        from herdpy_broker.web.serving import PageServer, check_access
    except ImportError as error:
        fail(f'the page needs more packages: pip install "herdpy-broker[web]" ({error})')
    with connected(url), failing():
        token = None if token_file is None else token_file.read_text(encoding="utf-8").strip()
        check_access(host, token)
        names = [host, *(allow_host or [])]
        page = BrokerApp(
            database(url), token=token, hosts=names, interval_s=interval_s, most_streams=most_streams
        )
        server = PageServer(page, host, port, most_streams)
        typer.echo(f"The page is at {server.address}/", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_page()
