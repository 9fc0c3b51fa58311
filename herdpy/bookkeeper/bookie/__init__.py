"""Connections to bookies and all about them: handle, pool, TLS, authentication, metrics."""

from herdpy.bookkeeper.bookie.handle import Bookie
from herdpy.bookkeeper.bookie.metrics import BookieMetrics, Metrics
from herdpy.bookkeeper.bookie.pending import AddReceiver, AnsweringBookie
from herdpy.bookkeeper.bookie.pool import BookiePool, address_of
from herdpy.bookkeeper.bookie.sasl import SaslDigestMd5
from herdpy.bookkeeper.errors import TIMED_OUT, UNAVAILABLE
from herdpy.bookkeeper.settings import AuthExchange, AuthProvider

__all__ = [
    "TIMED_OUT",
    "UNAVAILABLE",
    "AddReceiver",
    "AnsweringBookie",
    "AuthExchange",
    "AuthProvider",
    "Bookie",
    "BookieMetrics",
    "BookiePool",
    "Metrics",
    "SaslDigestMd5",
    "address_of",
]
