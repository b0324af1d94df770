"""A number that makes no sense is refused where it is given, in a sentence, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from kohort import Admin, Cluster, ConfigError, Consumer, Membership, NewTopic, Producer, TopicPartition, blocking
from kohort.client import OffsetAndMetadata
from kohort.client.arguments import partition_of, seconds, whole_number
from kohort.client.options import GroupOptions

NOWHERE = "127.0.0.1:1"
HERE = TopicPartition("t", 0)

WHOLE, LEAST, SECONDS = "but must be a whole number", "but must be at least", "but must be a number of seconds"
NO_PARTITION = "is not a partition: pass TopicPartition"

CONSUMER: list[tuple[Callable[[Any], Any], str]] = [
    (lambda c: c.poll(0.5), f"max_records is 0.5, {WHOLE}: the time is timeout=0.5"),
    (lambda c: c.poll(True), f"max_records is True, {WHOLE}"),
    (lambda c: c.poll(0), f"max_records is 0, {LEAST} 1"),
    (lambda c: c.poll(-1), f"max_records is -1, {LEAST} 1"),
    (lambda c: c.poll("10"), f"max_records is '10', {WHOLE}"),
    (lambda c: c.poll(timeout=-1), f"timeout is -1, {SECONDS}"),
    (lambda c: c.poll(timeout=nan), f"timeout is nan, {SECONDS}"),
    (lambda c: c.poll(timeout="1"), f"timeout is '1', {SECONDS}"),
    (lambda c: c.poll(timeout=None), f"timeout is None, {SECONDS}"),
    (lambda c: c.poll_arrow(0.5), f"max_records is 0.5, {WHOLE}"),
    (lambda c: c.poll_batches(-5), f"max_records is -5, {LEAST} 1"),
    (lambda c: c.poll_values(0), f"max_records is 0, {LEAST} 1"),
    (lambda c: c.poll_batches(timeout=True), f"timeout is True, {SECONDS}"),
    (lambda c: c.seek(HERE, 0.5), f"the offset is 0.5, {WHOLE}"),
    (lambda c: c.seek(HERE, -1), f"the offset is -1, {LEAST} 0"),
    (lambda c: c.seek("t", 1), NO_PARTITION),
    (lambda c: c.assign(["t"]), NO_PARTITION),
    (lambda c: c.assign([("t", 0.5)]), f"the partition of t is 0.5, {WHOLE}"),
    (lambda c: c.incremental_assign([("t", -1)]), f"the partition of t is -1, {LEAST} 0"),
    (lambda c: c.incremental_unassign([(0, "t")]), NO_PARTITION),
    (lambda c: c.pause([("t", True)]), f"the partition of t is True, {WHOLE}"),
    (lambda c: c.lag(("t", None)), f"the partition of t is None, {WHOLE}"),
    (lambda c: c.subscribe([7]), "7 is not a topic: pass the topic's name"),
    (lambda c: c.commit({HERE: 1.5}), f"the offset of t-0 is 1.5, {WHOLE}"),
    (lambda c: c.commit({HERE: OffsetAndMetadata(-3)}), f"the offset of t-0 is -3, {LEAST} 0"),
    (lambda c: c.commit({HERE: 1}, timeout=-1), f"timeout is -1, {SECONDS}"),
    (lambda c: c.offsets_for_times({HERE: 0.5}), f"the time for t-0 is 0.5, {WHOLE}"),
    (lambda c: c.offsets_for_times({HERE: -1}), f"the time for t-0 is -1, {LEAST} 0"),
    (lambda c: c.close(timeout=nan), f"timeout is nan, {SECONDS}"),
]


@pytest.mark.parametrize(("call", "sentence"), CONSUMER)
async def test_a_consumer_refuses_it(call: Callable[[Any], Any], sentence: str) -> None:
    async with Consumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([HERE])
        with pytest.raises(ConfigError, match=sentence) as raised:
            made = call(consumer)
            if made is not None:
                await made
        assert not raised.value.retriable
        assert consumer.assignment == {HERE}


@pytest.mark.parametrize(("call", "sentence"), CONSUMER)
def test_the_blocking_consumer_rejects_them_too(call: Callable[[Any], Any], sentence: str) -> None:
    with blocking.Consumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([HERE])
        with pytest.raises(ConfigError, match=sentence):
            call(consumer)
        assert consumer.assignment == {HERE}  # one that is closed by half would refuse to say


async def test_a_producer_refuses_it(any_broker: Any, new_topic: Any) -> None:
    topic = await new_topic(2)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"partition": 0.5}, f"partition is 0.5, {WHOLE}"),
            ({"partition": True}, f"partition is True, {WHOLE}"),
            ({"timestamp": 0.5}, f"timestamp is 0.5, {WHOLE}"),
            ({"timestamp": -1}, f"timestamp is -1, {LEAST} 0"),
        ]
        for options, sentence in cases:
            with pytest.raises(ConfigError, match=sentence):
                await producer.send(topic, b"x", **options)
        with pytest.raises(ConfigError, match="7 is not a topic"):
            await producer.send(7, b"x")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"timeout is -1, {SECONDS}"):
            await producer.close(timeout=-1)
        assert (await (await producer.send(topic, b"x", partition=1))).offset == 0  # open, and nothing was written


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda a: a.create_topics([NewTopic("t", 1.5)]), f"partitions is 1.5, {WHOLE}"),  # type: ignore[arg-type]
        (lambda a: a.create_topics([NewTopic("t", 1, True)]), f"replication_factor is True, {WHOLE}"),
        (lambda a: a.create_topics([NewTopic("t", 1)], timeout_ms=0.5), f"timeout_ms is 0.5, {WHOLE}"),
        (lambda a: a.delete_topics(["t"], timeout_ms=-1), f"timeout_ms is -1, {LEAST} 0"),
        (lambda a: a.create_partitions("t", "2"), f"total is '2', {WHOLE}"),
        (lambda a: a.list_offsets({HERE: nan}), f"the time for t-0 is nan, {WHOLE}"),
        (lambda a: a.delete_records({HERE: -2}), f"the offset of t-0 is -2, {LEAST} -1"),
        (lambda a: a.alter_group_offsets("g", {HERE: "5"}), f"the offset of t-0 is '5', {WHOLE}"),
    ],
)
async def test_an_admin_refuses_it(call: Callable[[Any], Any], sentence: str) -> None:
    async with Admin(bootstrap_servers=NOWHERE) as admin:
        with pytest.raises(ConfigError, match=sentence):
            await call(admin)


async def test_a_member_refuses_it() -> None:
    options = GroupOptions.read({"bootstrap_servers": NOWHERE, "group_id": "g", "group_protocol": "consumer"})
    async with Cluster.of(NOWHERE) as cluster:
        member = Membership(cluster, options)
        with pytest.raises(ConfigError, match=f"the offset of t-0 is 0.5, {WHOLE}"):
            await member.commit({HERE: 0.5})  # type: ignore[dict-item]
        with pytest.raises(ConfigError, match=f"timeout is nan, {SECONDS}"):
            await member.leave(timeout=nan)
        for weight in (nan, -1, True, "2"):
            with pytest.raises(ConfigError, match="a member's weight is"):
                member.set_weight(weight)  # type: ignore[arg-type]
        await member.leave()


def test_accepted_numbers_and_times() -> None:
    numpy = pytest.importorskip("numpy")
    assert (whole_number("n", 3), whole_number("n", numpy.int64(3)), whole_number("n", -3, None)) == (3, 3, -3)
    assert (seconds("t", 2), seconds("t", 0), seconds("t", 0.5)) == (2.0, 0.0, 0.5)
    assert seconds("t", inf) < inf  # the longest time that a clock can represent
    assert partition_of(("t", numpy.int32(1))) == TopicPartition("t", 1)
