"""When the coordinator of a classic group is asked in place of a member, and what becomes of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator import HeldSyncsDue, RequestContext, WaitingRequest
from kohort.errors import ErrorCode
from kohort.gateway.groups import GroupMirror, Outcome, Probe, ProbeDue
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Driven:
    """A mirror of one group whose members and coordinator are the test itself."""

    def __init__(self, *members: str) -> None:
        """Let these members, the leader first, form generation 1, and hold the heartbeats of all of them."""
        self.mirror = GroupMirror(hold_ms=15_000)
        self.answers: dict[object, Message] = {}
        self.probes: list[Probe] = []
        self.timers: dict[Any, Millis | None] = {}
        for member in members:
            self.join(member, 0)
        known = [JoinGroupResponseMember(member_id=member) for member in members]
        for member in members:
            joined = JoinGroupResponse(generation_id=1, member_id=member, leader=members[0], protocol_name="range")
            joined.members = known if member == members[0] else []
            self.answer(join_of(member), joined, f"join {member}", 0)
        for member in members:
            self.sync(member, 0)
        for member in members:
            self.beat(member, f"held {member}", 0)
        assert not any(f"held {member}" in self.answers for member in members)
        self.probes.clear()

    def context(self, token: str) -> RequestContext:
        return RequestContext(token, 3, "client", "/host", may_hold=True)

    def join(self, member: str, now: Millis) -> None:
        self.take(self.mirror.sent(join_of(member), self.context(f"join {member}"), now))

    def sync(self, member: str, now: Millis) -> None:
        request = SyncGroupRequest(group_id="g", member_id=member, generation_id=1)
        self.answer(request, SyncGroupResponse(assignment=b"its partitions"), f"sync {member}", now)

    def beat(self, member: str, token: str, now: Millis) -> None:
        self.answer(beat_of(member), HeartbeatResponse(), token, now)

    def answer(self, request: Message, response: Message, token: str, now: Millis) -> None:
        self.take(self.mirror.answered(request, response, self.context(token), now))

    def fire(self) -> Millis:
        """Let the timer of the group expire. Return when it does."""
        due = self.timers.pop(ProbeDue("g"))
        assert due is not None
        self.take(self.mirror.fire(ProbeDue("g"), due))
        return due

    def take(self, outcome: Outcome) -> None:
        self.answers |= outcome.effects.replies
        self.timers |= outcome.effects.timers | outcome.timers
        self.probes += outcome.probes

    def asked(self) -> list[Probe]:
        """Return the probes since the last call."""
        probes, self.probes = self.probes, []
        return probes


def join_of(member: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g", member_id=member, session_timeout_ms=45_000, rebalance_timeout_ms=60_000, protocol_type="consumer"
    )


def beat_of(member: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", member_id=member, generation_id=1)


@pytest.fixture
def driven() -> Driven:
    return Driven("a", "b")


def test_a_join_is_suspected_to_begin_a_rebalance_until_it_is_answered(driven: Driven) -> None:
    # The probe may have overtaken the join, which is on another connection.
    driven.join("c", 5_000)
    waits: list[Millis] = []
    now = 5_000
    while len(waits) < 9:
        for probe in driven.asked():
            driven.take(driven.mirror.probed(probe, HeartbeatResponse(), now))
        before, now = now, driven.fire()
        waits.append(now - before)
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]
    driven.mirror.abandoned(join_of("c"), "join c")
    driven.fire()
    group = driven.mirror.classic("g")
    assert group is not None
    assert not group.suspects_in


def test_a_lost_probe_is_repeated(driven: Driven) -> None:
    driven.join("c", 5_000)
    (probe,) = driven.asked()
    driven.fire()
    assert driven.asked() == []  # its answer is awaited
    driven.mirror.probe_lost(probe)
    driven.fire()
    assert [probe.request.group_id for probe in driven.asked()] == ["g"]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_an_error_that_was_answered_to_a_probe_reaches_the_member_once(driven: Driven, code: ErrorCode) -> None:
    driven.join("c", 5_000)
    (probe,) = driven.asked()
    member = probe.request.member_id
    driven.take(driven.mirror.probed(probe, HeartbeatResponse(error_code=code), 5_001))
    assert driven.answers[f"held {member}"] == HeartbeatResponse(error_code=code)
    driven.beat(member, "again", 5_500)  # its coordinator is back
    driven.take(driven.mirror.release("again", beat_of(member), WaitingRequest.REQUEST, 5_600))
    assert driven.answers["again"] == HeartbeatResponse()


def test_syncs_are_held_no_longer_when_members_took_too_long_to_give_up_partitions() -> None:
    driven = Driven("a", "b", "c")
    group = driven.mirror.classic("g")
    assert group is not None
    group.revoking_members = frozenset({"a"})
    driven.answers.clear()
    driven.sync("b", 100)
    driven.take(driven.mirror.fire(HeldSyncsDue("g"), 500))
    driven.sync("c", 600)
    assert driven.answers.keys() == {"sync b", "sync c"}


def test_a_member_that_an_operator_removes_gets_the_answer_to_its_held_sync(driven: Driven) -> None:
    group = driven.mirror.classic("g")
    assert group is not None
    group.revoking_members = frozenset({"a"})
    driven.answers.clear()
    driven.sync("b", 100)
    assert "sync b" not in driven.answers
    removed = LeaveGroupResponse(members=[MemberResponse(member_id="b")])
    driven.answer(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="b")]), removed, "leave", 200)
    assert driven.answers["leave"] is removed
    assert driven.answers["sync b"] == SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert "b" not in group.members
