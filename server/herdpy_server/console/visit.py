"""One request of a page, as the page sees it: its login, what was sent, and how it is answered.

Above ``gateway`` and ``logins``, below ``pages``. A page is a list of routes with a handler each, a coroutine
that is given the visit and returns the answer. Whatever changes something is a POST, whose CSRF token was
checked before the handler is called; it answers with :meth:`Visit.back`, so that a reload does not repeat it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from herdpy_server.console.authentication import Visitor
    from herdpy_server.console.gateway import ConsoleGateway, PageSession
    from herdpy_server.console.jobs import ConsoleJobs
    from herdpy_server.console.logins import Login
    from herdpy_server.console.parts import ConsoleParts

ROOT = "/console"
MAX_FORM_BYTES = 4 << 20
_MAX_FIELDS = 200


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One path of a page.

    Attributes:
        path: below /console/, such as "tablespaces/move".
        method: GET shows, POST changes.
        handler: makes the answer.
    """

    path: str
    handler: Callable[[Visit], Awaitable[Response]]
    method: Literal["GET", "POST"] = "GET"


def live_routes(
    path: str, template: str, state: Callable[[Visit], Awaitable[Mapping[str, Any]]]
) -> tuple[PageRoute, PageRoute]:
    """A page that lives: the whole of it, and below ``path/live`` the part that it loads again and again.

    Args:
        template: of the whole; that of the part has ``_live`` behind its name. state: the values of both.
    """

    async def show(visit: Visit) -> Response:
        return visit.show(f"{template}.html", **await state(visit))

    async def live(visit: Visit) -> Response:
        return visit.fragment(f"{template}_live.html", **await state(visit))

    return PageRoute(path, show), PageRoute(f"{path}/live", live)


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One entry of the navigation.

    Attributes:
        path: of its first route, which is what the navigation leads to.
        title: what it is called there.
        group: under which heading.
        superusers: it is for them alone; others do not see it, and get 403.
        is_there: whether this server has it; None: every server does.
    """

    path: str
    title: str
    group: str
    routes: Sequence[PageRoute]
    superusers: bool = False
    is_there: Callable[[ConsoleParts], bool] | None = None


class Visit:
    """A request with a login.

    Attributes:
        request: as Starlette has it. ``parts``: of the server.
        login, visitor: of which role, and where from.
        is_superuser: whether the role is one, or is no role and may do everything.
        page: whose route it is.
        jobs: what goes on besides.
    """

    def __init__(
        self,
        request: Request,
        login: Login,
        visitor: Visitor,
        page: ConsolePage,
        surroundings: Surroundings,
    ) -> None:
        self.request = request
        self.login = login
        self.visitor = visitor
        self.page = page
        self.parts = surroundings.parts
        self.is_superuser = self.parts.context.registry.effective_roles.of_name(login.user).is_superuser
        self.jobs = surroundings.jobs
        self._surroundings = surroundings

    @asynccontextmanager
    async def session(
        self, *, database: str | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[PageSession]:
        """A session with the role's rights; see :meth:`ConsoleGateway.session`."""
        given = self._surroundings.gateway.session(
            self.login, self.visitor, database=database, timeout_s=timeout_s
        )
        async with given as found:
            yield found

    def argument(self, name: str, default: str = "") -> str:
        """A value of the query string."""
        return self.request.query_params.get(name, default)

    async def form(self) -> Mapping[str, str]:
        """What a form has sent; of a name that is there twice the last."""
        return await read_form(self.request)

    def record_call(self, what: str, **fields: str) -> None:
        """Have the audit log say that something is done here that is no statement.

        SqlError 58030: it cannot be recorded, so it may not be done.
        """
        auditor = self.parts.context.registry.auditor
        if auditor is not None:
            given = {"user": self.login.user, "address": self.visitor.address, "door": "console"}
            auditor.event("call", "call", {**given, "service": what, **fields})

    # Answers.

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page: a template that extends ``layout.html``."""
        messages, self.login.messages = self.login.messages, []
        return self._render(template, status, {"messages": messages, **values})

    def fragment(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A part of a page, for htmx to put in its place."""
        return self._render(template, status, values)

    def _render(self, template: str, status: int, values: dict[str, Any]) -> Response:
        common = {
            "visit": self,
            "login": self.login,
            "page": self.page,
            "navigation": self._surroundings.navigation(self),
            "server": self.parts.server_name(),
            "root": ROOT,
        }
        text = self._surroundings.templates.get_template(template).render(common | values)
        return HTMLResponse(text, status)

    def back(self, path: str, message: str = "", kind: str = "done", **arguments: str) -> Response:
        """After a POST: the browser goes to a page (below /console/), which shows a message.

        Args:
            kind: "done", "problem" or "note".
        """
        if message:
            self.login.messages = [*self.login.messages[-4:], (kind, message)]
        query = f"?{urlencode(arguments)}" if arguments else ""
        return RedirectResponse(f"{ROOT}/{path}{query}", 303)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all visits share."""

    parts: ConsoleParts
    gateway: ConsoleGateway
    jobs: ConsoleJobs
    templates: Environment
    pages: Sequence[ConsolePage]

    def navigation(self, visit: Visit) -> list[tuple[str, list[ConsolePage]]]:
        """The pages that somebody may see, by group."""
        groups: dict[str, list[ConsolePage]] = {}
        for page in self.pages:
            if self.has(page) and (visit.is_superuser or not page.superusers):
                groups.setdefault(page.group, []).append(page)
        return list(groups.items())

    def has(self, page: ConsolePage) -> bool:
        """Whether this server has a page."""
        return page.is_there is None or page.is_there(self.parts)


async def read_form(request: Request, most_bytes: int = MAX_FORM_BYTES) -> Mapping[str, str]:
    """What a form has sent (application/x-www-form-urlencoded). It may be read again.

    Raises:
        SqlError: 54000 it is too much, 22023 it is no form.
    """
    if hasattr(request.state, "form"):
        kept: Mapping[str, str] = request.state.form
        return kept
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise SqlError("22023", "expected a form (application/x-www-form-urlencoded)")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most_bytes:
            raise SqlError("54000", f"a form has {most_bytes} bytes at most")
    try:
        found = parse_qs(
            data.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise SqlError("22023", "the form cannot be read") from error
    request.state.form = {name: values[-1] for name, values in found.items()}
    return request.state.form  # type: ignore[no-any-return]
