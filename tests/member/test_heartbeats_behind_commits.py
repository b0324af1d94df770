"""A member whose commit ends the hold of its heartbeat, so that its coordinator could not tell it anything."""

from __future__ import annotations

from kohort.assignor.range import RangeAssignor
from kohort.member import (
    CallbackDone,
    ClassicMember,
    CommitRequested,
    CoordinatorFound,
    Event,
    MemberConfig,
    MemberTimer,
    OffsetAndMetadata,
    Responded,
    Send,
    Subscribe,
    TimerFired,
)
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, encode_assignment
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PARTITION = TopicPartition("t", 0)
INTERVAL = 3_000


class Held:
    """A member of a coordinator that answers a heartbeat only when something else of the member waits behind it."""

    def __init__(self, interval: int = INTERVAL) -> None:
        config = MemberConfig(group_id="g", assignors=(RangeAssignor(),), heartbeat_interval_ms=interval)
        self.member = ClassicMember(config)
        self.now = 1_000
        self.beats: list[int] = []
        """When heartbeats were sent."""
        self._held: int | None = None
        self._due: int | None = None
        self._commits = 0
        self._handle(Subscribe(frozenset(["t"])))
        self._handle(CoordinatorFound())

    def wait(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self._due is not None and self._due <= end:
            self.now = max(self.now, self._due)
            self._due = None
            self._handle(TimerFired(MemberTimer.HEARTBEAT))
        self.now = end

    def commit(self) -> None:
        self._commits += 1
        self._handle(CommitRequested(self._commits, {PARTITION: OffsetAndMetadata(self._commits)}, self.now + 60_000))

    def _handle(self, event: Event) -> None:
        actions = self.member.handle(event, self.now)
        self._due = actions.timers.get(MemberTimer.HEARTBEAT, self._due)
        if actions.assign is not None:
            self._handle(CallbackDone())
        for send in actions.send:
            self._answer(send)

    def _answer(self, send: Send) -> None:
        match send.message:
            case JoinGroupRequest():
                answer = JoinGroupResponse(generation_id=1, protocol_name="range", leader="other", member_id="me")
                self._handle(Responded(send.request, answer))
            case SyncGroupRequest():
                share = encode_assignment(Assignment([PARTITION]))
                self._handle(Responded(send.request, SyncGroupResponse(assignment=share)))
            case HeartbeatRequest():
                assert self._held is None
                self._held = send.request
                self.beats.append(self.now)
            case OffsetCommitRequest():
                if self._held is not None:
                    held, self._held = self._held, None
                    self._handle(Responded(held, HeartbeatResponse()))
                done = OffsetCommitResponsePartition(partition_index=PARTITION.partition)
                topics = [OffsetCommitResponseTopic(name=PARTITION.topic, partitions=[done])]
                self._handle(Responded(send.request, OffsetCommitResponse(topics=topics)))


def test_in_a_group_that_has_just_changed_the_next_heartbeat_follows_the_commit() -> None:
    member = Held()
    assert member.beats == [1_000]
    member.wait(1_000)
    member.commit()
    assert member.beats == [1_000, 2_000]


def test_commits_in_a_row_bring_four_heartbeats_a_second_at_most() -> None:
    member = Held()
    for _ in range(20):
        member.wait(50)
        member.commit()
    member.wait(250)
    gaps = [later - earlier for earlier, later in zip(member.beats, member.beats[1:], strict=False)]
    assert gaps == [250] * 5


def test_a_commit_does_not_put_off_a_heartbeat_that_is_due_earlier() -> None:
    member = Held(interval=100)
    member.wait(50)
    member.commit()
    member.wait(100)
    assert member.beats == [1_000, 1_100]


def test_in_a_quiet_group_the_next_heartbeat_waits_for_its_interval() -> None:
    member = Held()
    member.wait(59_900)
    member.commit()
    assert member.beats == [1_000, 60_900]
    member.wait(200)  # from here on nothing is likely to change
    member.commit()
    member.wait(INTERVAL - 300)
    assert member.beats == [1_000, 60_900]
    member.wait(200)
    assert member.beats == [1_000, 60_900, 60_900 + INTERVAL]
