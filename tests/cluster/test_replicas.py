"""Replicas in the image of a cluster: where they are placed, and how leadership follows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from kohort.log.api import Topic
from kohort.log.cluster import NOBODY, ClusterImage, Leader, Node, PartitionId, Placement, TooFewBrokers
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.leadership_changes import (
    replicas_for_clients,
    with_preferred_leaders,
    with_reassignments,
    without_reassignments,
)
from tests.cluster.test_image import image_of, node, settled

ORDERS = UUID(int=77)


def replicated(brokers: int, *replicas: list[int]) -> ClusterImage:
    """One topic, each partition with these replicas."""
    topic = Topic(ORDERS, "orders", len(replicas))
    return image_of(brokers).created(topic, Placement(len(replicas[0]), replicas))


def at(partition: int) -> PartitionId:
    return PartitionId(ORDERS, partition)


def leaders(image: ClusterImage) -> list[int]:
    return [leader.node_id for leader in image.leaders[ORDERS]]


def test_each_broker_is_preferred_in_turn_and_the_others_share_the_rest() -> None:
    image = image_of(4).created(Topic(ORDERS, "orders", 12), Placement(3))
    assert leaders(image) == [1, 2, 3, 4] * 3
    assert {len(set(replicas)) for replicas in image.replicas[ORDERS]} == {3}
    follows = Counter(node_id for replicas in image.replicas[ORDERS] for node_id in replicas[1:])
    assert set(follows.values()) == {6}
    after_one = {replicas[1] for replicas in image.replicas[ORDERS] if replicas[0] == 1}
    assert after_one == {2, 3, 4}, "all others share what broker 1 leads if it dies"


def test_replicas_are_in_different_racks_if_there_are_enough() -> None:
    image = ClusterImage()
    for number, rack in enumerate("aabbcc", 1):
        image = image.joined(Node(number, "h", number, rack))
    image = image.created(Topic(ORDERS, "orders", 12), Placement(3))
    racks = {node_id: node.rack for node_id, node in image.nodes.items()}
    assert all(len({racks[node_id] for node_id in replicas}) == 3 for replicas in image.replicas[ORDERS])


def test_a_topic_with_more_replicas_than_brokers_is_not_made() -> None:
    with pytest.raises(TooFewBrokers, match="3 replicas need 3 brokers, and there are 2"):
        image_of(2).created(Topic(ORDERS, "orders", 1), Placement(3))


def test_an_absent_broker_may_hold_replicas_as_the_last_of_them() -> None:
    image = image_of(4).without_broker(4).created(Topic(ORDERS, "orders", 3), Placement(4))
    assert leaders(image) == [1, 2, 3]
    assert [(len(set(nodes)), nodes[3]) for nodes in image.replicas[ORDERS]] == [(4, 4)] * 3
    assert replicas_for_clients(image, at(0))[:3] == ((1, 2, 3, 4), (1, 2, 3), (4,))
    assert replicas_for_clients(image.joined(node(4)), at(0)).in_sync == (1, 2, 3, 4)
    three = image_of(4).without_broker(4).created(Topic(ORDERS, "orders", 3), Placement(3))
    assert all(4 not in nodes for nodes in three.replicas[ORDERS]), "brokers that live are preferred"
    again = decode_image(encode_image(image.without_broker(1)))
    assert again.registered == {1, 2, 3, 4}
    with pytest.raises(TooFewBrokers, match="5 replicas need 5 brokers, and there are 4"):
        again.created(Topic(UUID(int=78), "bills", 1), Placement(5))


def test_missing_replicas_are_shared_by_absent_brokers() -> None:
    image = image_of(4).without_broker(3).without_broker(4).created(Topic(ORDERS, "orders", 4), Placement(3))
    assert Counter(replicas[2] for replicas in image.replicas[ORDERS]) == {3: 2, 4: 2}


def test_the_first_live_replica_takes_over_and_the_preferred_one_leads_again_when_it_returns() -> None:
    image = replicated(4, [1, 3, 2], [2, 1, 3], [3, 2, 1])
    without = image.without_broker(1)
    assert leaders(without) == [3, 2, 3]
    assert without.leader(at(0)).epoch == image.leader(at(0)).epoch + 1
    assert replicas_for_clients(without, at(0))[:3] == ((1, 3, 2), (3, 2), (1,))
    back = without.joined(node(1))
    assert back.leader(at(0)).following == 1
    assert leaders(settled(back)) == [1, 2, 3]


def test_another_broker_leads_while_no_replica_is_alive_and_appears_as_a_replica() -> None:
    image = replicated(4, [1, 2]).without_broker(2).without_broker(1)
    (leader,) = leaders(image)
    assert leader in (3, 4)
    assert replicas_for_clients(image, at(0))[:3] == ((1, 2, leader), (leader,), (1, 2))
    assert leaders(settled(image.joined(node(2)))) == [2], "any replica is better than none"


def test_a_broker_that_joins_gets_nothing_of_what_has_its_replicas_elsewhere() -> None:
    image = replicated(2, [1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1])
    assert image.joined(node(3)).leaders[ORDERS] == image.leaders[ORDERS]


def test_a_reassignment_to_other_brokers_is_in_progress_until_the_leader_has_given_the_partition() -> None:
    image = with_reassignments(replicated(4, [1, 2]), {at(0): (4, 2)})
    assert image.leader(at(0)) == Leader(1, 0, 4)
    told = replicas_for_clients(image, at(0))
    assert (told.nodes, told.adding, told.removing, told.in_sync) == ((4, 2, 1), (4,), (1,), (2, 1))
    done = settled(image)
    assert done.leader(at(0)) == Leader(4, 1)
    assert done.replicas_of(at(0)) == (4, 2)
    assert not done.targets


def test_a_reassignment_that_keeps_the_leader_is_complete_at_once() -> None:
    image = with_reassignments(replicated(3, [1, 2]), {at(0): (3, 1)})
    assert (image.replicas_of(at(0)), image.leader(at(0)), image.targets) == ((3, 1), Leader(1, 0), {})
    moved = settled(with_preferred_leaders(image, [at(0)]))
    assert moved.leader(at(0)) == Leader(3, 1)


def test_a_reassignment_waits_for_the_next_new_replica_when_one_dies() -> None:
    image = with_reassignments(replicated(4, [1]), {at(0): (4, 3)}).without_broker(4)
    assert image.leader(at(0)) == Leader(1, 0, 3)
    assert image.without_broker(3).leader(at(0)) == Leader(1, 0)
    assert replicas_for_clients(image.without_broker(3), at(0)).in_progress
    assert leaders(settled(image.without_broker(3).joined(node(4)))) == [4]


def test_a_reassignment_is_complete_when_the_old_leader_dies() -> None:
    image = with_reassignments(replicated(4, [1, 2]), {at(0): (4, 3)}).without_broker(1)
    assert (image.leader(at(0)), image.replicas_of(at(0)), image.targets) == (Leader(4, 1), (4, 3), {})


def test_a_reassignment_that_is_called_off_leaves_leader_and_replicas_as_they_are() -> None:
    before = replicated(4, [1, 2])
    assert without_reassignments(with_reassignments(before, {at(0): (4, 3)}), [at(0)]) == before
    assert without_reassignments(before, [at(0)]) is before


def test_a_partition_that_is_reassigned_to_one_replica_is_led_by_any_broker_afterwards() -> None:
    image = settled(with_reassignments(replicated(3, [1, 2]), {at(0): (3,)}))
    assert (leaders(image), image.replicas) == ([3], {})
    assert replicas_for_clients(image, at(0)).nodes == (3,)


def test_the_preferred_replica_is_elected_only_if_it_is_alive() -> None:
    image = replicated(3, [1, 2], [2, 1]).without_broker(1)
    assert with_preferred_leaders(image, [at(0), at(1)]) == image
    there = replace(image.joined(node(1)), leaders=image.leaders)
    assert [leader.following for leader in with_preferred_leaders(there, [at(0), at(1)]).leaders[ORDERS]] == [1, NOBODY]


def test_new_partitions_have_replicas_and_those_of_a_topic_that_is_deleted_are_forgotten() -> None:
    image = replicated(3, [1, 2]).altered(Topic(ORDERS, "orders", 3), Placement(2))
    assert [len(replicas) for replicas in image.replicas[ORDERS]] == [2, 2, 2]
    gone = with_reassignments(image, {at(0): (3, 2)}).deleted(ORDERS)
    for number in (1, 2, 3):
        gone = gone.removed(number)
    assert (gone.replicas, gone.targets, gone.topics) == ({}, {}, {})


def test_replicas_of_what_any_broker_leads_are_the_leader_and_those_that_follow_it_up_to_a_factor() -> None:
    image = image_of(4).created(Topic(ORDERS, "orders", 1), Placement(1, [[3]]))
    assert replicas_for_clients(image, at(0)).nodes == (3,)
    assert replicas_for_clients(image, at(0), 3).nodes == (3, 4, 1)
    assert replicas_for_clients(image, at(0), 9).nodes == (3, 4, 1, 2)


def test_an_image_that_version_0_1_wrote_is_read() -> None:
    stored = (
        b'{"version": 7, "first_epoch": 0, "nodes": [[1, "h", 9092, null]], "topics": [{"id": "%s", "name": "orders",'
        b' "partitions": 1, "configs": {}, "leaders": [[1, 4, -1]], "deleting": false}], "configs": {}}'
    ) % str(ORDERS).encode()
    image = decode_image(stored)
    assert (image.leader(at(0)), image.replicas, image.targets) == (Leader(1, 4), {}, {})
    assert decode_image(encode_image(with_reassignments(image, {at(0): (2,)}))).targets == {at(0): (2,)}
