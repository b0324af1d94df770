"""A cluster whose brokers come and go under its clients."""

from __future__ import annotations

import os

import pytest

from kohort.blocking import Consumer, Producer
from kohort.errors import KohortError
from kohort.testing.fake import FakeCluster, FakeOptions
from kohort.testing.fake.calls import Calls
from kohort.testing.fake.http import Request

PATIENCE_S = 60.0
NOT_DESERTED = Request((), b"", lambda: False)


def consume(consumer: Consumer) -> list[bytes]:
    return [record.value for record in consumer.poll(timeout=PATIENCE_S)]


def test_clients_survive_that_their_brokers_are_replaced() -> None:
    with FakeCluster(FakeOptions(ports=[0, 0], topics={"t": 1})) as cluster:
        calls = Calls(cluster)
        with (
            Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            Consumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer,
        ):
            producer.send("t", b"1")
            assert consume(consumer) == [b"1"]
            for gone in (0, 1):
                number, port = cluster.add_node()
                assert cluster.addresses[-1] == f"127.0.0.1:{port}"
                calls.call("MoveTopicPartition", ["t", "0", str(gone)], NOT_DESERTED)
                cluster.remove_node(gone)
                assert calls.call("LeaderFor", ["t", "0"], NOT_DESERTED) != gone
                producer.send("t", str(number).encode())
                assert consume(consumer) == [str(number).encode()]
            consumer.commit()
            info = calls.call("GroupInfo", ["g"], NOT_DESERTED)
            assert info["Commits"]["t"]["0"]["Offset"] == 3
            assert info["Commits"]["t"]["0"]["At"].endswith("Z")
            assert info["Members"][0]["Assignment"] == {"t": [0]}


@pytest.mark.parametrize("sync", [False, True])
def test_records_are_synced_only_if_that_is_wanted(monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with FakeCluster(FakeOptions(ports=[0], topics={"t": 1}, sync=sync)) as cluster:
        for _ in range(2):  # a broker that is added does as the first one
            with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                synced.clear()
                producer.send("t", b"x").result()
                assert bool(synced) == sync
            if cluster.nodes[0].node_id == 0:
                cluster.add_node()
                cluster.remove_node(0)


def test_the_last_broker_and_an_unknown_one_stay() -> None:
    with FakeCluster(FakeOptions(ports=[0])) as cluster:
        with pytest.raises(KohortError, match="cannot remove all brokers"):
            cluster.remove_node(0)
        with pytest.raises(KohortError, match="node 7 not found"):
            cluster.remove_node(7)
        with pytest.raises(KohortError, match="node 0 already exists"):
            cluster.add_node(0)
        with pytest.raises(KohortError):
            cluster.add_node(1, cluster.port)
        assert len(cluster.addresses) == 1
        assert cluster.add_node(1)[0] == 1


def test_leaders_and_coordinators_are_moved_at_random_and_serve() -> None:
    with FakeCluster(FakeOptions(ports=[0, 0, 0], topics={"t": 12})) as cluster:
        calls = Calls(cluster)
        for _ in range(3):
            calls.call("ShufflePartitionLeaders", [], NOT_DESERTED)
            calls.call("RehashCoordinators", [], NOT_DESERTED)
            infos = calls.call("PartitionInfos", ["t"], NOT_DESERTED)
            assert len({info["Leader"] for info in infos}) > 1
            assert calls.call("CoordinatorFor", ["g"], NOT_DESERTED) in (0, 1, 2)
        calls.call("SetFollowers", ["t", "0", "[0,1,2]"], NOT_DESERTED)
        assert calls.call("TopicInfo", ["t"], NOT_DESERTED)["NumReplicas"] == 3


def test_topics_and_records_are_changed_as_their_admin_would() -> None:
    with FakeCluster(FakeOptions(ports=[0, 0])) as cluster:
        calls = Calls(cluster)
        assert calls.call("CreateTopic", ["t", "-1", "null"], NOT_DESERTED) is None
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            assert producer.partitions_for("t") == 2
            for value in (b"1", b"2", b"3"):
                producer.send("t", value, partition=1)
        assert calls.call("DeleteRecords", ["t", "1", "2"], NOT_DESERTED) is None
        info = calls.call("PartitionInfo", ["t", "1"], NOT_DESERTED)
        assert (info["LogStartOffset"], info["HighWatermark"]) == (2, 3)
        assert info["MaxTimestamp"] > 0 < info["NumBytes"]
        assert calls.call("DeleteTopic", ["t"], NOT_DESERTED) is None
        assert calls.call("PartitionInfos", ["t"], NOT_DESERTED) == []
        assert calls.call("LeaderFor", ["t", "0"], NOT_DESERTED) == -1


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("CreateTopic", ["t", "1", "{}"], "TOPIC_ALREADY_EXISTS: Topic 't' already exists."),
        ("CreateTopic", ["n", "1", '{"retention.ms":"x"}'], "INVALID_CONFIG: "),
        ("DeleteTopic", ["__consumer_offsets"], "INVALID_REQUEST: "),
        ("DeleteRecords", ["t", "0", "1"], "OFFSET_OUT_OF_RANGE: "),
        ("DeleteRecords", ["t", "1", "0"], "UNKNOWN_TOPIC_OR_PARTITION: "),
        ("MoveTopicPartition", ["t", "0", "7"], "node 7 not found"),
        ("MoveTopicPartition", ["t", "9", "0"], "topic/partition not found"),
        ("SetFollowers", ["t", "0", "[7]"], "node 7 not found"),
        ("SetGroupConfigs", ["g", '{"no.such":"1"}'], "no.such"),
        ("MoveTopicPartition", ["t", "zero", "0"], "argument 2 (int32): jsontext: "),
        ("TopicIDInfo", ["nope"], "argument 1 ([16]uint8): invalid UUID"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(name: str, arguments: list[str], says: str) -> None:
    with FakeCluster(FakeOptions(ports=[0], topics={"t": 1})) as cluster, pytest.raises(Exception) as refused:
        Calls(cluster).call(name, arguments, NOT_DESERTED)
    assert str(refused.value).startswith(says) or says in str(refused.value)


def test_a_topic_is_found_by_each_form_of_its_id() -> None:
    with FakeCluster(FakeOptions(ports=[0], topics={"t": 1})) as cluster:
        calls = Calls(cluster)
        info = calls.call("TopicInfo", ["t"], NOT_DESERTED)
        text = info["TopicID"]
        dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        assert calls.call("TopicIDInfo", [text], NOT_DESERTED) == info
        assert calls.call("TopicIDInfo", [dashed.upper()], NOT_DESERTED) == info


def test_group_configs_are_merged() -> None:
    with FakeCluster(FakeOptions(ports=[0, 0])) as cluster:
        calls = Calls(cluster)
        for configs in ('{"consumer.session.timeout.ms":"50000"}', '{"consumer.heartbeat.interval.ms":"5000"}'):
            calls.call("SetGroupConfigs", ["g", configs], NOT_DESERTED)
        kept = cluster._run(
            lambda: [node.group_configs.of("g") for node in cluster.nodes if node.groups.shard("g").leads]
        )
        assert kept == [{"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "5000"}]
