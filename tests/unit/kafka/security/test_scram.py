"""SCRAM against the worked example of RFC 7677, and servers that do not keep to it."""

import base64

import pytest

from mirrorlake.kafka.security.scram import ScramExchange, ScramRefusedError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.respond(SERVER_FINAL) is None


def test_commas_and_equal_signs_of_a_name_are_escaped() -> None:
    assert ScramExchange("SCRAM-SHA-512", "a=b,c", "p", nonce="n").first() == b"n,,n=a=3Db=2Cc,r=n"


def test_nonces_differ() -> None:
    assert ScramExchange("SCRAM-SHA-512", "u", "p").first() != ScramExchange("SCRAM-SHA-512", "u", "p").first()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"r=other,s=QQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"1000001"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"-1"), "iterations"),
        (SERVER_FIRST.replace(b"s=W", b"x=W"), "field s"),
        (SERVER_FIRST.replace(b"s=W", b"s=!"), "field s"),
        (b"e=invalid-encoding", "refused: invalid-encoding"),
        (b"\xff", "not SCRAM's"),
        (b"nonsense", "not SCRAM's"),
        (b"", "not SCRAM's"),
    ],
)
def test_a_first_message_that_breaks_the_protocol_is_refused(message: bytes, said: str) -> None:
    scram = exchange()
    scram.first()
    with pytest.raises(ScramRefusedError, match=said):
        scram.respond(message)


@pytest.mark.parametrize("final", [b"v=" + base64.b64encode(bytes(32)), b"v=", b"e=invalid-proof", b"x=1"])
def test_a_server_that_does_not_know_the_password_is_not_believed(final: bytes) -> None:
    scram = exchange()
    scram.first()
    scram.respond(SERVER_FIRST)
    with pytest.raises(ScramRefusedError):
        scram.respond(final)
