"""Store layer, inside: how far sequences have come.

A value that was given is never taken back, so a leader counts in memory (``Store.sequence_heads``), beside
all transactions. What a transaction has used is logged with its commit: the state that the sequence has at
that moment, so that in the log the states of one sequence are in order and the newest is the right one. A
state is kept as the one item of a database that has the sequence's id; on the disk it is in ``meta``.

A state that a transaction sets for itself (a new sequence, RESTART) lies in its own layer until it commits,
and is undone with it.
"""

from __future__ import annotations

from herdpy.log.records import SequenceAdvance
from herdpy_server.store.layers import SEQUENCE_KEY
from herdpy_server.store.reading import Reading
from herdpy_sql import sequences
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import CatalogObject
from herdpy_sql.sequences import SequenceMemory, SequenceState


class SequenceUse(Reading):
    """A transaction as far as it uses sequences.

    Attributes:
        memory: what its session remembers of sequences; None where there is no session.
        used: ids of the sequences whose states are to be logged with the commit.
        taken: states before the first value was taken since this was emptied, for ``give_back``.
    """

    memory: SequenceMemory | None = None

    def __init__(self, store: object) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self.used: set[int] = set()
        self.taken: dict[int, bytes] = {}

    def nextval(self, sequence: str) -> int:
        """The next value of the sequence that a regclass text names."""
        one = self._sequence(sequence)
        number, before = one.id, self._state(one)
        state = sequences.after(one, SequenceState.decode(before))
        self.taken.setdefault(number, before)
        self._set_state(number, state.encode())
        memory = self.memory
        if memory is not None:
            memory.values[number] = state.value
            memory.last = number
        return state.value

    def setval(self, sequence: str, value: int, called: bool) -> int:
        """Let a sequence go on after ``value``, or with it where it is not ``called``; at once, for all."""
        one = self._sequence(sequence)
        state = sequences.checked(one, value, called=called)
        self.taken.setdefault(one.id, self._state(one))
        self._set_state(one.id, state.encode())
        if called and self.memory is not None:
            self.memory.values[one.id] = value
        return value

    def currval(self, sequence: str) -> int:
        """The value that the session was given last. SqlError 55000 when there is none."""
        one = self._sequence(sequence)
        value = None if self.memory is None else self.memory.values.get(one.id)
        if value is None:
            raise SqlError("55000", f'currval of sequence "{one.name}" is not yet defined in this session')
        return value

    def lastval(self) -> int:
        """The value that the session was given last of any sequence. SqlError 55000 when there is none."""
        memory = self.memory
        if memory is None or memory.last is None or memory.last not in self.catalog.objects:
            raise SqlError("55000", "lastval is not yet defined in this session")
        return memory.values[memory.last]

    def sequence_state(self, one: CatalogObject) -> SequenceState:
        """How far a sequence has come."""
        return SequenceState.decode(self._state(one))

    def restart_sequence(self, one: CatalogObject, state: SequenceState) -> None:
        """Give a sequence a state as part of the transaction: others see it, or not, with the commit."""
        self._put(one.id, SEQUENCE_KEY, state.encode())
        self.used.add(one.id)

    def give_back(self) -> None:
        """Take back the values since ``taken`` was emptied; nobody else may have taken any since."""
        for number, state in self.taken.items():
            if number in self._store.sequence_heads:
                self._store.sequence_heads[number] = state
        self.taken.clear()

    def log_sequences(self) -> None:
        """Add to the records how far the sequences have come that were used; right before the commit."""
        heads, objects = self._store.sequence_heads, self.catalog.objects
        for number in sorted(self.used & objects.keys()):
            own = self.layer.get(number)
            state = None if own is None else own.rows.get(SEQUENCE_KEY)
            if state is not None:
                heads[number] = state
            else:
                state = heads.get(number)
                if state is None:
                    continue  # it was set, and the setting undone
                self._put(number, SEQUENCE_KEY, state)
            self.records.append(SequenceAdvance(number, state))
        self.used.clear()

    def _sequence(self, text: str) -> CatalogObject:
        if self.memory is None:
            return sequences.find_sequence(self.catalog, text)
        return sequences.find_sequence(self.catalog, text, self.memory.settings.path)

    def _state(self, one: CatalogObject) -> bytes:
        own = self.layer.get(one.id)
        state = None if own is None else own.rows.get(SEQUENCE_KEY)
        if state is None:
            state = self._store.sequence_heads.get(one.id)
        if state is None:
            state = self._get(one.id, SEQUENCE_KEY)
        if state is None:
            state = self._store.disk.sequences.get(one.id)
        if state is None:
            return SequenceState(sequences.definition_of(one).start, False).encode()
        return state

    def _set_state(self, number: int, state: bytes) -> None:
        own = self.layer.get(number)
        if own is not None and SEQUENCE_KEY in own.rows:
            self._put(number, SEQUENCE_KEY, state)
        else:
            self._store.sequence_heads[number] = state
        self.used.add(number)
