"""The SQL editor: runs texts, shows answers as grids, plans as trees, and gives answers as files.

Above ``answers`` and ``plan_tree``. A run has a name that the page made up, by which its Cancel button finds
it; a browser that goes away cancels its run, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from herdpy_server.console.answers import PLAN, TextAnswer, copied, place_of, run_text
from herdpy_server.console.names import names_of, quoted
from herdpy_server.console.plan_tree import plan_tree
from herdpy_server.console.visit import ConsolePage, PageRoute
from herdpy_server.sessions.waits import CANCELLED
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.console.gateway import PageSession
    from herdpy_server.console.logins import Login
    from herdpy_server.console.visit import Visit

_TIMEOUTS_S = (5, 30, 120, 600)
_MAX_ROWS = (100, 1000, 10_000)
_FORMATS = {
    "csv": ("FORMAT csv, HEADER true", "text/csv; charset=utf-8", "answer.csv"),
    "arrow": ("FORMAT arrow", "application/vnd.apache.arrow.stream", "answer.arrows"),
}
_MAX_RUNS = 1000
READ_LEVELS = ("linearizable", "bounded", "any")
"""Of statements: the newest state, which the leader has, or what the replica here has of it."""
_FOLLOWS = "SELECT pg_is_in_recovery() AS follows"
_STATEMENT = """
SELECT query FROM pg_stat_statements
WHERE queryid = $1 AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1
"""
_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY datname"


class SqlRuns:
    """The runs there are, by login and name, so that a request can end one of its own login."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], asyncio.Task[TextAnswer]] = {}

    @contextmanager
    def known(self, login: Login, name: str, task: asyncio.Task[TextAnswer]) -> Iterator[None]:
        """Within it the run can be cancelled by its name, if it has one. SqlError 53400, too many runs."""
        key = (login.csrf, name)
        if not name:
            yield
            return
        if len(self._runs) >= _MAX_RUNS or key in self._runs:
            raise SqlError("53400", "too many texts are being run: try again")
        self._runs[key] = task
        try:
            yield
        finally:
            del self._runs[key]

    def cancel(self, login: Login, name: str) -> bool:
        """Cancel what a run does now, and the rest of it; whether there is such a run of this login."""
        task = self._runs.get((login.csrf, name))
        return task is not None and task.cancel()


_runs = SqlRuns()


async def _show(visit: Visit) -> Response:
    text, problem = "", None
    number, schema, name = (visit.argument(one) for one in ("statement", "schema", "table"))
    database = visit.argument("database") or visit.login.database
    async with visit.session(database=database) as session:
        databases = [row["datname"] for row in await session.records(_DATABASES)]
        (row,) = await session.records(_FOLLOWS)
        follows: bool = row["follows"]
        if number:
            try:
                rows = await session.records(_STATEMENT, _whole(number))
                text = rows[0]["query"] if rows else ""
            except SqlError as error:
                problem = error
    if name:
        text = f"SELECT * FROM {quoted(schema)}.{quoted(name)} LIMIT 100"
    level = READ_LEVELS[1 if follows else 0]
    return _page(visit, database, databases, level, text=text, problem=problem, found=None)


def _page(visit: Visit, database: str, databases: list[str], level: str, **values: Any) -> Response:
    return visit.show(
        "editor.html",
        level=level,
        levels=READ_LEVELS if visit.parts.config().cluster.zookeeper else (),
        database=database,
        databases=databases if database in databases else [database, *databases],
        timeouts=_TIMEOUTS_S,
        row_limits=_MAX_ROWS,
        **values,
    )


async def _run(visit: Visit) -> Response:
    form = await visit.form()
    sql = _sql_of(form)
    max_rows = _one_of(form.get("max_rows", "1000"), _MAX_ROWS, "max_rows")
    offset = _whole(form.get("offset", "0"))
    if not sql.strip():
        raise SqlError("22023", "there is no statement to run")

    async def work(session: PageSession) -> TextAnswer:
        return await run_text(session, sql, max_rows)

    found = await _watched(visit, work)
    shown: dict[str, Any] = {
        "found": found,
        "trees": [_tree_of(answer.rows, answer.columns) for answer in found.answers],
        "offset": offset,
        "max_rows": max_rows,
    }
    if "hx-request" in visit.request.headers:
        return visit.fragment("editor_answers.html", **shown)
    database = form.get("database") or visit.login.database
    return _page(visit, database, [database], _level_of(form), text=sql, problem=None, **shown)


def _level_of(form: Mapping[str, str]) -> str:
    level = form.get("read_level", READ_LEVELS[0])
    if level not in READ_LEVELS:
        raise SqlError("22023", f"read_level is one of {', '.join(READ_LEVELS)}")
    return level


def _sql_of(form: Mapping[str, str]) -> str:
    """The text of a form: browsers send its lines with CR LF, and count them as LF."""
    return form.get("sql", "").replace("\r\n", "\n")


def _tree_of(rows: list[tuple[str | None, ...]], columns: Any) -> Any:
    """The tree of an answer that is a plan in JSON; None for others."""
    if columns is None or len(columns) != 1 or columns[0].name != PLAN or len(rows) != 1:
        return None
    return plan_tree(rows[0][0] or "")


async def _explain(visit: Visit) -> Response:
    form = await visit.form()
    sql, is_measured = _sql_of(form).rstrip("; \n\t"), form.get("analyze") == "on"
    options = "ANALYZE, FORMAT json" if is_measured else "FORMAT json"
    head = f"EXPLAIN ({options}) "
    offset = _whole(form.get("offset", "0"))
    if not sql.strip():
        raise SqlError("22023", "there is no statement to explain")

    async def work(session: PageSession) -> TextAnswer:
        return await _explained(session, head, sql)

    found = await _watched(visit, work)
    text = "\n".join(row[0] or "" for answer in found.answers for row in answer.rows)
    tree = plan_tree(text)
    return visit.fragment(
        "editor_plan.html", tree=tree, text=text, error=found.error, place=found.place, offset=offset
    )


async def _explained(session: PageSession, head: str, sql: str) -> TextAnswer:
    """The plan; an error is where it is in ``sql``, which is planned alone first: EXPLAIN says no places."""
    own = session.session
    if len(own.plans.statements(sql)) != 1:
        raise SqlError("42601", "one statement can be explained at a time")
    try:
        own.parse("", sql)
    except SqlError as error:
        return TextAnswer(error=error, place=place_of(sql, error.position))
    own.begin()  # what it does with ANALYZE is undone with the session
    found = await run_text(session, head + sql, 1)
    found.place = None
    return found


async def _watched(
    visit: Visit, work: Callable[[PageSession], Coroutine[Any, Any, TextAnswer]]
) -> TextAnswer:
    """Do the work in a session of the chosen database, until it is cancelled or its browser goes away."""
    form = await visit.form()
    timeout_s = _one_of(form.get("timeout_s", "30"), _TIMEOUTS_S, "timeout_s")
    database, level = form.get("database") or None, _level_of(form)
    async with visit.session(database=database, timeout_s=timeout_s) as session:
        session.session.settings.start_with("herdpy.read_level", level)
        task = asyncio.create_task(work(session))
        gone = asyncio.create_task(_gone(visit))
        try:
            with _runs.known(visit.login, form.get("run", "")[:100], task):
                await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    task.cancel()
                    await asyncio.wait((task,))
            if task.cancelled():  # before it began
                raise SqlError("57014", CANCELLED)
            return task.result()
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))


async def _gone(visit: Visit) -> None:
    """Return when the browser has closed its connection."""
    while (await visit.request.receive())["type"] != "http.disconnect":
        pass


async def _cancel(visit: Visit) -> Response:
    form = await visit.form()
    found = _runs.cancel(visit.login, form.get("run", ""))
    return JSONResponse({"cancelled": found})


async def _download(visit: Visit) -> Response:
    form = await visit.form()
    sql = _sql_of(form).strip().rstrip(";")
    options, kind, name = _FORMATS.get(form.get("format", ""), ("", "", ""))
    if not name:
        raise SqlError("22023", "the format is csv or arrow")
    timeout_s = _one_of(form.get("timeout_s", "30"), _TIMEOUTS_S, "timeout_s")
    pieces = _pieces(visit, form, f"COPY ({sql}\n) TO STDOUT ({options})", timeout_s)
    first = await anext(pieces, b"")  # an error before the first row is a page that says it

    async def all_of() -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(all_of(), headers=headers, media_type=kind)


async def _pieces(
    visit: Visit, form: Mapping[str, str], sql: str, timeout_s: float
) -> AsyncGenerator[bytes, None]:
    level = _level_of(form)
    async with visit.session(database=form.get("database") or None, timeout_s=timeout_s) as session:
        session.session.settings.start_with("herdpy.read_level", level)
        async for piece in copied(session, sql):
            yield piece


async def _names(visit: Visit) -> Response:
    async with visit.session(database=visit.argument("database") or None) as session:
        text = json.dumps(await names_of(session), ensure_ascii=False)
    return Response(text, media_type="application/json")


def _one_of(text: str, allowed: tuple[int, ...], name: str) -> int:
    if text not in map(str, allowed):
        raise SqlError("22023", f"{name} is one of {', '.join(map(str, allowed))}")
    return int(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SqlError("22023", f"{text[:40]!r} is no whole number") from None


PAGE = ConsolePage(
    "sql",
    "SQL",
    "Data",
    [
        PageRoute("sql", _show),
        PageRoute("sql", _run, "POST"),
        PageRoute("sql/explain", _explain, "POST"),
        PageRoute("sql/cancel", _cancel, "POST"),
        PageRoute("sql/download", _download, "POST"),
        PageRoute("sql/names", _names),
    ],
)
