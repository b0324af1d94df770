"""`GroupShard`: one partition of `__consumer_offsets` as a state machine."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from kohort.assignor.server import SERVER_ASSIGNORS, ServerAssignor
from kohort.coordinator.classic import (
    ClassicGroup,
    partitions_added,
    resign_classic_group,
    resume_classic_group,
)
from kohort.coordinator.classic_protocol import heartbeat, join, leave, sync
from kohort.coordinator.config import DEFAULT_SETTINGS, GroupConfig, GroupSettings
from kohort.coordinator.consumer import (
    ConsumerGroup,
    PartitionExtent,
    acls_changed,
    cancel_consumer_timers,
    consumer_heartbeat,
    describe_consumer_groups,
    loads_measured,
    quiet_heartbeat,
    resume_consumer_group,
    settings_changed,
    topics_changed,
    weighed_topics,
)
from kohort.coordinator.describe import describe, listed
from kohort.coordinator.disconnects import connection_lost, expire_member, grace_ms, short_grace_ms
from kohort.coordinator.effects import Effects, RequestContext, Token, Viewer
from kohort.coordinator.group_facts import ShardGroupFacts
from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets import (
    commit,
    commit_in_transaction,
    delete_groups,
    delete_offsets,
    fetch,
    forget_topics,
)
from kohort.coordinator.prompt import HeldHeartbeat, PromptHeartbeats, WaitingRequest
from kohort.coordinator.replay import replay, replay_all, replay_end, replay_pending
from kohort.coordinator.skipped_time import skip_time
from kohort.coordinator.timer_firing import fire
from kohort.coordinator.timers import (
    HeldHeartbeatsDue,
    OffsetExpiry,
    Timer,
)
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.group_log import GroupRecord
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_delete import OffsetDeleteRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest
from kohort.wire.messages.sync_group import SyncGroupRequest
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupShard:
    """All groups of one partition of `__consumer_offsets`.

    For every call that returns Effects, the caller appends the records as one batch, replays each of
    them (with `replay_pending` if they have a producer), sets the timers, and sends the replies once
    the records are durable. Only then may it make the next call. If an append fails, the caller
    discards the shard and loads a new one from the log, so that later changes of the discarded shard
    have no effect.

    To load a shard, call `replay` for every record of the partition in order, then `loaded`.
    """

    def __init__(
        self,
        config: GroupConfig,
        fresh_id: Callable[[], str],
        *,
        assignors: Iterable[ServerAssignor] = SERVER_ASSIGNORS.values(),
        settings: Callable[[str], GroupSettings] = lambda group_id: DEFAULT_SETTINGS,
        may_describe: Callable[[Viewer, str], bool] | None = None,
    ) -> None:
        """Create an empty shard; see the class for how to load it.

        `fresh_id` returns IDs that cannot be guessed, such as random UUIDs; they become parts of member
        IDs. `assignors` are the assignors that members of consumer groups may request, the default
        first. `settings` returns the current settings of a consumer group; it is called at every
        heartbeat. `may_describe` decides which topics the expressions of a client match; None means all.
        """
        by_name = {assignor.name: assignor for assignor in assignors}
        self._groups = groups = Groups(config, fresh_id, by_name, settings, may_describe=may_describe)
        if config.heartbeat_hold_ms:
            groups.prompt = PromptHeartbeats(ShardGroupFacts(groups), config.heartbeat_hold_ms)
        self._loaded = False
        self._resigned = False

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The classic groups by ID, for inspection."""
        return {group_id: group for group_id, group in self._groups.by_id.items() if isinstance(group, ClassicGroup)}

    @property
    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """The consumer groups by ID, for inspection."""
        return {group_id: group for group_id, group in self._groups.by_id.items() if isinstance(group, ConsumerGroup)}

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return a group, for inspection; None if it does not exist."""
        return self._groups.get(group_id)

    def members(self, group_id: str) -> Collection[str]:
        """Return the IDs of a group's members; empty if the group does not exist."""
        group = self._groups.get(group_id)
        return () if group is None else group.members.keys()

    @property
    def parked(self) -> Set[Token]:
        """Tokens of the JoinGroup and SyncGroup requests that wait for other members."""
        return self._groups.parked.keys()

    @property
    def held(self) -> Collection[HeldHeartbeat]:
        """The held heartbeats."""
        prompt = self._groups.prompt
        return () if prompt is None else prompt.held

    def handle(self, request: Message, context: RequestContext, now: Millis) -> Effects:
        """Handle one request.

        The reply is in the returned Effects, or in later ones if it has to wait for other members.
        OffsetFetch, DescribeGroups and DeleteGroups requests must name only groups of this shard, in
        the form of any version. Topics must have names even in versions that identify them by ID.
        """
        assert not self._resigned, "its state is another's now (KAFKA-10614)"
        out = Effects()
        groups = self._groups
        match request:
            case HeartbeatRequest():
                code = self.heartbeat(request, now)
                assert not isinstance(code, HeldHeartbeat), "there was no token"
                out.replies[context.token] = HeartbeatResponse(error_code=code)
            case OffsetCommitRequest():
                commit(groups, request, context, now, out)
            case ConsumerGroupHeartbeatRequest():
                consumer_heartbeat(groups, request, context, now, out)
            case TxnOffsetCommitRequest():
                commit_in_transaction(groups, request, context, now, out)
            case JoinGroupRequest():
                join(groups, request, context, now, out)
            case SyncGroupRequest():
                sync(groups, request, context, now, out)
            case LeaveGroupRequest():
                leave(groups, request, context, now, out)
            case OffsetFetchRequest():
                fetch(groups, request, context, now, out)
            case DescribeGroupsRequest():
                described = describe(groups, request, context.api_version)
                out.replies[context.token] = DescribeGroupsResponse(groups=described)
            case ConsumerGroupDescribeRequest():
                out.replies[context.token] = describe_consumer_groups(groups, request)
            case ListGroupsRequest():
                out.replies[context.token] = ListGroupsResponse(groups=listed(groups, request))
            case DeleteGroupsRequest():
                out.replies[context.token] = DeleteGroupsResponse(results=delete_groups(groups, request, out))
            case OffsetDeleteRequest():
                delete_offsets(groups, request, context, out)
            case _:
                raise AssertionError(f"{type(request).__name__} is no request to a group coordinator")
        return out

    def heartbeat(
        self, request: HeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ErrorCode | HeldHeartbeat:
        """Handle a classic heartbeat like `handle`, but without Effects, because it needs no record.

        With a token, the heartbeat may be held. The shell must then call `release` if another request
        arrives behind it, and fire `HeldHeartbeatsDue` at `holds_end_at`.
        """
        code, prompt = heartbeat(self._groups, request, now), self._groups.prompt
        return code if prompt is None else prompt.answer_or_hold_classic(request, code, now, token)

    def quiet_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ConsumerGroupHeartbeatResponse | HeldHeartbeat | None:
        """Handle a consumer group's heartbeat that neither reports nor receives news, without Effects.

        Return None for any other heartbeat; the caller must then pass it to `handle`. With a token,
        the heartbeat may be held, and the shell must call `release` if another request arrives
        behind it.
        """
        return quiet_heartbeat(self._groups, request, now, token)

    # Held heartbeats

    @property
    def holds_end_at(self) -> Millis | None:
        """Time at which `HeldHeartbeatsDue` must fire; a heartbeat that is held without Effects may move it forward."""
        prompt = self._groups.prompt
        return None if prompt is None else prompt.ends_at

    @property
    def has_news(self) -> bool:
        """Whether `answer_news` must be called: replayed records may be news for members with held heartbeats."""
        prompt = self._groups.prompt
        return prompt is not None and prompt.has_news

    def answer_news(self, now: Millis) -> Effects:
        """Answer held heartbeats for which there is news. Call it repeatedly, in slices, while `has_news`."""
        out, prompt = Effects(), self._groups.prompt
        if prompt is not None:
            prompt.answer_news(now, out)
        return out

    def release(self, token: Token, behind: WaitingRequest, now: Millis) -> Effects:
        """Answer a held heartbeat because another request, `behind`, waits behind it on its connection."""
        out, prompt = Effects(), self._groups.prompt
        if prompt is not None:
            prompt.release(token, behind, now, out)
        return out

    def fire(self, timer: Timer, now: Millis) -> Effects:
        """Handle a timer that has expired. A timer whose group or member no longer exists does nothing."""
        out = Effects()
        fire(self._groups, timer, now, out)
        return out

    def replay(self, record: GroupRecord) -> None:
        """Apply a record: one that was just appended, or one that is read while the shard loads."""
        replay(self._groups, record)

    def replay_all(self, records: Iterable[GroupRecord]) -> None:
        """Apply records in order, such as those of one append."""
        assert not self._resigned
        replay_all(self._groups, records)

    def replay_pending(self, records: Iterable[GroupRecord], producer_id: int) -> None:
        """Apply records of a transaction that is open: `Effects.producer`, or a transactional batch in the log."""
        for record in records:
            replay_pending(self._groups, record, producer_id)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction in this partition."""
        replay_end(self._groups, producer_id, committed=committed)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> Effects:
        """Apply the marker of a transaction that ends now, as `replay_end` does, and report what waited for it."""
        out = Effects(events=[*self._groups.hold_ups.ended(producer_id, committed=committed)])
        replay_end(self._groups, producer_id, committed=committed)
        return out

    def loaded(self, now: Millis) -> Effects:
        """Complete a load: start a full session for every member, since their last heartbeats are unknown."""
        out = Effects()
        self._loaded = True
        for group in self._groups.by_id.values():
            if isinstance(group, ConsumerGroup):
                resume_consumer_group(self._groups, group, now, out)
            else:
                resume_classic_group(self._groups, group, now, out)
        out.timers[OffsetExpiry()] = now + self._groups.config.offsets_retention_check_interval_ms
        return out

    def metadata_changed(self, image: MetadataImage, now: Millis) -> Effects:
        """Replace the topic metadata. May be called before `loaded`, which then checks every group once.

        Until the first call, consumer groups are refused with COORDINATOR_LOAD_IN_PROGRESS. The cost
        of each later call is proportional to the groups that subscribe to a changed topic.
        """
        out = Effects()
        old, self._groups.metadata = self._groups.metadata, image
        if self._loaded:
            topics_changed(self._groups, old, now, out)
            partitions_added(self._groups, old, now, out)
        return out

    def settings_changed(self, group_ids: Iterable[str], now: Millis) -> Effects:
        """Apply new results of `settings` for these groups. A shorter session and an assignor take effect at once."""
        out = Effects()
        settings_changed(self._groups, group_ids, now, out)
        return out

    def acls_changed(self, now: Millis) -> Effects:
        """Match expressions again because results of `may_describe` may have changed."""
        out = Effects()
        if self._loaded:
            acls_changed(self._groups, now, out)
        return out

    @property
    def weighed_topics(self) -> frozenset[str]:
        """Topics of groups whose assignor weighs the cost of partitions; `loads_measured` needs their extents."""
        return weighed_topics(self._groups)

    def loads_measured(self, extents: Mapping[str, Sequence[PartitionExtent]], now: Millis) -> Effects:
        """Record the extents of the logs of weighed topics, by topic and partition; may cause a new assignment."""
        out = Effects()
        if self._loaded:
            loads_measured(self._groups, extents, now, out)
        return out

    def topics_deleted(self, names: Collection[str], now: Millis) -> Effects:
        """Delete the offsets committed for deleted topics. Members detect the deletion themselves."""
        out = Effects()
        forget_topics(self._groups, names, out)
        return out

    def disconnected(self, token: Token, now: Millis) -> Effects:
        """Drop the reply to a request whose connection is closed. The member stays until its session ends."""
        self._groups.disconnected(token)
        if self._groups.prompt is not None:
            self._groups.prompt.disconnected(token)
        return Effects()

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a member may be disconnected, in milliseconds; None if only its session counts."""
        return grace_ms(self._groups, group_id, member_id)

    def short_grace_ms(self, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
        """Return how long a member may be disconnected whose process is very likely gone; None for no shorter time.

        - `who`: Host and client ID of the connection that it lost.
        """
        return short_grace_ms(self._groups, group_id, member_id, who)

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis, now: Millis) -> Effects:
        """Handle a member whose connection closed, and that sent nothing on another one within its grace period."""
        out = Effects()
        connection_lost(self._groups, group_id, member_id, now, out, closed_at=closed_at)
        return out

    def expire_member(self, group_id: str, member_id: str, now: Millis) -> Effects:
        """Remove a member as if its session had expired; do nothing if there is none."""
        out = Effects()
        expire_member(self._groups, group_id, member_id, now, out)
        return out

    def skip_time(
        self, by: Millis, connected: Set[tuple[str, str]], dead: Set[tuple[str, str]], now: Millis
    ) -> Set[Timer]:
        """Prepare for a clock that is about to jump by `by`, so that no member expires by it that lives.

        The caller postpones the returned timers by `by`, sets `HeldHeartbeatsDue` to `holds_end_at`, moves its clock
        and fires what is due. `connected` has the group ID and member ID of all members with an open connection, and
        `dead` has members that do not live although they seem to.
        """
        return skip_time(self._groups, by, connected, dead, now)

    def resign(self) -> Effects:
        """End the shard, which moves away or failed to append: waiting requests get NOT_COORDINATOR."""
        out = Effects()
        groups = self._groups
        for group in groups.by_id.values():
            if isinstance(group, ConsumerGroup):
                cancel_consumer_timers(group, out)
            else:
                resign_classic_group(groups, group, out)
        out.timers[OffsetExpiry()] = out.timers[HeldHeartbeatsDue()] = None
        if groups.prompt is not None:
            groups.prompt.refuse_all(out)
        groups.by_id = {}
        self._resigned = True
        assert not groups.parked
        return out
