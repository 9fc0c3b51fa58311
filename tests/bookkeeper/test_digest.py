"""Digests: known answers, every changed byte is caught, another entry's body is caught."""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.digest import Digest, DigestType, Entry, master_key
from herdpy.bookkeeper.errors import DigestMismatchError
from tests.bookkeeper.sealing import sealed_body

PASSWORD = b"secret"
INT64 = st.integers(-(2**63), 2**63 - 1)
REAL = [type for type in DigestType if type is not DigestType.DUMMY]


def crc32c(data: bytes) -> int:
    """Bit by bit, from the polynomial: nothing in common with the library that the digest uses."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def digest_of(type: DigestType, covered: bytes) -> bytes:
    key = hashlib.sha1(b"mac" + PASSWORD).digest()
    return {
        DigestType.CRC32: struct.pack(">Q", zlib.crc32(covered)),
        DigestType.CRC32C: struct.pack(">I", crc32c(covered)),
        DigestType.HMAC: hmac.digest(key, covered, "sha1"),
        DigestType.DUMMY: b"",
    }[type]


def test_the_values_are_those_of_the_metadata():
    assert {type.name: type.value for type in DigestType} == {"CRC32": 1, "HMAC": 2, "CRC32C": 3, "DUMMY": 4}


def test_master_keys_are_known():
    # What sha1sum says of "ledger" and of "ledgersecret".
    assert master_key(b"secret").hex() == "e793cbc379107648537183605cd361d3bb789a39"
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert len(master_key(b"x" * 1000)) == 20


def test_the_check_value_of_crc32c_is_the_published_one():
    assert crc32c(b"123456789") == 0xE3069283
    assert Digest.of(DigestType.CRC32C, b"").checksum(b"1234", b"56789") == bytes.fromhex("e3069283")


def test_the_check_value_of_crc32_is_the_published_one():
    assert Digest.of(DigestType.CRC32, b"").checksum(b"1234", b"56789") == bytes.fromhex("00000000cbf43926")


@pytest.mark.parametrize("type", list(DigestType))
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 5])
def test_a_sealed_entry_has_the_bytes_of_the_format(type: DigestType, data: bytes):
    digest = Digest.of(type, PASSWORD)
    header = struct.pack(">qqqq", 5, 7, 6, 1234)
    body = sealed_body(digest, 5, 7, 6, 1234, data)
    assert body == header + digest_of(type, header + data) + data
    assert len(body) == digest.overhead_bytes + len(data)
    assert digest.overhead_bytes == 32 + type.size_bytes


@pytest.mark.parametrize("type", list(DigestType))
def test_a_sealed_last_add_confirmed_has_the_bytes_of_the_format(type: DigestType):
    header = struct.pack(">qq", 5, -1)
    assert Digest.of(type, PASSWORD).seal_lac(5, -1) == header + digest_of(type, header)


@given(type=st.sampled_from(DigestType), ledger=INT64, entry=INT64, lac=INT64, length=INT64, data=st.binary())
def test_what_is_sealed_can_be_opened(
    type: DigestType, ledger: int, entry: int, lac: int, length: int, data: bytes
):
    digest = Digest.of(type, PASSWORD)
    body = sealed_body(digest, ledger, entry, lac, length, data)
    assert digest.open(body, ledger, entry) == Entry(ledger, entry, lac, length, data)
    assert digest.open(body, ledger, None).entry_id == entry
    assert digest.open_lac(digest.seal_lac(ledger, lac), ledger) == lac


@pytest.mark.parametrize("type", REAL)
def test_a_changed_bit_in_any_byte_is_caught(type: DigestType):
    digest = Digest.of(type, PASSWORD)
    body = sealed_body(digest, 5, 7, 6, 1234, b"some data")
    for at in range(len(body)):
        for bit in range(8):
            changed = bytearray(body)
            changed[at] ^= 1 << bit
            with pytest.raises(DigestMismatchError):
                digest.open(bytes(changed), 5, None)


@pytest.mark.parametrize("type", REAL)
def test_a_changed_bit_in_a_last_add_confirmed_is_caught(type: DigestType):
    digest = Digest.of(type, PASSWORD)
    body = digest.seal_lac(5, 6)
    for at in range(len(body)):
        changed = bytearray(body)
        changed[at] ^= 1
        with pytest.raises(DigestMismatchError):
            digest.open_lac(bytes(changed), 5)


@pytest.mark.parametrize("type", list(DigestType))
def test_another_ledger_or_entry_is_caught(type: DigestType):
    digest = Digest.of(type, PASSWORD)
    body = sealed_body(digest, 5, 7, 6, 1234, b"data")
    with pytest.raises(DigestMismatchError, match="entry 7 of ledger 5"):
        digest.open(body, 6, 7)
    with pytest.raises(DigestMismatchError, match="entry 7 of ledger 5"):
        digest.open(body, 5, 8)
    with pytest.raises(DigestMismatchError, match="entry 7 of ledger 5"):
        digest.open(body, 6, None)
    with pytest.raises(DigestMismatchError, match="ledger 5"):
        digest.open_lac(digest.seal_lac(5, 6), 6)


@pytest.mark.parametrize("type", list(DigestType))
def test_a_short_body_is_caught_at_every_length(type: DigestType):
    digest = Digest.of(type, PASSWORD)
    body = sealed_body(digest, 5, 7, 6, 1234, b"")
    lac_body = digest.seal_lac(5, 6)
    for size in range(len(body)):
        with pytest.raises(DigestMismatchError):
            digest.open(body[:size], 5, 7)
    for size in range(len(lac_body)):
        with pytest.raises(DigestMismatchError):
            digest.open_lac(lac_body[:size], 5)


def test_the_password_is_the_key_of_hmac():
    body = sealed_body(Digest.of(DigestType.HMAC, b"one"), 5, 7, 6, 4, b"data")
    with pytest.raises(DigestMismatchError):
        Digest.of(DigestType.HMAC, b"two").open(body, 5, 7)


def test_one_digest_seals_many_entries_without_mixing_them():
    digest = Digest.of(DigestType.HMAC, PASSWORD)
    first = sealed_body(digest, 1, 0, -1, 1, b"a")
    sealed_body(digest, 1, 1, 0, 2, b"b")
    assert sealed_body(digest, 1, 0, -1, 1, b"a") == first


def test_the_password_is_not_shown():
    assert "secret" not in repr(Digest.of(DigestType.HMAC, PASSWORD))
