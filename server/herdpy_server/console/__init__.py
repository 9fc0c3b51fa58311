"""The console: pages for people, below /console/ of a server's HTTP port.

app            the ASGI application: guard, logins, pages
guard          what every request and answer passes: names of hosts, origins, headers
logins         the logins there are; tries that failed
authentication which roles may log in, by the rules of PostgreSQL's protocol
parts          what of the server it stands on
rendering      templates, and their filters
static_files   scripts and styles
oidc           which roles a provider of identities names
gateway        statements of pages, run with the rights of their role
visit          one request of a page, as the page sees it
drill_runs     failover drills, each a process of its own
jobs           what goes on besides requests
pages          the pages, a module each; ``pages.PAGES`` lists them
"""

from herdpy_server.console.app import Console
from herdpy_server.console.parts import ConsoleParts

__all__ = ["Console", "ConsoleParts"]
