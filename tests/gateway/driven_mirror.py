"""A mirror of groups whose members and coordinator are the test itself."""

from copy import copy
from typing import Any
from uuid import UUID

from kohort.coordinator import ClientKind, RequestContext
from kohort.errors import ErrorCode
from kohort.gateway.groups import GroupMirror, Outcome, Probe
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = UUID(int=1)
INTERVAL = 5_000


def partitions(*numbers: int) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=TOPIC, partitions=list(numbers))]


def request(member: str, epoch: int, owned: list[TopicPartitions] | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, topic_partitions=owned)


def response(
    member: str, epoch: int, assigned: list[TopicPartitions] | None = None, error: ErrorCode = ErrorCode.NONE
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error,
        member_id=member,
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL,
        assignment=None if assigned is None else Assignment(topic_partitions=assigned),
    )


class Driven:
    """A mirror, with the answers that members got and the probes that were sent."""

    def __init__(self, client: ClientKind = ClientKind.KOHORT) -> None:
        self.client = client
        self.mirror = GroupMirror(hold_ms=15_000)
        self.beats: list[tuple[Millis, ConsumerGroupHeartbeatRequest]] = []
        """Heartbeats that members send later."""
        self.sent_at: dict[str, Millis] = {}
        self.intervals: dict[str, Millis] = {}
        self.upstream: list[tuple[Millis, str]] = []
        """Heartbeats that the coordinator got, of members and of the gateway."""
        self.answers: dict[object, ConsumerGroupHeartbeatResponse] = {}
        self.probes: list[Probe] = []
        self.probed: list[Millis] = []
        """Times of probes that the coordinator answered in `run`."""
        self.timers: dict[Any, Millis | None] = {}

    def beat(
        self, token: str, asked: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse, now: Millis
    ) -> None:
        """Let a member send a heartbeat, which the coordinator answers."""
        self.take(self.mirror.response(self.mirror.request(asked, now), answer, self.context(token), now))

    def context(self, token: str) -> RequestContext:
        return RequestContext(token, 1, "client", "/host", may_hold=True, client=self.client)

    def beat_without_news(self, token: str, asked: ConsumerGroupHeartbeatRequest, now: Millis) -> None:
        """Let a member send a heartbeat, which the coordinator answers without news if it gets it."""
        if self.mirror.covers(asked, now):
            self.take(self.mirror.cover(asked, self.context(token), now))
        else:
            self.upstream.append((now, asked.member_id))
            self.beat(token, asked, response(asked.member_id, asked.member_epoch), now)

    def run(self, begin: Millis, end: Millis) -> None:
        """Let members send heartbeats when their clients would, and probes bring no news."""
        now = begin
        answered = len(self.answers)
        while True:
            due = [at for at in self.timers.values() if at is not None] + [at for at, _ in self.beats]
            now = max(min(due), now)
            if now > end:
                return
            for timer in [timer for timer, at in self.timers.items() if at is not None and at <= now]:
                del self.timers[timer]
                self.take(self.mirror.fire(timer, now))
            for beat in [beat for beat in self.beats if beat[0] <= now]:
                self.beats.remove(beat)
                self.sent_at[beat[1].member_id] = now
                self.beat_without_news(f"{beat[1].member_id} at {now}", copy(beat[1]), now)
            probes, self.probes = self.probes, []
            for probe in probes:
                self.upstream.append((now, probe.request.member_id))
                self.probed.append(now)
                asked = probe.request
                assert isinstance(asked, ConsumerGroupHeartbeatRequest)
                self.take(self.mirror.probed(probe, response(asked.member_id, asked.member_epoch), now))
            for answer in list(self.answers.values())[answered:]:
                member = answer.member_id or ""
                # The Java client's timer begins when it sends, and again when it gets another interval.
                before, interval = self.intervals.get(member), answer.heartbeat_interval_ms
                same = before == interval and self.client is not ClientKind.KOHORT
                begins = self.sent_at[member] if same else now
                self.intervals[member] = interval
                self.beats.append((max(begins + interval, now), request(member, answer.member_epoch)))
            answered = len(self.answers)

    def take(self, outcome: Outcome) -> None:
        assert not outcome.effects.records
        for token, answer in outcome.effects.replies.items():
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            assert token not in self.answers
            self.answers[token] = answer
        self.timers |= outcome.effects.timers
        self.timers |= outcome.timers
        self.probes += outcome.probes

    def asked(self) -> list[str]:
        """Return the members for which the coordinator was asked since the last call."""
        probes, self.probes = self.probes, []
        return [probe.request.member_id for probe in probes]


def settle(driven: Driven, *members: str, now: Millis = 0) -> None:
    """Let members join and acknowledge one partition each, until the heartbeats of all of them are held."""
    epoch = len(members)
    for number, member in enumerate(members):
        driven.beat(f"join {member}", request(member, 0), response(member, epoch, partitions(number)), now)
    for number, member in enumerate(members):
        driven.beat(f"ack {member}", request(member, epoch, partitions(number)), response(member, epoch), now)
        driven.beat(f"held {member}", request(member, epoch), response(member, epoch), now)
    assert not any(f"held {member}" in driven.answers for member in members)
    driven.probes.clear()
