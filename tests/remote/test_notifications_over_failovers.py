"""A connection that listens when its server is lost: it listens again, and says what it may have missed."""

from __future__ import annotations

import herdpy
from tests.remote.cutting_proxy import Cut


def test_a_connection_that_is_cut_listens_again_and_says_so(server, proxy):
    def cut_before_a_notification(side, kind):
        if (side, kind) == ("server", b"A"):
            proxy.watch = lambda _side, _kind: False
            raise Cut
        return False

    url = f"herdpy://ann@127.0.0.1:{proxy.port}/test?sslmode=disable"
    direct = f"herdpy://ann@127.0.0.1:{server.port}/test"
    with herdpy.connect(url, autocommit=True) as one, herdpy.connect(direct, autocommit=True) as other:
        one.execute("LISTEN a")
        coming = one.notifies()
        proxy.watch = cut_before_a_notification
        other.execute("NOTIFY a, 'lost'")
        assert next(coming).missed
        other.execute("NOTIFY a, 'heard'")
        assert next(coming).payload == "heard"
        assert proxy.cuts == 1
