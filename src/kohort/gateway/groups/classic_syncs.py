"""Responses to SyncGroup that wait until other members of a cooperative group have given up partitions. Pure.

Who gives none up would start with what it has, and rejoin at once. So its response waits, for a limited time.
"""

from collections.abc import Hashable

from kohort.coordinator import RequestContext, members_giving_up
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.errors import ErrorCode
from kohort.gateway.groups.classic_group import HeldSync, MirroredClassicGroup, Phase
from kohort.gateway.groups.outcome import Outcome
from kohort.model import Millis
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicSyncs:
    """The responses to SyncGroup of all classic groups of one gateway."""

    def __init__(self, groups: dict[str, MirroredClassicGroup]) -> None:
        self._groups = groups
        self.prompt: PromptHeartbeats
        """The prompt room, which limits their wait."""

    def sent(self, request: SyncGroupRequest, now: Millis, out: Outcome) -> None:
        """Note a SyncGroup that was passed on: the leader's tells which members must give up partitions."""
        group = self._groups.get(request.group_id)
        if group is None or request.generation_id != group.generation or request.member_id != group.leader_id:
            return
        if group.phase is Phase.SYNCING and group.is_cooperative and request.assignments:
            assignment = {share.member_id: bytes(share.assignment) for share in request.assignments}
            protocols = {member.member_id: member.protocols for member in group.members.values()}
            givers = members_giving_up(group.protocol_type or "", protocols, assignment)
            if givers:
                group.revoking_members = givers
                self.prompt.hold_syncs(group.group_id, now, out.effects)

    def answer_or_hold(
        self,
        group: MirroredClassicGroup,
        request: SyncGroupRequest,
        response: SyncGroupResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Pass on the answer to a SyncGroup, or hold it while other members give up partitions."""
        waits = group.revoking_members is not None and request.member_id not in group.revoking_members
        if waits and context.may_hold:
            group.syncs[request.member_id] = HeldSync(context.token, request, response)
        else:
            self._answer(group, context.token, request.member_id, response, now, out)

    def due(self, group_id: str, now: Millis, out: Outcome) -> None:
        """Answer the SyncGroups that waited for members to give up partitions, because those take too long."""
        group = self._groups.get(group_id)
        if group is not None:
            group.revoking_members = None
            self.release(group, now, out, None)

    def release(self, group: MirroredClassicGroup, now: Millis, out: Outcome, code: ErrorCode | None) -> None:
        """Answer all held SyncGroups, with the coordinator's response or an error code."""
        held, group.syncs = group.syncs, {}
        for member_id, sync in held.items():
            response = sync.response if code is None else SyncGroupResponse(error_code=code)
            self._answer(group, sync.token, member_id, response, now, out)

    def _answer(
        self,
        group: MirroredClassicGroup,
        token: Hashable,
        member_id: str,
        response: SyncGroupResponse,
        now: Millis,
        out: Outcome,
    ) -> None:
        out.effects.replies[token] = response
        if member_id in group.members:
            self.prompt.session_started(group.members[member_id], now)

    def release_one(self, request: SyncGroupRequest, token: Hashable, now: Millis, out: Outcome) -> None:
        """Answer a held SyncGroup because another request waits behind it."""
        group = self._groups.get(request.group_id)
        if group is None:
            return
        sync = self.drop(group, request.member_id, token)
        if sync is not None:
            self._answer(group, token, request.member_id, sync.response, now, out)

    def refuse(
        self, group: MirroredClassicGroup, member_id: str, token: Hashable, code: ErrorCode, out: Outcome
    ) -> None:
        """Answer a member's held SyncGroup with an error, if it has this token."""
        if self.drop(group, member_id, token) is not None:
            out.effects.replies[token] = SyncGroupResponse(error_code=code)

    def drop(self, group: MirroredClassicGroup, member_id: str, token: Hashable) -> HeldSync | None:
        """Forget a member's held SyncGroup, and return it. Return None if it has none with this token."""
        sync = group.syncs.get(member_id)
        if sync is None or sync.token != token:
            return None
        return group.syncs.pop(member_id)
