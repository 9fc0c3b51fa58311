"""A file of changes: its lines and its position move together, whatever is killed, and when."""

from __future__ import annotations

import json
import signal
import threading

import pytest

from herdpy.log.lsn import LSN
from herdpy.testing.process import await_until
from herdpy_spark.cdc import sinks
from herdpy_spark.cdc.json_lines import JsonLines
from herdpy_spark.cdc.messages import Message
from herdpy_spark.cdc.sinks import ChangesFile, SinkError
from herdpy_spark.feed.driver import Offset

IDENTITY = {"table": "t"}


def offset(number):
    return Offset(LSN(1, number), "log")


def messages(*texts):
    return [Message(None, text) for text in texts]


@pytest.fixture
def sink_at(tmp_path):
    def open_sink(identity=IDENTITY):
        return ChangesFile(tmp_path / "out", JsonLines(), identity)

    return open_sink


class Killed(BaseException):
    """As if the process ended here."""


def test_what_was_written_without_its_position_is_cut_off(sink_at, tmp_path, monkeypatch):
    sink = sink_at()
    assert sink.position() is None
    sink.write(messages(b"1", b"2"), offset(1))

    def killed(*_):
        raise Killed

    monkeypatch.setattr(sinks, "replace_file", killed)
    with pytest.raises(Killed):
        sink.write(messages(b"3"), offset(2))
    monkeypatch.undo()
    sink.close()
    assert (tmp_path / "out").read_bytes() == b"1\n2\n3\n"
    again = sink_at()
    assert (tmp_path / "out").read_bytes() == b"1\n2\n"
    assert again.position() == offset(1)
    again.write(messages(b"3", b"4"), offset(3))
    again.close()
    assert (tmp_path / "out").read_bytes() == b"1\n2\n3\n4\n"


def test_a_first_batch_that_was_written_without_its_position_is_cut_off(sink_at, tmp_path, monkeypatch):
    def killed(path, data):
        raise Killed

    sink = sink_at()
    monkeypatch.setattr(sinks, "replace_file", killed)
    with pytest.raises(Killed):
        sink.write(messages(b"1"), offset(1))
    monkeypatch.undo()
    sink.close()
    again = sink_at()
    assert again.position() is None
    again.write(messages(b"1"), offset(1))
    again.close()
    assert (tmp_path / "out").read_bytes() == b"1\n"


def test_a_batch_that_fails_in_its_middle_leaves_nothing(sink_at, tmp_path):
    def failing():
        yield from messages(b"2" * 100_000, b"3")
        raise OSError("the log does not answer")

    sink = sink_at()
    sink.write(messages(b"1"), offset(1))
    with pytest.raises(OSError, match="does not answer"):
        sink.write(failing(), offset(2))
    assert sink.write(messages(b"2"), offset(2)) == 1
    sink.close()
    assert (tmp_path / "out").read_bytes() == b"1\n2\n"


def test_a_file_that_is_not_the_sinks_is_refused(sink_at, tmp_path):
    sink = sink_at()
    sink.write(messages(b"1"), offset(1))
    with pytest.raises(SinkError, match="another process writes"):
        sink_at()
    sink.close()
    with pytest.raises(SinkError, match=r"has changes of \{'table': 't'\}"):
        sink_at({"table": "u"})
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(SinkError, match="it was cut"):
        sink_at()
    (tmp_path / "out.position").write_bytes(b"{")
    with pytest.raises(SinkError, match="is damaged"):
        sink_at()
    (tmp_path / "out.position").unlink()
    (tmp_path / "out").write_bytes(b"mine")
    with pytest.raises(SinkError, match="name a new file"):
        sink_at()
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_runs_that_are_killed_write_each_change_once(sql, changes, tmp_path):
    sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "CREATE TABLE other (id INT)")
    out, over = tmp_path / "out.jsonl", threading.Event()

    def write():
        number = 0
        while number < 5 or not over.is_set():  # the fifth moves a key
            number += 1
            sql(f"INSERT INTO t VALUES ({number}, 'v')", f"INSERT INTO other VALUES ({number})")
            if number % 5 == 0:
                sql(f"UPDATE t SET id = -id WHERE id = {number - 3}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            size = out.stat().st_size if out.exists() else 0
            with changes.start("--table", "t", "--to", str(out), "--follow") as run:
                assert await_until(lambda size=size: out.exists() and out.stat().st_size > size, 60.0)
                run.send_signal(signal.SIGKILL)
    finally:
        over.set()
        writer.join()
    changes.run("--table", "t", "--to", str(out))
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert written == changes.lines("--table", "t")
    assert {change["op"] for change in written} >= {"create", "insert", "delete"}
    changes.run("--table", "t", "--to", str(out))
    assert len(out.read_text().splitlines()) == len(written)


def test_a_run_that_follows_ends_in_order_when_it_is_told(sql, changes, tmp_path):
    out = tmp_path / "out.jsonl"
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with changes.start("--table", "t", "--to", str(out), "--follow") as run:
        assert await_until(lambda: out.exists() and out.read_text().count("\n") == 1, 60.0)
        sql("INSERT INTO t VALUES (1)")
        assert await_until(lambda: out.read_text().count("\n") == 2, 60.0)
        run.terminate()
        _, said = run.communicate(timeout=60)
    assert run.returncode == 0
    assert said.decode() == "2 messages, up to 1:1\n"
    sql("INSERT INTO t VALUES (2)")
    changes.run("--table", "t", "--to", str(out), "--from", "latest")  # the file's own position counts
    assert [json.loads(line)["key"] for line in out.read_text().splitlines()] == [None, {"id": 1}, {"id": 2}]
