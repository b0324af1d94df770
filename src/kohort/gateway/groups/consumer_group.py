"""A consumer group (KIP-848) as its requests and responses show it: facts for the prompt room. Pure.

The coordinator is upstream, so the target assignment is unknown. It is not needed: a member for
which there may be news is asked for upstream, and the coordinator's answer tells.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from kohort.coordinator.prompt import GroupPartition
from kohort.errors import ErrorCode
from kohort.gateway.groups.heartbeat_budget import ALLOWED, HeartbeatBudget
from kohort.gateway.groups.outcome import PROBE_INTERVAL
from kohort.group_events import MemberFacts
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Partition = tuple[UUID, int]

SETTLING: Millis = 2_000
"""Time after something happened in which all heartbeats are passed on.

Changes follow each other, and the coordinator may compute an assignment up to a second after the change.
Source: group.consumer.assignment.interval.ms of Apache Kafka.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a consumer group, as its coordinator's answers tell them."""

    heartbeat_interval_ms: Millis = 5_000
    session_timeout_ms: Millis = 45_000
    """No answer tells it; this is Kafka's default and its default minimum."""


@dataclass(slots=True)
class MirroredMember:
    """Member of a consumer group."""

    facts: MemberFacts
    group: "MirroredConsumerGroup"
    epoch: int = 0
    """Epoch in the coordinator's last answer."""
    assigned: frozenset[Partition] = frozenset()
    """Partitions in the coordinator's last answer."""
    undelivered: ConsumerGroupHeartbeatResponse | None = None
    """News that the coordinator gave the gateway, and that the member has not received."""
    asked_at: Millis = 0
    """Time of the last heartbeat that the coordinator got for it."""
    may_have_news: bool = False
    """Whether something has happened since."""
    is_covered: bool = False
    """Whether its last heartbeat was not passed on."""
    heard_at: Millis = 0
    """Time of its last heartbeat."""
    told_interval_ms: Millis = 0
    """Interval in the last answer that it got."""

    @property
    def member_id(self) -> str:
        return self.facts.member_id

    @property
    def must_revoke(self) -> bool:
        """Whether it owes the acknowledgement that it gave up partitions."""
        return self.member_id in self.group.revoking

    @property
    def waits_for_others(self) -> bool:
        """Whether it probably waits for partitions: it has none, and others must give some up or did so."""
        return not self.assigned and self.group.is_moving


@dataclass(slots=True)
class MirroredConsumerGroup:
    """A consumer group. It implements `ConsumerGroupFacts`."""

    group_id: str
    budget: HeartbeatBudget
    members: dict[str, MirroredMember] = field(default_factory=dict)
    """Members that use the gateway, in the order of `asked_at`."""
    epoch: int = 0
    """Highest member epoch that was seen."""
    target_at: Millis = 0
    """Time at which that epoch was seen."""
    free: set[Partition] = field(default_factory=set)
    """Partitions that members gave up and nobody got since."""
    revoking: set[str] = field(default_factory=set)
    """Members that owe the acknowledgement that they gave up partitions."""
    asked_at: Millis = 0
    """Time of the last heartbeat that the coordinator got for any member."""
    changed_at: Millis = 0
    """Time at which something last happened that may be news for members."""

    @property
    def awaits_target(self) -> bool:
        """Never known here: the coordinator computes the target."""
        return False

    @property
    def moving(self) -> Collection[str]:
        """Nobody: news that the coordinator gave for a member is passed on at once."""
        return ()

    def waits_for(self, member_id: str) -> Collection[GroupPartition]:
        """Return nothing: the target of a member is not known."""
        return ()

    def would_move(self, member_id: str) -> bool:
        """Return False: see `moving`."""
        return False

    def settles(self, now: Millis) -> bool:
        """Return whether something happened recently, so that all heartbeats are passed on."""
        return now - self.changed_at < SETTLING

    @property
    def is_moving(self) -> bool:
        """Whether partitions are on their way from one member to another."""
        return bool(self.free or self.revoking)

    def answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        facts: MemberFacts,
        now: Millis,
    ) -> bool:
        """Take the coordinator's answer to a heartbeat. Return whether there may be news for other members."""
        if request.member_epoch < 0 or response.error_code:
            return self._gone(request, response)
        member = self.members.get(facts.member_id)
        news = member is None or _describes(request)
        if member is None:
            member = self.members[facts.member_id] = MirroredMember(facts, self)
        if request.topic_partitions is not None:
            news |= self._reported(member, _partitions(request.topic_partitions))
        if response.assignment is not None:
            self._assigned(member, _partitions(response.assignment.topic_partitions))
        member.epoch = response.member_epoch
        if response.member_epoch > self.epoch:
            self.epoch, self.target_at = response.member_epoch, now
            news = True
        return news

    def _gone(self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> bool:
        left = request.member_epoch < 0 and not response.error_code
        if not left and response.error_code not in _NO_MEMBER:
            return False
        member = self.members.pop(request.member_id, None)
        if member is not None:
            self.revoking.discard(member.member_id)
            self.free |= member.assigned
        return True

    def _reported(self, member: MirroredMember, owned: frozenset[Partition]) -> bool:
        if not member.must_revoke or not owned <= member.assigned:
            return False
        self.revoking.discard(member.member_id)
        return True

    def _assigned(self, member: MirroredMember, assigned: frozenset[Partition]) -> None:
        lost = member.assigned - assigned
        if lost:
            self.revoking.add(member.member_id)
            self.free |= lost
        self.free -= assigned
        member.assigned = assigned


class MirroredConsumerGroups:
    """All consumer groups of one gateway."""

    def __init__(self) -> None:
        self.by_id: dict[str, MirroredConsumerGroup] = {}
        self._settings: dict[str, Settings] = {}

    def settings(self, group_id: str) -> Settings:
        """Return the settings of a group."""
        return self._settings.get(group_id) or _DEFAULTS

    def learn_interval(self, group_id: str, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take the heartbeat interval of a group from the coordinator's answer."""
        known = self.settings(group_id)
        if response.heartbeat_interval_ms > 0 and known.heartbeat_interval_ms != response.heartbeat_interval_ms:
            self._settings[group_id] = Settings(response.heartbeat_interval_ms)

    def member(self, request: ConsumerGroupHeartbeatRequest) -> MirroredMember | None:
        """Return the member that sent a heartbeat, if it is known."""
        group = self.by_id.get(request.group_id)
        return None if group is None else group.members.get(request.member_id)

    def heartbeats_per_ms(self, group: MirroredConsumerGroup) -> float:
        """Return how many heartbeats the members of a group would send without the gateway."""
        return len(group.members) / self.settings(group.group_id).heartbeat_interval_ms

    def affords_probes(self, group: MirroredConsumerGroup) -> bool:
        """Return whether a probe in each `PROBE_INTERVAL` is within the budget, whenever members send heartbeats."""
        return (ALLOWED - 1) * self.heartbeats_per_ms(group) * PROBE_INTERVAL >= 1

    def count(self, group: MirroredConsumerGroup, member: MirroredMember, now: Millis) -> None:
        """Note a heartbeat that the coordinator gets."""
        del group.members[member.member_id]
        group.members[member.member_id] = member  # the last one in the order of these times
        member.asked_at = group.asked_at = now
        member.may_have_news = False
        if not group.settles(now):
            group.budget.sent(self.heartbeats_per_ms(group), now)

    def forget(self, group_id: str) -> None:
        """Forget a group without members."""
        del self.by_id[group_id]
        self._settings.pop(group_id, None)


_DEFAULTS = Settings()
_NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
"""Errors after which a member has to join again."""


def _describes(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.member_epoch == 0
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
    )


def _partitions(topics: Collection[TopicPartitions]) -> frozenset[Partition]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)
