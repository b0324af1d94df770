"""PLAIN: one token, and no difference between an unknown user and a wrong password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security import Secret
from kohort.security.sasl import MAX_TOKEN_BYTES, ClientDone, Done, Failed, PlainClient, PlainServer, verify_against
from tests.security.sasl.conversation import converse

USERS = {"alice": Secret("pencil"), "bob": Secret("größe")}
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


def server() -> PlainServer:
    return PlainServer(verify_against(USERS))


@given(user=words, password=words)
def test_the_right_password_is_accepted(user: str, password: str) -> None:
    known = PlainServer(verify_against({user: Secret(password)}))
    assert converse(PlainClient(user, Secret(password)), known) == (ClientDone(), Done(user))


@pytest.mark.parametrize(("user", "password"), [("alice", "pencils"), ("carol", "pencil"), ("alice", "größe")])
def test_an_unknown_user_and_a_wrong_password_get_one_answer(user: str, password: str) -> None:
    _, outcome = converse(PlainClient(user, Secret(password)), server())
    assert isinstance(outcome, Failed)
    assert outcome.sentence == "Authentication failed: Invalid username or password"
    assert password not in outcome.reason


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0pencil", "expected 3 tokens, got 2"),
        (b"\0alice\0pencil\0", "expected 3 tokens, got 4"),
        (b"\0\0pencil", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0\xff\0pencil", "not UTF-8"),
        (b"bob\0alice\0pencil", "authorization id that is different"),
        (b"\0alice\0" + bytes(MAX_TOKEN_BYTES), "the token has"),
    ],
)
def test_a_malformed_token_fails_with_a_sentence(token: bytes, said: str) -> None:
    outcome = server().receive(token)
    assert isinstance(outcome, Failed)
    assert said in outcome.sentence
    assert "pencil" not in outcome.reason + outcome.sentence


def test_a_user_may_name_itself_as_the_one_to_act_for() -> None:
    assert server().receive(b"alice\0alice\0pencil") == Done("alice")


@given(st.binary(max_size=60))
def test_no_garbage_gets_in(token: bytes) -> None:
    assert isinstance(server().receive(token), Failed)
