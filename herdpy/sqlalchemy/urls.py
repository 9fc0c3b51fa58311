"""SQLAlchemy's URLs to the driver's: the same, but for hosts with a port each, which SQLAlchemy cannot read.

``herdpy+zk://zk1,zk2:2181/root`` is written with one port, that of all, or ``?hosts=zk2:2182``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


def driver_url(url: URL, scheme: str) -> str:
    """The URL for ``herdpy.connect``, with user and password in it when they were given.

    Args:
        url: as SQLAlchemy read it.
        scheme: of the driver: ``herdpy`` or ``herdpy+zk``.
    """
    options = [
        (name, text)
        for name, value in url.query.items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    tail = quote(url.database or "", safe="/.~-_+") + (f"?{urlencode(options)}" if options else "")
    if not url.host and not any(name == "hosts" for name, _ in options):
        return f"{scheme}:///{tail}"
    login = quote(url.username or "", safe="")
    if url.password is not None:
        login += ":" + quote(str(url.password), safe="")
    return f"{scheme}://{login}{'@' if login else ''}{_hosts(url)}/{tail}"


def _hosts(url: URL) -> str:
    port = "" if url.port is None else f":{url.port}"
    hosts = (url.host or "").split(",") if url.host else []
    return ",".join((f"[{host}]" if ":" in host else host) + port for host in hosts)
