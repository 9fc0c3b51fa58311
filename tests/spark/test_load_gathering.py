"""Small partitions: what their tasks' messages carry, and how the driver stages it."""

import itertools
import pickle

import pyarrow as pa
import pytest

from herdpy.log.records import StagedPart
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.writing import LoadWriter
from herdpy_spark.writing.gathering import carried_bytes, gathered
from herdpy_spark.writing.plan import (
    LoadError,
    ServerFiles,
    TaskRows,
    WriteMode,
    WriteOutcome,
    WritePlan,
    target_columns,
)
from herdpy_spark.writing.staging import stage

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
NOWHERE = ServerFiles(GrpcAddress("127.0.0.1", 1), "shop")


def plan(max_chunk_bytes=1 << 20):
    columns = target_columns(SCHEMA)
    return WritePlan("nightly", "shop", "orders", WriteMode.APPEND, 9, columns, b"", max_chunk_bytes, NOWHERE)


class Sinks:
    """Opens sinks, and keeps what they got.

    Attributes:
        streams: the bytes of each part, by its "ledger".
        states: of each sink: open, closed or abandoned.
        fails_at: the number of the stream that cannot be finished.
    """

    def __init__(self, part_bytes=1 << 30, fails_at=-1):
        self.streams, self.states, self.part_bytes, self.fails_at = {}, [], part_bytes, fails_at
        self._numbers = itertools.count()

    def open(self, _plan, partition, task_attempt):
        self.states.append("open")
        return _Sink(self, len(self.states) - 1)

    def ids(self, part):
        return pa.ipc.open_stream(self.streams[part.ledger_id]).read_all().column("id").to_pylist()

    def number(self):
        return next(self._numbers)


class _Sink:
    def __init__(self, sinks, place):
        self.part_bytes, self._sinks, self._place, self._data = sinks.part_bytes, sinks, place, b""

    def write(self, piece):
        self._data += piece

    def finish(self, rows):
        number = self._sinks.number()
        if number == self._sinks.fails_at:
            raise LoadError("the bookies are gone")
        self._sinks.streams[number] = self._data
        size, self._data = len(self._data), b""
        return StagedPart(number, 0, size, 0, rows)

    def close(self):
        self._sinks.states[self._place] = "closed"

    def abandon(self):
        self._sinks.states[self._place] = "abandoned"


def batch(ids):
    return pa.RecordBatch.from_pydict({"id": list(ids), "name": ["x"] * len(ids)}, SCHEMA)


def task(sinks, partition, *batches, most_bytes=2000):
    """What the driver gets of an attempt that stages these rows."""
    made = stage(
        plan(), iter(batches), partition, partition + 100, carried_bytes=most_bytes, open_sink=sinks.open
    )
    return pickle.loads(pickle.dumps(made))


def test_few_rows_are_carried_and_nothing_is_opened_for_them():
    sinks = Sinks()
    made = task(sinks, 3, batch(range(10)), batch(range(10, 12)))
    assert (made.partition, made.task_attempt, made.rows, made.parts) == (3, 103, 12, ())
    assert [one.rows for one in made.carried] == [10, 2]
    assert sinks.states == []


def test_more_rows_are_staged_from_the_first_on_as_soon_as_they_are_too_many():
    sinks, opened = Sinks(), []

    def batches():
        for number in range(20):
            opened.append(len(sinks.states))
            yield batch(range(number * 10, number * 10 + 10))

    made = stage(plan(), batches(), 0, 100, carried_bytes=2000, open_sink=sinks.open)
    assert opened[0] == 0 < opened[-1]
    assert (made.rows, made.carried) == (200, ())
    assert [sinks.ids(part) for part in made.parts] == [list(range(200))]
    assert sinks.states == ["closed"]


def test_neighbours_share_a_part_and_the_order_of_partitions_is_kept():
    sinks = Sinks()
    tasks = [
        task(sinks, 0, batch([1])),
        task(sinks, 1, batch([2]), batch([3])),
        task(sinks, 2, batch(range(100, 300))),
        task(sinks, 5, batch([4])),
    ]
    made = list(gathered(plan(), tasks, open_sink=sinks.open))
    assert [(one.partition, one.rows) for one in made] == [(0, 1), (1, 2), (2, 200), (5, 1)]
    assert not any(one.carried for one in made)
    assert [[sinks.ids(part) for part in one.parts] for one in made] == [
        [[1, 2, 3]],
        [],
        [list(range(100, 300))],
        [[4]],
    ]
    assert set(sinks.states) == {"closed"}


def test_batches_are_joined_up_to_the_size_of_a_message_and_parts_to_theirs():
    sinks = Sinks(part_bytes=20_000)
    tasks = [task(sinks, number, batch(range(number * 10, number * 10 + 10))) for number in range(200)]
    made = list(gathered(plan(max_chunk_bytes=4000), tasks, open_sink=sinks.open))
    parts = made[0].parts
    assert not any(one.parts for one in made[1:])
    assert 1 < len(parts) < 10
    assert [at for part in parts for at in sinks.ids(part)] == list(range(2000))
    sizes = [len(one) for part in parts for one in _messages(sinks.streams[part.ledger_id])]
    assert max(sizes) <= 4000
    assert len(sizes) < 100


def _messages(stream):
    for one in pa.ipc.open_stream(stream):
        yield one.serialize()


def test_a_part_that_cannot_be_stored_is_given_up():
    sinks = Sinks(fails_at=0)
    tasks = [task(sinks, 0, batch([1])), task(sinks, 1, batch([2]))]
    with pytest.raises(LoadError, match="bookies are gone"):
        list(gathered(plan(), tasks, open_sink=sinks.open))
    assert sinks.states == ["abandoned"]


def test_a_message_carries_less_the_more_partitions_there_are():
    assert carried_bytes(0) == carried_bytes(1000) == 64 << 10
    assert sum(map(carried_bytes, range(100_000))) < 380 << 20
    assert carried_bytes(100_000) > 600  # some rows


class Loads:
    """Publishes nothing; notes what it is to remove."""

    def __init__(self):
        self.removed = []

    def publish(self, plan, staged, progress=None):
        raise LoadError("duplicate key", "23505")

    def abort(self, plan, staged):
        self.removed += [part.ledger_id for one in staged for part in one.parts]


@pytest.mark.parametrize(("fails_at", "left"), [(-1, [1, 0, 2]), (2, [1, 0])])
def test_what_the_driver_staged_is_removed_when_nothing_was_published(monkeypatch, fails_at, left):
    """Part 0 is a task's own; parts 1 and 2 are the driver's, before and after it."""
    sinks = Sinks(fails_at=fails_at)
    tasks = [task(sinks, 1, batch(range(200))), task(sinks, 0, batch([1])), task(sinks, 2, batch([2]))]
    monkeypatch.setattr(gathered, "__kwdefaults__", {"open_sink": sinks.open})
    loads = Loads()
    with pytest.raises(LoadError):
        LoadWriter(loads, plan()).commit(tasks)
    assert loads.removed == left


def test_a_load_that_was_published_before_gathers_nothing():
    done = WriteOutcome("nightly", "7:3", 5, 0, 0, 0)
    LoadWriter(Loads(), done).commit([TaskRows(0, 1)])
