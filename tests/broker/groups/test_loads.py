"""Lag, rate and weights through the broker: what the shell measures, and what an operator may set of a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

import pytest

from kohort.assignor.server import MemberView, TopicShape
from kohort.broker import Broker, BrokerOptions
from kohort.broker.config.broker_config import parse_config
from kohort.broker.config.groups import check_group_configs
from kohort.broker.groups.partition_loads import growth
from kohort.errors import ConfigError
from kohort.model import UUID
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.broker.apis.test_alter_configs import GROUP, SET, alter, resource
from tests.broker.conftest import MakeBroker
from tests.broker.groups.test_consumer_groups import beat, partitions
from tests.broker.peer import Peer, talking_to, until

ASSIGNOR, WEIGHTS = "consumer.assignor", "consumer.member.weights"
SETTINGS = {"group.consumer.assignment.interval.ms": "0", "group.consumer.load.interval.ms": "20"}


class LastOne:
    """A user's assignor: everything to the member with the last id."""

    name = "last-one"

    def assign(
        self, members: Mapping[str, MemberView], topics: Mapping[UUID, TopicShape]
    ) -> Mapping[str, Mapping[UUID, Collection[int]]]:
        return {max(members): {topic_id: range(topic.partitions) for topic_id, topic in topics.items()}}


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    return await start_broker(BrokerOptions(port=0, settings=SETTINGS))


async def targets(peer: Peer) -> dict[str, set[int]]:
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (group,) = (await peer.ask(request, 1, ConsumerGroupDescribeResponse)).groups
    return {
        member.member_id: {n for topic in member.target_assignment.topic_partitions for n in topic.partitions}
        for member in group.members
    }


class Members:
    """Members a and b of the group, which do as they are told."""

    def __init__(self, peer: Peer, topic_id: UUID) -> None:
        self.peer = peer
        self.topic_id = topic_id
        self.epochs = {"a": 0, "b": 0}
        self.owned: dict[str, list[int]] = {"a": [], "b": []}

    async def settle(self) -> dict[str, set[int]]:
        """Heartbeats until both have what they should have, after four rounds at the earliest."""
        rounds = 0
        while rounds < 4 or await targets(self.peer) != self._shares():
            rounds += 1
            assert rounds < 200, "the group does not settle"
            for member_id, owned in self.owned.items():
                mine = partitions(self.topic_id, *owned) if owned else []
                response = await beat(self.peer, "g", member_id, self.epochs[member_id], topic_partitions=mine)
                self.epochs[member_id] = response.member_epoch
                if response.assignment is not None:
                    owned[:] = [n for topic in response.assignment.topic_partitions for n in topic.partitions]
        return self._shares()

    def _shares(self) -> dict[str, set[int]]:
        return {member_id: set(numbers) for member_id, numbers in self.owned.items()}


async def changed(peer: Peer, before: dict[str, set[int]]) -> dict[str, set[int]]:
    async with asyncio.timeout(20):
        while (now := await targets(peer)) == before:
            pass
    return now


@pytest.mark.parametrize("assignor", ["lag", "rate"])
async def test_busy_partitions_are_shared_while_the_group_runs(broker: Broker, peer: Peer, assignor: str) -> None:
    broker.change_group_configs("g", {ASSIGNOR: assignor})
    topic = broker.topics.create("orders", 4)
    members = Members(peer, topic.topic_id)
    before = await members.settle()
    assert sorted(map(len, before.values())) == [2, 2]
    await until(lambda: len(broker.loads.measured) == 4)
    busy = before["a"]
    for partition in busy:
        log = broker.topics.log(topic, partition)
        assert log is not None
        log.append(encode_batch([Record(n, 1_000, None, b"x") for n in range(900)]), log.leader_epoch)
    broker.writer.current()
    after = await changed(peer, before)
    assert all(len(busy & target) == 1 for target in after.values())


async def test_an_assignor_is_chosen_while_the_group_runs(start_broker: MakeBroker) -> None:
    names = f"uniform,{__name__}:LastOne"
    broker = await start_broker(BrokerOptions(port=0, settings=SETTINGS | {"group.consumer.assignors": names}))
    async with talking_to(broker) as peer:
        members = Members(peer, broker.topics.create("orders", 4).topic_id)
        before = await members.settle()
        assert sorted(map(len, before.values())) == [2, 2]
        assert await alter(peer, resource(GROUP, "g", (ASSIGNOR, SET, "last-one"))) == [0]
        assert await members.settle() == {"a": set(), "b": {0, 1, 2, 3}}


class Forgetful(LastOne):
    """A user's assignor that leaves a partition without an owner once a member has two."""

    name = "forgetful"

    def assign(
        self, members: Mapping[str, MemberView], topics: Mapping[UUID, TopicShape]
    ) -> Mapping[str, Mapping[UUID, Collection[int]]]:
        left = 1 if len(members) > 1 else 0
        return {max(members): {topic_id: range(left, topic.partitions) for topic_id, topic in topics.items()}}


async def test_an_invalid_assignment_of_a_custom_assignor_is_reported_and_the_last_target_stays(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def warned() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "it assigns orders-0 to no member" in record.getMessage()]

    names = f"{__name__}:Forgetful,uniform"
    broker = await start_broker(BrokerOptions(port=0, settings=SETTINGS | {"group.consumer.assignors": names}))
    async with talking_to(broker) as peer:
        broker.topics.create("orders", 4)
        await beat(peer, "g", "a")
        await beat(peer, "g", "b")
        assert len(warned()) == 1
        await beat(peer, "g", "c")  # computes once more, and the same is wrong: it is logged once
        assert await targets(peer) == {"a": {0, 1, 2, 3}, "b": set(), "c": set()}
        request = ConsumerGroupDescribeRequest(group_ids=["g"])
        (group,) = (await peer.ask(request, 1, ConsumerGroupDescribeResponse)).groups
    assert {member.reason for member in group.members} == {
        "the last target stays in force. The assignor 'forgetful' was rejected: it assigns orders-0 to no member."
    }
    assert [(record.levelname, "group=g" in record.getMessage()) for record in warned()] == [("WARNING", True)]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (ASSIGNOR, "best", "consumer.assignor must be one of uniform, .* not 'best'"),
        (WEIGHTS, "app-1", "must be a list of ID=WEIGHT"),
        (WEIGHTS, "app-1=-1", "must be a list of ID=WEIGHT"),
        (WEIGHTS, "=5", "must be a list of ID=WEIGHT"),
        (WEIGHTS, "a=1,b=nan", "must be a list of ID=WEIGHT"),
    ],
)
def test_invalid_group_configs_are_rejected(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_group_configs({name: text}, parse_config())


async def test_weights_are_read_in_their_order(broker: Broker) -> None:
    broker.change_group_configs("g", {WEIGHTS: "app-2=5, app-*=0.5,odd=id=2"})
    weights = broker.group_configs.settings("g").weights
    assert [weights.of(None, client_id) for client_id in ("app-2", "app-3", "odd=id", "other")] == [5, 0.5, 2, None]


@pytest.mark.parametrize(
    ("before", "rate"),
    [
        ((1_000, 5), 10.0),
        ((1_000, 25), 0.0),
        ((1_000, 30), 0.0),  # the topic was deleted and made again
        ((2_999, 5), 20_000.0),
        ((3_000, 5), None),
        ((4_000, 5), None),  # the clock was set back
        (None, None),
    ],
)
def test_a_log_grows_by_its_records_per_second(before: tuple[int, int] | None, rate: float | None) -> None:
    assert growth(before, 3_000, 25) == rate


async def test_a_topic_that_does_not_exist_does_not_stop_the_measurement(broker: Broker, peer: Peer) -> None:
    broker.change_group_configs("g", {ASSIGNOR: "lag"})
    topic = broker.topics.create("orders", 2)
    subscribed = ["missing", "orders"]
    await beat(peer, "g", "a", 0, subscribed_topic_names=subscribed, topic_partitions=[], rebalance_timeout_ms=60_000)
    broker.loads.measure()
    assert broker.loads.measured.keys() == {(topic.topic_id, 0), (topic.topic_id, 1)}
