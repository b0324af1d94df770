"""`GroupShard`: one partition of `__consumer_offsets` as a state machine."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from kohort.assignor.server import SERVER_ASSIGNORS, ServerAssignor
from kohort.coordinator.absence import connection_lost, grace_ms
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.config import DEFAULT_SETTINGS, GroupConfig, GroupSettings
from kohort.coordinator.consumer.describe import describe_consumer_groups
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.heartbeat import consumer_heartbeat, quiet_heartbeat
from kohort.coordinator.consumer.loading import resume
from kohort.coordinator.consumer.loads import Extent, loads_measured, weighed_topics
from kohort.coordinator.consumer.metadata import MetadataImage
from kohort.coordinator.consumer.refresh import settings_changed, topics_changed
from kohort.coordinator.deletion import delete_groups, delete_offsets, forget_topics
from kohort.coordinator.describe import describe, listed
from kohort.coordinator.effects import Effects, Record, RequestContext, Token
from kohort.coordinator.events import Cause, Why
from kohort.coordinator.firing import cancel_timers, cancel_timers_of_consumer_group, fire
from kohort.coordinator.groups import Groups
from kohort.coordinator.growing import topics_grown
from kohort.coordinator.holding import heartbeat_or_hold
from kohort.coordinator.holds import Behind, Held
from kohort.coordinator.join import join
from kohort.coordinator.join_phase import begin_and_proceed, turn_away
from kohort.coordinator.membership import leave
from kohort.coordinator.offsets import commit, fetch
from kohort.coordinator.releasing import given_up, refuse_held, release, tell_next
from kohort.coordinator.replay import replay, replay_all
from kohort.coordinator.sessions import expect_heartbeat
from kohort.coordinator.states import GroupState
from kohort.coordinator.sync import sync
from kohort.coordinator.timers import (
    HoldsEnd,
    OffsetExpiry,
    Timer,
)
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.join_group import JoinGroupRequest
from kohort.wire.leave_group import LeaveGroupRequest
from kohort.wire.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.offset_commit import OffsetCommitRequest
from kohort.wire.offset_delete import OffsetDeleteRequest
from kohort.wire.offset_fetch import OffsetFetchRequest
from kohort.wire.sync_group import SyncGroupRequest


class GroupShard:
    """All groups of one partition of `__consumer_offsets`.

    For every call that returns Effects the caller appends the records as one batch, replays each, sets the timers,
    and sends the replies once the records are durable; only then it calls again. When an append fails it throws the
    shard away and loads another from the log: what the shard lived through since did not happen.

    To load: `replay` every record of the partition in order, then `loaded`.
    """

    def __init__(
        self,
        config: GroupConfig,
        fresh_id: Callable[[], str],
        *,
        assignors: Iterable[ServerAssignor] = SERVER_ASSIGNORS.values(),
        settings: Callable[[str], GroupSettings] = lambda group_id: DEFAULT_SETTINGS,
    ) -> None:
        """`fresh_id` gives ids that nobody can guess, such as random UUIDs: they become parts of member ids.

        `assignors` are those that members of consumer groups may ask for, the default one first. `settings` says what
        counts for a consumer group at this moment; it is asked at every heartbeat.
        """
        by_name = {assignor.name: assignor for assignor in assignors}
        self._groups = Groups(config, fresh_id, by_name, settings)
        self._loaded = False
        self._resigned = False

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The classic groups by id, to look at."""
        return {group_id: one for group_id, one in self._groups.by_id.items() if isinstance(one, ClassicGroup)}

    @property
    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """The consumer groups by id, to look at."""
        return {group_id: one for group_id, one in self._groups.by_id.items() if isinstance(one, ConsumerGroup)}

    def members(self, group_id: str) -> Collection[str]:
        """The ids of a group's members; empty for a group that is not there."""
        group = self._groups.get(group_id)
        return () if group is None else group.members.keys()

    @property
    def parked(self) -> Set[Token]:
        """The requests that wait for other members."""
        return self._groups.parked.keys()

    @property
    def held(self) -> Collection[Token]:
        """The heartbeats that wait for news."""
        return self._groups.holds.tokens

    def handle(self, request: Message, context: RequestContext, now: Millis) -> Effects:
        """Take one request. The reply is in these Effects, or in later ones when it has to wait for other members.

        An OffsetFetch, DescribeGroups or DeleteGroups names groups of this shard alone, in any version's form;
        topics have names also where the version has ids.
        """
        assert not self._resigned, "its state is another's now (KAFKA-10614)"
        out = Effects()
        groups = self._groups
        match request:
            case HeartbeatRequest():
                code = heartbeat_or_hold(groups, request, now, None)
                assert not isinstance(code, Held), "there was no token"
                out.replies[context.token] = HeartbeatResponse(error_code=code)
            case OffsetCommitRequest():
                commit(groups, request, context, now, out)
            case ConsumerGroupHeartbeatRequest():
                consumer_heartbeat(groups, request, context, now, out)
            case JoinGroupRequest():
                join(groups, request, context, now, out)
            case SyncGroupRequest():
                sync(groups, request, context, now, out)
            case LeaveGroupRequest():
                leave(groups, request, context, now, out)
            case OffsetFetchRequest():
                fetch(groups, request, context, out)
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

    def heartbeat(self, request: HeartbeatRequest, now: Millis, token: Token | None = None) -> ErrorCode | Held:
        """`handle` for a heartbeat, without Effects: it needs no record.

        With a token, which says that the shell calls `release`, it may be held; then the shell sees to `holds_end_at`.
        """
        return heartbeat_or_hold(self._groups, request, now, token)

    def quiet_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ConsumerGroupHeartbeatResponse | Held | None:
        """`handle` for a consumer group's heartbeat that has nothing to say and nothing to hear, without Effects.

        None if it is not such a heartbeat: then `handle` must take it. With a token, which says that the shell calls
        `release`, it may be held.
        """
        return quiet_heartbeat(self._groups, request, now, token)

    # Held heartbeats

    @property
    def holds_end_at(self) -> Millis | None:
        """When `HoldsEnd` must be fired; a heartbeat that is held without Effects may bring it forward."""
        return self._groups.holds.ends_at

    @property
    def has_news(self) -> bool:
        """Whether `tell` must be called: what was replayed may be news for members whose heartbeats are held."""
        return bool(self._groups.holds.news)

    def tell(self, now: Millis) -> Effects:
        """Answer held heartbeats for which there is news. To be called again while there is any, in slices."""
        out = Effects()
        tell_next(self._groups, now, out)
        return out

    def release(self, token: Token, behind: Behind, now: Millis) -> Effects:
        """Another request waits behind a held heartbeat on its connection: answer that one now."""
        out = Effects()
        release(self._groups, token, behind, now, out)
        return out

    def fire(self, timer: Timer, now: Millis) -> Effects:
        """Take a timer whose time has come. One for what is gone meanwhile does nothing."""
        out = Effects()
        fire(self._groups, timer, now, out)
        return out

    def replay(self, record: Record) -> None:
        """Let a record take effect: one that was just appended, or one that is found when the shard is loaded."""
        replay(self._groups, record)

    def replay_all(self, records: Iterable[Record]) -> None:
        """`replay` for records in order, such as those of one append."""
        assert not self._resigned
        replay_all(self._groups, records)

    def loaded(self, now: Millis) -> Effects:
        """After a load: give every member a whole session, since nobody knows when it was last heard of."""
        out = Effects()
        self._loaded = True
        for group in self._groups.by_id.values():
            if isinstance(group, ConsumerGroup):
                resume(self._groups, group, now, out)
                continue
            for member in group.members.values():
                expect_heartbeat(group, member, now, out)
            if len(group.members) > self._groups.config.max_size:
                begin_and_proceed(self._groups, group, Why(Cause.GROUP_TOO_LARGE), now, out)
            elif group.members and group.leader_id is None:
                # It was a consumer group, and the broker was gone before its members had shared anew.
                begin_and_proceed(self._groups, group, Why(Cause.MEMBER_LEFT), now, out)
        out.timers[OffsetExpiry()] = now + self._groups.config.offsets_retention_check_interval_ms
        return out

    def metadata_changed(self, image: MetadataImage, now: Millis) -> Effects:
        """These are the topics from now on; also before `loaded`, which then looks at every group once.

        Consumer groups are refused COORDINATOR_LOAD_IN_PROGRESS until the first. One that follows costs the groups that
        ask for a topic that it changes.
        """
        out = Effects()
        old, self._groups.metadata = self._groups.metadata, image
        if self._loaded:
            topics_changed(self._groups, old, now, out)
            topics_grown(self._groups, old, now, out)
        return out

    def settings_changed(self, group_ids: Iterable[str], now: Millis) -> Effects:
        """`settings` says something else of these groups. A shorter session counts at once, and so does an assignor."""
        out = Effects()
        settings_changed(self._groups, group_ids, now, out)
        return out

    @property
    def weighed_topics(self) -> frozenset[str]:
        """The topics of groups whose assignor weighs what partitions cost: `loads_measured` wants to know of them."""
        return weighed_topics(self._groups)

    def loads_measured(self, extents: Mapping[str, Sequence[Extent]], now: Millis) -> Effects:
        """What the logs of weighed topics hold, by topic and partition. A group may be shared otherwise for it."""
        out = Effects()
        if self._loaded:
            loads_measured(self._groups, extents, now, out)
        return out

    def topics_deleted(self, names: Collection[str], now: Millis) -> Effects:
        """These topics are gone: what was committed for them is forgotten. Members find out for themselves."""
        out = Effects()
        forget_topics(self._groups, names, out)
        return out

    def disconnected(self, token: Token, now: Millis) -> Effects:
        """The connection of a parked request is gone: its reply will not be made. The member stays for its session."""
        self._groups.disconnected(token)
        given_up(self._groups, token)
        return Effects()

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """How long a member may stay away whose connection is gone; None where only its session counts."""
        return grace_ms(self._groups, group_id, member_id)

    def connection_lost(self, group_id: str, member_id: str, now: Millis) -> Effects:
        """A member's connection is gone, and it was not heard of on another for `grace_ms`."""
        out = Effects()
        connection_lost(self._groups, group_id, member_id, now, out)
        return out

    def resign(self) -> Effects:
        """The shard moves away, or its append failed: whoever is parked shall look for the coordinator again."""
        out = Effects()
        groups = self._groups
        for group in groups.by_id.values():
            if isinstance(group, ConsumerGroup):
                cancel_timers_of_consumer_group(group, out)
                continue
            turn_away(groups, group, lambda member_id: ErrorCode.NOT_COORDINATOR, out)
            cancel_timers(group, out)
            group.transition_to(GroupState.DEAD)
        out.timers[OffsetExpiry()] = out.timers[HoldsEnd()] = None
        refuse_held(groups, out)
        groups.by_id = {}
        self._resigned = True
        assert not groups.parked
        return out
