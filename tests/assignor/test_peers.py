"""kafka-python and aiokafka as oracles, where they agree with Java."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from kohort.assignor import ASSIGNORS
from kohort.assignor.user_data import Claim, encode_claim
from kohort.model import TopicPartition
from tests.assignor.groups import Group, alike, mixed, parts, sizes, steady
from tests.assignor.peers import aiokafka, kafka_python

by_turns = pytest.mark.parametrize("name", ["range", "roundrobin"])


def ours(group: Group, instance_ids: Mapping[str, str | None] | None = None) -> dict[str, list[TopicPartition]]:
    made = group.assignor.assign(group.partitions, group.subscriptions(), instance_ids)
    return {member_id: sorted(assignment.partitions) for member_id, assignment in made.items()}


@by_turns
@steady
@given(data=st.data())
def test_range_and_round_robin_give_what_kafka_python_gives(name: str, data: st.DataObject) -> None:
    # kafka-python 3.0's round robin fails where it must pass over a member.
    group = data.draw(mixed(ASSIGNORS[name]) if name == "range" else alike(ASSIGNORS[name]))
    static = st.one_of(st.none(), st.text("xyz", min_size=1))
    instance_ids = {member_id: data.draw(static) for member_id in group.topics}
    instance_ids = {m: i and f"{i}-{m}" for m, i in instance_ids.items()}
    # kafka-python 3.0 sorts a mixed list of static and dynamic members only if each kind is contiguous.
    members = dict(sorted(group.subscriptions().items(), key=lambda item: instance_ids[item[0]] is None))
    assert ours(group, instance_ids) == kafka_python(name, group.partitions, members, instance_ids)


@by_turns
@steady
@given(data=st.data())
def test_range_and_round_robin_give_what_aiokafka_gives(name: str, data: st.DataObject) -> None:
    group = data.draw(mixed(ASSIGNORS[name]))
    assert ours(group) == aiokafka(name, group.partitions, group.subscriptions())


def kept(claimed: Mapping[str, Sequence[TopicPartition]], given: Mapping[str, Sequence[TopicPartition]]) -> int:
    return sum(len(set(claimed.get(member_id, ())) & set(share)) for member_id, share in given.items())


@steady
@given(data=st.data())
def test_sticky_is_as_balanced_as_the_peers_and_moves_no_more(data: st.DataObject) -> None:
    group = data.draw(alike(ASSIGNORS["sticky"]))
    group.rebalance()
    for gone in data.draw(st.sets(st.sampled_from(sorted(group.topics)), max_size=len(group.topics) - 1)):
        del group.topics[gone]
    topics = next(iter(group.topics.values()))
    group.topics |= dict.fromkeys(data.draw(st.lists(st.sampled_from(["new-1", "new-2", "new-3"]))), topics)

    made = ours(group)
    for peer in (kafka_python, aiokafka):
        theirs = peer("sticky", group.partitions, group.subscriptions())
        assert sizes(made) == sizes(theirs)
        assert kept(group.owned, made) >= kept(group.owned, theirs)


def test_our_user_data_are_the_bytes_of_kafka_python() -> None:
    theirs = StickyAssignorUserData([("a", [0, 2]), ("b", [1])], 5).encode(header=False)
    assert encode_claim(Claim(parts("a-0 a-2 b-1"), 5)) == theirs
