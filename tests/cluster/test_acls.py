"""ACLs in a store that several brokers share."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

from kohort import Consumer
from kohort.client import SubscriptionPattern
from kohort.testing import Cluster
from tests.cluster.conftest import StartCluster
from tests.interop.kohort import kohort
from tests.interop.process import until

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def ran(*arguments: str) -> str:
    """Run `kohort`; return what it printed."""
    told = subprocess.run(kohort(*arguments), capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


def topics_of_acls(address: str) -> list[str]:
    return [acl["name"] for acl in json.loads(ran("acl", "list", "--json", "--bootstrap", address))]


def test_an_acl_is_known_to_all_brokers_and_survives_a_crash(start_cluster: StartCluster) -> None:
    with start_cluster("--restart", authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS") as cluster:
        brokers = [cluster.address(node_id) for node_id in (1, 2, 3)]
        ran("acl", "add", "--allow-principal", "User:alice", "--topic", "orders", "--bootstrap", brokers[0])
        until(20, "all know it", lambda: all(topics_of_acls(at) == ["orders"] for at in brokers))
        before = cluster.process_id(2)
        cluster.signal(2, signal.SIGKILL)
        cluster.without(2)
        cluster.came_back(2, before)
        assert topics_of_acls(cluster.address(2)) == ["orders"]


async def test_a_change_of_acls_at_any_broker_reaches_the_expressions_of_members() -> None:
    # Everybody may do everything with a resource that has no ACL; one for alice takes the topic from all others.
    settings = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    async with Cluster(settings=settings, topics={"orders": 1, "secrets": 1}) as cluster:
        brokers = cluster.bootstrap_servers.split(",")
        async with Consumer(bootstrap_servers=brokers[0], group_id="g", group_protocol="consumer") as consumer:
            consumer.subscribe(SubscriptionPattern("orders|secrets"))

            async def is_given(*topics: str) -> None:
                async with asyncio.timeout(40):
                    while {one.topic for one in consumer.assignment} != set(topics):
                        await consumer.poll(timeout=0.05)

            await is_given("orders", "secrets")
            for broker in brokers:
                change = ("--allow-principal", "User:alice", "--topic", "secrets", "--bootstrap", broker)
                await asyncio.to_thread(ran, "acl", "add", *change)
                await is_given("orders")
                await asyncio.to_thread(ran, "acl", "remove", "--force", *change)
                await is_given("orders", "secrets")
