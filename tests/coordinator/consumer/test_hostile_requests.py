"""Heartbeats, describes and commits of consumer groups with anything in them: an answer, and groups that stay right."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.assignor.server import TopicShape
from kohort.coordinator import (
    Effects,
    GroupConfig,
    GroupSettings,
    GroupShard,
    MetadataImage,
    Record,
    RequestContext,
    Topic,
)
from kohort.coordinator.rejections import TOO_LARGE
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.coordinator.shell import Shell

ids = st.sampled_from(["a", "b", "c"]) | st.text(max_size=3)
groups = st.sampled_from(["g", "h", ""])
epochs = st.integers(-3, 6) | st.sampled_from([2**31 - 1, -(2**31)])
topic_ids = st.sampled_from([UUID(int=1), UUID(int=2), UUID(int=77), UUID(int=0)])
names = st.sampled_from(["orders", "payments", "nope", "", "é\x00"])
expressions = st.sampled_from(["", ".*", "or.*", "(", "(?i)ORDERS", "a{1000}{1000}", "x" * 100_000, "[[:alpha:]]+"])
numbers = st.integers(-1, 5) | st.just(2**31 - 1)

heartbeats = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=groups,
    member_id=ids,
    member_epoch=epochs,
    instance_id=st.none() | st.sampled_from(["i", "j", ""]),
    rack_id=st.none() | st.sampled_from(["r", " "]),
    rebalance_timeout_ms=st.sampled_from([-1, 0, -5, 1_000, 2**31 - 1]),
    subscribed_topic_names=st.none() | st.lists(names, max_size=3),
    subscribed_topic_regex=st.none() | expressions,
    server_assignor=st.none() | st.sampled_from(["uniform", "range", "magic", ""]),
    topic_partitions=st.none()
    | st.lists(st.builds(TopicPartitions, topic_id=topic_ids, partitions=st.lists(numbers, max_size=4)), max_size=3),
)
commits = st.builds(
    OffsetCommitRequest,
    group_id=groups,
    member_id=ids,
    generation_id_or_member_epoch=epochs,
    group_instance_id=st.none() | st.just("i"),
    topics=st.lists(
        st.builds(
            OffsetCommitRequestTopic,
            name=names,
            topic_id=topic_ids,
            partitions=st.lists(st.builds(OffsetCommitRequestPartition, partition_index=numbers), max_size=3),
        ),
        max_size=2,
    ),
)
fetches = st.builds(
    OffsetFetchRequest,
    groups=st.lists(
        st.builds(OffsetFetchRequestGroup, group_id=groups, member_id=st.none() | ids, member_epoch=epochs), max_size=2
    ),
)
describes = st.builds(ConsumerGroupDescribeRequest, group_ids=st.lists(groups, max_size=3))

steps = st.one_of(
    heartbeats.map(lambda request: (request, 1)),
    heartbeats.map(lambda request: (request, 1)),
    commits.map(lambda request: (request, 10)),
    fetches.map(lambda request: (request, 10)),
    describes.map(lambda request: (request, 1)),
    st.sampled_from([10, 1_000, 46_000]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=30))
def test_whatever_is_asked_is_answered(conversation: list[int | tuple[Message, int]]) -> None:
    shell = Shell(config=GroupConfig(consumer_max_size=3), settings=GroupSettings(assignment_interval_ms=10))
    shell.set_topics({"orders": 4, "payments": 2})
    for token, step in enumerate(conversation):
        if isinstance(step, int):
            for _ in shell.wait(step):
                pass
        else:
            request, version = step
            assert token in shell.handle(request, token, version, "client").replies


def join(name: str, **fields: object) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=name,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    for key, value in fields.items():
        setattr(request, key, value)
    return request


def asked(shell: Shell, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    reply = shell.handle(request, "token", 1).replies["token"]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


def test_partitions_that_were_never_given_change_nothing() -> None:
    shell = Shell()
    shell.set_topics({"orders": 2})
    asked(shell, join("a"))
    owned = [TopicPartitions(topic_id=UUID(int=1), partitions=[0, 1, 99]), TopicPartitions(topic_id=UUID(int=9))]
    answer = asked(
        shell, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2, topic_partitions=owned)
    )
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 2, None)


def test_a_subscription_of_any_size_is_bounded() -> None:
    shell = Shell()
    shell.set_topics({"orders": 2})
    assert asked(shell, join("a", subscribed_topic_names=["x" * 200] * 6_000)).error_code == TOO_LARGE
    endless = "(" * 500_000 + ")" * 500_000
    refused = asked(shell, join("a", subscribed_topic_names=None, subscribed_topic_regex=endless))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not shell.shard.consumer_groups


def test_members_that_all_change_their_subscription_at_once_share_one_target() -> None:
    # Not by the shell, which looks at the whole group after each request.
    settings_of_all = GroupSettings(assignment_interval_ms=5_000)
    shard = GroupShard(GroupConfig(), lambda: "", settings=lambda group_id: settings_of_all)
    shape = TopicShape(1)
    topics = [Topic("orders", UUID(int=1), shape), Topic("payments", UUID(int=2), shape)]
    shard.metadata_changed(MetadataImage(topics), 0)
    shard.loaded(0)
    targets = 0

    def ask(request: ConsumerGroupHeartbeatRequest, now: Millis) -> ErrorCode:
        nonlocal targets
        effects = shard.handle(request, RequestContext(0, 1), now)
        shard.replay_all(effects.records)
        targets += sum(isinstance(r.key, ConsumerGroupTargetAssignmentMetadataKey) for r in effects.records)
        reply = effects.replies[0]
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        return ErrorCode(reply.error_code)

    for number in range(2_000):
        ask(join(f"m{number}"), 1_000)
    group, targets, start = shard.consumer_groups["g"], 0, time.process_time()
    for number in range(2_000):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=f"m{number}", member_epoch=2, subscribed_topic_names=["payments"]
        )
        assert ask(request, 6_000 + number) is ErrorCode.NONE
    assert (targets, set(group.topics.counts)) == (1, {"payments"})
    assert time.process_time() - start < 5


def in_a_state_of_the_future() -> Shell:
    """A member whose state only a later version knows."""
    shell = Shell()
    shell.set_topics({"orders": 1})
    asked(shell, join("a"))
    group = shell.shard.consumer_groups["g"]
    member = group.members["a"]
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=member.epoch, state=99)
    shell.apply(Effects(records=[Record(key, value)]))
    return shell


@pytest.mark.parametrize(
    ("owned", "code"),
    [(None, ErrorCode.FENCED_MEMBER_EPOCH), ([], ErrorCode.NONE), ([0], ErrorCode.FENCED_MEMBER_EPOCH)],
)
def test_a_member_with_an_unknown_state_continues_only_after_it_reports_no_partitions(
    owned: list[int] | None, code: ErrorCode
) -> None:
    shell = in_a_state_of_the_future()
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", member_epoch=shell.shard.consumer_groups["g"].members["a"].epoch
    )
    if owned is not None:
        beat.topic_partitions = [TopicPartitions(topic_id=shell.topic_id("orders"), partitions=owned)] if owned else []
    assert asked(shell, beat).error_code == code


def test_a_member_whose_assignment_is_deleted_alone_has_not_joined() -> None:
    shell = Shell()
    shell.set_topics({"orders": 1})
    asked(shell, join("a"))
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    shell.shard.replay(Record(key, None))
    member = shell.shard.consumer_groups["g"].members["a"]
    assert (member.epoch, member.previous_epoch, bool(member.assigned)) == (0, -1, False)
