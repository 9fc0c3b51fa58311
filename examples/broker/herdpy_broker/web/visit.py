"""One request as the handlers of pages see it, and what all requests share.

``Site`` has the database, the poller and the templates; ``Visit`` is a request of a browser that is let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import herdpy
from herdpy_broker.poller import Poller, Snapshot
from herdpy_broker.transactions import APPLICATION, Connection
from herdpy_broker.web.rendering import environment
from herdpy_broker.web.sessions import Session

COOKIE = "herdpy_broker"
_MOST_FORM_BYTES = 64 << 10
_MOST_FIELDS = 2_000
_MOST_CONNECTIONS = 4
_STATEMENT_TIMEOUT_S = 20
_READ_S = 10.0
_MOST_MESSAGE = 300

Form = ImmutableMultiDict[str, str]
T = TypeVar("T")


class Site:
    """What all requests share.

    Args:
        url: of the database.
        interval_s: between two reads while a page is open.

    Attributes:
        pool: connections for lists and for what buttons do. ``poller``: reads for everything that lives.
    """

    def __init__(self, url: str, interval_s: float) -> None:
        self.poller = Poller(url, interval_s)
        self.pool = herdpy.Pool(
            url,
            max_size=_MOST_CONNECTIONS,
            timeout_s=10.0,
            autocommit=True,
            statement_timeout=_STATEMENT_TIMEOUT_S,
            application_name=APPLICATION,
        )
        self._templates = environment()

    def render(self, template: str, **given: object) -> str:
        """A template's text."""
        return self._templates.get_template(template).render(given)

    def page(self, template: str, status: int = 200, **given: object) -> HTMLResponse:
        """A template as a page."""
        return HTMLResponse(self.render(template, **given), status)

    async def call(self, work: Callable[[Connection], T]) -> T:
        """Run ``work(connection)`` in a thread."""

        def run() -> T:
            with self.pool.connection() as connection:
                return work(connection)

        return await asyncio.to_thread(run)

    async def snapshot(self) -> Snapshot:
        """A snapshot that is as new as those of streams are; it is awaited where there is none.

        Raises:
            HTTPException: 503 when the database was not read yet.
        """
        try:
            async with asyncio.timeout(_READ_S):
                await self.poller.recent()
        except TimeoutError:
            pass  # what there is, is shown
        found = self.poller.snapshot
        if found.overview is None:
            problem = found.problem or "it has not answered yet"
            raise HTTPException(503, f"the database cannot be read: {problem}")
        return found


class Visit:
    """A request of a browser that is let in."""

    def __init__(self, request: Request, session: Session, site: Site, needs_token: bool) -> None:
        self.request = request
        self.session = session
        self.site = site
        self._needs_token = needs_token
        self._form: Form | None = None

    async def form(self) -> Form:
        """The fields of the form that was sent."""
        if self._form is None:
            self._form = await read_form(self.request)
        return self._form

    async def given(self, name: str) -> str:
        """A parameter of the address, or else a field of the form; "" where it is absent."""
        return self.request.query_params.get(name) or (await self.form()).get(name, "")

    def query(self, name: str) -> str | None:
        """A parameter of the address; None where it is absent or empty."""
        return self.request.query_params.get(name) or None

    def show(self, template: str, status: int = 200, **given: object) -> Response:
        """A page within the layout."""
        path = self.request.url.path
        query = f"?{self.request.url.query}" if self.request.url.query else ""
        common = {
            "csrf": self.session.csrf,
            "here": path + query if self.request.method == "GET" else "/",
            "path": path,
            "message": (self.query("message") or "")[:_MOST_MESSAGE],
            "needs_token": self._needs_token,
        }
        return self.site.page(template, status, **(common | given))

    def problem(self, status: int, text: str) -> Response:
        """A page that shows what is wrong."""
        return self.show("problem.html", status, text=text)

    async def done(self, message: str) -> Response:
        """Lead back to the page whose button was pressed, once what it shows has been read again."""
        back = urlsplit(_local((await self.form()).get("back", "/")))
        query = [(name, value) for name, value in parse_qsl(back.query) if name != "message"]
        await self.site.poller.fresh()
        return RedirectResponse(f"{back.path}?{urlencode([*query, ('message', message)])}", 303)


def _local(target: str) -> str:
    """A path of this site; "/" for everything else."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


async def read_form(request: Request) -> Form:
    """The fields of a form.

    Raises:
        HTTPException: 413 for one that is too large, 400 for what is no form.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM_BYTES:
            raise HTTPException(413, f"a form has at most {_MOST_FORM_BYTES} bytes")
    try:
        return ImmutableMultiDict(
            parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        )
    except ValueError:
        raise HTTPException(400, "this is no form") from None
