"""The interface of the prompt room: when answers leave, and which heartbeat interval they tell.

The rules make each answer. This room decides whether it leaves at once or waits for news, and with
which interval. A coordinator that does not hold heartbeats has no room (`prompt` is None).
"""

from collections.abc import Collection, Iterable

from kohort.coordinator.effects import Effects, RequestContext, Token
from kohort.coordinator.prompt import classic_heartbeats, consumer_heartbeats, rebalance_notification
from kohort.coordinator.prompt.client_timings import NEW_PARTITIONS_TAKEN, REVOCATION_MAX, TARGET_WAIT_MIN
from kohort.coordinator.prompt.facts import ClassicGroupFacts, ClassicMemberFacts, GroupFacts
from kohort.coordinator.prompt.held_heartbeats import HeldHeartbeat, WaitingRequest
from kohort.coordinator.prompt.returning_members import lasting_name
from kohort.coordinator.prompt.room_state import RoomState
from kohort.coordinator.timers import HeldHeartbeatsDue, HeldSyncsDue, NewPartitionsCheck
from kohort.errors import ErrorCode
from kohort.model import UUID, Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Identity = tuple[str | None, str]
"""Instance ID, if any, and client ID of a member."""


class PromptHeartbeats:
    """Decides when the answers of one coordinator leave."""

    __slots__ = ("_held", "_room")

    def __init__(self, groups: GroupFacts, hold_ms: Millis) -> None:
        """Create a room that holds heartbeats for at most `hold_ms`, which is not 0."""
        assert hold_ms > 0
        self._room = RoomState(hold_ms, groups)
        self._held = self._room.held

    # Heartbeats, from the rules

    def answer_or_hold_classic(
        self, request: HeartbeatRequest, code: ErrorCode, now: Millis, token: Token | None
    ) -> ErrorCode | HeldHeartbeat:
        """Answer a classic heartbeat with `code` or, with a token and without news, hold it."""
        return classic_heartbeats.answer_or_hold(self._room, request, code, now, token)

    def answer_or_hold(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        response: ConsumerGroupHeartbeatResponse,
        now: Millis,
        out: Effects,
        *,
        repeats_offers: bool,
    ) -> None:
        """Answer a consumer group's heartbeat with `response` and an interval, or hold it if there is no news.

        `repeats_offers`: the heartbeat only repeats the offered assignors that were answered before.
        """
        consumer_heartbeats.answer_or_hold(
            self._room, request, context, response, now, out, repeats_offers=repeats_offers
        )

    def hold_without_effects(
        self, request: ConsumerGroupHeartbeatRequest, token: Token, now: Millis
    ) -> HeldHeartbeat | None:
        """Hold a heartbeat without news in either direction; return None if that needs Effects or is not possible."""
        return consumer_heartbeats.hold_without_effects(self._room, request, token, now)

    def is_held(self, group_id: str, member_id: str) -> bool:
        """Return whether a heartbeat of the member is held."""
        return self._held.of_member(group_id, member_id) is not None

    def held_of(self, group_id: str, member_id: str) -> HeldHeartbeat | None:
        """Return the held heartbeat of the member, if any."""
        return self._held.of_member(group_id, member_id)

    def told_interval_ms(self, group_id: str, member_id: str) -> Millis:
        """Return the heartbeat interval in the last answer to a consumer group's member; 0 for the group's own."""
        state = self._held.states.get((group_id, member_id))
        return 0 if state is None else state.interval_ms

    def session_started(self, member: ClassicMemberFacts, now: Millis) -> None:
        """Record that a classic member's session starts with an answer other than to a heartbeat."""
        classic_heartbeats.session_started(member.heartbeats, now)

    def member_removed(self, group_id: str, member_id: str) -> None:
        """Forget a member that was removed from a consumer group, and note that this is news for it."""
        self._held.news_for_member(group_id, member_id)
        self._held.forget_member(group_id, member_id)

    def skip_time_of_member(self, group_id: str, member_id: str, by: Millis) -> None:
        """Hold a member's heartbeat for as much real time as before, although the clock is about to jump by `by`."""
        self._held.skip_time_of_member(group_id, member_id, by)

    def skip_time_of_classic_member(self, member: ClassicMemberFacts, group_id: str, by: Millis) -> None:
        """Do the same for a classic member, whose heartbeats tell its interval."""
        member.heartbeats.skip_time(by)
        self._held.skip_time_of_member(group_id, member.member_id, by)

    # News, from the rules

    def news_for_group(self, group_id: str) -> None:
        """Note that there may be news for every member of the group."""
        self._held.news_for_group(group_id)

    def news_for_member(self, group_id: str, member_id: str) -> None:
        """Note that there may be news for this member."""
        self._held.news_for_member(group_id, member_id)

    @property
    def waits_for_partitions(self) -> bool:
        """Whether a member waits for a partition, so that `partitions_freed` has an effect."""
        return self._held.waits_for_partitions

    def partitions_freed(self, group_id: str, topic_id: UUID, partitions: Collection[int]) -> None:
        """Note news for the members that wait for these partitions, which were given up."""
        self._held.partitions_freed(group_id, topic_id, partitions)

    # Rebalances of classic groups, from the rules

    def rebalance_began(self, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
        """Notify the members of a rebalance, at once or later together."""
        rebalance_notification.rebalance_began(self._room, group, now, out)

    def new_members_until(self, group: ClassicGroupFacts, now: Millis) -> Millis | None:
        """Return until when the rebalance of a new member waits for more; None if it does not wait."""
        return rebalance_notification.new_members_until(group, now)

    def new_member_arrived(self, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
        """Record that a new member sent its first JoinGroup."""
        rebalance_notification.new_member_arrived(self._room, group, now, out)

    def member_left(self, group: ClassicGroupFacts, now: Millis) -> None:
        """Record that a member announced that it leaves."""
        group.restarts.member_left(now)

    def members_changed(self, group: ClassicGroupFacts, now: Millis) -> None:
        """Notify the remaining members of the rebalance if nothing is awaited any more."""
        rebalance_notification.notify_if_possible(self._room, group, now)

    def notification_due(self, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
        """Handle the timer `NotificationDue`."""
        rebalance_notification.notification_due(self._room, group, now, out)

    def generation_ended(self, group: ClassicGroupFacts, members: Iterable[Identity], now: Millis) -> None:
        """Record the members of the last generation, which may return when the group is empty."""
        group.former_members.generation_ended((lasting_name(*identity) for identity in members), now)

    def have_returned(self, group: ClassicGroupFacts, members: Iterable[Identity], now: Millis) -> bool:
        """Return whether all former members are among these, so that the initial rebalance delay may end."""
        return group.former_members.have_returned((lasting_name(*identity) for identity in members), now)

    def hold_syncs(self, group_id: str, now: Millis, out: Effects) -> None:
        """Limit the wait of SyncGroups for the members of a cooperative group that must give up partitions."""
        out.timers[HeldSyncsDue(group_id)] = now + REVOCATION_MAX

    def check_new_partitions(self, group_id: str, now: Millis, out: Effects) -> None:
        """Set the timer to check whether the members of a classic group have discovered new partitions."""
        out.timers[NewPartitionsCheck(group_id)] = now + NEW_PARTITIONS_TAKEN

    # Targets of consumer groups, from the rules

    def assignment_interval_ms(self, configured: Millis, changes_for: Millis) -> Millis:
        """Return the minimum time between two targets, at most the configured one.

        Members receive a target immediately, and the interval would be most of their waiting time. The
        interval exists for series of changes, so a target waits at most as long as the current series
        has lasted (`changes_for`).
        """
        return min(configured, max(TARGET_WAIT_MIN, changes_for))

    # From the shell

    @property
    def held(self) -> Collection[HeldHeartbeat]:
        """The held heartbeats."""
        return self._held.all

    @property
    def ends_at(self) -> Millis | None:
        """Time at which the timer `HeldHeartbeatsDue` must fire; None if nothing is held."""
        return self._held.ends_at

    @property
    def has_news(self) -> bool:
        """Whether `answer_news` must be called."""
        return bool(self._held.news)

    def answer_news(self, now: Millis, out: Effects) -> None:
        """Answer held heartbeats for which there is news, until an answer needs records.

        The caller must append and replay those before the next call.
        """
        while not out.records and (held := self._held.next_news()) is not None:
            request = held.request
            if isinstance(request, HeartbeatRequest):
                code = self._room.groups.classic_answer(request, now)
                if code is not ErrorCode.NONE:
                    self._held.drop(held)
                    out.replies[held.token] = HeartbeatResponse(error_code=code)
            else:
                self._answer_news(held, request, now, out)

    def _answer_news(
        self, held: HeldHeartbeat, request: ConsumerGroupHeartbeatRequest, now: Millis, out: Effects
    ) -> None:
        """Answer a held heartbeat, or hold it again.

        A member for which only the epoch is new is answered once all other members have reconciled.
        """
        room, group = self._room, self._room.groups.consumer(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is not None and member is not None and consumer_heartbeats.only_epoch_is_new(group, member):
            self._held.wait_for(held, group.waits_for(member.member_id))
            return
        # The heartbeat reported no change, so the rules take the client's ID and host from the member.
        context = RequestContext(held.token, held.api_version, may_hold=True)
        response = room.groups.consumer_answer(request, context, now, out)
        self._held.drop(held)
        repeats_offers = request.offered_assignors is not None
        consumer_heartbeats.answer_or_hold(
            room, request, context, response, now, out, held, repeats_offers=repeats_offers
        )

    def holds_due(self, now: Millis, out: Effects) -> None:
        """Answer heartbeats whose hold is over: their clients waited, so later ones may be held as well."""
        for held in self._held.take_due(now):
            self._client_waited(held, now)
            out.replies[held.token] = self._answer_at_end(held, None, now, out)
        if self._held.ends_at is not None:
            out.timers[HeldHeartbeatsDue()] = self._held.ends_at

    def release(self, token: Token, behind: WaitingRequest, now: Millis, out: Effects) -> None:
        """Answer a held heartbeat because another request waits behind it."""
        held = self._held.of_token(token)
        if held is not None:
            self._held.drop(held)
            self._client_waited(held, now)
            out.replies[token] = self._answer_at_end(held, behind, now, out)

    def disconnected(self, token: Token) -> None:
        """Drop a held heartbeat whose connection is closed: the member died, or its client did not wait."""
        held = self._held.of_token(token)
        if held is not None:
            self._held.drop(held)
            group_id, member_id = held.request.group_id, held.request.member_id
            group = self._room.groups.classic(group_id)
            if group is None:
                self._held.state(group_id, member_id).failed_holds += 1
            elif member_id in group.members:
                group.members[member_id].heartbeats.failed_holds += 1

    def refuse_all(self, out: Effects) -> None:
        """Refuse all held heartbeats with NOT_COORDINATOR, because the shard moves away."""
        for held in self._held.take_all():
            out.replies[held.token] = _refused(held, ErrorCode.NOT_COORDINATOR)

    def _client_waited(self, held: HeldHeartbeat, now: Millis) -> None:
        """Record that the member's client waited for the end of a hold."""
        group_id, member_id = held.request.group_id, held.request.member_id
        state = self._held.states.get((group_id, member_id))
        if state is not None:
            state.failed_holds = 0
        group = self._room.groups.classic(group_id)
        if group is not None and member_id in group.members:
            history = group.members[member_id].heartbeats
            history.failed_holds, history.released_at = 0, now

    def _answer_at_end(self, held: HeldHeartbeat, behind: WaitingRequest | None, now: Millis, out: Effects) -> Message:
        room, request = self._room, held.request
        if isinstance(request, HeartbeatRequest):
            code = classic_heartbeats.answer_at_end(room, held, request, behind, now)
            return HeartbeatResponse(error_code=code)
        group = room.groups.consumer(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is None:  # it was removed, or another process has taken its instance ID
            context = RequestContext(held.token, held.api_version)
            return room.groups.consumer_answer(request, context, now, out)
        if behind is WaitingRequest.OTHERS_HEARTBEAT:
            return consumer_heartbeats.answer_with_usual_interval(room, member, held)
        return consumer_heartbeats.answer_at_end(room, member, held, now, released=behind is not None)


def _refused(held: HeldHeartbeat, code: ErrorCode) -> Message:
    if isinstance(held.request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=code)
    return HeartbeatResponse(error_code=code)
