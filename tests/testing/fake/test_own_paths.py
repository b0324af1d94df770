"""The paths under /kohort/: time, faults with all actions, members, coordinators, topics, journal and invariants."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kohort.blocking import Admin, Consumer, Producer
from kohort.model import TopicPartition
from kohort.testing.fake import ControlServer, FakeCluster, FakeOptions
from tests.interop.process import until

PATIENCE_S = 60.0

Ask = Callable[..., Any]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(FakeOptions(ports=[0, 0], topics={"t": 2}))


@pytest.fixture
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Asks the endpoint of `cluster`, or of the fixture that the test names."""
    cluster: FakeCluster = request.getfixturevalue(getattr(request, "param", "cluster"))
    server = ControlServer(cluster, "127.0.0.1", 0)

    def call(method: str, path: str, status: int = 200, **body: Any) -> Any:
        connection = http.client.HTTPConnection(server.address, timeout=PATIENCE_S)
        try:
            connection.request(method, path, json.dumps(body) if method == "POST" else None)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == status, text
            return json.loads(text)
        finally:
            connection.close()

    with cluster:
        server.start()
        yield call
        call("DELETE", "/kohort/invariants")  # what a test does to the brokers may break them
        server.stop()


@pytest.fixture
def in_memory() -> FakeCluster:
    return FakeCluster(FakeOptions(ports=[0], memory=True, topics={"t": 1}))


def join(cluster: FakeCluster, **options: Any) -> Consumer:
    options = {"group_id": "g", "client_id": "mine", "auto_offset_reset": "earliest", **options}
    return Consumer("t", bootstrap_servers=cluster.bootstrap_servers, **options)


def test_every_path_is_listed(ask: Ask) -> None:
    paths = {(each["method"], each["path"]): each["members"] for each in ask("GET", "/kohort")["paths"]}
    assert paths["POST", "/kohort/time/advance"] == {"by": "string", "dead": "[]string"}
    assert len(paths) == 23


def test_a_session_ends_when_time_is_advanced(cluster: FakeCluster, ask: Ask) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("t", b"1")
    with join(cluster, session_timeout_ms=30_000) as consumer:
        assert consumer.poll(timeout=PATIENCE_S)
        ask("POST", "/kohort/time/advance", by="10s")
        assert len(ask("POST", "/call/GroupInfo", args=["g"])["result"]["Members"]) == 1
        ask("POST", "/kohort/time/advance", by="1m", dead=["mine"])
        until(PATIENCE_S, "it is in the journal", lambda: "session" in json.dumps(ask("GET", "/kohort/journal/g")))


def test_a_member_is_expired_and_the_journal_says_so(cluster: FakeCluster, ask: Ask) -> None:
    with join(cluster) as consumer:
        consumer.poll(timeout=0.1)
        ask("POST", "/groups/wait", group="g", assigned=2)
        expired = ask("POST", "/kohort/members/expire", group="g", member="mine")["member"]
        assert expired
        until(PATIENCE_S, "the rebalance ends", lambda: ask("GET", "/kohort/journal/g")["rebalances"])
        assert ask("GET", "/kohort/journal/other") == {"rebalances": []}


def test_violations_are_listed_until_they_are_forgotten(cluster: FakeCluster, ask: Ask) -> None:
    assert ask("GET", "/kohort/invariants") == {"violations": []}
    with join(cluster) as consumer:
        consumer.poll(timeout=0.1)
        ask("POST", "/groups/wait", group="g", assigned=2)
        for offset in (5, 2):
            consumer.commit({TopicPartition("t", 0): offset})
    violations = ask("GET", "/kohort/invariants")["violations"]
    assert {"forward commits"} <= {each["invariant"] for each in violations}
    assert {(each["group"], each["client_id"]) for each in violations} == {("g", "mine")}
    assert all(each["fault"] and each["what"] and each["why"] for each in violations)
    assert ask("DELETE", "/kohort/invariants") == {"removed": len(violations)}
    assert ask("GET", "/kohort/invariants") == {"violations": []}


def test_what_a_fault_holds_goes_on_when_it_is_released(cluster: FakeCluster, ask: Ask) -> None:
    made = ask("POST", "/kohort/faults", rules=[{"keys": ["ListGroups", "16"], "hold": True, "client_id": "mine"}])
    assert made["rules"] == [{"keys": ["ListGroups", "16"], "hold": True, "client_id": "mine", "count": 1}]
    described: list[Any] = []

    def describe() -> None:
        with Admin(bootstrap_servers=cluster.bootstrap_servers, client_id="mine") as admin:
            described.append(admin.list_groups())

    thread = threading.Thread(target=describe)
    thread.start()
    assert ask("POST", f"/faults/{made['id']}/wait", hits=1) == {"hits": 1}
    assert described == []
    ask("POST", f"/kohort/faults/{made['id']}/release")
    thread.join(PATIENCE_S)
    assert len(described) == 1
    assert ask("GET", "/faults")["faults"][0]["left"] == 0
    assert ask("DELETE", f"/faults/{made['id']}") == {"removed": 1}


def test_coordinators_leaders_and_topics_are_changed(cluster: FakeCluster, ask: Ask) -> None:
    before = ask("POST", "/call/CoordinatorFor", args=["g"])["result"]
    ask("POST", "/kohort/coordinators/move", group="g")
    assert ask("POST", "/call/CoordinatorFor", args=["g"])["result"] == 1 - before
    ask("POST", "/kohort/coordinators/move", group="g", to=before)
    assert ask("POST", "/call/CoordinatorFor", args=["g"])["result"] == before
    leader = ask("POST", "/call/LeaderFor", args=["t", "0"])["result"]
    ask("POST", "/kohort/leaders/move", topic="t", partition=0)
    assert ask("POST", "/call/LeaderFor", args=["t", "0"])["result"] == 1 - leader
    ask("POST", "/kohort/topics/grow", topic="t", partitions=5)
    old = ask("POST", "/call/TopicInfo", args=["t"])["result"]["TopicID"]
    new = ask("POST", "/kohort/topics/recreate", topic="t")["topic_id"]
    assert new == ask("POST", "/call/TopicInfo", args=["t"])["result"]["TopicID"] != old
    assert len(ask("POST", "/call/PartitionInfos", args=["t"])["result"]) == 5
    ask("POST", "/kohort/coordinators/load", group="g", duration="10ms")
    ask("POST", "/kohort/time/scale", rate=2.5)


def test_disks_are_slow_full_and_well_again(cluster: FakeCluster, ask: Ask) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("t", b"1", partition=0)
        producer.flush()
        began = time.monotonic()
        ask("POST", "/kohort/disks/slow", sync="500ms")
        producer.send("t", b"2", partition=0)
        producer.flush()
        assert time.monotonic() - began > 0.5
        ask("POST", "/kohort/disks/fill", node=0, duration="10ms")
        ask("POST", "/kohort/disks/fail", node=1)
        assert ask("DELETE", "/kohort/disks") == {"removed": 2}
        producer.send("t", b"3", partition=0)
        producer.flush()
    assert "node 7 not found" in ask("POST", "/kohort/disks/fill", status=400, node=7)["error"]


@pytest.mark.parametrize("ask", ["in_memory"], indirect=True)
def test_a_snapshot_is_restored(in_memory: FakeCluster, ask: Ask) -> None:
    number = ask("POST", "/kohort/snapshots")["id"]
    with Producer(bootstrap_servers=in_memory.bootstrap_servers) as producer:
        producer.send("t", b"1")
    assert ask("POST", "/call/PartitionInfo", args=["t", "0"])["result"]["HighWatermark"] == 1
    ask("POST", f"/kohort/snapshots/{number}/restore")
    assert ask("POST", "/call/PartitionInfo", args=["t", "0"])["result"]["HighWatermark"] == 0
    assert ask("DELETE", f"/kohort/snapshots/{number}") == {"removed": 1}
    for gone in (str(number), "x", "9" * 30):
        told = ask("POST", f"/kohort/snapshots/{gone}/restore", status=404)
        assert told == {"error": f"no snapshot {gone}"}
    assert "in memory" in ask("POST", "/call/AddNode", status=400, args=["-1", "0"])["error"]
    for method in ("ShufflePartitionLeaders", "RehashCoordinators"):
        assert ask("POST", f"/call/{method}", args=[]) == {"result": None}
    assert ask("POST", "/call/MoveTopicPartition", args=["t", "0", "0"]) == {"result": None}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("time/advance", {"by": "10"}, 'by "10": time: missing unit'),
        ("time/advance", {"by": "-1s"}, "time does not go back"),
        ("time/advance", {"to": "1s"}, 'unknown object member name "to"'),
        ("time/scale", {"rate": -1}, "The rate of a clock is between 0"),
        ("time/scale", {"rate": "1"}, 'JSON string into Go float64 within "/rate"'),
        ("faults", {"rules": []}, "no rules given"),
        ("faults", {"rules": [{"keys": ["Nope"]}]}, "rule 1: Unknown request 'Nope'"),
        ("faults", {"rules": [{"drop": True, "hold": True}]}, "A fault has one action"),
        ("faults", {"rules": [{"delay": "1"}]}, 'rule 1: delay "1": time: missing unit'),
        ("faults", {"rules": [{"delays": "1s"}]}, 'unknown object member name "delays" within "/rules/0"'),
    ],
)
def test_wrong_use_is_said(ask: Ask, path: str, body: dict[str, Any], says: str) -> None:
    told = ask("POST", f"/kohort/{path}", status=400, **body)
    assert says in told["error"] and told["usage"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("members/expire", {"group": "absent", "member": "x"}),
        ("members/fence", {"group": "absent", "instance_id": "x"}),
        ("leaders/move", {"topic": "absent", "partition": 0}),
        ("topics/grow", {"topic": "t", "partitions": 1}),
        ("topics/recreate", {"topic": "absent"}),
        ("coordinators/move", {"group": "g", "to": 7}),
    ],
)
def test_what_cannot_be_done_is_one_sentence(ask: Ask, path: str, body: dict[str, Any]) -> None:
    told = ask("POST", f"/kohort/{path}", status=400, **body)
    assert told["error"] and "usage" not in told
