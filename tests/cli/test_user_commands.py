"""`kohort user` against a running broker and against the store of one that does not run; with --broker both against
Apache Kafka too."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort import Admin
from kohort.broker import Broker, BrokerOptions, stored_credentials
from kohort.client import AuthenticationError
from kohort.security import Secret
from kohort.security.sasl import ClientDone, Done, ScramClient, ScramMechanism, ScramPassword, ScramServer, Send
from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker as AnyBroker
from tests.interop.kohort import kohort
from tests.interop.process import until


def listed(run: Run, bootstrap: str) -> dict[str, list[dict[str, object]]]:
    told = json.loads(succeeded(run("user", "list", "--json", bootstrap=bootstrap)).out)
    return {row["user"]: row["credentials"] for row in told}


def test_a_user_is_added_listed_and_deleted(run: Run, any_broker: AnyBroker, name: str) -> None:
    at = any_broker.bootstrap
    both = [{"mechanism": f"SCRAM-SHA-{size}", "iterations": 5000} for size in (256, 512)]
    added = succeeded(
        run("user", "add", name, "--password-stdin", "--iterations", "5000", bootstrap=at, stdin="secret\n")
    )
    assert added.lines == [f"{name}: the password is set for SCRAM-SHA-256 and SCRAM-SHA-512"]
    # Apache Kafka answers before its brokers know a change.
    until(20, "added", lambda: listed(run, at).get(name) == both)
    rows = [line.split() for line in run("user", "list", bootstrap=at).lines]
    assert [name, "SCRAM-SHA-256", "5000"] in rows
    succeeded(run("user", "delete", name, "--mechanism", "SCRAM-SHA-512", bootstrap=at))
    until(20, "half deleted", lambda: listed(run, at).get(name) == both[:1])
    assert succeeded(run("user", "delete", name, bootstrap=at)).lines == [f"{name}: deleted for SCRAM-SHA-256"]
    until(20, "deleted", lambda: name not in listed(run, at))
    again = run("user", "delete", name, bootstrap=at)
    assert (again.code, again.out) == (1, "")
    assert f"{name} has no credential for SCRAM-SHA-256 or SCRAM-SHA-512" in again.err


def knows(data: Path, user: str, password: str, mechanism: ScramMechanism) -> bool:
    """Whether the stored credential is that of the password."""
    with stored_credentials(data, None) as credentials:
        server = ScramServer(mechanism, lambda name: credentials.credential(name, mechanism), "nonce", b"secret")
        client = ScramClient(user, ScramPassword(mechanism, Secret(password)), "mine")
        challenge = server.receive(client.start())
        assert isinstance(challenge, Send)
        proof = client.receive(challenge.token)
        assert isinstance(proof, Send)
        done = server.receive(proof.token)
        return isinstance(done, Done) and isinstance(client.receive(done.token), ClientDone)


def test_the_first_user_is_added_before_the_broker_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    monkeypatch.setenv("KOHORT_PASSWORD", "sésame")
    added = succeeded(run("user", "add", "alice", "--data", str(data)))
    assert "sésame" not in added.out + added.err
    assert all(knows(data, "alice", "sésame", mechanism) for mechanism in ScramMechanism)
    assert not knows(data, "alice", "sesame", ScramMechanism.SHA_256)
    assert [line.split() for line in run("user", "list", "--data", str(data)).lines][1:] == [
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]

    async def connects(password: str) -> str:
        settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
        async with Broker(BrokerOptions(settings=settings, data=data)) as broker:
            async with Admin(
                bootstrap_servers=broker.address,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-512",
                sasl_plain_username="alice",
                sasl_plain_password=password,
            ) as admin:
                return (await admin.describe_cluster()).cluster_id or ""

    assert asyncio.run(connects("sésame"))
    with pytest.raises(AuthenticationError):
        asyncio.run(connects("wrong"))
    succeeded(run("user", "delete", "alice", "--data", str(data)))
    assert run("user", "list", "--data", str(data)).lines == ["There are no SCRAM users; add one with kohort user add."]


def test_salts_are_random(run: Run, tmp_path: Path) -> None:
    for user in ("alice", "bob"):
        succeeded(run("user", "add", user, "--password-stdin", "--data", str(tmp_path / "data"), stdin="same"))
    with stored_credentials(tmp_path / "data", None) as credentials:
        salts = [credential.salt for own in credentials.users().values() for credential in own.values()]
    assert len(set(salts)) == len(salts) == 4


def test_the_store_of_a_running_broker_is_refused_in_one_sentence(run: Run, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    command = kohort("broker", "--listen", "127.0.0.1:0", "--data", data)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("ready")
        told = run("user", "add", "alice", "--password-stdin", "--data", data, stdin="secret")
        broker.terminate()
    assert (told.code, told.out) == (2, "")
    assert "is in use by process" in told.err and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(("second", "code", "says"), [("secret", 0, "the password is set"), ("sicret", 2, "differ")])
def test_at_a_terminal_the_password_is_asked_for_twice_and_not_shown(
    tmp_path: Path, second: str, code: int, says: str
) -> None:
    main, terminal = os.openpty()
    environment: Mapping[str, str] = {key: value for key, value in os.environ.items() if key != "KOHORT_PASSWORD"}
    command = kohort("user", "add", "alice", "--data", str(tmp_path / "data"))
    asked = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    shown = b""
    for prompt, answer in ((b"Password of alice: ", "secret"), (b"Repeat it: ", second)):
        while prompt not in shown:
            shown += os.read(main, 1000)
        os.write(main, f"{answer}\n".encode())
    while says.encode() not in shown:
        shown += os.read(main, 1000)
    assert asked.wait(30) == code
    os.close(main)
    assert b"secret" not in shown and b"sicret" not in shown
