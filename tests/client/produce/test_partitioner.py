"""Keys go where every other client of Kafka sends them."""

from __future__ import annotations

import asyncio
from typing import Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as peers_murmur2

from kohort import Admin, ConfigError, NewTopic, Producer
from kohort.client.produce.key_hashes import crc32, fnv1a, murmur2
from kohort.client.produce.partitioner import _CACHED_KEYS, RULES, Partitioner, partitioner_of
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.link import linked_broker
from tests.interop.broker import Broker


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_the_other_clients(key: bytes) -> None:
    assert murmur2(key) == peers_murmur2(key) & 0x7FFFFFFF


def test_known_hashes() -> None:
    # From Apache Kafka's own tests of its Utils.murmur2, made positive.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) for key in known} == {key: hashed & 0x7FFFFFFF for key, hashed in known.items()}


def test_records_without_a_key_stay_with_a_partition_for_a_batch() -> None:
    partitioner = Partitioner(8, batch_size=1000)
    chosen = [partitioner.choose(None, 100) for _ in range(400)]
    stretches = [chosen[at : at + 10] for at in range(0, 400, 10)]
    assert all(len(set(stretch)) == 1 for stretch in stretches)
    assert len(set(chosen)) > 1


def test_a_stretch_ends_when_a_whole_batch_was_written() -> None:
    partitioner = Partitioner(8, batch_size=10)
    for _ in range(50):
        assert partitioner.choose(None, 9) == partitioner.choose(None, 9)


def test_the_first_partition_is_chosen_like_any_other() -> None:
    assert len({Partitioner(8, batch_size=1000).choose(None, 1) for _ in range(100)}) > 1


def test_a_recreated_topic_with_fewer_partitions_gets_no_record_beyond_its_last_one() -> None:
    for _ in range(50):
        partitioner = Partitioner(8, batch_size=1_000_000)
        partitioner.choose(None, 1)
        partitioner.resize(1)
        assert partitioner.choose(None, 1) == 0


def test_partitions_of_a_limited_number_of_keys_are_kept() -> None:
    partitioner = Partitioner(4, batch_size=1000)
    for n in range(_CACHED_KEYS):
        partitioner.choose(b"%d" % n, 1)
    assert len(partitioner._by_key) == _CACHED_KEYS
    partitioner.choose(b"one more", 1)
    assert len(partitioner._by_key) == 1


def test_records_without_a_key_go_only_where_a_leader_is() -> None:
    partitioner = Partitioner(4, batch_size=1)
    partitioner.led([1, 3])
    assert {partitioner.choose(None, 100) for _ in range(100)} == {1, 3}
    partitioner.led([])
    assert {partitioner.choose(None, 100) for _ in range(200)} == {0, 1, 2, 3}


def test_the_partition_in_use_is_left_when_its_leader_is_gone() -> None:
    partitioner = Partitioner(4, batch_size=1_000_000)
    first = partitioner.choose(None, 1)
    other = (first + 1) % 4
    partitioner.led([other])
    assert partitioner.choose(None, 1) == other
    partitioner.led([first, other])
    assert partitioner.choose(None, 1) == other


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
    assert {partitioner.choose(b"%d" % n, 1) for n in range(50)} == {0}
    partitioner.resize(4)
    assert {partitioner.choose(b"%d" % n, 1) for n in range(50)} == {0, 1, 2, 3}


@given(st.binary(max_size=40))
def test_keys_as_bytearrays_map_like_bytes(key: bytes) -> None:
    partitioner = Partitioner(7, batch_size=1000)
    assert partitioner.choose(bytearray(key), 1) == partitioner.choose(key, 1) == murmur2(key) % 7


def test_rules_differ_in_what_they_do_with_null_and_empty_keys() -> None:
    def spread(name: str, key: bytes | None) -> bool:
        partitioner = Partitioner(50, batch_size=1, choice=RULES[name])
        return len({partitioner.choose(key, 1) for _ in range(100)}) > 1

    spreading = {name: (spread(name, None), spread(name, b""), spread(name, b"k")) for name in RULES}
    assert spreading == {
        "default": (True, False, False),
        "murmur2_random": (True, False, False),
        "murmur2": (False, False, False),
        "consistent_random": (True, True, False),
        "consistent": (False, False, False),
        "fnv1a_random": (True, False, False),
        "fnv1a": (False, False, False),
        "random": (True, True, True),
    }


def test_a_function_chooses_among_all_partitions_and_those_with_a_leader() -> None:
    calls = []

    def last(key: bytes | None, everything: list[int], available: list[int]) -> int:
        calls.append((key, everything, available))
        return everything[-1]

    partitioner = Partitioner(3, batch_size=1000, choice=partitioner_of(last))
    partitioner.led([0, 2])
    assert [partitioner.choose(key, 1) for key in (b"k", None, b"")] == [2, 2, 2]
    partitioner.resize(4)
    assert partitioner.choose(b"k", 1) == 3
    assert Partitioner(3, batch_size=1000, choice=lambda key, everything, available: 0).choose(b"k", 1) == 0
    assert calls[:2] == [(b"k", [0, 1, 2], [0, 2]), (None, [0, 1, 2], [0, 2])]


@pytest.mark.parametrize("answer", [3, -1, None, "0", True, 0.0])
def test_a_wrong_answer_of_a_function_is_an_error(answer: Any) -> None:
    partitioner = Partitioner(3, batch_size=1000, choice=lambda key, everything, available: answer)
    with pytest.raises(ConfigError, match=f"the partitioner returned {answer!r}, but must return 0 to 2"):
        partitioner.choose(b"k", 1)


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a", "consistent_random", "murmur2_random"])
async def test_keys_go_where_librdkafka_sends_them(kohort_broker: Broker, fresh: str, name: str) -> None:
    count = 7
    async with Admin(bootstrap_servers=kohort_broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, count) for topic in (fresh, f"{fresh}-peer")])
    keys = [b"", *(bytes([n % 256]) * (n % 11) + b"%d" % n for n in range(200))]
    if name == "consistent_random":
        del keys[0]  # librdkafka spreads empty keys
    peer = confluent_kafka.Producer({"bootstrap.servers": kohort_broker.bootstrap, "partitioner": name})
    expected: dict[bytes, int | None] = {}

    def delivered(error: object, sent: confluent_kafka.Message) -> None:
        expected[sent.key() or b""] = sent.partition()

    for key in keys:
        peer.produce(f"{fresh}-peer", b"v", key, on_delivery=delivered)
    assert peer.flush(20) == 0
    async with Producer(bootstrap_servers=kohort_broker.bootstrap, partitioner=name) as producer:
        deliveries = {key: await producer.send(fresh, b"v", key=key) for key in keys}
        assert {key: (await delivery).partition for key, delivery in deliveries.items()} == expected


@pytest.mark.parametrize("given", ["sticky", ["default"], None])
async def test_a_partitioner_that_does_not_exist_is_refused(kohort_broker: Broker, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"partitioner is .*, but must be a function or one of: consistent, "):
        Producer(bootstrap_servers=kohort_broker.bootstrap, partitioner=given)


def test_known_hashes_of_librdkafka() -> None:
    assert (crc32(b""), crc32(b"123456789")) == (0, 0xCBF43926)
    assert fnv1a(b"") == 0x811C9DC5 - 2 * (0x811C9DC5 - 0x80000000)
