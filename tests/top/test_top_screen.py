"""`herdpy top` on real servers: by its keys in Textual's pilot, and printed once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from textual.widgets import Input, Static, TabbedContent, Tree
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy.cli.status import servers_of
from herdpy.top.monitor import LostServerError, Monitor, ServerRefusedError
from herdpy.top.screen import FullText, PaneTable, Question, TopScreen
from tests.support.server_process import RunningServer

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("top") / "data").ready()
    yield running
    running.close()


def url(*servers: RunningServer, user: str = "herdpy") -> str:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    return f"herdpy://{user}@{hosts}/test"


def monitor(*servers: RunningServer) -> Monitor:
    return Monitor(servers_of(url(*servers)))


async def until(pilot, happens: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not happens():
            await pilot.pause(0.02)


def piloted(act: Callable[..., Awaitable[None]], *servers: RunningServer) -> None:
    """Run the application until ``act(app, pilot)`` returns."""

    async def run() -> None:
        screen = TopScreen(monitor(*servers), 0.15)
        async with screen.run_test(size=(150, 40)) as pilot:
            await until(pilot, lambda: screen.sample is not None)
            await act(screen, pilot)

    asyncio.run(run())


def row_of(screen: TopScreen, key: object) -> dict | None:
    return screen.query_one("#sessions", PaneTable).rows_by_key.get(str(key))


async def select(screen: TopScreen, pilot, pid: int) -> None:
    """Put the cursor on a session."""
    await until(pilot, lambda: row_of(screen, pid))
    table = screen.query_one("#sessions", PaneTable)
    table.move_cursor(row=table.get_row_index(str(pid)), animate=False)
    await until(pilot, lambda: (table.current or {}).get("pid") == pid)


def test_sessions_are_shown_and_one_is_terminated_once_that_is_confirmed(server):
    victim = server.connect(application_name="<b>[red]victim")
    pid = victim.info.backend_pid

    async def act(screen, pilot):
        await select(screen, pilot, pid)
        assert row_of(screen, pid)["application"] == "<b>[red]victim"
        await pilot.press("t")
        assert isinstance(screen.screen, Question)
        before = screen.sample
        await until(pilot, lambda: screen.sample is not before)
        assert isinstance(screen.screen, Question)
        await pilot.press("n")
        assert row_of(screen, pid)
        await select(screen, pilot, pid)
        await pilot.press("t", "y")
        await until(pilot, lambda: row_of(screen, pid) is None)

    piloted(act, server)
    with pytest.raises(psycopg.OperationalError):
        victim.execute("SELECT 1")


def test_a_statement_is_cancelled(server):
    async def act(screen, pilot):
        connection = await psycopg.AsyncConnection.connect(
            host="127.0.0.1", port=server.port, user="ann", dbname="test"
        )
        async with connection:
            sleeping = asyncio.create_task(connection.execute("SELECT pg_sleep(60)"))
            await until(
                pilot, lambda: (row_of(screen, connection.info.backend_pid) or {}).get("state") == "active"
            )
            await select(screen, pilot, connection.info.backend_pid)
            await pilot.press("c", "y")
            with pytest.raises(psycopg.errors.QueryCanceled):
                await sleeping

    piloted(act, server)


def test_keys_sort_filter_pause_and_show_all_of_a_row(server):
    one, two = server.connect(application_name="first"), server.connect(application_name="second")

    async def act(screen, pilot):
        table = screen.query_one("#sessions", PaneTable)
        await until(pilot, lambda: row_of(screen, two.info.backend_pid))
        assert table.sorted_by == (7, True)
        await pilot.press("s")
        assert table.sorted_by == (8, True)
        await pilot.press("r")
        assert table.sorted_by == (8, False)
        await pilot.press("slash", *"SECO", "enter")
        await until(pilot, lambda: list(table.rows_by_key) == [str(two.info.backend_pid)])
        assert not screen.query_one("#filter", Input).display
        await pilot.press("enter")
        assert isinstance(screen.screen, FullText)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: row_of(screen, one.info.backend_pid))
        await pilot.press("p")
        paused = screen.sample
        await pilot.pause(0.2)
        assert screen.sample is paused
        assert "paused" in str(screen.query_one("#head", Static).render())
        await pilot.press("p")
        await until(pilot, lambda: screen.sample is not paused)
        for key, tab in zip("234", ("tab-waits", "tab-statements", "tab-cluster"), strict=True):
            await pilot.press(key)
            assert screen.query_one(TabbedContent).active == tab
        assert screen.query_one("#tablespaces", PaneTable).current["state"] == "alone"

    piloted(act, server)


def test_who_waits_is_drawn_and_the_holder_is_terminated_there(server):
    admin = server.connect(user="herdpy")
    admin.execute("CREATE TABLE held (id int PRIMARY KEY, n int)")
    admin.execute("INSERT INTO held VALUES (1, 1)")
    holder = server.connect(user="herdpy", autocommit=False)
    holder.execute("UPDATE held SET n = 2 WHERE id = 1")

    async def act(screen, pilot):
        tree = screen.query_one("#waits", Tree)
        waiter = await psycopg.AsyncConnection.connect(
            host="127.0.0.1", port=server.port, user="herdpy", dbname="test", autocommit=True
        )
        async with waiter:
            waiting = asyncio.create_task(waiter.execute("UPDATE held SET n = n + 10 WHERE id = 1"))
            await until(pilot, lambda: tree.root.children)
            await pilot.press("p", "2")
            await until(pilot, lambda: tree.root.children)
            (top,) = tree.root.children
            assert top.data == holder.info.backend_pid
            assert [child.data for child in top.children] == [waiter.info.backend_pid]
            tree.move_cursor(top)
            await pilot.press("t", "y")
            await waiting
            cursor = await waiter.execute("SELECT n FROM held")
            assert await cursor.fetchone() == (11,)

    piloted(act, server)


def test_a_server_that_goes_is_followed_by_the_next_host(server, tmp_path):
    first = RunningServer(tmp_path / "first").ready()

    async def act(screen, pilot):
        assert screen.sample.server == f"127.0.0.1:{first.port}"
        assert await asyncio.to_thread(first.stop) == 0
        await until(pilot, lambda: screen.sample.server == f"127.0.0.1:{server.port}")
        await until(pilot, lambda: not screen.query_one("#problem", Static).display)

    try:
        piloted(act, first, server)
    finally:
        first.close()


@pytest.mark.soak
def test_the_next_server_by_its_key_and_no_action_on_a_pid_of_another(server, tmp_path):
    other = RunningServer(tmp_path / "other").ready()

    async def act(screen, pilot):
        before = screen.sample.server
        victim = other.connect()
        await until(pilot, lambda: row_of(screen, victim.info.backend_pid))
        await select(screen, pilot, victim.info.backend_pid)
        await pilot.press("p", "t")
        await screen._monitor.move()
        await pilot.press("y")
        assert victim.execute("SELECT 1").fetchone() == (1,)
        await pilot.press("n")
        await until(pilot, lambda: screen.sample.server != before)
        assert screen.sample.server == f"127.0.0.1:{server.port}"

    try:
        piloted(act, other, server)
    finally:
        other.close()


def test_no_server_and_a_refusal_differ(tmp_path, server):
    async def failure(options):
        watched = Monitor(options)
        try:
            await watched.sample()
        finally:
            await watched.close()

    with pytest.raises(LostServerError, match="refused"):
        asyncio.run(failure(servers_of("herdpy://herdpy@127.0.0.1:1/test")))
    server.connect().execute("CREATE ROLE nobody_in NOLOGIN")
    with pytest.raises(ServerRefusedError, match="not permitted to log in"):
        asyncio.run(failure(servers_of(url(server, user="nobody_in"))))


def test_a_role_with_few_rights_sees_what_it_may_and_an_act_is_refused(server):
    admin = server.connect(user="herdpy")
    admin.execute("CREATE ROLE plain LOGIN")
    admin.execute("SELECT 'a secret of the owner'")

    async def look():
        watched = Monitor(servers_of(url(server, user="plain")))
        try:
            sample = await watched.sample()
            with pytest.raises(ServerRefusedError, match="42501"):
                await watched.act("pg_terminate_backend", admin.info.backend_pid)
            return sample
        finally:
            await watched.close()

    sample = asyncio.run(look())
    assert "a secret" not in str(sample)
    assert str(admin.info.backend_pid) in [str(row["pid"]) for row in sample.parts["sessions"]]


def printed(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["top", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_printed_once_as_tables_and_as_a_document(server):
    connection = server.connect(application_name="seen")
    text = printed(url(server), "--once", "--interval", "0.1")
    assert f"127.0.0.1:{server.port}/test as herdpy · leads" in text
    assert "seen" in text
    document = json.loads(printed(url(server), "--json", "--interval", "0.1"))
    assert connection.info.backend_pid in [row["pid"] for row in document["sessions"]]
    assert document["tablespaces"][0]["state"] == "alone"
    assert document["notes"] == {}
    assert document["rates"]["statements"] > 0
    assert min(document["rates"].values()) >= 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--interval", "0"), "--interval is from 0.1"), ((), "this is no terminal")],
)
def test_wrong_usage(server, arguments, message):
    assert message in printed(url(server), *arguments, code=2)


def test_a_directory_is_refused(tmp_path: Path):
    (tmp_path / "HERDPY").touch()
    assert "names a directory" in printed(tmp_path, "--once", code=2)
