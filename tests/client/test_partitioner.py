"""Keys go where every other client of Kafka sends them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as peers_murmur2

from kohort.client.partitioner import Partitioner, murmur2


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_the_other_clients(key: bytes) -> None:
    assert murmur2(key) == peers_murmur2(key) & 0x7FFFFFFF


def test_known_hashes() -> None:
    # From Apache Kafka's own tests of its Utils.murmur2, made positive.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) for key in known} == {key: one & 0x7FFFFFFF for key, one in known.items()}


def test_records_without_a_key_stay_with_a_partition_for_a_batch() -> None:
    partitioner = Partitioner(8, batch_size=1000)
    chosen = [partitioner.without_key(100) for _ in range(400)]
    stretches = [chosen[at : at + 10] for at in range(0, 400, 10)]
    assert all(len(set(stretch)) == 1 for stretch in stretches)
    assert len(set(chosen)) > 1


def test_a_topic_that_grows_maps_its_keys_anew() -> None:
    partitioner = Partitioner(1, batch_size=1000)
    assert {partitioner.by_key(b"%d" % n) for n in range(50)} == {0}
    partitioner.resize(4)
    assert {partitioner.by_key(b"%d" % n) for n in range(50)} == {0, 1, 2, 3}
