"""The groups of one shard, and helpers that request handlers share."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kohort.assignor.server import ServerAssignor
from kohort.coordinator.classic import ClassicGroup, WaitingMember
from kohort.coordinator.config import DEFAULT_SETTINGS, GroupConfig, GroupSettings
from kohort.coordinator.consumer import ConsumerGroup, no_group
from kohort.coordinator.effects import Effects, RequestContext, Token, Viewer
from kohort.coordinator.hold_ups import HoldUps
from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.coordinator.topic_metadata import UNKNOWN, MetadataImage
from kohort.wire.codec import Message

Group = ClassicGroup | ConsumerGroup


@dataclass(slots=True)
class Groups:
    """Complete state of a shard."""

    config: GroupConfig
    fresh_id: Callable[[], str]
    """Return an ID that cannot be guessed: anyone who knows a member ID can act as that member."""
    assignors: Mapping[str, ServerAssignor] = field(default_factory=dict)
    """Server assignors by name, the default first."""
    settings: Callable[[str], GroupSettings] = lambda group_id: DEFAULT_SETTINGS
    """Return the current settings of a consumer group."""
    metadata: MetadataImage = UNKNOWN
    by_id: dict[str, Group] = field(default_factory=dict)
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    """Offsets in open transactions."""
    hold_ups: HoldUps = field(default_factory=HoldUps)
    """Members that wait for the end of these transactions."""
    by_topic: dict[str, dict[str, None]] = field(default_factory=dict)
    """By topic name, the IDs of the consumer groups that subscribe to it. A change of a topic affects only those."""
    with_expressions: dict[str, None] = field(default_factory=dict)
    """IDs of the consumer groups with expressions, which may match a topic that is created later."""
    may_describe: Callable[[Viewer, str], bool] | None = None
    """Return whether a client may describe a topic; None if every client may describe all."""
    parked: dict[Token, WaitingMember] = field(default_factory=dict)
    """Every JoinGroup and SyncGroup that waits for its answer."""
    prompt: PromptHeartbeats | None = None
    """Decides when answers leave; None if no heartbeats are held (group.heartbeat.hold.ms is 0)."""

    def get(self, group_id: str) -> Group | None:
        """Return the group with that ID, or None."""
        return self.by_id.get(group_id)

    # Classic groups

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the group with that ID if it is a classic group, else None."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def make_classic(self, group_id: str) -> ClassicGroup:
        """Create an empty classic group; it inherits the committed offsets of a group of another kind."""
        old = self.by_id.get(group_id)
        assert not isinstance(old, ClassicGroup)
        group = self.by_id[group_id] = ClassicGroup(group_id)
        if old is not None:
            group.offsets = old.offsets
            self._unlist(old)
        return group

    def start_classic(self, group_id: str, out: Effects) -> ClassicGroup:
        """Create an empty classic group. `out` deletes the records of an empty consumer group with that ID."""
        old = self.consumer(group_id)
        if old is not None:
            out.records += no_group(old)
        return self.make_classic(group_id)

    def drop_if_forgettable(self, group: Group) -> None:
        """Forget a group that has no members, no offsets and no record in the log."""
        if isinstance(group, ClassicGroup) and group.is_forgettable and not self.pending.has_group(group.group_id):
            self.by_id.pop(group.group_id, None)

    # Consumer groups

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the group with that ID if it is a consumer group, else None."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def make_consumer(self, group_id: str) -> ConsumerGroup:
        """Create an empty consumer group; it inherits the committed offsets of a group of another kind."""
        group = ConsumerGroup(group_id)
        self.adopt(group)
        return group

    def adopt(self, group: ConsumerGroup) -> None:
        """Register a new consumer group; see `make_consumer`."""
        old = self.by_id.get(group.group_id)
        assert not isinstance(old, ConsumerGroup)
        if old is not None:
            group.offsets = old.offsets
        self.by_id[group.group_id] = group

    def forget_consumer(self, group: ConsumerGroup) -> None:
        """Remove a deleted group; if offsets remain, they belong to a simple consumer's group from now on."""
        self._unlist(group)
        del self.by_id[group.group_id]
        if group.offsets:
            self.make_classic(group.group_id).offsets = group.offsets

    def list_topics(self, group: ConsumerGroup, names: Collection[str]) -> None:
        """Update which of these topics the group subscribes to, and whether it subscribes by expressions."""
        for name in names:
            listed = self.by_topic.setdefault(name, {})
            if group.is_subscribed(name):
                listed[group.group_id] = None
            else:
                listed.pop(group.group_id, None)
                if not listed:
                    del self.by_topic[name]
        if group.topics.expressions:
            self.with_expressions[group.group_id] = None
        else:
            self.with_expressions.pop(group.group_id, None)

    def _unlist(self, group: ConsumerGroup) -> None:
        for name in group.topics.counts:
            self.by_topic[name].pop(group.group_id)
            if not self.by_topic[name]:
                del self.by_topic[name]
        self.with_expressions.pop(group.group_id, None)

    # Waiting requests

    def park(self, context: RequestContext) -> WaitingMember:
        """Register a request that waits for its answer."""
        parked = self.parked[context.token] = WaitingMember(context.token, context.api_version)
        return parked

    def answer(self, parked: WaitingMember | None, response: Message, out: Effects) -> None:
        """Answer a waiting request, unless there is none or its connection is closed."""
        if parked is not None and parked.token is not None:
            del self.parked[parked.token]
            out.replies[parked.token] = response

    def disconnected(self, token: Token) -> None:
        """Drop the answer for a closed connection.

        The member stays: it may return with its ID, and otherwise its session timeout removes it.
        """
        parked = self.parked.pop(token, None)
        if parked is not None:
            parked.token = None
