"""encode and decode, digests (pgcrypto's, too), bits and bytes of BYTEA; hashtext, by which programs make
numbers of names.

Source of hashtext: Bob Jenkins' lookup3 as PostgreSQL 15 has it, src/common/hashfn.c, hash_bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Callable

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add, routine
from herdpy_sql.types import BIGINT, BYTEA, INTEGER, TEXT
from herdpy_sql.values import from_text

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n"


@routine("encode", (BYTEA, TEXT), TEXT)
def _encode(data: bytes, form: str) -> str:
    match form.lower():
        case "hex":
            return data.hex()
        case "base64":
            text = base64.b64encode(data).decode()
            return "\n".join([text[at : at + 76] for at in range(0, len(text), 76)])
        case "escape":
            return "".join(
                ["\\\\" if b == 92 else f"\\{b:03o}" if b == 0 or b > 127 else chr(b) for b in data]
            )
    raise SqlError("22023", f'unrecognized encoding: "{form}"')


@routine("decode", (TEXT, TEXT), BYTEA)
def _decode(text: str, form: str) -> bytes:
    match form.lower():
        case "hex":
            read: Callable[[str], bytes] = from_text(BYTEA)
            return read("\\x" + text)
        case "escape":
            read = from_text(BYTEA)
            return read(text) if not text.startswith("\\x") else text.encode()
        case "base64":
            for char in text:
                if ord(char) > 127 or ord(char) not in _ALPHABET:
                    raise SqlError("22023", f'invalid symbol "{char}" found while decoding base64 sequence')
            try:
                return base64.b64decode(text)
            except binascii.Error:
                raise SqlError("22023", "invalid base64 end sequence") from None
    raise SqlError("22023", f'unrecognized encoding: "{form}"')


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


for _name in ("sha224", "sha256", "sha384", "sha512"):
    add(_name, (BYTEA,), BYTEA, lambda data, name=_name: hashlib.new(name, data).digest())
_DIGESTS = frozenset({"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})


def _algorithm(name: str) -> str:
    found = name.lower()
    if found not in _DIGESTS:
        raise SqlError("22023", f'Cannot use "{name}": No such hash algorithm')
    return found


def _digest(data: bytes, name: str) -> bytes:
    return hashlib.new(_algorithm(name), data, usedforsecurity=False).digest()


def _hmac(data: bytes, key: bytes, name: str) -> bytes:
    return hmac.digest(key, data, _algorithm(name))


add("digest", (BYTEA, TEXT), BYTEA, _digest)
add("digest", (TEXT, TEXT), BYTEA, lambda text, name: _digest(text.encode(), name))
add("hmac", (BYTEA, BYTEA, TEXT), BYTEA, _hmac)
add("hmac", (TEXT, TEXT, TEXT), BYTEA, lambda text, key, name: _hmac(text.encode(), key.encode(), name))
add("bit_count", (BYTEA,), BIGINT, lambda data: int.from_bytes(data).bit_count())
add("md5", (TEXT,), TEXT, lambda text: _md5(text.encode()), duck="md5({0})")
add("md5", (BYTEA,), TEXT, _md5)


@routine("get_byte", (BYTEA, INTEGER), INTEGER)
def _get_byte(data: bytes, at: int) -> int:
    if not 0 <= at < len(data):
        raise SqlError("2202E", f"index {at} out of valid range, 0..{len(data) - 1}")
    return data[at]


@routine("set_byte", (BYTEA, INTEGER, INTEGER), BYTEA)
def _set_byte(data: bytes, at: int, value: int) -> bytes:
    _get_byte(data, at)
    return data[:at] + bytes([value & 255]) + data[at + 1 :]


@routine("convert_to", (TEXT, TEXT), BYTEA)
def _convert_to(text: str, form: str) -> bytes:
    try:
        return text.encode(form)
    except (LookupError, UnicodeEncodeError):
        raise SqlError("22023", f'invalid destination encoding name "{form}"') from None


@routine("convert_from", (BYTEA, TEXT), TEXT)
def _convert_from(data: bytes, form: str) -> str:
    try:
        return data.decode(form)
    except LookupError:
        raise SqlError("22023", f'invalid source encoding name "{form}"') from None
    except UnicodeDecodeError as error:
        shown = " ".join(f"0x{one:02x}" for one in data[error.start : error.end])
        raise SqlError("22021", f'invalid byte sequence for encoding "{form.upper()}": {shown}') from None


_MASK = (1 << 32) - 1
_BLOCK = 12


def hashtext(text: str) -> int:
    """PostgreSQL's hashtext: a number of 32 bits, with sign."""
    data = text.encode()
    a = b = c = (0x9E3779B9 + len(data) + 3923095) & _MASK
    at = 0
    while len(data) - at >= _BLOCK:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
        at += _BLOCK
    rest = data[at:]
    # The lowest byte of the last word is the length's, which is in there already.
    tail = rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")
    x, y, z = struct.unpack("<III", tail)
    c = _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    return c - (1 << 32) if c >> 31 else c


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in ((4, 6, 8), (16, 19, 4)):
        a = ((a - c) & _MASK) ^ _rotated(c, by[0])
        c = (c + b) & _MASK
        b = ((b - a) & _MASK) ^ _rotated(a, by[1])
        a = (a + c) & _MASK
        c = ((c - b) & _MASK) ^ _rotated(b, by[2])
        b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    return ((c ^ b) - _rotated(b, 24)) & _MASK


add("hashtext", (TEXT,), INTEGER, hashtext)
