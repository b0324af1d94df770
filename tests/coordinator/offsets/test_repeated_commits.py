"""A commit of a known shape has the effects of the same commit as it is decoded, whatever the state of its group."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator import ClassicGroup, Effects, GroupState, RequestContext
from kohort.errors import ErrorCode
from kohort.wire.api import read_request_header, request_header
from kohort.wire.codec import encode
from kohort.wire.commits import RepeatedCommit, shape_of
from kohort.wire.group_log import pack_records
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

TOPICS = {"orders": 4, "payments": 2}
INSTANCE = "i-1"
_SUBSCRIPTION = encode_subscription(Subscription(list(TOPICS)))


def new_shell() -> Shell:
    shell = Shell()
    shell.set_topics(TOPICS)
    return shell


def simple(shell: Shell) -> None:
    """The group of a simple consumer, which has offsets only."""
    shell.handle(commit(shell, -1, "", None, [5]), "first", 8)


def joining(shell: Shell) -> None:
    """A static member has joined, and has not synced."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id=INSTANCE,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
    )
    shell.handle(request, "join", 5)
    list(shell.wait(5_000))
    assert classic(shell).state is GroupState.COMPLETING_REBALANCE


def stable(shell: Shell) -> None:
    joining(shell)
    (member_id,) = classic(shell).members
    shell.handle(SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id), "sync", 3)
    assert classic(shell).state is GroupState.STABLE


def consumer(shell: Shell) -> None:
    """A member of a consumer group whose epoch has risen since it got its partitions."""
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    joined = shell.handle(beat, "join", 1).replies["join"]
    assert isinstance(joined, ConsumerGroupHeartbeatResponse)
    beat.subscribed_topic_names, beat.topic_partitions = list(TOPICS), None
    epoch = joined.member_epoch
    for token in range(3):  # the target of the new epoch is computed later
        beat.member_epoch = epoch
        told = shell.handle(beat, token, 1).replies[token]
        assert isinstance(told, ConsumerGroupHeartbeatResponse)
        epoch = told.member_epoch
        list(shell.wait(2_000))
    assert epoch > joined.member_epoch


KINDS: dict[str, Callable[[Shell], None]] = {
    "none": lambda shell: None,
    "simple": simple,
    "joining": joining,
    "stable": stable,
    "consumer": consumer,
}


def classic(shell: Shell) -> ClassicGroup:
    return shell.shard.groups["g"]


def commit(
    shell: Shell, generation: int, member_id: str, instance_id: str | None, offsets: list[int]
) -> OffsetCommitRequest:
    """A commit of as many partitions, whose topics have names and IDs as a broker fills them in."""
    places = [("orders", 2), ("orders", 0), ("payments", 1), ("orders", 1)]
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (name, index), offset in zip(places, offsets, strict=False):
        one = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_leader_epoch=7)
        topics.setdefault(name, []).append(one)
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=shell.topic_id(name), partitions=rows)
            for name, rows in topics.items()
        ],
    )


def repeated(request: OffsetCommitRequest, version: int) -> RepeatedCommit:
    """The request as a connection reads it that knows its shape."""
    frame = request_header(request.KEY, version, 7, "client") + encode(request, version)
    shape = shape_of(frame, read_request_header(frame).body, request, version)
    assert shape is not None
    found = shape.read(frame)
    assert found is not None
    return found


def outcome(kind: str, request_of: Callable[[Shell], OffsetCommitRequest], version: int) -> tuple[object, ...]:
    """All that a commit does to a new group of that kind."""
    shell = new_shell()
    KINDS[kind](shell)
    shell.now += 1_000
    request = request_of(shell)
    shell.expect("commit", version)
    effects = shell.shard.handle(request, RequestContext("commit", version, "client", "/h"), shell.now)
    answer = effects.replies["commit"]
    assert isinstance(answer, OffsetCommitResponse)
    bare = Effects(records=effects.records, replies=effects.replies)
    assert effects == bare, "a commit sets no timer and is no event"
    written = (effects.records, pack_records(effects.records, 3), encode(answer, version))
    shell.apply(effects)
    group = shell.shard.group("g")
    deadlines = None
    if isinstance(group, ClassicGroup):
        deadlines = {member.member_id: member.session_deadline for member in group.members.values()}
    return *written, None if group is None else group.offsets, deadlines


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(2, 10),
    st.sampled_from([-1, 0, 1, 2, 3]),
    st.sampled_from(["", "own", "other"]),
    st.sampled_from([None, INSTANCE, "i-2"]),
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
)
def test_the_effects_are_those_of_the_decoded_commit(
    kind: str, version: int, generation: int, member: str, instance_id: str | None, offsets: list[int]
) -> None:
    def plain(shell: Shell) -> OffsetCommitRequest:
        own = next(iter(shell.shard.members("g")), "nobody")
        instance = instance_id if version >= 7 else None
        request = commit(shell, generation, own if member == "own" else member, instance, offsets)
        if version < 6:
            for topic in request.topics:
                for partition in topic.partitions:
                    partition.committed_leader_epoch = -1
        return request

    expected = outcome(kind, plain, version)
    assert outcome(kind, lambda shell: repeated(plain(shell), version), version) == expected


def test_commits_of_each_kind_of_group_are_accepted_and_refused() -> None:
    """The test above compares both."""
    found = {}
    for kind in KINDS:
        codes = set()
        for generation in (-1, 1, 2, 3):
            shell = new_shell()
            KINDS[kind](shell)
            own = next(iter(shell.shard.members("g")), "")
            request = repeated(commit(shell, generation, own, None, [5]), 9)
            effects = shell.shard.handle(request, RequestContext("commit", 9), shell.now)
            answer = effects.replies["commit"]
            assert isinstance(answer, OffsetCommitResponse)
            codes.add(ErrorCode(answer.topics[0].partitions[0].error_code))
        found[kind] = codes
    assert found["none"] == {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
    assert found["simple"] == {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}
    assert found["joining"] == {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
    assert found["stable"] == {ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION}
    assert found["consumer"] == {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH}
