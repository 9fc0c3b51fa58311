"""docs/log-format.md shows the bytes that the code writes."""

import os
import re
from pathlib import Path

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Field, KeyField, Kind
from herdpy.codec.rows import RowCodec
from herdpy.log import Delete, FileLog, Insert, LoggedTransaction, inspect
from herdpy.log.records import TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "log-format.md").read_text()
TIME = 1_767_225_600_000_000


def _block(name):
    return re.search(rf"^```{name}\n(.*?)^```", PAGE, re.M | re.S)[1]


def _page_file():
    """The ledger file as the page gives it: offsets, hex and what is zero."""
    data, last = bytearray(4344), 0
    for line in _block("hex").splitlines():
        place, text = line.split("#")[0].split(None, 1)
        at, part = int(place), bytes.fromhex(text)
        assert at >= last
        assert at == last or last in (72, 2076), f"the page leaves out bytes {last} to {at}"
        data[at : at + len(part)] = part
        last = at + len(part)
    assert last == len(data)
    return bytes(data)


def _write(disk, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: bytes(range(16, 16 + size)))
    key = KeyCodec([KeyField(Kind.INT64)]).encode((7,))
    row = RowCodec([Field(Kind.INT64), Field(Kind.TEXT)]).encode((7, "Ann"))
    log = FileLog("/log", files=disk, now_us=lambda: TIME)
    log.append(LoggedTransaction(TIME, [Insert(1, key, row)], b"r1")).block()
    log.append(LoggedTransaction(TIME + 500_000, [Delete(1, key)])).block()
    log.close()


def test_the_log_of_the_page_is_written_byte_for_byte(disk, monkeypatch):
    _write(disk, monkeypatch)
    assert bytes(disk.content("0000000001.ledger")).hex(" ") == _page_file().hex(" ")
    assert bytes(disk.content("ledgers")).decode() == _block("list")


def test_the_log_of_the_page_is_read(tmp_path):
    (tmp_path / "ledgers").write_text(_block("list"))
    (tmp_path / "0000000001.ledger").write_bytes(_page_file())
    first, second = inspect.entries(str(tmp_path))
    assert first.transactions[0].request_id == b"r1"
    insert, delete = (entry.transactions[0].records[0].record for entry in (first, second))
    assert RowCodec([Field(Kind.INT64), Field(Kind.TEXT)]).decode(insert.row) == (7, "Ann")
    assert insert.key == delete.key
    assert inspect.check(str(tmp_path)).problems == []


def test_every_record_is_on_the_page():
    listed = {(int(number), name) for number, name in re.findall(r"^\| (\d+) \| ([A-Z]\w+) \|", PAGE, re.M)}
    assert listed >= {(number, kind.__name__) for kind, number in TYPES.items()}


def test_every_kind_is_on_the_page():
    for kind in Kind:
        assert f"{kind.name} ({kind.value})" in PAGE
