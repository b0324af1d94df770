"""Where a consumer begins without a committed offset: so far back in time, or nowhere by itself."""

from __future__ import annotations

import time

import pytest

from kohort import ConfigError, ErrorCode, KafkaError, OffsetSpec, Producer, TopicPartition
from kohort.client import NoOffsetError, OffsetOutOfRangeError
from kohort.client.reset import ByDuration, reset_policy
from tests.client.conftest import NewTopicName
from tests.client.consume.test_consumer import consumer_of, fill, take
from tests.interop.broker import Broker

MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 60 * MINUTE),
        ("P7D", 7 * 24 * 60 * MINUTE),
        ("p1dt2h3m4.5s", ((26 * 60) + 3) * MINUTE + 4_500),
        ("PT0.001S", 1),
        ("PT-1M61S", 1_000),
        ("-PT-1H", 60 * MINUTE),
        ("PT0S", 0),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert reset_policy(f"by_duration:{text}") == ByDuration(milliseconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1M", "P1Y", "PT1", "P1DT", "PT-1H", "PT1H ", "P1W"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="by_duration:PT1H"):
        reset_policy(f"by_duration:{text}")


def test_the_other_policies() -> None:
    assert [reset_policy(name) for name in ("earliest", "latest", "none")] == [
        OffsetSpec.EARLIEST,
        OffsetSpec.LATEST,
        None,
    ]


async def test_by_duration_begins_that_far_back(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic(3)
    now = int(time.time() * 1000)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for minutes in (50, 40, 30, 20, 10):
            await producer.send(topic, b"%d" % minutes, partition=0, timestamp=now - minutes * MINUTE)
        await producer.send(topic, b"long ago", partition=1, timestamp=now - 50 * MINUTE)
    options = {"group_id": fresh, "auto_offset_reset": "by_duration:PT25M"}
    async with consumer_of(any_broker, topic, **options) as consumer:
        assert [record.value for record in await take(consumer, 2)] == [b"20", b"10"]
        # All records of partition 1 are older, and partition 2 has none: it begins with the next record.
        assert await consumer.position(TopicPartition(topic, 1)) == 1
        assert await consumer.position(TopicPartition(topic, 2)) == 0
        await fill(any_broker.bootstrap, topic, 6, 3)
        assert len(await take(consumer, 6)) == 6


async def test_by_duration_also_where_an_offset_is_out_of_range(any_broker: Broker, new_topic: NewTopicName) -> None:
    here = TopicPartition(await new_topic(), 0)
    now = int(time.time() * 1000)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for minutes in (50, 10):
            await producer.send(here.topic, b"%d" % minutes, timestamp=now - minutes * MINUTE)
    async with consumer_of(any_broker, auto_offset_reset="by_duration:PT25M") as consumer:
        consumer.assign([here])
        consumer.seek(here, 99)
        assert [record.value for record in await take(consumer, 1)] == [b"10"]


async def test_none_leaves_it_to_the_application(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_offset_reset="none") as consumer:
        for _ in range(2):  # it repeats the error until the application decides
            with pytest.raises(NoOffsetError, match="no committed offset"):
                await take(consumer, 1)
        consumer.seek(here, 2)
        assert (await take(consumer, 3))[0].offset == 2
        await consumer.commit()
    async with consumer_of(any_broker, topic, group_id=fresh, auto_offset_reset="none") as consumer:
        assert await consumer.poll(timeout=0.3) == []
        assert await consumer.position(here) == 5
        consumer.seek(here, 99)
        with pytest.raises(KafkaError, match="seek, or set auto_offset_reset") as raised:
            await take(consumer, 1)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert isinstance(raised.value, OffsetOutOfRangeError)
