"""Brokers of a cluster connect to each other through the listener for brokers, and are authorized there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.groups.coordinator import group_partition
from kohort.log.cluster import OFFSETS_TOPIC, Node, Placement
from kohort.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.broker.groups.test_loads import ASSIGNOR, Members
from tests.broker.peer import talking_to
from tests.broker.security.certificates import new_certificates
from tests.cluster.test_shared_broker import leaders, so, two_brokers

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
WARNING = "other brokers' loads are not known"


def secured(tmp_path: Path, password: str = "hunter-2") -> dict[str, str]:
    """Settings of a cluster whose clients need no password, and whose brokers have one."""
    certificates = new_certificates(tmp_path)
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,OWN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:SASL_SSL",
        "inter.broker.listener.name": "OWN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.own.plain.sasl.jaas.config": f'{MODULE} required username="broker" password="{password}"'
        ' user_broker="hunter-2" user_alice="hunter-3";',
        "ssl.keystore.location": str(certificates.key_store()),
        "ssl.truststore.location": str(certificates.ca_file),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.consumer.load.interval.ms": "3600000",
    }


@asynccontextmanager
async def asking(data: Path, settings: dict[str, str]) -> AsyncIterator[tuple[Broker, Broker]]:
    """A broker whose group weighs the load of a partition, and the broker that leads the partition."""
    named = {name.replace(".", "_"): value for name, value in settings.items()}
    async with two_brokers(data, **named) as brokers:
        owner = leaders(brokers[0], OFFSETS_TOPIC)[group_partition("g", 4)]
        coordinator, other = sorted(brokers, key=lambda one: one.node_id != owner)
        coordinator.change_group_configs("g", {ASSIGNOR: "lag"})
        topic = coordinator.topics.create("orders", 1, placement=Placement(1, [[other.node_id]]))
        await so(lambda: leaders(other, "orders") == [other.node_id])
        async with talking_to(coordinator) as peer:
            await Members(peer, topic.topic_id).settle()
        yield coordinator, other


async def test_a_broker_with_cluster_action_asks_the_others_over_their_listener(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path / "data", secured(tmp_path)) as (coordinator, other):
        before = len(other.sockets)
        await coordinator.loads._ask_others()
        assert coordinator.loads._elsewhere == {}
        (refused,) = [message for message in caplog.messages if WARNING in message]
        assert "orders" in refused
        assert coordinator.access_control is not None
        cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        coordinator.access_control.add([Acl(cluster, "User:broker", "*", Operation.CLUSTER_ACTION, Permission.ALLOW)])
        assert other.access_control is not None
        await so(lambda: other.access_control.acls.all != ())  # type: ignore[union-attr]
        await coordinator.loads._ask_others()
        assert [(extent.start, extent.end) for extent in coordinator.loads._elsewhere.values()] == [(0, 0)]
        principals = {connection.principal for connection in other.sockets if connection.listener == "OWN"}
        assert len(other.sockets) > before and principals == {"User:broker"}
    assert "hunter" not in caplog.text


async def test_a_wrong_password_of_brokers_is_a_warning_that_does_not_contain_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path / "data", secured(tmp_path, password="hunter-1")) as (coordinator, _):
        await coordinator.loads._ask_others()
        (refused,) = [message for message in caplog.messages if WARNING in message]
        assert "rejects user 'broker'" in refused and coordinator.loads._elsewhere == {}
    assert "hunter" not in caplog.text


async def test_brokers_that_cannot_connect_to_each_other_say_so_once_and_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**secured(tmp_path), "inter.broker.listener.name": "", "listeners": "OWN://127.0.0.1:0"}
    settings["listener.name.own.plain.sasl.jaas.config"] = f'{MODULE} required user_alice="hunter-3";'
    async with Broker(BrokerOptions(data=tmp_path / "data", shared=True, settings=settings)):
        (told,) = [message for message in caplog.messages if "cannot connect to each other" in message]
    assert "listener.name.own.plain.sasl.jaas.config needs username" in told and "hunter" not in caplog.text


async def test_a_change_of_listeners_names_the_brokers_that_differ(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {name: value for name, value in secured(tmp_path).items() if name != "authorizer.class.name"}
    alike = BrokerOptions(data=tmp_path / "data", shared=True, settings=settings)

    def warnings() -> list[str]:
        return [message for message in caplog.messages if "different listeners" in message]

    async with (
        Broker(alike) as first,
        Broker(BrokerOptions(data=tmp_path / "data", shared=True, node_id=2, settings=settings)),
    ):
        await so(lambda: len(first.leadership.nodes) == 2)
        assert warnings() == []
        async with Broker(BrokerOptions(port=0, data=tmp_path / "data", shared=True, node_id=3)) as third:
            await so(lambda: len(first.leadership.nodes) == 3)
            await so(lambda: len(warnings()) >= 3)
            assert first.own_node.listeners == {"PLAINTEXT", "OWN"} and third.own_node.listeners == {"PLAINTEXT"}
        assert len(warnings()) == 3, "each broker says it once"
        listed = "broker 1 OWN, PLAINTEXT; broker 2 OWN, PLAINTEXT; broker 3 PLAINTEXT"
        assert all(listed in warning for warning in warnings())


def test_a_broker_has_an_address_only_at_its_listeners() -> None:
    plain = Node(1, "h", 1)
    assert plain.at("PLAINTEXT") == plain and plain.at("OWN") is None
    named = Node(1, "h", 1, endpoints=(("OWN", "h", 1),))
    assert named.at("OWN") == plain and named.at("PLAINTEXT") is None
