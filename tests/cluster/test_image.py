"""The image of a cluster: whatever happens, one leader for each partition, epochs that rise, and an even spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kohort.log.api import Topic
from kohort.log.cluster import NOBODY, ClusterImage, Node, PartitionId, Placement
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.leadership_changes import (
    replicas_for_clients,
    with_preferred_leaders,
    with_reassignments,
    without_reassignments,
)

OFFSETS = UUID(int=1)


def node(number: int) -> Node:
    return Node(number, "127.0.0.1", 9000 + number)


def image_of(brokers: int, *partitions: int) -> ClusterImage:
    image = ClusterImage()
    for number in range(1, brokers + 1):
        image = settled(image.joined(node(number)))
    for number, count in enumerate(partitions):
        name = "__consumer_offsets" if number == 0 else f"t{number}"
        image = image.created(Topic(UUID(int=number + 1), name, count))
    return image


def settled(image: ClusterImage) -> ClusterImage:
    """All leaders gave what they were to give."""
    for number in image.nodes:
        image = image.handed_over(partition for partition, leader in image.led_by(number) if leader.following != NOBODY)
    return image


def counts(image: ClusterImage, topic_ids: set[UUID]) -> list[int]:
    led = Counter(dict.fromkeys(image.nodes, 0))
    for topic_id in topic_ids:
        led.update(leader.node_id for leader in image.leaders[topic_id])
    return list(led.values())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(1, 4)),
        st.tuples(st.just("go"), st.integers(1, 4)),
        st.tuples(st.just("give"), st.integers(1, 4)),
        st.tuples(st.just("create"), st.integers(1, 9)),
        st.tuples(st.just("grow"), st.integers(1, 9)),
        st.tuples(st.just("delete"), st.integers(1, 4)),
        st.tuples(st.just("remove"), st.integers(1, 4)),
        st.tuples(st.just("replicate"), st.integers(1, 4)),
        st.tuples(st.just("reassign"), st.integers(0, 63)),
        st.tuples(st.just("call off"), st.integers(0, 7)),
        st.tuples(st.just("elect"), st.integers(0, 7)),
    ),
    max_size=12,
)


def after(image: ClusterImage, kind: str, number: int) -> ClusterImage:
    names = list(image.topics.values())
    match kind:
        case "join":
            return image.joined(node(number))
        case "go":
            return image.without_broker(number)
        case "give":
            return image.handed_over(
                [partition for partition, leader in image.led_by(number) if leader.following != NOBODY]
            )
        case "create":
            fresh = UUID(int=max((topic.topic_id.int for topic in names), default=0) + 1)
            return image.created(Topic(fresh, f"t{fresh.int}", number))
        case "grow":
            name = names[number % len(names)]
            return image.altered(Topic(name.topic_id, name.name, name.partitions + number))
        case "delete":
            name = names[number % len(names)]
            return image if name.name.startswith("__") else image.deleted(name.topic_id)
        case "replicate":
            new = Topic(UUID(int=max((topic.topic_id.int for topic in names), default=0) + 1), f"r{number}", 3)
            factor = min(number, len(image.nodes))
            return image if image.named(new.name) or not factor else image.created(new, Placement(factor))
        case "reassign":
            chosen = tuple(node_id for bit, node_id in enumerate(sorted(image.nodes)) if number >> bit & 1)
            # No broker takes over a partition of a deleted topic.
            ones = [
                partition for partition in partitions_of(image, number >> 3) if partition.topic_id not in image.deleting
            ]
            return with_reassignments(image, dict.fromkeys(ones, chosen[::-1])) if chosen else image
        case "call off":
            return without_reassignments(image, partitions_of(image, number))
        case "elect":
            return with_preferred_leaders(image, partitions_of(image, number))
        case _:
            return image.removed(number)


def partitions_of(image: ClusterImage, number: int) -> list[PartitionId]:
    """All of one kind of partition: those whose number has that remainder."""
    return [
        PartitionId(topic_id, p)
        for topic_id, led in image.leaders.items()
        for p in range(len(led))
        if p % 4 == number % 4
    ]


@given(steps)
def test_a_partition_always_has_one_live_leader_and_each_leader_a_new_epoch(
    happens: list[tuple[str, int]],
) -> None:
    image = image_of(1, 5, 3)
    for kind, number in happens:
        before, image = image, after(image, kind, number)
        for topic_id, leaders in image.leaders.items():
            assert len(leaders) == image.topics[topic_id].partitions
            for was, leader in zip(before.leaders.get(topic_id, ()), leaders, strict=False):
                assert leader.epoch >= was.epoch
                assert leader.node_id == was.node_id or leader.epoch > was.epoch or topic_id in image.deleting
                # Only a leader that gave it up, or is gone, loses it.
                if was.node_id in image.nodes and leader.node_id != was.node_id:
                    assert (kind, number) in (("give", was.node_id), ("remove", was.node_id))
            for leader in leaders:
                if topic_id not in image.deleting:
                    assert leader.node_id in image.nodes or (leader.node_id == NOBODY and not image.nodes)
                assert leader.following == NOBODY or leader.following in image.nodes
        for partition in partitions_of(image, 0):
            told = replicas_for_clients(image, partition)
            leader = image.leader(partition)
            assert len(set(told.nodes)) == len(told.nodes)
            assert leader.node_id == NOBODY or leader.node_id in told.in_sync
            assert set(told.in_sync) <= set(image.nodes)
            assert set(told.offline) == set(told.nodes) - set(image.nodes)
            if told.in_progress:
                target = image.targets[partition]
                assert leader.node_id not in target, "one of the new replicas leads it, so it is complete"
                assert leader.following in target or not set(target) & image.nodes.keys() or leader.node_id == NOBODY
    assert decode_image(encode_image(image)) == image


def test_a_joining_broker_gets_its_share_of_coordinators_and_partitions_with_few_moves() -> None:
    before = image_of(2, 50, 7, 5)
    image = before.joined(node(3))
    moving = [
        partition for number in (1, 2) for partition, leader in image.led_by(number) if leader.following != NOBODY
    ]
    assert len(moving) == 16 + 4
    after = settled(image)
    for topics in ({OFFSETS}, {UUID(int=2), UUID(int=3)}):
        assert max(counts(after, topics)) - min(counts(after, topics)) <= 1


def test_a_dead_brokers_partitions_are_shared_out_and_nothing_else_moves() -> None:
    before = image_of(3, 50, 9)
    image = before.without_broker(2)
    for partition, leader in before.led_by(1):
        assert image.leader(partition) == leader
    assert {image.leader(partition).node_id for partition, _ in before.led_by(2)} == {1, 3}
    assert max(counts(image, {OFFSETS})) - min(counts(image, {OFFSETS})) <= 1


def test_a_broker_that_was_dead_without_anybodys_notice_keeps_what_it_led_at_the_next_epoch() -> None:
    before = image_of(3, 50)
    image = before.joined(node(2))
    assert {partition: leader.epoch + 1 for partition, leader in before.led_by(2)} == {
        partition: leader.epoch for partition, leader in image.led_by(2)
    }
    assert image.settled


def test_partitions_meant_for_a_dead_broker_stay_where_they_are() -> None:
    image = image_of(1, 4).joined(node(2))
    assert not image.settled
    assert image.without_broker(2) == replace(image_of(1, 4), registered=frozenset({1, 2}))


def test_partitions_of_the_last_broker_go_to_the_next_first_one() -> None:
    image = image_of(1, 3).without_broker(1)
    assert {leader.node_id for leader in image.leaders[OFFSETS]} == {NOBODY}
    again = image.joined(node(7))
    assert {leader[:2] for leader in again.leaders[OFFSETS]} == {(7, 2)}


def test_a_deleted_topic_is_forgotten_when_its_last_leader_has_removed_it() -> None:
    image = image_of(2, 2, 4).deleted(UUID(int=2))
    once = image.removed(1)
    assert once.named("t1") is not None, "so that nobody makes another over its files"
    assert once.removed(2).named("t1") is None
    assert not once.removed(2).deleting


def test_partitions_of_a_new_topic_go_round_the_brokers() -> None:
    image = image_of(3, 3, 6)
    assert counts(image, {UUID(int=2)}) == [2, 2, 2]
    assert image.leader(PartitionId(UUID(int=2), 0)).node_id != image.leader(PartitionId(UUID(int=2), 1)).node_id


def test_partitions_go_to_the_brokers_that_are_named_for_them_if_they_live() -> None:
    topic = Topic(UUID(int=2), "t1", 4)
    image = image_of(3, 3).created(topic, Placement(1, [[3], [3], [9]]))
    assert [leader.node_id for leader in image.leaders[UUID(int=2)]][:2] == [3, 3]
    assert {leader.node_id for leader in image.leaders[UUID(int=2)]} <= {1, 2, 3}
    grown = image.altered(Topic(UUID(int=2), "t1", 6), Placement(1, [[2], [2]]))
    assert [leader.node_id for leader in grown.leaders[UUID(int=2)]][4:] == [2, 2]


def test_every_broker_leads_a_partition_of_an_internal_topic_that_has_enough_whatever_else_it_leads() -> None:
    journal = Topic(UUID(int=9), "__kohort_rebalances", 2)
    image = settled(image_of(2, 8, 5).created(journal).joined(node(3)))
    assert sorted(counts(image, {UUID(int=9)})) == [0, 1, 1]
    grown = image.altered(Topic(UUID(int=9), "__kohort_rebalances", 3))
    assert counts(grown, {UUID(int=9)}) == [1, 1, 1], "the new one goes to who has none"
