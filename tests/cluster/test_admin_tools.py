"""Administrators' clients and tools, as they are, against a cluster: replicas, reassignments, elections, throttles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic

from kohort.testing import Cluster
from tests.cluster.conftest import StartCluster
from tests.interop.kafka import run_tool
from tests.interop.process import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

TOOLS = "org.apache.kafka.tools"


def test_clients_create_topics_with_three_replicas_that_are_in_sync() -> None:
    with Cluster() as cluster:
        confluent = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        confluent.create_topics([ConfluentTopic("one", 6, 3)])["one"].result(30)
        until(10.0, "the topic is there", lambda: "one" in confluent.list_topics(timeout=10).topics)
        partitions = confluent.list_topics("one", timeout=10).topics["one"].partitions.values()
        assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]
        assert all(sorted(partition.replicas) == sorted(partition.isrs) == [1, 2, 3] for partition in partitions)
        with pytest.raises(Exception, match="INVALID_REPLICATION_FACTOR"):
            confluent.create_topics([ConfluentTopic("four", 1, 4)])["four"].result(30)

        kafka_python = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        kafka_python.create_topics([KafkaPythonTopic("two", 3, 3)])
        (described,) = kafka_python.describe_topics(["two"])
        assert all(sorted(partition["isr_nodes"]) == [1, 2, 3] for partition in described["partitions"])
        kafka_python.close()


@pytest.mark.long("starts a JVM for each step")
def test_javas_tools_reassign_replicas_and_elect_leaders(
    start_cluster: StartCluster, kafka_tools: None, tmp_path: Path
) -> None:
    with start_cluster() as cluster:
        server = ("--bootstrap-server", cluster.bootstrap)
        topics = f"{TOOLS}.TopicCommand"
        run_tool(topics, *server, "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1")
        plan = tmp_path / "plan.json"
        wanted = [
            {"topic": "t", "partition": 0, "replicas": [3, 2]},
            {"topic": "t", "partition": 1, "replicas": [1, 2]},
        ]
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        file = ("--reassignment-json-file", str(plan))
        reassign = f"{TOOLS}.reassign.ReassignPartitionsCommand"
        began = run_tool(reassign, *server, *file, "--execute", "--throttle", "1000000")
        assert "Successfully started partition reassignments for t-0,t-1" in began
        until(10.0, "leadership moves", lambda: "No partition" in run_tool(reassign, *server, "--list"))
        verified = run_tool(reassign, *server, *file, "--verify")
        assert "Reassignment of partition t-0 is completed." in verified
        assert "Clearing broker-level throttles on brokers 1,2,3" in verified
        described = run_tool(topics, *server, "--describe", "--topic", "t")
        assert "Partition: 0\tLeader: 3\tReplicas: 3,2\tIsr: 3,2" in described
        assert "Partition: 1\tLeader: 2\tReplicas: 1,2\tIsr: 1,2" in described
        elect = ("--election-type", "preferred", "--all-topic-partitions")
        assert "(PREFERRED) for partitions t-1" in run_tool(f"{TOOLS}.LeaderElectionCommand", *server, *elect)
        moved = "Partition: 1\tLeader: 1"
        until(10.0, "1 leads", lambda: moved in run_tool(topics, *server, "--describe", "--topic", "t"))
