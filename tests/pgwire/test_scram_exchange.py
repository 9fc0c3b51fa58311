"""SCRAM-SHA-256's server side, against RFC 7677's example and another implementation of the client."""

from __future__ import annotations

import base64

import pytest
from scramp import ScramClient, ScramMechanism

from herdpy_server.pgwire.authentication import PLAIN, ScramExchange, no_such_user
from herdpy_server.pgwire.backend import FatalError
from herdpy_server.roles.passwords import Verifier


def verifier(password: str, salt: bytes | None = None) -> Verifier:
    salt, stored, server, iterations = ScramMechanism(PLAIN).make_auth_info(password, 4096, salt)
    return Verifier(salt, iterations, stored, server)


def exchange(password: str, **options: object) -> ScramExchange:
    settings = {"binding": None, "offered": False} | options
    return ScramExchange(PLAIN, verifier(password), **settings)  # type: ignore[arg-type]


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = ScramExchange(
        PLAIN,
        verifier("pencil", salt),
        binding=None,
        offered=False,
        nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    assert found.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert (
        found.final(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize(("given", "accepted"), [("right", True), ("wrong", False), ("Right", False)])
def test_another_client_agrees(given: str, accepted: bool) -> None:
    ours, client = exchange("right"), ScramClient([PLAIN], "user", given)
    client.set_server_first(ours.first(client.get_client_first().encode()).decode())
    proof = ours.final(client.get_client_final().encode())
    assert (proof is not None) is accepted
    if proof is not None:
        client.set_server_final(proof.decode())


def test_nobody_is_the_same_each_time_and_lets_nobody_in() -> None:
    first, second = no_such_user("x", b"key"), no_such_user("x", b"key")
    assert first.salt == second.salt != no_such_user("y", b"key").salt
    client = ScramClient([PLAIN], "x", "anything")
    ours = ScramExchange(PLAIN, first, binding=None, offered=False)
    client.set_server_first(ours.first(client.get_client_first().encode()).decode())
    assert ours.final(client.get_client_final().encode()) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=,r=",
        b"n,,n=",
        b"n,a=x,n=,r=abc",
        b"n,,m=x,n=,r=abc",
        b"p=tls-unique,,n=,r=abc",
        b"x,,n=,r=abc",
        b"n,,n=,r=a\xffc",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(FatalError) as caught:
        exchange("x").first(message)
    assert caught.value.error.sqlstate == "08P01"


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws", b"c=biws,r=abc,p=AAAA", b"r=%b,p=AAAA", b"c=biws,r=%b,p=AAAA", b"c=!,r=%b,p=AA=="],
)
def test_a_malformed_proof_is_refused(message: bytes) -> None:
    ours = exchange("x")
    nonce = ours.first(b"n,,n=,r=abc").split(b",")[0][2:]
    with pytest.raises(FatalError) as caught:
        ours.final(message.replace(b"%b", nonce))
    assert caught.value.error.sqlstate == "08P01"


def test_a_client_that_was_told_of_no_binding_is_told_of_the_lie() -> None:
    with pytest.raises(FatalError) as caught:
        exchange("x", offered=True, binding=b"hash").first(b"y,,n=,r=abc")
    assert caught.value.error.sqlstate == "28000"


def test_another_binding_is_refused() -> None:
    ours = ScramExchange("SCRAM-SHA-256-PLUS", verifier("x"), binding=b"ours", offered=True)
    nonce = ours.first(b"p=tls-server-end-point,,n=,r=abc").split(b",")[0][2:]
    theirs = base64.b64encode(b"p=tls-server-end-point,,theirs")
    with pytest.raises(FatalError) as caught:
        ours.final(b"c=" + theirs + b",r=" + nonce + b",p=" + base64.b64encode(bytes(32)))
    assert caught.value.error.sqlstate == "28000"


def test_no_secret_is_shown() -> None:
    found = verifier("secret")
    assert repr(found) == "Verifier(iterations=4096)"
