"""A group as its coordinator has it at this moment: state, members with their assignments, and committed offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kohort.broker import Broker
from kohort.coordinator import ClassicGroup, ConsumerGroup
from kohort.model import Millis
from kohort.wire.codec import DecodeError
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member. What it subscribes to and owns is empty if its protocol is not that of consumers."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: Sequence[str] = ()
    assignment: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Partitions by topic. In a consumer group, those that the member has received and may use."""


@dataclass(frozen=True, slots=True)
class CommitView:
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    at: Millis
    """Time of the commit, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group."""

    group_id: str
    state: str
    """The state as Kafka prints it."""
    epoch: int
    """The group epoch, or the generation of a classic group."""
    members: Sequence[MemberView]
    """Sorted by member ID."""
    commits: Mapping[str, Mapping[int, CommitView]]
    """Committed offsets by topic and partition."""

    @property
    def assigned(self) -> int:
        """Number of partitions assigned to all members."""
        return sum(len(partitions) for member in self.members for partitions in member.assignment.values())


def view_group(brokers: Iterable[Broker], group_id: str) -> GroupView | None:
    """Return the group from the broker that coordinates it; None if it does not exist. Call it on their event loop."""
    for broker in brokers:
        group = broker.groups.shard(group_id).group(group_id)
        if isinstance(group, ClassicGroup):
            members = [_classic_member(group, member_id) for member_id in sorted(group.members)]
            epoch = group.generation
        elif isinstance(group, ConsumerGroup):
            members = [_consumer_member(broker, group, member_id) for member_id in sorted(group.members)]
            epoch = group.epoch
        else:
            continue
        return GroupView(group_id, group.state.value, epoch, members, _commits(group.offsets))
    return None


def _classic_member(group: ClassicGroup, member_id: str) -> MemberView:
    member = group.members[member_id]
    topics: dict[str, None] = {}
    for metadata in member.protocols.values():
        try:
            topics.update(dict.fromkeys(decode_subscription(metadata).topics))
        except DecodeError:
            continue  # of another protocol type
    assignment: dict[str, list[int]] = {}
    try:
        owned = decode_assignment(member.assignment).partitions if member.assignment else ()
        for topic, partition in sorted(owned):
            assignment.setdefault(topic, []).append(partition)
    except DecodeError:
        assignment = {}
    return MemberView(
        member.member_id, member.instance_id, member.client_id, member.client_host, list(topics), assignment
    )


def _consumer_member(broker: Broker, group: ConsumerGroup, member_id: str) -> MemberView:
    member = group.members[member_id]
    assignment = {
        topic.name: sorted(partitions)
        for topic_id, partitions in member.assigned.by_topic.items()
        if (topic := broker.topics.with_id(topic_id)) is not None
    }
    topics = sorted(member.subscription.names)
    return MemberView(member_id, member.instance_id, member.client_id, member.client_host, topics, assignment)


def _commits(offsets: Mapping[str, Mapping[int, CommittedOffset]]) -> dict[str, dict[int, CommitView]]:
    found: dict[str, dict[int, CommitView]] = {}
    for topic, records in offsets.items():
        for partition, record in records.items():
            view = CommitView(record.offset, record.leader_epoch, record.metadata, record.commit_timestamp)
            found.setdefault(topic, {})[partition] = view
    return found
