"""Positions, records, transactions, entries: golden bytes and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.log import (
    LSN,
    START,
    AlterTable,
    Before,
    ChainError,
    CreateIndex,
    CreateTable,
    Delete,
    DropIndex,
    DropObject,
    DropRole,
    DropTable,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    LoadOp,
    LoggedTransaction,
    NewerFormatError,
    Notify,
    PutObject,
    PutRole,
    RecordError,
    SequenceAdvance,
    StagedPart,
    TablesChecksum,
    TransactionAssembler,
    Truncate,
    Update,
)
from herdpy.log.entry import (
    FIRST,
    HEADER_BYTES,
    LAST,
    decode_entry,
    decode_header,
    encode_entry,
    encode_part,
    fits,
    pack,
)
from herdpy.log.records import decode_record

GOLDEN = [
    (CreateTable(b"def"), "01 01 00000003 646566"),
    (AlterTable(b"def"), "02 01 00000003 646566"),
    (DropTable(7), "03 01 00000004 00000007"),
    (CreateIndex(7, b"ix"), "04 01 00000006 00000007 6978"),
    (DropIndex(7, 9), "05 01 00000008 00000007 00000009"),
    (Truncate(7), "06 01 00000004 00000007"),
    (PutRole(b"ann", b"{}"), "07 01 00000009 00000003 616e6e 7b7d"),
    (DropRole(b"ann"), "08 01 00000003 616e6e"),
    (Insert(7, b"k", b"row"), "10 01 0000000c 00000007 00000001 6b 726f77"),
    (Update(7, None, b"k", b"row"), "11 01 00000010 00000007 ffffffff 00000001 6b 726f77"),
    (Update(7, b"", b"k", b"row"), "11 01 00000010 00000007 00000000 00000001 6b 726f77"),
    (Update(7, b"old", b"k", b"row"), "11 01 00000013 00000007 00000003 00000001 6f6c64 6b 726f77"),
    (Delete(7, b"k"), "12 01 00000005 00000007 6b"),
    (InsertBatch(7, b"arrow", 2), "13 01 0000000d 00000007 00000002 6172726f77"),
    (PutObject(b"{}"), "17 01 00000002 7b7d"),
    (DropObject(7), "18 01 00000004 00000007"),
    (SequenceAdvance(7, b"abc"), "19 01 00000007 00000007 616263"),
    (Notify(7, b"news", b"x"), "1a 01 0000000a 00000007 04 6e657773 78"),
    (Before(7, b"k", b"row"), "14 01 0000000c 00000007 00000001 6b 726f77"),
    (
        LoadBatch(7, LoadOp.UPSERT, -1, (StagedPart(9, 2, 4096, 0x01020304, 10),), b"\x05\x02"),
        "15 01 00000037 00000007 01 ffffffffffffffff 00000001"
        "0000000000000009 0000000000000002 0000000000001000 01020304 000000000000000a 05 02",
    ),
    (LoadBatch(7, LoadOp.INSERT, 5, ()), "15 01 00000011 00000007 00 0000000000000005 00000000"),
    (
        LoadDone("é1", 7, 1, 2, 3, 4),
        "16 01 00000028 00000007 0000000000000001 0000000000000002 0000000000000003 0000000000000004"
        "03 c3a9 31",
    ),
    (
        TablesChecksum([(1, 2, 3)]),
        "20 01 00000018 00000001 00000001 0000000000000002 0000000000000003",
    ),
]

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
blob = st.binary(max_size=40)
i64 = st.integers(-(2**63), 2**63 - 1)
parts = st.builds(StagedPart, i64, i64, u64, u32, st.integers(0, 9))
loads = st.builds(
    lambda table, op, first, staged, bits: LoadBatch(
        table, op, first, tuple(staged), bits[: (sum(part.rows for part in staged) + 7) // 8]
    ),
    u32,
    st.sampled_from(LoadOp),
    i64,
    st.lists(parts, max_size=3),
    st.binary(max_size=4),
)
load_ids = st.text(min_size=1, max_size=16).filter(lambda text: text.isprintable())
records = st.one_of(
    st.builds(CreateTable, blob),
    st.builds(DropTable, u32),
    st.builds(CreateIndex, u32, blob),
    st.builds(DropIndex, u32, u32),
    st.builds(Truncate, u32),
    st.builds(PutRole, blob, blob),
    st.builds(DropRole, blob),
    st.builds(PutObject, blob),
    st.builds(DropObject, u32),
    st.builds(SequenceAdvance, u32, blob),
    st.builds(Insert, u32, blob, blob),
    st.builds(Update, u32, st.none() | blob, blob, blob),
    st.builds(Delete, u32, blob),
    st.builds(InsertBatch, u32, blob, u32),
    st.builds(AlterTable, blob),
    st.builds(Before, u32, blob, blob),
    loads,
    st.builds(Notify, u32, st.binary(min_size=1, max_size=63), blob),
    st.builds(LoadDone, load_ids, u32, u64, u64, u64, u64),
    st.builds(TablesChecksum, st.lists(st.tuples(u32, u64, u64), max_size=4)),
)
transactions = st.builds(
    LoggedTransaction,
    st.integers(-(2**63), 2**63 - 1),
    st.lists(records, max_size=6),
    st.binary(max_size=64),
)
lsns = st.builds(LSN, st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1))


def test_positions_are_ordered_hashable_and_have_a_text_form():
    assert START < LSN(0, 0) < LSN(0, 1) < LSN(1, 0)
    assert {LSN(1, 2): "x"}[LSN(1, 2)] == "x"
    assert str(LSN(3, 14)) == "3:14"
    assert f"{START}" == "-1:-1"


@given(lsns)
def test_a_position_survives_its_text(lsn):
    assert LSN.parse(str(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "a:b", "1:2:3", "1.5:2"])
def test_other_text_is_no_position(text):
    with pytest.raises(ValueError, match="not a log position"):
        LSN.parse(text)


@pytest.mark.parametrize(("record", "text"), GOLDEN)
def test_records_have_these_bytes(record, text):
    data = bytes.fromhex(text)
    assert record.encode() == data
    assert decode_record(data) == record


@given(transactions)
def test_a_transaction_survives_its_bytes(transaction):
    assert LoggedTransaction.decode(transaction.encode()) == transaction


def test_a_transaction_has_these_bytes():
    plain = LoggedTransaction(1, [DropTable(7)])
    assert plain.encode() == bytes.fromhex("0000000000000001 00 00000001 03 01 00000004 00000007")
    named = LoggedTransaction(-1, [], b"abc")
    assert named.encode() == bytes.fromhex("ffffffffffffffff 03 616263 00000000")


def test_what_the_applying_layer_notes_is_neither_logged_nor_compared():
    batch = InsertBatch(1, b"s", 3, expanded=[object()])
    assert batch == InsertBatch(1, b"s", 3)
    assert decode_record(batch.encode()).expanded is None
    load = LoadBatch(1, LoadOp.DELETE, -1, (), staged=[object()])
    assert load == LoadBatch(1, LoadOp.DELETE, -1, ())
    assert decode_record(load.encode()).staged is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("15 01 00000011 00000007 04 0000000000000005 00000000", "does 4"),
        ("15 01 00000011 00000007 00 0000000000000005 00000001", "fewer"),
        ("15 01 00000012 00000007 00 0000000000000005 00000000 01", "declares more rows than it has"),
        ("16 01 00000026" + "00" * 36 + "02 41", "not as long"),
        ("16 01 00000026" + "00" * 36 + "00 41", "not as long"),
        ("16 01 00000026" + "00" * 36 + "01 ff", "not UTF-8"),
        ("14 01 00000009 00000007 00000002 41", "longer than its record"),
    ],
)
def test_records_of_loads_that_contradict_themselves_are_refused(text, reason):
    with pytest.raises(RecordError, match=reason):
        decode_record(bytes.fromhex(text))


@pytest.mark.parametrize("name", ["", "x" * 65, "é" * 33])
def test_a_load_has_an_id_of_1_to_64_bytes(name):
    with pytest.raises(RecordError, match="1 to 64 bytes"):
        LoadDone(name, 1, 0, 0, 0, 0).encode()
    assert decode_record(LoadDone("é" * 32, 1, 0, 0, 0, 0).encode()).load_id == "é" * 32


@pytest.mark.parametrize("text", ["1a 01 00000005 00000007 00", "1a 01 00000006 00000007 02 41"])
def test_a_notification_whose_channel_is_not_as_long_as_it_says_is_refused(text):
    with pytest.raises(RecordError, match="not as long"):
        decode_record(bytes.fromhex(text))


@pytest.mark.parametrize("channel", [b"", b"c" * 64])
def test_a_channel_has_1_to_63_bytes(channel):
    with pytest.raises(RecordError, match="1 to 63 bytes"):
        Notify(1, channel, b"").encode()


@given(st.integers(0, 40), st.data())
def test_the_mask_of_any_range_of_rows_is_what_the_bits_say(rows, data):
    bits = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    packed = bytearray((rows + 7) // 8)
    for row, bit in enumerate(bits):
        packed[row // 8] |= bit << row % 8
    load = LoadBatch(1, LoadOp.UPSERT, -1, (StagedPart(1, 0, 9, 0, rows),), bytes(packed).rstrip(b"\0"))
    first = data.draw(st.integers(0, rows))
    count = data.draw(st.integers(0, rows - first))
    assert load.present_mask(first, count).tolist() == bits[first : first + count]
    assert load.rows == rows


def test_a_request_id_has_64_bytes_at_most():
    assert LoggedTransaction.decode(LoggedTransaction(0, [], b"x" * 64).encode()).request_id == b"x" * 64
    with pytest.raises(RecordError, match="65 bytes"):
        LoggedTransaction(0, [], b"x" * 65).encode()


@given(transactions, st.data())
def test_cut_or_lengthened_bytes_are_refused(transaction, data):
    encoded = transaction.encode()
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(RecordError):
        LoggedTransaction.decode(encoded[:cut])
    with pytest.raises(RecordError):
        LoggedTransaction.decode(encoded + b"\0")


@given(st.binary(max_size=80))
def test_no_bytes_break_the_decoders_otherwise(data):
    def outcome(decode):
        try:
            decode(data)
        except RecordError:
            return "refused"
        return "decoded"

    decoders = (LoggedTransaction.decode, decode_record, decode_entry, decode_header)
    assert {outcome(decode) for decode in decoders} <= {"refused", "decoded"}


def test_unknown_record_types_and_versions_are_refused():
    with pytest.raises(NewerFormatError, match="type 31, version 1"):
        decode_record(bytes.fromhex("1f 01 00000000"))
    with pytest.raises(NewerFormatError, match="type 16, version 2"):
        decode_record(bytes.fromhex("10 02 00000000"))


def test_an_entry_has_these_bytes():
    data, crc = encode_entry(LSN(2, 5), LSN(2, 4), 0x01020304, 3, [encode_part(b"tx")])
    assert data.hex(" ", 4) == bytes.fromhex(
        "4850454e 01 00 0000 0000000000000002 0000000000000005 0000000000000002 0000000000000004"
        "0000000000000003 00000001 00000007 01020304" + data[60:68].hex() + "03 00000002 7478"
    ).hex(" ", 4)
    assert int.from_bytes(data[64:68], "big") == crc
    entry = decode_entry(data)
    assert (entry.lsn, entry.header.predecessor, entry.header.lac) == (LSN(2, 5), LSN(2, 4), 3)
    assert [part.data for part in entry.parts] == [b"tx"]
    assert entry.size == len(data) == HEADER_BYTES + 7


@given(st.lists(st.binary(max_size=30), max_size=5), u32, st.data())
def test_every_flipped_bit_of_an_entry_is_seen(parts, before, data):
    encoded, _ = encode_entry(LSN(1, 1), LSN(1, 0), before, 0, [encode_part(part) for part in parts])
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    flipped = bytearray(encoded)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError):
        decode_entry(bytes(flipped))


# Packing and putting together again.


def _chain(bodies, limit):
    before, crc, chain, places = START, 0, [], []
    for number, (parts, ending) in enumerate(pack(bodies, limit)):
        assert ending == list(range(len(places), len(places) + len(ending)))
        places += [number] * len(ending)
        data, crc = encode_entry(LSN(1, number), before, crc, -1, parts)
        before = LSN(1, number)
        chain.append(decode_entry(data))
    return chain, places


@given(st.lists(transactions, min_size=1, max_size=8), st.integers(HEADER_BYTES + 6, 400))
def test_packed_transactions_come_out_whole_in_order_where_it_was_said(given_ones, limit):
    bodies = [transaction.encode() for transaction in given_ones]
    chain, places = _chain(bodies, limit)
    assert all(entry.size <= limit for entry in chain)
    assembler = TransactionAssembler()
    out = [item for entry in chain for item in assembler.feed(entry)]
    assert [transaction for _, transaction in out] == given_ones
    assert [lsn for lsn, _ in out] == [LSN(1, place) for place in places]
    assert assembler.safe == assembler.position == chain[-1].lsn


def test_small_transactions_share_an_entry_and_a_large_one_begins_its_own():
    chain, places = _chain([b"a" * 10, b"b" * 10, b"c" * 480, b"d" * 10], 200)
    assert places == [0, 0, 4, 4]
    assert [[(p.first, p.last) for p in entry.parts] for entry in chain] == [
        [(True, True), (True, True)],
        [(True, False)],
        [(False, False)],
        [(False, False)],
        [(False, True), (True, True)],
    ]
    assert fits(127, 200)
    assert not fits(128, 200)


def _entry(number, parts, before_crc=0):
    before = LSN(1, number - 1) if number else START
    data, crc = encode_entry(LSN(1, number), before, before_crc, -1, parts)
    return decode_entry(data), crc


def test_a_part_whose_last_never_came_has_no_effect():
    body = LoggedTransaction(1, [DropTable(1)]).encode()
    other = LoggedTransaction(2, [DropTable(2)]).encode()
    first, crc = _entry(0, [encode_part(body[:4], FIRST)])
    second, _ = _entry(1, [encode_part(other)], crc)
    assembler = TransactionAssembler()
    assert assembler.feed(first) == []
    assert (assembler.position, assembler.safe) == (LSN(1, 0), START)
    assert assembler.feed(second) == [(LSN(1, 1), LoggedTransaction(2, [DropTable(2)]))]
    assert assembler.safe == LSN(1, 1)


def test_entries_out_of_the_chain_are_refused():
    body = encode_part(LoggedTransaction(1, []).encode())
    first, crc = _entry(0, [body])
    second, crc2 = _entry(1, [body], crc)
    third, _ = _entry(2, [body], crc2)
    foreign, _ = _entry(1, [body], crc ^ 1)
    assembler = TransactionAssembler()
    with pytest.raises(ChainError, match="1:1 follows 1:0"):
        assembler.feed(second)
    assembler.feed(first)
    for wrong in (first, third):
        with pytest.raises(ChainError):
            assembler.feed(wrong)
    with pytest.raises(ChainError, match="another history"):
        assembler.feed(foreign)
    assembler.feed(second)
    assembler.feed(third)
    assert assembler.position == LSN(1, 2)


def test_a_later_part_without_its_first_is_refused():
    entry, _ = _entry(0, [encode_part(b"tail", LAST)])
    with pytest.raises(RecordError, match="not begun"):
        TransactionAssembler().feed(entry)


def test_an_unfinished_part_may_not_share_its_entry():
    data, _ = encode_entry(LSN(1, 0), START, 0, -1, [encode_part(b"a", FIRST), encode_part(b"b")])
    with pytest.raises(RecordError, match="shares its entry"):
        decode_entry(data)
