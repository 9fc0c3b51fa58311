"""The console as an ASGI application: the guard, logging in and out, and the routes of the pages.

Top of ``console``; the HTTP page calls it with the requests below /console. It is made at the first of them.
A request passes: the name of the host, the origin where it changes something, the login, the CSRF token, the
right to the page; then the page's handler. A database's error becomes a page that says it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from herdpy_server.console import guard
from herdpy_server.console.authentication import ConsoleAuthentication, PasswordRefusedError, Visitor
from herdpy_server.console.gateway import ConsoleGateway
from herdpy_server.console.jobs import ConsoleJobs
from herdpy_server.console.logins import Login, Logins
from herdpy_server.console.oidc import OidcProvider
from herdpy_server.console.pages import PAGES
from herdpy_server.console.parts import ConsoleParts
from herdpy_server.console.rendering import environment
from herdpy_server.console.static_files import StaticFiles
from herdpy_server.console.visit import ROOT, ConsolePage, PageRoute, Surroundings, Visit, read_form
from herdpy_server.pgwire.authentication import is_loopback
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.console.logins import Evidence

logger = logging.getLogger("herdpy.console")

LIVE = "x-console-live"
"""The header of requests that a page makes by itself: they do not keep a login."""
_MAX_LOGIN_BYTES = 64 << 10
_STATUS = {
    "28000": 403,
    "28P01": 403,
    "3D000": 404,
    "42501": 403,
    "42704": 404,
    "42P01": 404,
    "53400": 429,
}
_STATUS_OF_CLASS = {"08": 503, "40": 409, "53": 503, "57": 503, "58": 500, "XX": 500}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Console:
    """The application.

    Attributes:
        logins: those there are. ``jobs``: what goes on besides requests.
    """

    def __init__(self, parts: ConsoleParts) -> None:
        config = parts.config()
        given = config.console
        self.logins = Logins(given.session_s, given.idle_s, given.max_logins)
        self._parts = parts
        self._hosts = guard.OwnHosts([*given.hosts, config.http.address, config.cluster.advertise])
        self._authentication = ConsoleAuthentication(
            parts.context, allow_plain_password=given.allow_plain_password
        )
        self.jobs = ConsoleJobs()
        gateway = ConsoleGateway(parts.context, given)
        self._surroundings = Surroundings(parts, gateway, self.jobs, environment(), PAGES)
        self._oidc = OidcProvider(given) if given.oidc_issuer else None
        self._static = StaticFiles()
        self._router = Router(self._routes())

    def _routes(self) -> list[Route]:
        pages = [page for page in PAGES if self._surroundings.has(page)]
        first = f"{ROOT}/{pages[0].path}"
        return [
            Route(ROOT, lambda _request: RedirectResponse(first)),
            Route(f"{ROOT}/", lambda _request: RedirectResponse(first)),
            Route(f"{ROOT}/static/{{name}}", self._static.answer),
            Route(f"{ROOT}/login", self._login_page),
            Route(f"{ROOT}/login", self._log_in, methods=["POST"]),
            *self._oidc_routes(),
            Route(f"{ROOT}/logout", self._log_out, methods=["POST"]),
            *[
                Route(f"{ROOT}/{route.path}", self._endpoint(page, route), methods=[route.method])
                for page in pages
                for route in page.routes
            ],
        ]

    async def close(self) -> None:
        """End what goes on besides requests."""
        await self.jobs.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request (ASGI 3)."""

        async def send_protected(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                guard.protect(message.setdefault("headers", []))
            await send(message)

        request = Request(scope, receive)
        answer = self._refused(request)
        if answer is not None:
            await answer(scope, receive, send_protected)
            return
        try:
            await self._router(scope, receive, send_protected)
        except HTTPException as error:
            text = f"{error.status_code}: {error.detail}\n"
            await PlainTextResponse(text, error.status_code)(scope, receive, send_protected)

    def _refused(self, request: Request) -> Response | None:
        """The refusal of a request that is not looked at; None: nothing is wrong so far."""
        headers = request.headers
        host = headers.get("host", "")
        if not self._hosts.is_ours(host):
            name = guard.name_of(host) or "without a name"
            return PlainTextResponse(f"421: {name!r} is not this server: console.hosts names it\n", 421)
        if request.method not in guard.SAFE_METHODS and not guard.is_same_origin(headers, request.url.scheme):
            return PlainTextResponse("403: the request comes from another site\n", 403)
        return None

    # Pages.

    def _endpoint(self, page: ConsolePage, route: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = visitor_of(request)
            ident, login = None, self._login_of(request, visitor)
            if login is None:
                if guard.is_arrival(request.headers) and request.method in guard.SAFE_METHODS:
                    return self._hop(request)
                ident, login = self._open(request, visitor)
            if login is None:
                return self._to_login(request)
            visit = Visit(request, login, visitor, page, self._surroundings)
            found = await self._answer(visit, route)
            if ident is not None:
                self._set_cookie(request, found, ident)
            return found

        return answer

    async def _answer(self, visit: Visit, route: PageRoute) -> Response:
        try:
            if visit.request.method not in guard.SAFE_METHODS and not await self._has_token(visit):
                raise SqlError("28000", "the form is older than the login: load the page again")
            if visit.page.superusers and not visit.is_superuser:
                raise SqlError("42501", f"must be superuser to see {visit.page.title}")
            return await route.handler(visit)
        except SqlError as error:
            return self._error(visit, error)
        except Exception:
            logger.exception("a page of the console failed", extra={"page": route.path})
            return self._error(visit, SqlError("XX000", "internal error; see the server's log"))

    async def _has_token(self, visit: Visit) -> bool:
        given = visit.request.headers.get("x-csrf-token")
        if given is None:
            given = (await visit.form()).get("csrf_token", "")
        return visit.login.is_csrf(given)

    def _error(self, visit: Visit, error: SqlError) -> Response:
        status = status_of(error)
        if "hx-request" in visit.request.headers:
            return visit.fragment("error_part.html", status=status, error=error)
        return visit.show("error.html", status=status, error=error)

    # Logging in and out.

    def _login_of(self, request: Request, visitor: Visitor) -> Login | None:
        ident = request.cookies.get(_cookie_name(request), "")
        login = self.logins.find(ident, uses=LIVE not in request.headers) if ident else None
        if login is not None and not self._authentication.still_holds(login, visitor):
            self.logins.end(ident)
            return None
        return login

    def _open(self, request: Request, visitor: Visitor) -> tuple[str | None, Login | None]:
        """A login without one, where the rules trust; nothing that changes something begins so."""
        user = self._authentication.opens_for(visitor)
        if user is None or request.method not in guard.SAFE_METHODS or LIVE in request.headers:
            return None, None
        database = self._parts.default_database()
        try:
            proof = self._authentication.admit_trusted(visitor, user, database)
        except SqlError as error:
            logger.info("the console does not open: %s", error)
            return None, None
        return self.logins.begin(user, database, "trust", proof)

    def _hop(self, request: Request) -> Response:
        """The same page again, by a link of our own: with the cookies that are for our own pages."""
        return self._bare("hop.html", target=_local_target(str(request.url.path), request.url.query))

    def _to_login(self, request: Request) -> Response:
        target = f"{ROOT}/login"
        if request.method in guard.SAFE_METHODS and LIVE not in request.headers:
            target += f"?next={quote(_local_target(request.url.path, request.url.query))}"
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"HX-Redirect": target})
        return RedirectResponse(target, 303)

    async def _login_page(self, request: Request) -> Response:
        return self._show_login(request, 200)

    def _show_login(self, request: Request, status: int, **values: object) -> Response:
        visitor = visitor_of(request)
        authentication = self._authentication
        common = {
            "opens_for": authentication.opens_for(visitor),
            "takes_passwords": authentication.takes_passwords(visitor),
            "is_plain": not visitor.is_encrypted and not is_loopback(visitor.address),
            "provider": None if self._oidc is None else self._oidc.name,
            "next": next_of(request.query_params.get("next", "")),
            "user": "",
            "database": self._parts.default_database(),
            "error": None,
        }
        return self._bare("login.html", status, **(common | values))

    def _bare(self, template: str, status: int = 200, **values: object) -> Response:
        """A page without a login."""
        common = {"root": ROOT, "server": "HerdPy"}
        text = self._surroundings.templates.get_template(template).render(common | values)
        return HTMLResponse(text, status)

    async def _log_in(self, request: Request) -> Response:
        visitor = visitor_of(request)
        form: Mapping[str, str] = {}
        try:
            form = await read_form(request, _MAX_LOGIN_BYTES)
            user, database = form.get("user", ""), form.get("database", "") or self._parts.default_database()
            evidence, proof = await self._authentication.prove(
                visitor, user, form.get("password", ""), database
            )
        except SqlError as error:
            shown = {name: form.get(name, "")[:200] for name in ("user", "database")}
            again = next_of(form.get("next", ""))
            answer = self._show_login(request, status_of(error), error=error, next=again, **shown)
            if isinstance(error, PasswordRefusedError):
                answer.headers["retry-after"] = str(int(error.wait_s) + 1)
            return answer
        return self._logged_in(request, user, database, evidence, proof, next_of(form.get("next", "")))

    def _logged_in(
        self, request: Request, user: str, database: str, evidence: Evidence, proof: str, target: str
    ) -> Response:
        """The answer to a proof."""
        answer = RedirectResponse(target, 303)
        self._begin(request, answer, user, database, evidence, proof)
        return answer

    def _begin(
        self, request: Request, answer: Response, user: str, database: str, evidence: Evidence, proof: str
    ) -> None:
        """Begin a login with an answer. The id is a new one: nobody can have given it to the browser."""
        self.logins.end(request.cookies.get(_cookie_name(request), ""))
        ident, _login = self.logins.begin(user, database, evidence, proof)
        self._set_cookie(request, answer, ident)

    # By a provider of identities.

    def _oidc_routes(self) -> list[Route]:
        if self._oidc is None:
            return []
        return [
            Route(f"{ROOT}/login/oidc", self._to_provider),
            Route(f"{ROOT}/login/back", self._from_provider),
        ]

    async def _to_provider(self, request: Request) -> Response:
        assert self._oidc is not None
        back = f"{request.url.scheme}://{request.headers['host']}{ROOT}/login/back"
        try:
            where, browser = await self._oidc.begin(back, next_of(request.query_params.get("next", "")))
        except SqlError as error:
            return self._show_login(request, status_of(error), error=error)
        answer = RedirectResponse(where, 303)
        # Lax: the browser comes back from another site.
        answer.set_cookie(
            _oidc_cookie(request),
            browser,
            max_age=600,
            path=f"{ROOT}/login",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return answer

    async def _from_provider(self, request: Request) -> Response:
        assert self._oidc is not None
        visitor, database = visitor_of(request), self._parts.default_database()
        try:
            browser = request.cookies.get(_oidc_cookie(request), "")
            user, target = await self._oidc.finish(request.query_params, browser)
            proof = self._authentication.admit_named(visitor, user, database)
        except SqlError as error:
            return self._show_login(request, status_of(error), error=error)
        answer = self._bare("hop.html", target=target)  # a redirect would be the other site's still
        self._begin(request, answer, user, database, "oidc", proof)
        answer.delete_cookie(_oidc_cookie(request), path=f"{ROOT}/login", httponly=True, samesite="lax")
        return answer

    async def _log_out(self, request: Request) -> Response:
        ident = request.cookies.get(_cookie_name(request), "")
        login = self.logins.find(ident)
        try:
            given = (await read_form(request, _MAX_LOGIN_BYTES)).get("csrf_token", "")
        except SqlError as error:
            return PlainTextResponse(f"400: {error}\n", 400)
        if login is not None and not login.is_csrf(given):
            return PlainTextResponse("403: load the page again\n", 403)
        self.logins.end(ident)
        answer = RedirectResponse(f"{ROOT}/login", 303)
        answer.delete_cookie(_cookie_name(request), path=ROOT, httponly=True, samesite="strict")
        return answer

    def _set_cookie(self, request: Request, answer: Response, ident: str) -> None:
        answer.set_cookie(
            _cookie_name(request),
            ident,
            path=ROOT,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )


def _cookie_name(request: Request) -> str:
    """Servers of one machine differ by their ports, which cookies do not know."""
    server = request.scope.get("server")
    return f"herdpy_console_{server[1] if server else 0}"


def _oidc_cookie(request: Request) -> str:
    return f"{_cookie_name(request)}_oidc"


def visitor_of(request: Request) -> Visitor:
    """Where a request comes from."""
    address = "" if request.client is None else request.client.host
    headers = request.headers
    is_direct = not guard.came_by_proxy(headers) and request.scope.get("http_version") != "1.0"
    is_local = is_loopback(address) and is_direct and guard.is_local_name(headers.get("host", ""))
    return Visitor(address, request.url.scheme == "https", is_local)


def next_of(given: str) -> str:
    """Where to go after the login: a path of the console, whatever was given."""
    plain = given.isprintable() and "\\" not in given and "//" not in given
    return given if plain and given.startswith(f"{ROOT}/") else f"{ROOT}/"


def _local_target(path: str, query: str) -> str:
    return next_of(f"{path}?{query}" if query else path)


def status_of(error: SqlError) -> int:
    """HTTP's status for a database's error."""
    return _STATUS.get(error.sqlstate) or _STATUS_OF_CLASS.get(error.sqlstate[:2], 400)
