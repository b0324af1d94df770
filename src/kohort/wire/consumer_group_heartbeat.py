"""ConsumerGroupHeartbeat: all that a member of a consumer group says to its coordinator (KIP-848).

The tagged fields from 10,000 on are ours: members that compute the assignment, which KIP-848 planned and Kafka left
out (docs/decisions/005-client-side-assignors.md), and members that say how much they want beside others. A peer that
does not know them skips them (KIP-482).
"""

from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import (
    Bool,
    Float64,
    Int16,
    Int32,
    Message,
    NullableBytes,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    since,
    struct,
)


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = NO_TOPIC_ID
    partitions: list[Int32] = array()


@struct
class OfferedAssignor(Struct):
    """An assignor that the member can compute by."""

    name: String = ""
    user_data: NullableBytes = None  # what whoever computes is told of this member


@struct
class MemberTarget(Struct):
    """What a member should own."""

    member_id: String = ""
    topic_partitions: list[TopicPartitions] = array()


@struct
class Computed(Struct):
    """The target of a whole group, as a member computed it. Who is not in it should own nothing."""

    group_epoch: Int32 = 0  # that it was computed for; one for an older is refused
    error: NullableString = None  # why there is none
    targets: list[MemberTarget] = array()


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest(Message):
    """What has not changed since the last heartbeat is null (-1 for the timeout)."""

    group_id: String = ""
    member_id: String = ""  # KIP-1082: the member makes it from version 1 on
    member_epoch: Int32 = 0  # 0 joins, -1 leaves, -2 leaves for a while (a static member)
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = since(0, default=None)
    subscribed_topic_regex: NullableString = since(1, default=None)
    server_assignor: NullableString = None
    topic_partitions: list[TopicPartitions] | None = since(0, default=None)
    offered_assignors: list[OfferedAssignor] | None = since(1, default=None, ignorable=True, tag=10_000)
    computed: Computed | None = since(1, default=None, ignorable=True, tag=10_001)
    weight: Float64 = since(1, default=-1.0, ignorable=True, tag=10_002)  # beside others; 0 drains it, -1: as before
    asks_anew: NullableString = since(1, default=None, ignorable=True, tag=10_003)  # why members shall compute again


@struct
class Assignment(Struct):
    """What the member may use at once."""

    topic_partitions: list[TopicPartitions] = array()


@struct
class TopicToAssign(Struct):
    """A topic that somebody in the group subscribes to."""

    topic_id: Uuid = NO_TOPIC_ID
    name: String = ""
    partitions: Int32 = 0


@struct
class MemberToAssign(Struct):
    """A member of the group, and what it says of itself."""

    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    user_data: NullableBytes = None
    topic_ids: list[Uuid] = array()
    owned: list[TopicPartitions] = array()


@struct
class Computation(Struct):
    """What the member is to compute the group's target from, and by which of its assignors."""

    group_epoch: Int32 = 0
    assignor: String = ""
    topics: list[TopicToAssign] = array()
    members: list[MemberToAssign] = array()


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse(Message):
    """The assignment is null where the member has been told of it before."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    computation: Computation | None = since(1, default=None, ignorable=True, tag=10_000)
    takes_offers: Bool = since(1, ignorable=True, tag=10_001)  # the answer to an offer, where members may compute
    refused: NullableString = since(1, default=None, ignorable=True, tag=10_002)  # why what was computed does not count
    takes_weights: Bool = since(1, ignorable=True, tag=10_003)  # the answer to a weight, where weights count
