"""The page for probes and Prometheus: health, readiness and metrics, over HTTP on the server's loop.

status     what state the server is in, and what is wrong with it
metrics    what a server's metrics are made of
families   every metric, collected when it is asked for
page       the pages, as an ASGI application
"""

from herdpy_server.http.metrics import ServerMetrics
from herdpy_server.http.page import StatusPage
from herdpy_server.http.status import Phase, ServerStatus

__all__ = ["Phase", "ServerMetrics", "ServerStatus", "StatusPage"]
