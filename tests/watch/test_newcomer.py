"""docs/watch.md as a newcomer follows it: Apache Kafka with an authorizer, and a user with the ACLs of that page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort import NewTopic, blocking
from tests.interop.kafka import free_ports, run_tool, running_kafka
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

pytestmark = pytest.mark.kafka

DOCUMENT = Path(__file__).parents[2] / "docs" / "watch.md"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"admin": "admin-secret", "watch": "watch-secret", "billing": "billing-secret"}


@pytest.fixture(scope="module")
def kafka(kafka_tools: None) -> Iterator[str]:
    """Address of a cluster with passwords and an authorizer."""
    port, controller = free_ports(2)
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    config = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{MODULE} username="admin" password="{USERS["admin"]}" {users};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with running_kafka(config) as broker:
        yield broker.bootstrap


def login(at: str, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": at,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def commands(at: str, begin: str) -> list[list[str]]:
    """The commands of the page that begin so, as they are there, but for the address of the cluster."""
    joined = "".join(blocks("sh")).replace("\\\n", " ").replace("kafka:9092", at)
    return [shlex.split(line, comments=True) for line in joined.splitlines() if line.startswith(begin)]


@pytest.fixture
def home(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the page names; the ACLs are set."""
    admin = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={MODULE}"
    (tmp_path / "admin.properties").write_text(f'{admin} username="admin" password="{USERS["admin"]}";\n')
    (properties,) = (block for block in blocks("properties") if 'username="watch"' in block)
    (tmp_path / "watch.properties").write_text(properties)
    monkeypatch.chdir(tmp_path)
    acls = commands(kafka, "kafka-acls.sh")
    assert len(acls) == 2
    for _, *arguments in acls:
        run_tool("org.apache.kafka.tools.AclCommand", *arguments)
    return tmp_path


def test_the_permissions_of_the_page_suffice_and_are_all_that_the_user_has(kafka: str, home: Path) -> None:
    with blocking.Admin(**login(kafka, "admin")) as admin:
        admin.create_topics([NewTopic("invoices", 2)])
    with blocking.Producer(**login(kafka, "admin")) as producer:
        for number in range(10):
            producer.send("invoices", str(number).encode())
    with blocking.Consumer(
        "invoices", **login(kafka, "admin"), group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        read = 0
        while read < 10:
            read += len(consumer.poll(timeout=1.0))
        consumer.commit()

    (watch,) = commands(kafka, "kohort watch --bootstrap 127.0.0.1:" + kafka.rpartition(":")[2] + " --command-config")
    once = subprocess.run(kohort(*watch[1:], "--once", "--json"), capture_output=True, text=True, timeout=90)
    assert (once.returncode, once.stderr) == (0, "")
    document = json.loads(once.stdout)
    assert document["problems"] == []
    (group,) = document["groups"]
    assert (group["group"], group["state"], group["lag"]) == ("billing", "Empty", 0)
    assert [rebalance["triggers"][0]["cause"] for rebalance in group["rebalances"]] == [
        "first member",
        "member left or expired",
    ]

    process = ServerProcess(kohort(*watch[1:], "--listen", "127.0.0.1:0"))
    try:
        url = process.wait_for(r"^ready (http\S+)$", timeout=60.0)[1]
        with urllib.request.urlopen(f"{url}/events", timeout=60) as events:
            while True:
                with urllib.request.urlopen(f"{url}/api/groups", timeout=60) as answer:
                    shown = json.load(answer)
                states = {source["kind"]: source["state"] for source in shown["sources"]}
                if states.get("log") == "following" and shown["groups"]:
                    break
                assert events.readline(), "the stream ended"
        assert [each["group"] for each in shown["groups"]] == ["billing"]
        assert shown["problems"] == []
        with urllib.request.urlopen(f"{url}/api/groups/billing", timeout=60) as answer:
            assert len(json.load(answer)["rebalances"]) == 2
        assert process.stop() == 0
        assert "ERROR" not in process.output() and "WARNING" not in process.output()
    finally:
        process.kill()


def test_without_the_permissions_it_says_what_is_missing(kafka: str, home: Path) -> None:
    properties = (home / "watch.properties").read_text()
    replaced = properties.replace('"watch"', '"billing"').replace("watch-secret", USERS["billing"])
    (home / "watch.properties").write_text(replaced)
    watch = ("watch", "--bootstrap", kafka, "--command-config", "watch.properties", "--once")
    once = subprocess.run(kohort(*watch), capture_output=True, text=True, timeout=90)
    assert once.returncode == 0
    assert "__consumer_offsets" in once.stderr
    assert "Read" in once.stderr

    process = ServerProcess(kohort(*watch[:-1], "--listen", "127.0.0.1:0"))
    try:
        process.wait_for(r"^ready http", timeout=60.0)
        said = process.wait_for(r"WARNING kohort.watch (.*__consumer_offsets.*)$", timeout=60.0)[1]
        assert "need the ACLs Read and Describe" in said
        assert process.stop() == 0
    finally:
        process.kill()
