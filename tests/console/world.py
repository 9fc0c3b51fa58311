"""The console over a database in this process: requests from any address, under any name, in any order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from herdpy._version import __version__
from herdpy_server.config import HostRule, ServerConfig
from herdpy_server.config.sections import AuthenticationSection
from herdpy_server.console import Console, ConsoleParts
from herdpy_server.http import ServerStatus
from herdpy_server.pgwire.context import PgContext
from herdpy_server.process.front_ends import RuleAuthority, pg_settings
from herdpy_server.process.logs import Logs
from herdpy_server.process.node import ProcessNode
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.service import Reloaded
from herdpy_server.serving import ServedDatabase, alone
from herdpy_server.sessions import Session
from herdpy_server.sessions.registry import SessionRegistry

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
ELSEWHERE = "192.0.2.7"
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
ROLES = (
    "CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'of boss'",
    "CREATE ROLE ann LOGIN PASSWORD 'of ann'",
    "CREATE ROLE nologin NOLOGIN PASSWORD 'of nologin'",
)
PASSWORDS = (HostRule(network="all", method="scram-sha-256"),)


class ConsoleWorld:
    """A database with a console, on a loop of its own.

    Attributes:
        events: what the audit log got, as (class, event, fields).
    """

    classes = frozenset({"login", "role", "ddl"})

    def __init__(
        self,
        path: Path,
        rules: Sequence[HostRule] | None = None,
        *,
        audit: dict[str, Any] | None = None,
        backup: dict[str, Any] | None = None,
        **console: Any,
    ) -> None:
        """``audit``, ``backup``, ``console``: what is set in these sections of the configuration."""
        self.loop = asyncio.new_event_loop()
        self.events: list[tuple[str, str, dict[str, object]]] = []
        config = ServerConfig()
        self.config = msgspec.structs.replace(
            config,
            console=msgspec.structs.replace(config.console, **console),
            audit=msgspec.structs.replace(config.audit, **audit or {}),
            backup=msgspec.structs.replace(config.backup, **backup or {}),
            authentication=config.authentication
            if rules is None
            else AuthenticationSection(rules=tuple(rules)),
        )
        self.run(self._open(path))

    async def _open(self, path: Path) -> None:
        self.database = await ServedDatabase.open(path)
        self.node = alone(self.database)
        roles = RoleStore(RoleFile(path))
        self.registry = SessionRegistry(roles)
        self.registry.auditor = self
        self.authority = RuleAuthority(self.config.authentication.rules, roles.verifier)
        self.context = PgContext(self.node, pg_settings(self.config), self.authority, self.registry)
        process = ProcessNode(__version__, ServerStatus(), Logs("text"), lambda: self.config, Reloaded)
        self.console = Console(ConsoleParts(self.context, self.node, process, lambda: self.config))

    # The audit log.

    def statement(self, session: Session, kind: str, text: str, *, sqlstate: str = "00000") -> None:
        self.events.append((kind, sqlstate, {"statement": text, "user": session.identity.user}))

    def event(self, kind: str, what: str, fields: dict[str, object]) -> None:
        self.events.append((kind, what, fields))

    # Using it.

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 60))

    def sql(self, *texts: str) -> None:
        """Run statements as a superuser."""

        async def run() -> None:
            session = self.node.session("")
            entry = self.registry.add(session, user="herdpy", database="herdpy", end=session.waits.end)
            for text in texts:
                await self.database.driver.call(session.execute(text))
            await self.database.driver.call(session.close())
            self.registry.remove(entry)

        self.run(run())

    def browser(self, address: str = LOOPBACK, origin: str = "http://localhost:8480") -> ConsoleBrowser:
        return ConsoleBrowser(self, address, origin)

    def close(self) -> None:
        self.run(self.console.close())
        self.run(self.database.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class ConsoleBrowser:
    """A browser: it keeps cookies, says where requests come from, and goes where it is sent."""

    def __init__(self, world: ConsoleWorld, address: str, origin: str) -> None:
        self._world = world
        self._origin = origin
        transport = httpx.ASGITransport(world.console, client=(address, 40_000))  # type: ignore[arg-type]
        self.client = httpx.AsyncClient(transport=transport, base_url=origin)

    def get(self, path: str, *, follow: bool = True, **headers: str) -> httpx.Response:
        return self._world.run(self._get(path, follow, headers))

    async def _get(self, path: str, follow: bool, headers: dict[str, str]) -> httpx.Response:
        answer = await self.client.get(f"/console/{path}", headers=_names(headers))
        while follow and answer.has_redirect_location:
            answer = await self.client.get(answer.headers["location"])
        return answer

    def post(
        self, path: str, form: dict[str, str], *, follow: bool = True, origin: str | None = "", **headers: str
    ) -> httpx.Response:
        """Send a form; ``origin``: "" says ours, None says none."""
        given = _names(headers)
        if origin is not None:
            given["origin"] = origin or self._origin

        async def send() -> httpx.Response:
            answer = await self.client.post(f"/console/{path}", data=form, headers=given)
            while follow and answer.has_redirect_location:
                answer = await self.client.get(answer.headers["location"])
            return answer

        return self._world.run(send())

    def log_in(self, user: str, password: str, **more: str) -> httpx.Response:
        return self.post("login", {"user": user, "password": password, **more})

    def token(self, path: str = "cluster") -> str:
        """The CSRF token of a page."""
        found = TOKEN.search(self.get(path).text)
        assert found is not None
        return found[1]

    def act(self, path: str, **form: str) -> httpx.Response:
        """Send a form of a page, with its token."""
        return self.post(path, {"csrf_token": self.token(), **form})


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
