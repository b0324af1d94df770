"""SCRAM: the RFC's example, real machines against each other, and peers that lie."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.security import Secret
from kohort.security.sasl import (
    MAX_ITERATIONS,
    MAX_TOKEN_BYTES,
    MIN_ITERATIONS,
    ClientDone,
    ClientFailed,
    Done,
    Failed,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramPassword,
    ScramServer,
    Send,
    salt_of,
)
from tests.security.sasl.conversation import converse

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789abcdef"
SECRET = b"a secret of the server"
ALICE = {m: ScramCredential.from_password(m, Secret("pencil"), SALT, MIN_ITERATIONS) for m in ScramMechanism}
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


def server(mechanism: ScramMechanism = SHA_256, nonce: str = "servernonce", user: str = "alice") -> ScramServer:
    return ScramServer(mechanism, {user: ALICE[mechanism]}.get, nonce, SECRET)


def client(user: str = "alice", password: str = "pencil", mechanism: ScramMechanism = SHA_256) -> ScramClient:
    return ScramClient(user, ScramPassword(mechanism, Secret(password)), "clientnonce")


def test_the_example_of_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    stored = ScramCredential.from_password(SHA_256, Secret("pencil"), salt, 4096)
    theirs = ScramServer(SHA_256, {"user": stored}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", SECRET)
    ours = ScramClient("user", ScramPassword(SHA_256, Secret("pencil")), "rOprNGfwEbeRWgbNEkqO")

    first = ours.start()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = theirs.receive(first)
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Send(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    proof = ours.receive(challenge.token)
    assert proof == Send(b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    done = theirs.receive(proof.token)
    assert done == Done("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert ours.receive(done.token) == ClientDone()


def test_a_password_is_salted_once_for_equal_challenges(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bytes, int]] = []
    salt_it = ScramMechanism.salted_password

    def counted(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
        asked.append((salt, iterations))
        return salt_it(mechanism, password, salt, iterations)

    monkeypatch.setattr(ScramMechanism, "salted_password", counted)
    password = ScramPassword(SHA_256, Secret("pencil"))
    challenges = [(b"one", 4_096), (b"one", 4_096), (b"two", 4_096), (b"two", 5_000), (b"one", 4_096)]
    for salt, iterations in challenges:
        expected = salt_it(SHA_256, b"pencil", salt, iterations)
        assert password.salted(salt, iterations) == expected
    assert asked == [challenges[0], *challenges[2:]]


def test_a_salted_password_makes_the_credential_of_the_password() -> None:
    salted = SHA_512.salted_password(b"pencil", SALT, MIN_ITERATIONS)
    assert ScramCredential.from_salted_password(SHA_512, salted, SALT, MIN_ITERATIONS) == ALICE[SHA_512]
    assert "pencil" not in repr(ALICE[SHA_512])
    assert repr(ALICE[SHA_512].stored_key) not in repr(ALICE[SHA_512])


@pytest.mark.parametrize(("number", "name"), [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")])
def test_mechanisms_have_kafkas_numbers(number: int, name: str) -> None:
    mechanism = ScramMechanism.numbered(number)
    assert mechanism is ScramMechanism.named(name)
    assert ScramMechanism.named("PLAIN") is None
    assert ScramMechanism.numbered(0) is None


@settings(deadline=None, max_examples=30)
@given(user=words, password=words, mechanism=st.sampled_from(ScramMechanism))
def test_both_roles_agree_on_the_right_password(user: str, password: str, mechanism: ScramMechanism) -> None:
    stored = ScramCredential.from_password(mechanism, Secret(password), SALT, MIN_ITERATIONS)
    known = ScramServer(mechanism, {user: stored}.get, "servernonce", SECRET)
    step, outcome = converse(client(user, password, mechanism), known)
    assert isinstance(outcome, Done)
    assert (step, outcome.principal_name) == (ClientDone(), user)


@pytest.mark.parametrize("user", ["a,b", "a=b", "=2C", "=3D,=", "a=2cb", "größe"])
def test_user_names_are_escaped(user: str) -> None:
    _, outcome = converse(client(user), server(user=user))
    assert isinstance(outcome, Done) and outcome.principal_name == user


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_unknown_user_cannot_be_told_from_a_wrong_password(mechanism: ScramMechanism) -> None:
    challenges, ends = [], []
    for user in ("alice", "nobody", "nobody"):
        asked, theirs = client(user, "wrong", mechanism), server(mechanism)
        challenge = theirs.receive(asked.start())
        assert isinstance(challenge, Send)
        proof = asked.receive(challenge.token)
        assert isinstance(proof, Send)
        end = theirs.receive(proof.token)
        assert isinstance(end, Failed)
        challenges.append(challenge.token)
        ends.append((end.sentence, end.token))
    assert challenges[1] == challenges[2] != challenges[0]  # a new salt each time would give it away
    assert len({token.count(b",") for token in challenges}) == 1
    assert ends[0] == ends[1] == ends[2]


def test_invented_salts_have_the_form_of_real_ones() -> None:
    challenge = server().receive(client("nobody").start())
    assert isinstance(challenge, Send)
    parts = dict(part.split("=", 1) for part in challenge.token.decode().split(","))
    real = salt_of(bytes(range(200, 232)))
    assert len(real) == 26 and real.isalnum() and real == real.lower()
    assert len(parts["s"]) == len(_b64(real))


def test_a_replayed_proof_is_worth_nothing() -> None:
    asked, first = client(), server(nonce="one")
    challenge = first.receive(asked.start())
    assert isinstance(challenge, Send)
    proof = asked.receive(challenge.token)
    assert isinstance(proof, Send)
    assert isinstance(first.receive(proof.token), Done)

    second = server(nonce="two")
    second.receive(client().start())
    replayed = second.receive(proof.token)
    assert isinstance(replayed, Failed)
    assert "nonce is of another authentication" in replayed.reason


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=x y",
        b"n,,m=must,n=alice,r=x",  # an extension that the server must understand
        b"y,,n=alice,r=x",  # channel binding, which is never offered
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=\xff,r=x",
        b"n,,n=ali\0ce,r=x",
        b"n,,n=alice,r=" + b"x" * MAX_TOKEN_BYTES,
    ],
)
def test_the_server_rejects_a_malformed_first_message(first: bytes) -> None:
    outcome = server().receive(first)
    assert isinstance(outcome, Failed)
    assert outcome.sentence.endswith("invalid credentials with SASL mechanism SCRAM-SHA-256")


def test_unknown_optional_extensions_are_ignored() -> None:
    assert isinstance(server().receive(b"n,,n=alice,r=x,ext=1"), Send)
    assert isinstance(server().receive(b"n,a=alice,n=alice,r=x"), Send)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"c=biws", b"c=eSws"),
        lambda text: text.replace(b"c=biws", b"c=*"),
        lambda text: text.replace(b"servernonce", b"servernoncf"),
        lambda text: text.split(b",p=")[0],
        lambda text: text.split(b",p=")[0] + b",p=",
        lambda text: text.split(b",p=")[0] + b",p=AAAA",
        lambda text: text.split(b",p=")[0] + b",p=" + b"A" * 43 + b"=",
        lambda text: text + b",x=1",
        lambda text: b"\xff" + text,
    ],
)
def test_the_server_rejects_a_changed_proof(change: object) -> None:
    asked, theirs = client(), server()
    challenge = theirs.receive(asked.start())
    assert isinstance(challenge, Send)
    proof = asked.receive(challenge.token)
    assert isinstance(proof, Send)
    assert callable(change)
    assert isinstance(theirs.receive(change(proof.token)), Failed)


def test_the_server_rejects_a_client_whose_channel_binding_was_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.security.sasl.scram._GS2_HEADER", "y,,")  # it could bind to the channel
    asked, theirs = client(), server()
    challenge = theirs.receive(asked.start().replace(b"y,,", b"n,,"))
    assert isinstance(challenge, Send)
    proof = asked.receive(challenge.token)
    assert isinstance(proof, Send)
    outcome = theirs.receive(proof.token)
    assert isinstance(outcome, Failed)
    assert "channel binding" in outcome.reason


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=clientnonceX,s=QUJD,i=4095", "4095 SCRAM iterations"),
        (b"r=clientnonceX,s=QUJD,i=%d" % (MAX_ITERATIONS + 1), "SCRAM iterations"),
        (b"r=clientnonceX,s=QUJD,i=999999999999999", "malformed"),
        (b"r=clientnonceX,s=QUJD,i=-1", "malformed"),
        (b"r=clientnonceX,s=,i=4096", "malformed"),
        (b"r=clientnonceX,s=*,i=4096", "malformed"),
        (b"m=x,r=clientnonceX,s=QUJD,i=4096", "malformed"),
        (b"r=clientnonce,s=QUJD,i=4096", "does not extend"),
        (b"r=Xclientnonce,s=QUJD,i=4096", "does not extend"),
        (b"", "malformed"),
        (b"\xff", "malformed"),
    ],
)
def test_the_client_rejects_a_dishonest_challenge(challenge: bytes, reason: str) -> None:
    asked = client()
    asked.start()
    step = asked.receive(challenge)
    assert isinstance(step, ClientFailed)
    assert reason in step.reason


@pytest.mark.parametrize("outcome", [b"", b"v=", b"v=AAAA", b"v=*", b"v=" + b"A" * 43 + b"=", b"e=other-error", b"ok"])
def test_the_client_rejects_a_server_without_a_valid_signature(outcome: bytes) -> None:
    asked, theirs = client(), server()
    challenge = theirs.receive(asked.start())
    assert isinstance(challenge, Send)
    assert isinstance(asked.receive(challenge.token), Send)
    assert isinstance(asked.receive(outcome), ClientFailed)


def test_a_server_that_only_knows_the_user_cannot_pretend_to_know_the_password() -> None:
    other = ScramCredential.from_password(SHA_256, Secret("other"), SALT, MIN_ITERATIONS)
    asked = client()
    challenge = ScramServer(SHA_256, {"alice": other}.get, "servernonce", SECRET).receive(asked.start())
    assert isinstance(challenge, Send)
    asked.receive(challenge.token)
    step = asked.receive(b"v=" + _b64(SHA_256.hmac(other.server_key, "guess")).encode())
    assert step == ClientFailed("the server does not know the password: its SCRAM signature is wrong")


@given(st.lists(st.binary(max_size=60), min_size=2, max_size=2))
def test_no_garbage_gets_in(tokens: list[bytes]) -> None:
    for theirs, token in ((server(), tokens[0]), (_challenged(), tokens[1])):
        assert isinstance(theirs.receive(token), Failed)


@given(st.binary(max_size=60))
def test_no_garbage_convinces_the_client(token: bytes) -> None:
    asked = client()
    asked.start()
    assert isinstance(asked.receive(token), ClientFailed)


def _challenged() -> ScramServer:
    theirs = server()
    assert isinstance(theirs.receive(client().start()), Send)
    return theirs


def _b64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()
