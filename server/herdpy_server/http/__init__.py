"""The page for probes and Prometheus: health, readiness and metrics, over HTTP on the server's loop.

status     what state the server is in, what is wrong with it, and what its metrics are made of
families   every metric, collected when it is asked for
page       the pages, as an ASGI application
"""

from herdpy_server.http.page import StatusPage
from herdpy_server.http.status import Phase, ServerMetrics, ServerStatus

__all__ = ["Phase", "ServerMetrics", "ServerStatus", "StatusPage"]
