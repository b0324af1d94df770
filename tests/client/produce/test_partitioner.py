"""Keys go where every other client of Kafka sends them."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as peers_murmur2

from kohort import Admin, NewTopic, Producer
from kohort.client.produce.partitioner import _CACHED_KEYS, Partitioner, murmur2
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.link import linked_broker


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_the_other_clients(key: bytes) -> None:
    assert murmur2(key) == peers_murmur2(key) & 0x7FFFFFFF


def test_known_hashes() -> None:
    # From Apache Kafka's own tests of its Utils.murmur2, made positive.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) for key in known} == {key: hashed & 0x7FFFFFFF for key, hashed in known.items()}


def test_records_without_a_key_stay_with_a_partition_for_a_batch() -> None:
    partitioner = Partitioner(8, batch_size=1000)
    chosen = [partitioner.without_key(100) for _ in range(400)]
    stretches = [chosen[at : at + 10] for at in range(0, 400, 10)]
    assert all(len(set(stretch)) == 1 for stretch in stretches)
    assert len(set(chosen)) > 1


def test_a_stretch_ends_when_a_whole_batch_was_written() -> None:
    partitioner = Partitioner(8, batch_size=10)
    for _ in range(50):
        assert partitioner.without_key(9) == partitioner.without_key(9)


def test_the_first_partition_is_chosen_like_any_other() -> None:
    assert len({Partitioner(8, batch_size=1000).without_key(1) for _ in range(100)}) > 1


def test_a_recreated_topic_with_fewer_partitions_gets_no_record_beyond_its_last_one() -> None:
    for _ in range(50):
        partitioner = Partitioner(8, batch_size=1_000_000)
        partitioner.without_key(1)
        partitioner.resize(1)
        assert partitioner.without_key(1) == 0


def test_partitions_of_a_limited_number_of_keys_are_kept() -> None:
    partitioner = Partitioner(4, batch_size=1000)
    for n in range(_CACHED_KEYS):
        partitioner.by_key(b"%d" % n)
    assert len(partitioner._by_key) == _CACHED_KEYS
    partitioner.by_key(b"one more")
    assert len(partitioner._by_key) == 1


def test_records_without_a_key_go_only_where_a_leader_is() -> None:
    partitioner = Partitioner(4, batch_size=1)
    partitioner.led([1, 3])
    assert {partitioner.without_key(100) for _ in range(100)} == {1, 3}
    partitioner.led([])
    assert {partitioner.without_key(100) for _ in range(200)} == {0, 1, 2, 3}


def test_the_partition_in_use_is_left_when_its_leader_is_gone() -> None:
    partitioner = Partitioner(4, batch_size=1_000_000)
    first = partitioner.without_key(1)
    other = (first + 1) % 4
    partitioner.led([other])
    assert partitioner.without_key(1) == other
    partitioner.led([first, other])
    assert partitioner.without_key(1) == other


async def test_a_producer_does_not_wait_for_partitions_without_a_leader() -> None:
    def no_leader(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.partition_index == 0:
                    partition.leader_id = -1
                elif partition.partition_index == 2:
                    partition.leader_id = 99  # which is no broker that the cluster has now

    async with linked_broker() as (_, link):
        address = f"127.0.0.1:{link.port}"
        async with Admin(bootstrap_servers=address) as admin:
            await admin.create_topics([NewTopic("t", 3)])
        link.change[MetadataRequest.KEY] = no_leader
        # Batches of one record: each chooses a partition.
        async with Producer(bootstrap_servers=address, batch_size=1, metadata_max_age_ms=100) as producer:
            sent = [await producer.send("t", b"x") for _ in range(100)]
            async with asyncio.timeout(20):
                assert {(await delivery).partition for delivery in sent} == {1}
            link.change.clear()
            chosen: set[int] = set()
            async with asyncio.timeout(20):
                while chosen != {0, 1, 2}:
                    chosen.add((await (await producer.send("t", b"x"))).partition)


def test_a_topic_that_grows_maps_its_keys_again() -> None:
    partitioner = Partitioner(1, batch_size=1000)
    assert {partitioner.by_key(b"%d" % n) for n in range(50)} == {0}
    partitioner.resize(4)
    assert {partitioner.by_key(b"%d" % n) for n in range(50)} == {0, 1, 2, 3}
