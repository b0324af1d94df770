"""Members that say how much they want beside others, at our broker; at Apache Kafka, which knows no weights."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kohort import Cluster, ConfigError, Consumer, KohortError, Membership, blocking
from kohort.client import MembershipKeywords, Phase
from kohort.client.options import GroupOptions
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker
from tests.interop.kafka import ApacheKafka

CONSUMER: MembershipKeywords = {"group_protocol": "consumer"}
WEIGHTED: MembershipKeywords = {**CONSUMER, "group_remote_assignor": "weighted"}


@pytest.fixture
async def cluster(any_broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(any_broker.bootstrap) as made:
        yield made


async def test_a_canary_takes_its_part_and_more_when_it_is_trusted(
    any_broker: Broker, cluster: Cluster, new_topic: NewTopicName, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await new_topic(20)
    if isinstance(any_broker, ApacheKafka):
        with caplog.at_level(logging.WARNING, "kohort.client"):
            member = await Membership.join(cluster, fresh, [topic], {**CONSUMER, "group_member_weight": 0.05})
        assert "the broker does not support weights" in caplog.text
        await eventually(lambda: len(member.assignment) == 20)  # Kafka may assign a moment after the join
        await member.leave()
        return
    old = await Membership.join(cluster, fresh, [topic], {**WEIGHTED, "group_member_weight": 19})
    canary = await Membership.join(cluster, fresh, [topic], {**WEIGHTED, "group_member_weight": 1})
    await eventually(lambda: (len(old.assignment), len(canary.assignment)) == (19, 1))
    canary.set_weight(19)
    await eventually(lambda: (len(old.assignment), len(canary.assignment)) == (10, 10))
    old.set_weight(0)
    await eventually(lambda: (len(old.assignment), len(canary.assignment)) == (0, 20))
    assert old.state is Phase.STABLE and "support weights" not in caplog.text
    await old.leave()
    await canary.leave()


async def test_a_consumer_is_drained_and_comes_back(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    if isinstance(any_broker, ApacheKafka):
        return  # it drains no member: see above for the log message
    topic = await new_topic(4)
    options: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "group_id": fresh, **CONSUMER}
    async with Consumer(topic, **options) as one, Consumer(topic, **options) as two:

        async def until(first: int, second: int) -> None:
            while (len(one.assignment), len(two.assignment)) != (first, second):
                await one.poll(timeout=0.02)
                await two.poll(timeout=0.02)

        await until(2, 2)
        one.set_weight(0)
        await until(0, 4)
        one.set_weight(1)
        await until(2, 2)


def test_the_blocking_consumer_has_a_weight_too(any_broker: Broker, fresh: str) -> None:
    options: dict[str, Any] = {**CONSUMER, "bootstrap_servers": any_broker.bootstrap, "group_member_weight": "2.5"}
    with blocking.Consumer(group_id=fresh, **options) as consumer:
        with pytest.raises(KohortError, match="subscribe first"):
            consumer.set_weight(1)
        consumer.subscribe([fresh])
        consumer.set_weight(0.5)
        with pytest.raises(ConfigError, match="must be 0, or between"):
            consumer.set_weight(-1)


async def test_classic_members_have_no_weights(any_broker: Broker, fresh: str) -> None:
    async with Consumer(fresh, bootstrap_servers=any_broker.bootstrap, group_id=fresh) as consumer:
        with pytest.raises(ConfigError, match="only members with group_protocol consumer"):
            consumer.set_weight(2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({**CONSUMER, "group_member_weight": "much"}, "must be a number"),
        ({**CONSUMER, "group_member_weight": True}, "must be a number"),
        ({**CONSUMER, "group_member_weight": -1}, "must be 0, or between"),
        ({**CONSUMER, "group_member_weight": float("nan")}, "must be 0, or between"),
        ({"group_member_weight": 2}, "does not apply with group_protocol classic"),
    ],
)
def test_a_weight_that_is_none_is_refused_in_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        GroupOptions.read({"bootstrap_servers": "127.0.0.1:9092", **given})
