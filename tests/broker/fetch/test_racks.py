"""`broker.rack`: a broker's rack reaches clients and the assignors of consumer groups."""

from __future__ import annotations

from pathlib import Path

from kohort import Admin, Cluster, Membership, NewTopic
from kohort.broker import BrokerOptions
from kohort.client import MembershipKeywords
from tests.broker.conftest import QUICK, MakeBroker

AT_ONCE = {**QUICK, "group.consumer.assignment.interval.ms": "0"}


async def test_metadata_contains_the_rack(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={**QUICK, "broker.rack": "zone-a"}))
    async with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
        await admin.create_topics([NewTopic("orders", 2)])
        described = await admin.describe_cluster()
        assert [broker.rack for broker in described.brokers.values()] == ["zone-a"]
    async with Cluster.of(f"127.0.0.1:{broker.port}") as cluster:
        await cluster.refresh(["orders"])
        assert set(cluster.metadata.racks_of(["orders"]).values()) == {frozenset(["zone-a"])}


async def test_a_broker_without_a_rack_setting_has_no_rack(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK))
    async with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
        assert [broker.rack for broker in (await admin.describe_cluster()).brokers.values()] == [None]
    assert all(topic.shape.racks is None for topic in broker.topics_image.current.by_name.values())


async def test_the_assignors_weigh_which_partitions_are_near(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={**AT_ONCE, "broker.rack": "a"}))
    options: MembershipKeywords = {"group_protocol": "consumer", "group_remote_assignor": "rack"}
    async with Cluster.of(f"127.0.0.1:{broker.port}") as cluster:
        async with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
            await admin.create_topics([NewTopic("orders", 4)])
            near = await Membership.join(cluster, "g", ["orders"], {**options, "client_rack": "a"})
            far = await Membership.join(cluster, "g", ["orders"], {**options, "client_rack": "b"})
            members = (await admin.describe_groups(["g"]))["g"].members
        reasons = {member.member_id: member.reason for member in members}
        assert "2 of them have a replica in rack a" in str(reasons[near.member_id])
        assert "0 of them have a replica in rack b" in str(reasons[far.member_id])
        await near.leave()
        await far.leave()


async def test_a_broker_that_moves_calls_for_new_targets(start_broker: MakeBroker, tmp_path: Path) -> None:
    async def shapes(rack: str) -> int:
        options = BrokerOptions(port=0, data=tmp_path / "data", settings={**QUICK, "broker.rack": rack})
        broker = await start_broker(options)
        if broker.topics.named("orders") is None:
            broker.topics.create("orders", 4)
        broker.topics_image.tell()
        digest = broker.topics_image.current.by_name["orders"].digest
        await broker.stop()
        return digest

    first, second = await shapes("a"), await shapes("b")
    assert first != second == await shapes("b")
