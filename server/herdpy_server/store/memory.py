"""Store layer, inside: the memtable and the pending transactions above LMDB, as chains of deltas.

For each database (a table's rows or an index's entries) ``applied`` has the deltas that are
applied but not in LMDB, and ``pending`` those of transactions that have their place in the log and
are not durable yet; ``visible`` is both, newest first, which is what a reader goes through before
it asks LMDB. Chains are tuples, replaced and never changed; of the deltas only the newest applied
one is written to, and only until something holds it fast (a snapshot or a flush), which is one
number, the epoch.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from herdpy_server.store.layers import ENTRY_BYTES, Chain, Delta, Layer, merged
from herdpy_sql.catalog import Catalog

_ADOPT_ROWS = 256
_MERGE_ROWS = 65_536
_PENDING_CHAIN = 8
_LOSSES_KEPT = 64


class Pending(NamedTuple):
    """A transaction that has its place in the log and is not durable yet."""

    token: int
    layer: Layer
    catalog: Catalog | None


class Memory:
    """Chains of deltas by database id."""

    def __init__(self) -> None:
        self.applied: dict[int, Chain] = {}
        self.pending: dict[int, Chain] = {}
        self.visible: dict[int, Chain] = {}
        self.transactions: deque[Pending] = deque()
        self.losses = 0  # how often pending transactions were dropped
        self._lost_from: deque[int] = deque(maxlen=_LOSSES_KEPT)  # the first token of each time
        self.epoch = 0
        self.generation = 0
        self._token = 0
        self.rows = 0
        self.nbytes = 0

    @property
    def last_token(self) -> int:
        """Of the newest transaction that took its place in the log."""
        return self._token

    @property
    def newest_token(self) -> int:
        """Of the newest one that is not durable yet; 0 when all are."""
        return self.transactions[-1].token if self.transactions else 0

    # The applied state.

    def head(self, db: int) -> Delta:
        """The delta that takes the next change of a database."""
        chain = self.applied.get(db, ())
        if chain and chain[0].epoch == self.epoch:
            return chain[0]
        delta = Delta(epoch=self.epoch, generation=self.generation)
        self._set_applied(db, (delta, *self._compacted(chain)))
        return delta

    def put(self, delta: Delta, key: bytes, value: bytes | None) -> None:
        """Change one key in a delta that :meth:`head` gave."""
        before = len(delta.rows)
        delta.rows[key] = value
        size = len(key) + (len(value) if value is not None else 0)
        if len(delta.rows) != before:
            size += ENTRY_BYTES
            self.rows += 1
        delta.nbytes += size
        self.nbytes += size

    def clear(self, db: int) -> None:
        """Let nothing of a database show: it was truncated, dropped or just made."""
        delta = Delta(cleared=True, epoch=self.epoch, generation=self.generation)
        older = self.applied.get(db, ())
        kept = tuple(one for one in older if one.generation != self.generation)
        for one in older:
            if one.generation == self.generation:
                self._count(one, -1)
        self._set_applied(db, (delta, *kept))

    def adopt(self, layer: Layer) -> None:
        """Apply a whole transaction's changes."""
        for db, delta in layer.items():
            self.adopt_delta(db, delta)

    def adopt_delta(self, db: int, delta: Delta) -> None:
        """Apply one transaction's changes of one database; a big delta is taken over as it is."""
        if delta.cleared:
            self.clear(db)
        if len(delta.rows) <= _ADOPT_ROWS and not delta.is_large:
            head = self.head(db)
            before = len(head.rows)
            head.rows.update(delta.rows)
            head.nbytes += delta.nbytes
            self.rows += len(head.rows) - before
            self.nbytes += delta.nbytes
            return
        # Sealed by its epoch (-1). Reading it as pending or applied makes no difference, so that a
        # snapshot may hold the same object.
        taken = Delta(generation=self.generation)
        taken.rows, taken.nbytes, taken._runs = delta.rows, delta.nbytes, delta._runs
        self._count(taken, 1)
        self._set_applied(db, (taken, *self._compacted(self.applied.get(db, ()))))

    def _compacted(self, chain: Chain) -> Chain:
        """The chain with neighbours of like size merged, so that it stays short."""
        while len(chain) > 1:
            newer, older = chain[0], chain[1]
            if (
                newer.generation != self.generation
                or older.generation != self.generation
                or newer.is_large
                or older.is_large
                or len(older.rows) > 2 * len(newer.rows)
                or len(older.rows) + len(newer.rows) > _MERGE_ROWS
            ):
                break
            one = merged(newer, older)
            self.rows += len(one.rows) - len(newer.rows) - len(older.rows)
            chain = (one, *chain[2:])
        return chain

    def _count(self, delta: Delta, sign: int) -> None:
        self.rows += sign * len(delta.rows)
        self.nbytes += sign * delta.resident_bytes

    def _set_applied(self, db: int, chain: Chain) -> None:
        self.applied[db] = chain
        self.visible[db] = self.pending.get(db, ()) + chain

    def hold(self) -> None:
        """Write no more to what is here now: a snapshot or a flush holds it."""
        self.epoch += 1

    # Flushing.

    def freeze(self) -> dict[int, Chain]:
        """What a flush has to write. Frozen deltas stay in their chains until :meth:`release`."""
        self.hold()
        self.generation += 1
        return dict(self.applied)

    def release(self, frozen: dict[int, Chain]) -> None:
        """Let go of what a flush wrote."""
        for db, chain in frozen.items():
            now = self.applied[db]
            kept = now[: len(now) - len(chain)]
            for delta in chain:
                self._count(delta, -1)
            self._set_applied(db, kept)
            if not kept:
                del self.applied[db]
                if not self.visible[db]:
                    del self.visible[db]

    # Pending transactions.

    def push(self, layer: Layer, catalog: Catalog | None) -> int:
        """Show the changes of a transaction that took its place in the log."""
        self._token += 1
        token = self._token
        self.transactions.append(Pending(token, layer, catalog))
        for db, delta in layer.items():
            delta.token = token
            chain = (delta, *self.pending.get(db, ()))
            if len(chain) > _PENDING_CHAIN:
                chain = _compacted_pending(chain)
            self.pending[db] = chain
            self.visible[db] = chain + self.applied.get(db, ())
        return token

    def nth_pending(self, nth: int) -> Pending | None:
        """The pending transaction to be applied after ``nth`` others, or None."""
        return self.transactions[nth] if nth < len(self.transactions) else None

    def pop(self, token: int) -> None:
        """The transactions up to ``token`` are applied: they need not show as pending any more."""
        transactions = self.transactions
        while transactions and transactions[0].token <= token:
            for db in transactions.popleft().layer:
                chain = self.pending.get(db)
                if chain is None:
                    continue
                # A merged delta stays until its newest transaction is applied; until then it shows
                # what the applied state will be, so it hides nothing.
                below = self.applied.get(db, ())
                if chain[0].token <= token:  # the newest: all of them
                    del self.pending[db]
                    if not below:
                        del self.visible[db]
                        continue
                    self.visible[db] = below
                else:
                    self.pending[db] = chain = tuple(delta for delta in chain if delta.token > token)
                    self.visible[db] = chain + below

    def drop_pending(self) -> None:
        """No pending transaction will ever be durable: none shows any more."""
        if self.transactions:
            self.losses += 1
            self._lost_from.append(self.transactions[0].token)
        self.transactions.clear()
        self.pending.clear()
        self.visible = dict(self.applied)

    def lost_since(self, losses: int) -> int | None:
        """The first token that was dropped since ``losses`` was what it says; None when none was.

        Tokens rise, so whatever was dropped since is at or above it.
        """
        behind = self.losses - losses
        if not behind:
            return None
        return self._lost_from[-behind] if behind <= len(self._lost_from) else 1


def _compacted_pending(chain: Chain) -> Chain:
    """The chain with small neighbours merged from the oldest end on, doubling in size."""
    result: list[Delta] = []
    for delta in reversed(chain):
        current = delta
        while (
            result
            and len(result[-1].rows) <= len(current.rows) <= _MERGE_ROWS
            and not (result[-1].is_large or current.is_large)
        ):
            current = merged(current, result.pop())
        result.append(current)
    return tuple(reversed(result))
