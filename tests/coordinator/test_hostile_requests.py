"""Requests with any content at all: the shard answers, and what it writes can be written and read again.

The shell sends every request, answer and record through the codec, and checks the invariants after each.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator import GroupConfig
from kohort.model import UUID
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.shell import Shell

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
# Invalid UTF-8 is kept as surrogates, so that ids compare by their bytes.
text = st.one_of(st.text(max_size=8), st.binary(max_size=8).map(lambda b: b.decode("utf-8", "surrogateescape")))
text = text.filter(lambda t: t.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == t).filter(
    lambda t: not any(0xD800 <= ord(c) < 0xDC80 or 0xDCFF < ord(c) < 0xE000 for c in t)
)
groups = st.sampled_from(["", "g", "h"])
members = st.one_of(st.sampled_from(["", "c-1", "c-2", "i-1", "i-2", "i-3"]), text)
instances = st.one_of(st.none(), st.sampled_from(["", "i", "j"]))
generations = st.one_of(st.integers(-1, 3), int32)
subscriptions = st.one_of(st.just(encode_subscription(Subscription(["t"]))), st.binary(max_size=40))
assignments = st.one_of(st.just(encode_assignment(Assignment())), st.binary(max_size=40))
topics = st.one_of(st.sampled_from(["t", "u"]), text)

joins = st.builds(
    JoinGroupRequest,
    group_id=groups,
    session_timeout_ms=st.one_of(st.sampled_from([6_000, 10_000]), int32),
    rebalance_timeout_ms=st.one_of(st.just(10_000), int32),
    member_id=members,
    group_instance_id=instances,
    protocol_type=st.sampled_from(["consumer", "connect", ""]),
    protocols=st.lists(
        st.builds(JoinGroupRequestProtocol, name=st.sampled_from(["range", "sticky", ""]), metadata=subscriptions),
        max_size=3,
    ),
    reason=st.one_of(st.none(), text),
)
syncs = st.builds(
    SyncGroupRequest,
    group_id=groups,
    generation_id=generations,
    member_id=members,
    group_instance_id=instances,
    protocol_type=st.sampled_from(["consumer", "connect", None]),
    protocol_name=st.sampled_from(["range", "sticky", None]),
    assignments=st.lists(st.builds(SyncGroupRequestAssignment, member_id=members, assignment=assignments), max_size=3),
)
heartbeats = st.builds(
    HeartbeatRequest, group_id=groups, generation_id=generations, member_id=members, group_instance_id=instances
)
leaves = st.builds(
    LeaveGroupRequest,
    group_id=groups,
    members=st.lists(
        st.builds(MemberIdentity, member_id=members, group_instance_id=instances, reason=st.one_of(st.none(), text)),
        max_size=4,
    ),
)
commits = st.builds(
    OffsetCommitRequest,
    group_id=groups,
    generation_id_or_member_epoch=generations,
    member_id=members,
    group_instance_id=instances,
    topics=st.lists(
        st.builds(
            OffsetCommitRequestTopic,
            name=topics,
            topic_id=st.integers(0, 2).map(lambda n: UUID(int=n)),
            partitions=st.lists(
                st.builds(
                    OffsetCommitRequestPartition,
                    partition_index=st.one_of(st.integers(0, 3), int32),
                    committed_offset=int64,
                    committed_leader_epoch=int32,
                    committed_metadata=st.one_of(st.none(), text),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)
fetches = st.builds(
    OffsetFetchRequest,
    groups=st.lists(
        st.builds(
            OffsetFetchRequestGroup,
            group_id=groups,
            topics=st.one_of(
                st.none(),
                st.lists(
                    st.builds(OffsetFetchRequestTopics, name=topics, partition_indexes=st.lists(int32, max_size=3)),
                    max_size=3,
                ),
            ),
        ),
        max_size=3,
    ),
)
offset_deletes = st.builds(
    OffsetDeleteRequest,
    group_id=groups,
    topics=st.lists(
        st.builds(
            OffsetDeleteRequestTopic,
            name=topics,
            partitions=st.lists(
                st.builds(OffsetDeleteRequestPartition, partition_index=st.one_of(st.integers(0, 3), int32)),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)


def at(request: st.SearchStrategy[Message], versions: list[int]) -> st.SearchStrategy[tuple[Message, int]]:
    return st.tuples(request, st.sampled_from(versions))


requests = st.one_of(
    at(joins, [5, 8, 9]),
    at(joins, [5, 8, 9]),
    at(syncs, [3, 5]),
    at(heartbeats, [3, 4]),
    at(leaves, [3, 5]),
    at(commits, [8, 9, 10]),
    at(fetches, [8, 9]),
    at(offset_deletes, [0]),
    at(st.builds(DeleteGroupsRequest, groups_names=st.lists(groups, max_size=3)), [2]),
    at(st.builds(DescribeGroupsRequest, groups=st.lists(groups, max_size=3)), [5, 6]),
    at(st.builds(ListGroupsRequest, states_filter=st.lists(text, max_size=2)), [4, 5]),
)
pauses = st.sampled_from([500, 3_000, 10_000, 700_000])


@given(st.lists(st.one_of(requests, pauses), max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_request_is_answered(script: list[tuple[Message, int] | int]) -> None:
    bounds = GroupConfig(
        max_size=3, max_pending_members=2, offset_metadata_max_bytes=4, offsets_retention_check_interval_ms=2**30
    )
    shell = Shell(bounds)
    for number, step in enumerate(script):
        if isinstance(step, int):
            for _ in shell.wait(step):
                pass
        else:
            request, version = step
            shell.handle(request, number, version, "c")
            if not isinstance(request, JoinGroupRequest | SyncGroupRequest):
                assert number not in shell.waiting
    # Every parked request is answered when its time is up, even without any valid request.
    for _ in shell.wait(2**32):
        pass
    assert not shell.waiting
