"""The page as a Starlette application: the guard, letting browsers in, and the routes.

Top of ``web``. A request passes: the name of the host, its origin where it changes something, the session,
the CSRF token; then the handler of ``pages``, ``actions`` or ``live``. An error of the database or of the
broker becomes a page that shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import herdpy
from herdpy_broker.errors import BrokerError, InvalidValueError
from herdpy_broker.metrics import CONTENT_TYPE
from herdpy_broker.web import actions, pages
from herdpy_broker.web.guard import HEADERS, SAFE_METHODS, Hosts, is_same_origin
from herdpy_broker.web.live import BEAT_S, Streams
from herdpy_broker.web.sessions import Sessions
from herdpy_broker.web.static_files import StaticFiles
from herdpy_broker.web.visit import COOKIE, Site, Visit, read_form

logger = logging.getLogger("herdpy_broker")

Message = MutableMapping[str, Any]
Handler = Callable[[Visit], Awaitable[Response]]


class BrokerApp:
    """The ASGI application.

    Args:
        url: of the database.
        token: what browsers have to show; None: they need none.
        hosts: names under which it answers, besides ``localhost`` and bare addresses.
        interval_s: between two reads of the database while a page is open.
        most_streams: pages that are live at a time.
        beat_s: a stream that has sent nothing for so long sends a comment.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        hosts: Iterable[str] = (),
        interval_s: float = 1.0,
        most_streams: int = 100,
        beat_s: float = BEAT_S,
    ) -> None:
        self._sessions = Sessions(token)
        self._hosts = Hosts(hosts)
        self.site = Site(url, interval_s)
        self.streams = Streams(self._sessions, most_streams, beat_s)
        self._app = Starlette(routes=self._routes(), lifespan=self._lifespan)

    @property
    def paths(self) -> Sequence[str]:
        """The paths that it answers."""
        return [route.path for route in self._app.routes if isinstance(route, Route)]

    def _routes(self) -> list[Route]:
        return [
            Route("/static/{name}", StaticFiles().answer),
            Route("/healthz", _healthy),
            Route("/login", self._login_page),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._post(self._log_out), methods=["POST"]),
            Route("/metrics", self._metrics),
            Route("/live", self._page(self.streams.answer)),
            *(Route(path, self._page(handler)) for path, handler in pages.PAGES.items()),
            *(
                Route(path, self._post(handler), methods=["POST"])
                for path, handler in actions.ACTIONS.items()
            ),
        ]

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        reading = asyncio.create_task(self.site.poller.run())
        try:
            yield
        finally:
            await self.site.poller.stop()
            await reading
            self.site.pool.close()

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """One request, or the life of the server (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _value in message.setdefault("headers", [])}
                lacking = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] += [one for one in lacking if one[0] not in there]
            await send(message)

        answer = self._refusal(Request(scope, receive))
        await (answer or self._app)(scope, receive, send_protected)

    def _refusal(self, request: Request) -> Response | None:
        """The refusal of a request that is not looked at; None: nothing is wrong so far."""
        if not self._hosts.has(request.headers.get("host", "")):
            return PlainTextResponse("421: another host: name it by --allow-host\n", 421)
        if request.method not in SAFE_METHODS and not is_same_origin(request.headers, request.url.scheme):
            return PlainTextResponse("403: the request comes from another site\n", 403)
        return None

    # Kinds of routes.

    def _page(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For browsers that are let in; others are led to the login."""

        async def answer(request: Request) -> Response:
            session = self._sessions.find(request.cookies.get(COOKIE, ""))
            if session is None:
                return RedirectResponse("/login", 303)
            return await _answered(handler, Visit(request, session, self.site, self._sessions.needs_token))

        return answer

    def _post(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For forms of our own pages: they carry the session's CSRF token."""

        async def checked(visit: Visit) -> Response:
            if not visit.session.has_csrf((await visit.form()).get("csrf", "")):
                raise HTTPException(403, "the form is too old: load the page again")
            return await handler(visit)

        return self._page(checked)

    async def _metrics(self, request: Request) -> Response:
        """For programs that send the token, and for browsers that are let in."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_admitted = kind.lower() == "bearer" and self._sessions.admits(given, _address(request))
        if not is_admitted and self._sessions.find(request.cookies.get(COOKIE, "")) is None:
            return PlainTextResponse("401: send the token\n", 401, {"www-authenticate": "Bearer"})
        return Response(self.site.poller.metrics.text(), headers={"content-type": CONTENT_TYPE})

    # Letting in.

    async def _login_page(self, request: Request) -> Response:
        if not self._sessions.needs_token:
            return RedirectResponse("/", 303)
        return self.site.page("login.html", problem=None)

    async def _log_in(self, request: Request) -> Response:
        wait_s = self._sessions.wait_s(_address(request))
        if wait_s:
            problem = f"Too many wrong tokens: try again in {wait_s:.0f} s."
            answer = self.site.page("login.html", 429, problem=problem)
            answer.headers["retry-after"] = str(int(wait_s) + 1)
            return answer
        given = (await read_form(request)).get("token", "")
        ident = self._sessions.begin(given, _address(request))
        if ident is None:
            return self.site.page("login.html", 403, problem="That is not the token.")
        entry = RedirectResponse("/", 303)
        entry.set_cookie(
            COOKIE, ident, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/"
        )
        return entry

    async def _log_out(self, visit: Visit) -> Response:
        self._sessions.end(visit.request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _answered(handler: Handler, visit: Visit) -> Response:
    """The answer of a handler, or the page of its error."""
    try:
        return await handler(visit)
    except InvalidValueError as error:
        return visit.problem(400, str(error))
    except BrokerError as error:
        return visit.problem(409, str(error))
    except HTTPException as error:
        return visit.problem(error.status_code, error.detail)
    except herdpy.Error as error:
        logger.warning("a page failed: %s", error)
        return visit.problem(503, f"The database: {error}")
