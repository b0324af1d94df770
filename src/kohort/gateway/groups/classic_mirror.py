"""Classic groups whose members use one gateway, as their requests and the coordinator's answers show them. Pure.

The coordinator begins a rebalance when a member joins, leaves or dies, and from then on answers heartbeats with
REBALANCE_IN_PROGRESS. So when something happens, the gateway asks the coordinator for one member. If that is the
answer, it is the answer to every other member of the generation as well, and the prompt room decides when each of
them gets it. What only the coordinator knows, such as whether an old member still exists, is asked for each member.
"""

from collections.abc import Collection, Hashable

from kohort.coordinator import HeldSyncsDue, NotificationDue, RequestContext
from kohort.coordinator.prompt import HeldHeartbeat, PromptHeartbeats
from kohort.errors import ErrorCode
from kohort.gateway.groups.classic_group import MirroredClassicGroup, Phase
from kohort.gateway.groups.classic_probes import ClassicProbes
from kohort.gateway.groups.classic_syncs import ClassicSyncs
from kohort.gateway.groups.heartbeat_budget import HeartbeatBudget
from kohort.gateway.groups.outcome import Outcome, Probe
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED = 4
"""First version of JoinGroup in which a new dynamic member first asks for its ID (KIP-394)."""
_KNOWN = frozenset(int(code) for code in ErrorCode)
_MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class ClassicMirror:
    """All classic groups of one gateway."""

    def __init__(self) -> None:
        self.groups: dict[str, MirroredClassicGroup] = {}
        self.probes = ClassicProbes(self.groups)
        self.syncs = ClassicSyncs(self.groups)
        self.prompt: PromptHeartbeats
        """The prompt room, which needs the facts of this mirror."""

    def answer(self, request: HeartbeatRequest) -> ErrorCode:
        """Return the coordinator's answer to a heartbeat that is held. Without news it is that which it gave."""
        group = self.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is None or member is None:
            return ErrorCode.NONE
        if member.verdict is not None:
            return member.verdict
        learns = group.awaits_joins and request.generation_id == group.generation
        return ErrorCode.REBALANCE_IN_PROGRESS if learns and not group.rejoins(request.member_id) else ErrorCode.NONE

    # Requests, when they are passed on

    def joining(self, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Outcome) -> None:
        """Note a JoinGroup that was passed on."""
        group = self._group(request.group_id, now)
        known = group.members.get(request.member_id)
        if known is None and request.group_instance_id is None and not request.member_id:
            self.prompt.new_member_arrived(group, now, out.effects)
            if context.api_version >= _MEMBER_ID_REQUIRED:
                return
        if known is None:
            group.new_members_until = self.prompt.new_members_until(group, now)
        group.joins[context.token] = request
        if known is None and request.member_id:
            known = group.heard(request.member_id, context, now)
            known.is_new = True
            known.describe(request)
        if known is not None:
            known.joined_at = now
        if group.awaits_joins:
            self.prompt.members_changed(group, now)
        else:
            self.probes.suspect(group, out, now)

    # Answers of the coordinator

    def joined(
        self,
        request: JoinGroupRequest,
        response: JoinGroupResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Pass on the answer to a JoinGroup, which may be a new generation."""
        out.effects.replies[context.token] = response
        group = self.groups.get(request.group_id)
        if group is None:
            return
        group.joins.pop(context.token, None)
        member = group.members.get(request.member_id)
        if response.error_code:
            if member is not None and (member.is_new or response.error_code in _GONE):
                self._remove(group, request.member_id, out, now)
            return
        replaced = [
            member_id
            for member_id, other in group.members.items()
            if request.group_instance_id == other.instance_id is not None and member_id != response.member_id
        ]
        member = group.heard(response.member_id, context, now)
        member.describe(request)
        member.is_new, member.joined_at = False, member.joined_at or now
        if response.generation_id > group.generation:
            self._generation_began(group, response, out, now)
            group.protocol_type = response.protocol_type or request.protocol_type
        elif group.awaits_joins and response.generation_id == group.generation:
            # A coordinator that has failed over knows nothing of the rebalance, and answers followers at once.
            group.phase = Phase.SYNCING
            out.effects.timers[NotificationDue(group.group_id)] = None
            self.probes.suspect(group, out, now)
        if response.leader == response.member_id:
            group.leader_id = response.leader
            self._forget_others(group, {one.member_id for one in response.members})
        for member_id in replaced:
            self.probes.ask(group, member_id)
        self.prompt.session_started(member, now)

    def _forget_others(self, group: MirroredClassicGroup, known: Collection[str]) -> None:
        """Forget the members that the coordinator does not name to the leader, and that do not wait for an answer."""
        for member_id in group.members.keys() - known:
            is_held = self.prompt.is_held(group.group_id, member_id) or member_id in group.syncs
            if not is_held and not group.rejoins(member_id):
                del group.members[member_id]

    def _generation_began(
        self, group: MirroredClassicGroup, response: JoinGroupResponse, out: Outcome, now: Millis
    ) -> None:
        group.generation, group.phase, group.suspects_in = response.generation_id, Phase.SYNCING, 0
        group.protocol, group.leader_id = response.protocol_name, response.leader
        group.new_members_until = group.revoking_members = None
        group.notice.is_delayed, group.notice.new_members_until = False, None
        out.effects.timers[NotificationDue(group.group_id)] = out.effects.timers[HeldSyncsDue(group.group_id)] = None
        self.syncs.release(group, now, out, None)
        for join in group.joins.values():
            # Not before: the coordinator could have rejected it, for example because another client sent it.
            if join.member_id in group.members:
                group.members[join.member_id].describe(join)
        for member_id in list(group.members):
            if member_id != response.member_id and not group.rejoins(member_id):
                self.probes.ask(group, member_id)  # it is late, or gone, or waits for the group's next rebalance

    def synced(
        self,
        request: SyncGroupRequest,
        response: SyncGroupResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Pass on the answer to a SyncGroup, or hold it while other members give up partitions."""
        group = self.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is None or member is None or request.generation_id != group.generation or response.error_code:
            out.effects.replies[context.token] = response
            code = response.error_code
            if group is not None and request.generation_id == group.generation:
                if code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self._began(group, out, now)
                elif code in _GONE:
                    self._remove(group, request.member_id, out, now)
            return
        if group.phase is Phase.SYNCING:
            group.phase, group.generation_at = Phase.STABLE, now
        member.heard_at = now
        self.syncs.answer_or_hold(group, request, response, context, now, out)

    def beat(
        self,
        request: HeartbeatRequest,
        response: HeartbeatResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Take the coordinator's answer to a heartbeat, and answer the member or hold its heartbeat."""
        code = ErrorCode(response.error_code) if response.error_code in _KNOWN else None
        group = self.groups.get(request.group_id)
        if code is ErrorCode.ILLEGAL_GENERATION and group is not None:
            told = self.prompt.answer_or_hold_classic(request, code, now, None)
            assert isinstance(told, ErrorCode)
            response.error_code = told
            out.effects.replies[context.token] = response
            return
        if code is None or code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            out.effects.replies[context.token] = response
            if group is not None:
                if code in _GONE:
                    self._remove(group, request.member_id, out, now)
                if code in _GONE or code in _MOVED:
                    self.probes.suspect(group, out, now)
            return
        group = group or self._group(request.group_id, now)
        member = group.heard(request.member_id, context, now)
        member.client, member.instance_id = context.client, request.group_instance_id
        member.beats(now)
        group.budget.sent(group.heartbeats_per_ms(now), now)
        if request.generation_id > group.generation:
            group.generation, group.phase, group.protocol = request.generation_id, Phase.STABLE, None
            for other in group.members:
                self.probes.ask(group, other)
        if request.generation_id != group.generation:
            out.effects.replies[context.token] = response
            return
        group.answered_at = now
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._began(group, out, now)
        elif group.awaits_joins and not group.rejoins(request.member_id):
            code = ErrorCode.REBALANCE_IN_PROGRESS  # this answer was overtaken by another member's
        # A member that has joined again learns nothing from it, so all need not be told together.
        has_rejoined = code is ErrorCode.REBALANCE_IN_PROGRESS and group.rejoins(request.member_id)
        token = context.token if context.may_hold and not has_rejoined else None
        told = self.prompt.answer_or_hold_classic(request, code, now, token)
        if not isinstance(told, HeldHeartbeat):
            response.error_code = told
            out.effects.replies[context.token] = response

    def left(
        self,
        request: LeaveGroupRequest,
        response: LeaveGroupResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Pass on the answer to a LeaveGroup."""
        out.effects.replies[context.token] = response
        group = self.groups.get(request.group_id)
        if group is None:
            return
        if response.error_code:
            if response.error_code in _GONE and request.member_id:
                self._remove(group, request.member_id, out, now)
            return
        for member_id in [request.member_id, *(one.member_id for one in response.members if not one.error_code)]:
            if member_id:
                member = group.members.get(member_id)
                if member is None or not member.is_lost:  # a member that died has no successor
                    self.prompt.member_left(group, now)
                self._remove(group, member_id, out, now)
        if not group.members:
            return
        if group.awaits_joins:
            self.prompt.members_changed(group, now)
        else:
            self.probes.suspect(group, out, now)

    def probed(self, probe: Probe, request: HeartbeatRequest, code: int, now: Millis, out: Outcome) -> None:
        """Take the coordinator's answer to a probe."""
        group = self.groups.get(request.group_id)
        if group is None:
            return
        group.probed.pop(request.member_id, None)
        again, group.ask_again = group.ask_again, False
        is_current = request.generation_id == group.generation
        if is_current:
            group.answered_at = now
        if code == ErrorCode.REBALANCE_IN_PROGRESS and is_current:
            self._began(group, out, now)
        elif code and code != ErrorCode.REBALANCE_IN_PROGRESS and code in _KNOWN:
            self._sentence(group, probe, request, ErrorCode(code), now, out)
        if again and not group.awaits_joins:
            self.probes.ask_one(group, out, now)
        self.probes.settle(group, now, out)

    def _sentence(
        self,
        group: MirroredClassicGroup,
        probe: Probe,
        request: HeartbeatRequest,
        code: ErrorCode,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Pass on an error that the coordinator answered for one member."""
        held, member = self.prompt.held_of(group.group_id, request.member_id), group.members.get(request.member_id)
        if held is not None and held.token == probe.token and member is not None:
            member.verdict = code
            self.prompt.news_for_member(group.group_id, request.member_id)
            self.prompt.answer_news(now, out.effects)
            member.verdict = None
        else:
            self.syncs.refuse(group, request.member_id, probe.token, code, out)
        if code in _GONE:
            self._remove(group, request.member_id, out, now)
        if code in _GONE or code in _MOVED:  # the group has changed, or its coordinator has moved
            for member_id in group.members:
                self.probes.ask(group, member_id)

    # Rebalances

    def _began(self, group: MirroredClassicGroup, out: Outcome, now: Millis) -> None:
        """Begin a rebalance that the coordinator's answer shows."""
        if group.awaits_joins:
            return
        identities = ((member.instance_id, member.client_id) for member in group.members.values() if not member.is_new)
        self.prompt.generation_ended(group, identities, now)
        group.begin()
        group.notice.new_members_until, group.new_members_until = group.new_members_until, None
        out.effects.timers[HeldSyncsDue(group.group_id)] = None
        self.syncs.release(group, now, out, ErrorCode.REBALANCE_IN_PROGRESS)
        self.prompt.rebalance_began(group, now, out.effects)

    def notification_due(self, group_id: str, now: Millis, out: Outcome) -> None:
        """Handle the timer `NotificationDue`."""
        group = self.groups.get(group_id)
        if group is not None:
            self.prompt.notification_due(group, now, out.effects)

    # Members

    def _group(self, group_id: str, now: Millis) -> MirroredClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = MirroredClassicGroup(group_id, HeartbeatBudget(now))
        return group

    def _remove(self, group: MirroredClassicGroup, member_id: str, out: Outcome, now: Millis) -> None:
        """Forget a member that the coordinator does not know any more."""
        held, sync = self.prompt.held_of(group.group_id, member_id), group.syncs.pop(member_id, None)
        member = group.members.get(member_id)
        if member is None:
            return
        if held is not None:
            member.verdict = ErrorCode.UNKNOWN_MEMBER_ID
            self.prompt.news_for_member(group.group_id, member_id)
            self.prompt.answer_news(now, out.effects)
        if sync is not None:
            out.effects.replies[sync.token] = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        group.members.pop(member_id, None)
        group.notice.new_members_until = None  # as in the coordinator: its partitions wait for the others

    # From the shell

    def abandoned(self, request: JoinGroupRequest | SyncGroupRequest, token: Hashable) -> None:
        """Forget a request whose connection is closed."""
        group = self.groups.get(request.group_id)
        if group is None:
            return
        group.joins.pop(token, None)
        if isinstance(request, SyncGroupRequest):
            self.syncs.drop(group, request.member_id, token)
