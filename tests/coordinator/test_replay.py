"""Loading of a log that the shard did not write."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.assignor.server import TopicShape
from kohort.coordinator import GroupConfig, GroupShard, GroupState, MetadataImage, RequestContext, Topic
from kohort.coordinator.timers import OffsetExpiry, SessionTimeout
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.codec import Message
from kohort.wire.group_log import group_record
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.coordinator.shell import durable


def shard_of(*records: tuple[Message, Message | None]) -> GroupShard:
    ids = count()
    shard = GroupShard(GroupConfig(), lambda: str(next(ids)))
    for key, value in records:
        shard.replay(group_record(key, value))
    return shard


def generation(number: int, *members: str, protocol: str = "range") -> tuple[Message, Message]:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol=protocol if members else None,
        leader=members[0] if members else None,
        members=[MemberMetadata(member_id=member, session_timeout=10_000) for member in members],
    )
    return GroupMetadataKey(group="g"), value


def offset(number: int, partition: int = 0) -> tuple[Message, Message]:
    return OffsetCommitKey(group="g", topic="t", partition=partition), OffsetCommitValue(offset=number)


def test_the_last_generation_wins() -> None:
    shard = shard_of(generation(1, "a"), generation(2, "a", "b", protocol="sticky"), generation(3, "b"))
    group = shard.groups["g"]
    assert (group.state, group.generation, list(group.members)) == (GroupState.STABLE, 3, ["b"])
    assert group.members["b"].protocols == {"range": b""}


def test_a_group_whose_deletion_is_all_that_is_left_of_its_end_does_not_stop_the_broker() -> None:
    # A damaged disk lost the records that removed its member.
    member = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    shard = shard_of(
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2)),
        (member, ConsumerGroupMemberMetadataValue(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)),
        (ConsumerGroupMetadataKey(group_id="g"), None),
    )
    shard.loaded(0)
    for partitions in (1, 2):
        topic = Topic("t", UUID(int=1), TopicShape(partitions))
        assert not shard.metadata_changed(MetadataImage([topic], partitions), 0).records
    assert not shard.consumer_groups


def test_an_empty_expression_in_the_log_is_none() -> None:
    member = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = ConsumerGroupMemberMetadataValue(
        subscribed_topic_names=["t"], subscribed_topic_regex="", rebalance_timeout_ms=60_000
    )
    shard = shard_of((member, value))
    assert not shard.consumer_groups["g"].topics.expressions


def test_partition_metadata_of_an_older_broker_is_deleted_with_the_next_epoch() -> None:
    shard = shard_of(
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2)),
        (ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue()),
    )
    shard.metadata_changed(MetadataImage([Topic("t", UUID(int=1), TopicShape(1))], 1), 0)
    shard.loaded(0)
    deleted = []
    for member_id in ("a", "b"):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        effects = shard.handle(request, RequestContext(member_id, 1, "client", "/host"), 1_000)
        deleted.append(
            [record.value for record in effects.records if isinstance(record.key, ConsumerGroupPartitionMetadataKey)]
        )
        shard.replay_all(effects.records)
    assert deleted == [[None], []]


def test_offsets_of_a_group_that_was_emptied_at_an_unknown_time_expire_by_their_own_times() -> None:
    key, value = offset(5)
    assert isinstance(value, OffsetCommitValue)
    now = 100 * 86_400_000
    value.commit_timestamp = now - 1_000
    shard = shard_of(generation(1, "a"), generation(2), (key, value))
    assert not shard.fire(OffsetExpiry(), now).records


def test_a_group_that_everybody_left_is_empty() -> None:
    group = shard_of(generation(1, "a"), generation(2)).groups["g"]
    assert (group.state, group.generation, group.leader_id, group.protocol) == (GroupState.EMPTY, 2, None, None)


def test_a_record_without_rebalance_timeout_uses_the_session_timeout() -> None:
    # Version 0 of the record lacks it.
    assert shard_of(generation(1, "a")).groups["g"].members["a"].rebalance_timeout_ms == 10_000


def test_a_members_client_is_the_one_of_the_last_record() -> None:
    # The id of a static member that was removed and returned is written before the generation that counts it again.
    def written_by(client_id: str, number: int) -> tuple[Message, Message]:
        key, value = generation(number, "i1-2")
        assert isinstance(value, GroupMetadataValue)
        value.members[0].client_id, value.members[0].client_host = client_id, f"/{client_id}"
        return key, value

    member = shard_of(written_by("before", 1), written_by("after", 2)).groups["g"].members["i1-2"]
    assert (member.client_id, member.client_host) == ("after", "/after")


def test_every_member_gets_a_whole_session_after_a_load() -> None:
    shard = shard_of(generation(1, "a", "b"))
    assert shard.loaded(5_000).timers == {
        SessionTimeout("g", "a"): 15_000,
        SessionTimeout("g", "b"): 15_000,
        OffsetExpiry(): 605_000,
    }


def test_offsets_make_a_group_and_their_deletion_ends_it() -> None:
    # Whether the log was compacted in between must not matter.
    key, value = offset(5)
    assert list(shard_of((key, value)).groups) == ["g"]
    assert not shard_of((key, value), (key, None)).groups
    assert not shard_of((key, None)).groups


def test_a_deleted_group_is_gone_but_not_what_was_committed_since() -> None:
    tombstone = GroupMetadataKey(group="g"), None
    assert not shard_of(generation(1), tombstone).groups
    assert not shard_of(tombstone).groups
    group = shard_of(generation(4), offset(5), tombstone).groups["g"]
    assert (group.generation, group.stored, list(group.offsets)) == (0, None, ["t"])


def test_commits_of_old_brokers_count() -> None:
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)
    old = durable(shard_of((key, value)))
    modern = OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)
    assert old == durable(shard_of(modern))
    assert not shard_of((key, value), (key, None)).groups


def test_records_of_other_kinds_of_groups_pass_by() -> None:
    key = ConsumerGroupMetadataKey(group_id="g")
    assert not shard_of((key, ConsumerGroupMetadataValue(epoch=1)), (key, None)).groups


COMMITS = st.tuples(
    st.builds(OffsetCommitKey, group=st.sampled_from("gh"), topic=st.sampled_from("tu"), partition=st.integers(0, 2)),
    st.none() | st.builds(OffsetCommitValue, offset=st.integers(0, 9)),
)
GENERATIONS = st.sampled_from([generation(1, "a"), generation(2), (GroupMetadataKey(group="g"), None)])


@given(st.lists(COMMITS | GENERATIONS, max_size=20))
@settings(max_examples=300, deadline=None)
def test_records_replayed_in_a_run_do_what_they_do_one_by_one(records: list[tuple[Message, Message | None]]) -> None:
    # Two topics and groups by turns, and tombstones that take away what a run of commits writes to.
    one_by_one = shard_of(*records)
    in_a_run = shard_of()
    in_a_run.replay_all([group_record(key, value) for key, value in records])
    assert durable(in_a_run) == durable(one_by_one)


def test_offsets_without_a_topic_id_are_returned_without_one_by_versions_with_ids() -> None:
    shard = shard_of(offset(5))
    wanted = OffsetFetchRequestGroup(group_id="g", topics=None)
    effects = shard.handle(OffsetFetchRequest(groups=[wanted]), RequestContext("token", 10), 0)
    answer = effects.replies["token"]
    assert isinstance(answer, OffsetFetchResponse)
    assert [topic.topic_id for topic in answer.groups[0].topics] == [NO_TOPIC_ID]
