"""SASL DIGEST-MD5 by the example of its RFC, and against what a bookie that is none may say."""

from __future__ import annotations

import pytest

from herdpy.bookkeeper.bookie import SaslDigestMd5
from herdpy.bookkeeper.errors import AuthenticationError

# RFC 2831, section 4.
CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
RESPONSE = b"response=d388dad90d4bbd760a152321f2143af7"
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def exchange(username: str = "chris", password: str = "secret"):
    provider = SaslDigestMd5(
        username, password, digest_uri="imap/elwood.innosoft.com", client_nonce=lambda: "OA6MHXh6VqTrRk"
    )
    return provider.exchange("127.0.0.1")


def test_the_example_of_the_rfc() -> None:
    one = exchange()
    assert one.start() == b""
    answer = one.respond(CHALLENGE)
    assert answer is not None
    parts = answer.split(b",")
    assert RESPONSE in parts
    assert {b'username="chris"', b'cnonce="OA6MHXh6VqTrRk"', b"nc=00000001", b"qop=auth"} < set(parts)
    assert one.respond(PROOF) is None


@pytest.mark.parametrize("proof", [b"rspauth=ea40f60335c427b5527b84dbabcdfff0", b"nonce=1"])
def test_a_bookie_that_does_not_know_the_password_is_refused(proof: bytes) -> None:
    one = exchange()
    one.respond(CHALLENGE)
    with pytest.raises(AuthenticationError, match="does not know"):
        one.respond(proof)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"no directives",
        b'nonce="x" and more',
        b'nonce="unclosed,algorithm=md5-sess',
        b'realm="r",algorithm=md5-sess',
        b'nonce="x",algorithm=md5',
        b'nonce="x",algorithm=md5-sess,qop="auth-conf"',
        b'algorithm=md5-sess,nonce="' + b"x" * 3000 + b'"',
        b"," * 2000,
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        exchange().respond(challenge)


def test_quotes_and_characters_beyond_ascii() -> None:
    latin, beyond = exchange('a"b\\c', "pä"), exchange("a", "p✓")
    answer = latin.respond(CHALLENGE)
    assert answer is not None
    assert rb'username="a\"b\\c"' in answer
    assert beyond.respond(CHALLENGE) is not None


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(SaslDigestMd5("chris", "secret"))


def test_every_exchange_has_its_own_nonce() -> None:
    provider = SaslDigestMd5("chris", "secret")
    answers = {provider.exchange("h").respond(CHALLENGE) for _ in range(5)}
    assert len(answers) == 5
