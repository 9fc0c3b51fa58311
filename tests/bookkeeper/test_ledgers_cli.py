"""``herdpy ledgers`` on a real cluster."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import uuid

import pytest
from typer.testing import CliRunner

from herdpy.bookkeeper import BookKeeper, DigestType, LedgerState
from herdpy.cli.app import app
from herdpy.cli.ledgers import escaped, hex_lines
from herdpy.log import LSN
from herdpy.log.entry import LoggedTransaction, encode_entry, encode_part
from herdpy.log.lsn import START
from herdpy.log.records import DropTable, Truncate
from tests.cli.processes import command, environment

WORDS = [b"hello", b"a\ttab and \xff", "zwölf".encode(), bytes(20)]


@pytest.fixture
def herdpy_ledgers(bookkeeper_cluster, monkeypatch):
    """``herdpy_ledgers("ls", ..., code=0)``: run ``herdpy ledgers`` against the cluster."""
    monkeypatch.setenv("HERDPY_CLUSTER", bookkeeper_cluster.uri)
    runner = CliRunner()

    def run(*arguments, code=0, input=None):
        result = runner.invoke(app, ["ledgers", *map(str, arguments)], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{result.exit_code}: {result.stdout}\n{result.stderr}"
        return result

    return run


@pytest.fixture
def make(bookkeeper_cluster):
    """``make(entries, close=True, **ledger)``: a ledger's id."""

    def made(entries, *, close=True, **ledger):
        async def main():
            async with BookKeeper(bookkeeper_cluster.uri) as bk:
                writer = await bk.create_ledger(**ledger)
                for entry in entries:
                    await writer.append(entry)
                if close:
                    await writer.close()
                return writer.ledger_id

        return asyncio.run(main())

    return made


def metadata(cluster, ledger):
    async def main():
        async with BookKeeper(cluster.uri) as bk:
            return await bk.ledger_metadata(ledger)

    return asyncio.run(main())


def test_ls(herdpy_ledgers, make):
    closed = make(WORDS, write_quorum=2, digest=DigestType.HMAC)
    opened = make(WORDS, close=False)
    listed = {one["ledger"]: one for one in json.loads(herdpy_ledgers("ls", "--json").stdout)}
    assert listed[closed]["entries"] == len(WORDS)
    assert listed[closed]["bytes"] == sum(map(len, WORDS))
    assert (listed[closed]["state"], listed[opened]["state"]) == ("closed", "open")
    assert (listed[closed]["digest"], listed[closed]["write_quorum"]) == ("HMAC", 2)
    assert (listed[opened]["entries"], listed[opened]["bytes"]) == (None, None)
    assert listed[opened]["created"].startswith("20")
    shown = herdpy_ledgers("ls").stdout
    assert "│ Ledger │ State" in shown
    assert "3/2/2" in shown
    assert "Problem" not in shown


def test_ls_shows_a_ledger_that_cannot_be_understood(bookkeeper_cluster, make):
    ledger = make(WORDS)
    address, _, root = bookkeeper_cluster.uri.rpartition("/")
    other_root = f"spoiled-{uuid.uuid4().hex}"  # others list the ledgers of the cluster's own

    async def spoil():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            layout = await bk.znodes.get(f"/{root}/LAYOUT")
            good = await bk.znodes.get(f"/{root}/000/0000/0000/{ledger // 10_000:04d}/L{ledger % 10_000:04d}")
            bad = b"BookieMetadataFormatVersion\t9\n" + good.data[30:]
            for path, data in (("LAYOUT", layout.data), (LEDGERS[7], good.data), (LEDGERS[8], bad)):
                await bk.znodes.create(f"/{other_root}/{path}", data, make_parents=True)

    asyncio.run(spoil())
    result = CliRunner().invoke(app, ["ledgers", "ls", "--cluster", f"{address}/{other_root}", "--json"])
    listed = {one["ledger"]: one for one in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert listed[7]["problem"] is None
    assert "9" in listed[8]["problem"]


LEDGERS = {number: f"000/0000/0000/0000/L{number:04d}" for number in (7, 8)}
"""Znodes of ledgers, below the root."""


def test_show_never_prints_the_password(herdpy_ledgers, make):
    ledger = make(WORDS, password=b"hunter2", custom_metadata={"of": b"flights", "raw": b"\x00\xff"})
    shown = json.loads(herdpy_ledgers("show", ledger, "--json").stdout)
    assert shown["custom_metadata"] == {
        "of": {"text": "flights", "hex": b"flights".hex()},
        "raw": {"text": None, "hex": "00ff"},
    }
    (segment,) = shown["segments"]
    assert (segment["first_entry"], segment["last_entry"], len(segment["bookies"])) == (0, len(WORDS) - 1, 3)
    assert shown["has_password"] is True
    table = herdpy_ledgers("show", ledger)
    assert "flights" in table.stdout
    assert segment["bookies"][0] in table.stdout
    everything = table.output + json.dumps(shown) + herdpy_ledgers("ls", "--json").output
    for secret in ("hunter2", b"hunter2".hex()):
        assert secret not in everything


def test_cat_as_text_and_hex_and_json(herdpy_ledgers, make):
    ledger = make(WORDS, password=b"known from the metadata")
    text = herdpy_ledgers("cat", ledger).stdout.splitlines()
    assert text == ["0\thello", "1\ta\\ttab and \\xff", "2\tzwölf", "3\t" + "\\x00" * 20]
    assert herdpy_ledgers("cat", ledger, "--from", 1, "--to", 2).stdout.splitlines() == text[1:3]
    dump = herdpy_ledgers("cat", ledger, "--from", 3, "--hex").stdout.splitlines()
    assert dump[0] == "entry 3, 20 bytes"
    assert dump[2].split() == ["00000010", "00", "00", "00", "00", "...."]
    lines = [json.loads(line) for line in herdpy_ledgers("cat", ledger, "--json").stdout.splitlines()]
    assert [bytes.fromhex(line["hex"]) for line in lines] == WORDS
    assert [line["length"] for line in lines] == [5, 16, 22, 42]
    assert (lines[0]["text"], lines[1]["text"]) == ("hello", None)


def test_cat_raw_gives_the_bytes(herdpy_ledgers, make, bookkeeper_cluster, tmp_path):
    ledger = make(WORDS)
    arguments = command("ledgers", "cat", ledger, "--raw", "--cluster", bookkeeper_cluster.uri)
    done = subprocess.run(arguments, capture_output=True, check=True, env=environment(tmp_path))
    assert done.stdout == b"".join(WORDS)


def test_cat_of_an_open_ledger_stays_within_the_confirmed_and_leaves_it_open(
    herdpy_ledgers, make, bookkeeper_cluster
):
    ledger = make([b"one", b"two", b"three"], close=False)
    shown = herdpy_ledgers("cat", ledger).stdout.splitlines()
    assert shown in (["0\tone", "1\ttwo"], ["0\tone", "1\ttwo", "2\tthree"])
    assert "so far" in herdpy_ledgers("cat", ledger, "--to", 3, code=1).stderr
    assert metadata(bookkeeper_cluster, ledger).state is LedgerState.OPEN


def test_cat_follows_until_the_ledger_is_closed(bookkeeper_cluster, tmp_path):
    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            writer = await bk.create_ledger()
            await writer.append(b"before")
            process = await asyncio.create_subprocess_exec(
                *command("ledgers", "cat", writer.ledger_id, "--follow", "--cluster", bookkeeper_cluster.uri),
                stdout=subprocess.PIPE,
                env=environment(tmp_path),
            )
            assert await process.stdout.readline() == b"0\tbefore\n"
            await writer.append(b"during")
            assert await process.stdout.readline() == b"1\tduring\n"
            await writer.close()
            assert await process.stdout.read() == b""
            assert await process.wait() == 0

    asyncio.run(main())


def test_cat_decodes_herdpys_own_log(herdpy_ledgers, make):
    def entry(number, predecessor, crc, *records):
        transaction = LoggedTransaction(
            records=list(records), timestamp_us=1_767_225_600_000_000, request_id=b""
        )
        return encode_entry(LSN(7, number), predecessor, crc, -1, [encode_part(transaction.encode())])

    first, crc = entry(0, START, 0, DropTable(5), Truncate(6))
    second, _ = entry(1, LSN(7, 0), crc, Truncate(8))
    ledger = make([first, second, b"something else"])
    shown = herdpy_ledgers("cat", ledger, "--herdpy", "--to", 1).stdout
    assert "7:0  " in shown
    assert "2026-01-01 00:00:00.000" in shown
    assert shown.index("DropTable table 5") < shown.index("Truncate table 6") < shown.index("table 8")
    failed = herdpy_ledgers("cat", ledger, "--herdpy", code=1)
    assert "entry 2 of ledger" in failed.stderr
    assert "HINT" in failed.stderr


def test_recover_asks_fences_and_says_where_the_end_is(herdpy_ledgers, make, bookkeeper_cluster):
    ledger = make([b"one", b"two"], close=False, password=b"p")
    assert "nothing was changed" in herdpy_ledgers("recover", ledger, input="n\n", code=1).stderr
    assert "--yes" in herdpy_ledgers("recover", ledger, code=2).stderr
    assert metadata(bookkeeper_cluster, ledger).state is LedgerState.OPEN
    assert "is now closed: 2 entries, 6 bytes" in herdpy_ledgers("recover", ledger, input="y\n").stderr
    after = metadata(bookkeeper_cluster, ledger)
    assert (after.state, after.last_entry_id) == (LedgerState.CLOSED, 1)
    again = json.loads(herdpy_ledgers("recover", ledger, "--json").stdout)
    assert again == {"ledger": ledger, "was_closed": True, "last_entry": 1, "bytes": 6}


def test_a_password_can_come_from_a_file(herdpy_ledgers, make, tmp_path):
    ledger = make([b"one"], password=b"right")
    (tmp_path / "right").write_bytes(b"right\n")
    (tmp_path / "wrong").write_bytes(b"wrong\n")
    assert herdpy_ledgers("cat", ledger, "--password-file", tmp_path / "right").stdout == "0\tone\n"
    refused = herdpy_ledgers("cat", ledger, "--password-file", tmp_path / "wrong", code=1).stderr
    assert "another password" in refused
    assert "wrong\n" not in refused


def test_rm_asks_deletes_and_tells_what_was_not_there(herdpy_ledgers, make, bookkeeper_cluster):
    kept, one, two = make([]), make([]), make([], close=False)
    assert "nothing was changed" in herdpy_ledgers("rm", one, two, input="n\n", code=1).stderr
    assert f"Deleted: {one}." in herdpy_ledgers("rm", one, input="y\n").stderr
    result = herdpy_ledgers("rm", one, two, "--yes", "--json", code=1)
    assert json.loads(result.stdout) == {"deleted": [two], "missing": [one]}
    listed = {entry["ledger"] for entry in json.loads(herdpy_ledgers("ls", "--json").stdout)}
    assert kept in listed
    assert not {one, two} & listed


def test_bookies(herdpy_ledgers):
    listed = json.loads(herdpy_ledgers("bookies", "--json").stdout)
    assert [one["state"] for one in listed] == ["writable"] * 3
    assert all(0 < one["free_bytes"] < one["total_bytes"] for one in listed)
    assert "│ Bookie" in herdpy_ledgers("bookies").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", 987654321], 1, "herdpy ledgers ls"),
        (["cat", 987654321], 1, "no such ledger"),
        (["recover", 987654321, "--yes"], 1, "no such ledger"),
        (["cat", 1, "--hex", "--raw"], 2, "exclude each other"),
        (["cat", 1, "--from", 5, "--to", 4], 2, "--to 4 comes before --from 5"),
        (["cat", 1, "--follow", "--to", 4], 2, "--follow has no end"),
        (["cat", -1], 2, "-1"),
        (["ls", "--cluster", "localhost"], 2, "zk://"),
    ],
)
def test_what_is_wrong_is_told_with_the_next_step(herdpy_ledgers, arguments, code, words):
    assert words in herdpy_ledgers(*arguments, code=code).stderr


def test_a_root_without_a_cluster_is_told(herdpy_ledgers, bookkeeper_cluster):
    elsewhere = bookkeeper_cluster.uri.replace("/ledgers", "/elsewhere")
    failed = herdpy_ledgers("ls", "--cluster", elsewhere, code=1).stderr
    assert "/elsewhere/LAYOUT" in failed
    assert "HINT" in failed


def test_a_cluster_that_does_not_answer_is_told(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and never listens
        uri = f"zk://127.0.0.1:{nobody.getsockname()[1]}/ledgers"
        done = subprocess.run(
            command("ledgers", "ls", "--cluster", uri),
            capture_output=True,
            text=True,
            env=environment(tmp_path),
            check=False,
        )
    assert done.returncode == 1
    first, second, third = done.stderr.splitlines()
    assert first.startswith("error: no session with ZooKeeper at 127.0.0.1:")
    assert "--cluster or HERDPY_CLUSTER" in second
    assert third.split() == ["PAGE:", "docs/first-errors.md#zookeeper"]


def test_help_has_examples_for_every_command(herdpy_ledgers):
    for name in ("ls", "show", "cat", "recover", "rm", "bookies"):
        shown = herdpy_ledgers(name, "--help").stdout
        assert f"herdpy ledgers {name}" in shown.split("Examples:")[1]


def test_a_missing_extra_is_told(tmp_path):
    code = (
        "import sys; sys.modules['kazoo'] = None; sys.argv[1:] = ['ledgers', 'ls'];"
        "from herdpy.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(tmp_path), check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == 'error: kazoo is not installed: pip install "herdpydb[bookkeeper]"'


def test_hex_and_text_forms():
    assert list(hex_lines(b"")) == []
    assert list(hex_lines(b"ab\x00")) == [f"00000000  61 62 00{' ' * 39}  ab."]
    assert escaped(b"a\\b\x1b[0m\xc3\xa9\xc3") == "a\\b\\x1b[0mé\\xc3"
