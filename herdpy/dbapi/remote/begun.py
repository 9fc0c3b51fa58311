"""Transactions of which nothing was done but BEGIN: they begin again with the next leader. Below ``link``.

``requests`` says BEGIN in one piece with a statement where it has to, and sends both again. Who says BEGIN
himself (``transaction()``, a stream) shall see no more of a failover: as long as BEGIN is all that its
connection was sent, nothing is lost with it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from herdpy.dbapi.errors import OperationalError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.remote.connection import checked
from herdpy.dbapi.remote.errors import ConnectionLostError
from herdpy.dbapi.remote.fetch import ArrowFetches
from herdpy.dbapi.remote.sent import Request, step
from herdpy.dbapi.remote.statements import StatementKind
from herdpy.dbapi.remote.values import Told

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Translation
    from herdpy.dbapi.remote.wire import Wire

_GO_ON = frozenset({StatementKind.READ, StatementKind.WRITE, StatementKind.SESSION})


class BegunTransactions(ArrowFetches):
    """Sends the first statement after BEGIN again, with it."""

    _begun: tuple[str, Wire, int] | None = None
    """The text of BEGIN, the connection that it was sent on, and how much that had sent then."""

    def _request(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any] | Told:
        """See Requests."""
        if kind is not StatementKind.BEGIN:
            return super()._request(sql, kind, wanted, source)
        idle = self.status() == TransactionStatus.IDLE
        results = super()._request(sql, kind, wanted, source)
        self._begun = (sql, self._wire, self._wire.exchanges) if idle and self._wire is not None else None
        return results

    def _within(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any]:
        """See Requests."""
        begun, self._begun = self._begun, None
        is_first = begun is not None and begun[1] is self._wire and begun[1].exchanges == begun[2]
        deadline = 0.0
        while True:
            try:
                return super()._within(sql, kind, wanted, source)
            except OperationalError:
                if begun is None or not is_first or self._lost is None or kind not in _GO_ON:
                    raise
            deadline = deadline or time.monotonic() + self._options.failover_timeout_s
            self._begin_again(begun[0], deadline)

    def _begin_again(self, begin: str, deadline: float) -> None:
        """BEGIN on the server that leads now. Until then the transaction is lost, whatever is raised."""
        while self._lost is not None:
            self._again_or_raise(self._lost, deadline)
            wire = self._connected(deadline)
            try:
                self._catch_up(wire)
                checked(wire.run([step(begin)]))
            except ConnectionLostError as again:
                self._drop(again, in_transaction=True)
            else:
                self._lost = None
