"""`kohort fake` as a test suite in another language starts it: addresses on stdout, and an end with its parent."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.blocking import Admin, Consumer, Producer
from kohort.cli.fake import _read_address, _read_ports, _read_topics, _read_user
from kohort.errors import ConfigError, KafkaError, KohortError
from tests.cli.conftest import Run
from tests.interop.kohort import kohort
from tests.interop.process import until

PATIENCE_S = 60.0
ENDS_WITHIN_S = 10.0


class Fake:
    """A running command, with the lines that it printed."""

    def __init__(self, *options: str, lines: int = 1, stdin: int = subprocess.DEVNULL, **environment: str) -> None:
        self.process = subprocess.Popen(
            kohort("fake", *options), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.lines = [self.process.stdout.readline().rstrip("\n") for _ in range(lines)]
        self.bootstrap = self.lines[0]

    def control(self, method: str, path: str, body: Any = None) -> Any:
        (address,) = (line.removeprefix("control http://") for line in self.lines if line.startswith("control "))
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def end(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait()


@contextlib.contextmanager
def running(*options: str, **arguments: Any) -> Iterator[Fake]:
    fake = Fake(*options, **arguments)
    try:
        yield fake
    finally:
        fake.end()


def test_it_prints_one_address_a_line_serves_and_ends_with_code_0(tmp_path: Path) -> None:
    options = ("--ports", "0,0", "--seed-topic", "orders:3,audit", "--seed-topic", "clicks", "--control=127.0.0.1:0")
    with running(*options, lines=3, TMPDIR=str(tmp_path)) as fake:
        assert [re.sub(r"\d+$", "N", line) for line in fake.lines] == [
            "127.0.0.1:N",
            "127.0.0.1:N",
            "control http://127.0.0.1:N",
        ]
        with Producer(bootstrap_servers=fake.bootstrap) as producer:
            producer.send("orders", b"1", partition=2)
        with Consumer(
            "orders", bootstrap_servers=fake.lines[1], group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"1"]
            told = fake.control("POST", "/groups/wait", {"group": "g", "assigned": 3})
            assert told["group"]["Members"][0]["Assignment"] == {"orders": [0, 1, 2]}
        assert len(fake.control("POST", "/call/PartitionInfos", {"args": ["audit"]})["result"]) == 2
        began = time.monotonic()
        fake.process.send_signal(signal.SIGTERM)
        out, err = fake.process.communicate(timeout=PATIENCE_S)
        assert (fake.process.returncode, out, err) == (0, "", "")
        assert time.monotonic() - began < ENDS_WITHIN_S
    assert list(tmp_path.iterdir()) == []


def test_it_ends_when_its_parent_closes_the_pipe() -> None:
    with running("--ports", "0", "--ends-with-parent", stdin=subprocess.PIPE) as fake:
        assert fake.process.stdin is not None
        fake.process.stdin.write("what a parent writes is not read\n")
        fake.process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            fake.process.wait(0.5)
        fake.process.stdin.close()
        assert fake.process.wait(ENDS_WITHIN_S) == 0


PARENT = """
import subprocess, sys, threading
started = []
def start():  # the thread that starts it ends, and its parent does not
    started.append(subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].pid, started[0].stdout.readline(), end="", flush=True)
sys.stdin.read()
"""


def test_it_ends_when_its_parent_is_killed_and_not_before() -> None:
    command = [sys.executable, "-c", PARENT, *kohort("fake", "--ports", "0", "--ends-with-parent")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, address = parent.stdout.readline().split()
        host, _, port = address.rpartition(":")
        try:
            time.sleep(0.5)  # it would have ended by now if the thread that started it were its parent
            socket.create_connection((host, int(port)), PATIENCE_S).close()
            parent.kill()
            until(ENDS_WITHIN_S, "the child ends", lambda: not is_running(int(pid)))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_users_of_each_mechanism_log_in_and_nobody_else() -> None:
    options = ("--sasl", "plain:alice:$ALICE", "--sasl", "SCRAM-SHA-512:bob:${BOB}", "--acls")
    secrets = {"ALICE": "wonder:land", "BOB": 'qu"ote\\'}
    with running("--ports", "0", "--seed-topic", "t:1", *options, **secrets) as fake:
        login: dict[str, Any] = {"bootstrap_servers": fake.bootstrap, "security_protocol": "SASL_PLAINTEXT"}
        for user, mechanism, password in (
            ("alice", "PLAIN", secrets["ALICE"]),
            ("bob", "SCRAM-SHA-512", secrets["BOB"]),
        ):
            own: dict[str, Any] = {"sasl_mechanism": mechanism, "sasl_plain_username": user}
            with Admin(**login, **own, sasl_plain_password=password) as admin:
                assert "t" in admin.list_topics()
            with (
                pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"),
                Admin(**login, **own, sasl_plain_password="wrong") as admin,
            ):
                admin.list_topics()


def test_an_older_version_serves_older_requests_only() -> None:
    with running("--ports", "0", "--seed-topic", "t:1", "--as-version", "3.6") as fake:
        with Consumer(
            "t", bootstrap_servers=fake.bootstrap, group_id="g", group_protocol="classic", auto_offset_reset="earliest"
        ) as consumer:
            with Producer(bootstrap_servers=fake.bootstrap) as producer:
                producer.send("t", b"1")
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"1"]
        with (
            pytest.raises(KohortError) as refused,
            Consumer("t", bootstrap_servers=fake.bootstrap, group_id="h", group_protocol="consumer") as consumer,
        ):
            consumer.poll(timeout=PATIENCE_S)
        assert "ConsumerGroupHeartbeat" in str(refused.value) or "KIP-848" in str(refused.value)


def test_a_directory_keeps_topics_records_and_offsets(tmp_path: Path) -> None:
    options = ("--ports", "0", "-d", str(tmp_path / "data"), "--sync", "-c", "num.partitions=4")
    with running(*options, "--allow-auto-topic-creation") as fake:
        with Producer(bootstrap_servers=fake.bootstrap) as producer:
            producer.send("made-by-use", b"1")
        fake.process.terminate()
        assert fake.process.wait(PATIENCE_S) == 0
    with running(*options) as fake:
        with Consumer(
            "made-by-use", bootstrap_servers=fake.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"1"]
        with Producer(bootstrap_servers=fake.bootstrap) as producer:
            assert producer.partitions_for("made-by-use") == 4


def test_a_port_that_is_taken_is_one_sentence_and_code_1(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options in (("--ports", f"{port}"), ("--ports", "0", f"--control=127.0.0.1:{port}")):
            told = run("fake", *options)
            assert (told.code, told.out) == (1, ""), told.err
            assert re.fullmatch(rf"kohort: .*{port}.*\n", told.err)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ports", "9092,x"), "--ports takes numbers from 0 to 65535, such as 9092,9093 or 0, not '9092,x'"),
        (("--ports", "70000"), "--ports takes numbers"),
        (("--ports", "9092,9092"), "--ports names a port twice"),
        (("--seed-topic", "orders:none"), "--seed-topic takes NAME or NAME:PARTITIONS"),
        (("--as-version", "1.1"), "from 2.0 to 4.3"),
        (("-c", "num.partitions"), "--broker-config takes NAME=VALUE"),
        (("-c", "num.partitons=3"), "num.partitions"),
        (("--control=host:port:",), "--control takes HOST:PORT"),
        (("--memory", "--ports", "0,0"), "--memory is for one broker without --data-dir"),
        (("-l", "loud"), "--log-level"),
        (("--sasl", "plain:alice"), "--sasl number 1 must be MECHANISM:USER:PASSWORD"),
    ],
)
def test_wrong_use_is_one_sentence_and_code_2(run: Run, options: tuple[str, ...], says: str) -> None:
    told = run("fake", "--ports", "0", *options)
    assert (told.code, told.out) == (2, ""), told.err
    assert says in told.err and told.err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["plain:alice", "gssapi:alice:wonderland", "plain::wonderland", "plain:a b:wonderland", "plain:a:$NOT_SET"]
)
def test_no_message_shows_a_password(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _read_user(text, 1)
    assert "wonderland" not in str(refused.value)


def test_a_user_is_read_with_variables_and_colons_in_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PART", "b:c")
    user = _read_user("Scram-Sha-256:alice:a-$PART-${PART}", 1)
    assert (user.mechanism.value, user.name, user.password.reveal()) == ("SCRAM-SHA-256", "alice", "a-b:c-b:c")
    assert "b:c" not in repr(user)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("9100", ("127.0.0.1", 9100)),
        (":9100", ("127.0.0.1", 9100)),
        ("localhost", ("localhost", 9099)),
        ("10.0.0.7", ("10.0.0.7", 9099)),
        ("[::1]:9100", ("::1", 9100)),
        ("[::1]", ("::1", 9099)),
        ("", ("127.0.0.1", 9099)),
    ],
)
def test_what_is_missing_in_an_address_has_its_default(text: str, address: tuple[str, int]) -> None:
    assert _read_address(text) == address


def test_ports_and_topics_are_lists() -> None:
    assert _read_ports("9092, 0,0") == [9092, 0, 0]
    assert _read_topics(["a:3,b", "c:1"]) == {"a": 3, "b": -1, "c": 1}
