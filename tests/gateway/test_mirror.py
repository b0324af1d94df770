"""The groups behind a gateway: which heartbeats it holds, when it asks the coordinator again, and what it passes on."""

from copy import copy
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from kohort.coordinator import ClientKind, Effects, HeldHeartbeatsDue, RequestContext, WaitingRequest
from kohort.errors import ErrorCode
from kohort.gateway.groups import GroupMirror, Outcome, Probe, ProbeDue
from kohort.gateway.groups.consumer_mirror import AT_ONCE, SETTLING
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

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


@pytest.fixture
def driven() -> Driven:
    return Driven()


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


def test_a_heartbeat_without_news_is_held_until_shortly_before_the_next_one(driven: Driven) -> None:
    settle(driven, "a")
    due = driven.timers[HeldHeartbeatsDue()]
    assert due is not None
    assert due <= INTERVAL
    driven.take(driven.mirror.fire(HeldHeartbeatsDue(), due + 20))
    assert driven.answers["held a"].member_epoch == 1
    assert driven.answers["held a"].assignment is None


def test_a_join_lets_the_coordinator_be_asked_for_the_others(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, partitions()), 100)
    (probe,) = driven.probes
    assert probe == Probe("held a", request("a", 1))
    driven.take(driven.mirror.probed(probe, response("a", 1, partitions()), 110))
    assert driven.answers["held a"].assignment == Assignment(topic_partitions=partitions())


def test_an_acknowledgement_lets_those_be_asked_first_who_have_least(driven: Driven) -> None:
    settle(driven, "a", "b")
    driven.beat("join c", request("c", 0), response("c", 3, []), 100)
    probes = {probe.request.member_id: probe for probe in driven.probes}
    driven.probes.clear()
    driven.take(driven.mirror.probed(probes["a"], response("a", 2, []), 110))  # it must give up what it has
    driven.take(driven.mirror.probed(probes["b"], response("b", 3), 110))
    driven.beat("ack c", request("c", 3, []), response("c", 3), 111)
    driven.beat("held c", request("c", 3), response("c", 3), 112)
    driven.beat("held b again", request("b", 3), response("b", 3), 112)
    driven.asked()
    driven.beat("a gave up", request("a", 2, []), response("a", 3), 120)
    assert driven.asked() == ["c", "b"]


def test_news_that_came_too_late_is_merged_into_the_next_answer(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, []), 100)
    (probe,) = driven.probes
    driven.take(driven.mirror.release("held a", request("a", 1), WaitingRequest.OWN_HEARTBEAT, 101))
    assert driven.answers["held a"].member_epoch == 1
    assert driven.mirror.is_asked(request("a", 1))
    driven.take(driven.mirror.probed(probe, response("a", 2, partitions(0, 1)), 110))
    assert not driven.mirror.is_asked(request("a", 1))
    # The coordinator knows the member at epoch 2, and would fence it if it came with epoch 1.
    assert driven.mirror.request(request("a", 1), 115).member_epoch == 2
    driven.beat("next a", request("a", 1), response("a", 2), 120)
    assert driven.answers["next a"].assignment == Assignment(topic_partitions=partitions(0, 1))
    assert driven.mirror.request(request("a", 1), 115).member_epoch == 1


def test_news_that_came_too_late_is_not_merged_into_an_error(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, []), 100)
    driven.take(driven.mirror.release("held a", request("a", 1), WaitingRequest.OWN_HEARTBEAT, 101))
    driven.take(driven.mirror.probed(driven.probes[0], response("a", 2, partitions(0, 1)), 110))
    driven.beat("next a", request("a", 1), response("a", 0, error=ErrorCode.UNKNOWN_MEMBER_ID), 120)
    assert driven.answers["next a"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driven.answers["next a"].assignment is None


def test_newer_news_replaces_that_which_came_too_late(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, []), 100)
    driven.take(driven.mirror.release("held a", request("a", 1), WaitingRequest.OWN_HEARTBEAT, 101))
    driven.take(driven.mirror.probed(driven.probes[0], response("a", 2, partitions(0, 1)), 110))
    driven.beat("next a", request("a", 1), response("a", 3, partitions(1)), 120)
    assert driven.answers["next a"].assignment == Assignment(topic_partitions=partitions(1))


def test_a_member_that_joins_anew_keeps_its_epoch_0(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, []), 100)
    driven.take(driven.mirror.release("held a", request("a", 1), WaitingRequest.OWN_HEARTBEAT, 101))
    driven.take(driven.mirror.probed(driven.probes[0], response("a", 2, partitions(0, 1)), 110))
    assert driven.mirror.request(request("a", 0), 115).member_epoch == 0
    assert driven.mirror.request(request("a", -1), 115).member_epoch == -1


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_an_error_ends_the_hold_and_the_membership(driven: Driven, error: ErrorCode) -> None:
    settle(driven, "a", "b")
    driven.take(driven.mirror.fire(ProbeDue("g"), 2_700))
    (probe,) = driven.probes
    member = probe.request.member_id
    driven.probes.clear()
    driven.take(driven.mirror.probed(probe, response(member, 0, error=error), 2_710))
    assert driven.answers[f"held {member}"].error_code == error
    group = driven.mirror.consumer("g")
    assert group is not None
    assert member not in group.members
    assert driven.asked() == ["b" if member == "a" else "a"]  # its partitions are free


def test_an_error_ends_the_hold_of_a_heartbeat_on_another_connection(driven: Driven) -> None:
    settle(driven, "a", "b")
    driven.beat("newer a", request("a", 1), response("a", 0, error=ErrorCode.UNKNOWN_MEMBER_ID), 10)
    assert {driven.answers[f"{which} a"].error_code for which in ("held", "newer")} == {ErrorCode.UNKNOWN_MEMBER_ID}
    (probe,) = driven.probes
    driven.take(driven.mirror.probed(probe, response("b", 3, partitions(0, 1)), 20))
    assert driven.answers["held b"].assignment == Assignment(topic_partitions=partitions(0, 1))


def test_a_rebalance_of_classic_members_is_no_news_for_a_consumer_member_of_the_same_group(driven: Driven) -> None:
    # The group migrates. Both mirrors know it while the heartbeat of a classic member from before is held.
    join = JoinGroupRequest(group_id="g", member_id="c", session_timeout_ms=45_000, protocol_type="consumer")
    joined = JoinGroupResponse(generation_id=3, member_id="c", leader="c", protocol_name="range")
    beat = HeartbeatRequest(group_id="g", member_id="c", generation_id=3)
    driven.mirror.sent(join, driven.context("join c"), 0)
    driven.mirror.answered(join, joined, driven.context("join c"), 0)
    sync = SyncGroupRequest(group_id="g", member_id="c", generation_id=3)
    driven.mirror.answered(sync, SyncGroupResponse(), driven.context("sync c"), 0)
    assert not driven.mirror.answered(beat, HeartbeatResponse(), driven.context("beat c"), 10).effects.replies
    settle(driven, "a", now=20)
    probe = Probe("beat c", beat)
    began = driven.mirror.probed(probe, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 1_000)
    assert list(began.effects.replies) == ["beat c"]
    assert (driven.mirror.held, "held a" in driven.answers) == (1, False)


@pytest.mark.parametrize("client", [ClientKind.KOHORT, ClientKind.JAVA])
@pytest.mark.parametrize("members", [1, 2, 3, 10, 60])
def test_the_coordinator_gets_a_members_heartbeat_once_in_its_interval(client: ClientKind, members: int) -> None:
    # The clients send them more often at first: the group has just changed.
    driven = Driven(client)
    names = [f"m{number:02}" for number in range(members)]
    settle(driven, *names, now=100)
    driven.run(100, 200_000)
    for begin in (5_000, 60_000, 100_000):
        got = [at for at, _ in driven.upstream if begin <= at < begin + 40_000]
        assert len(got) <= 1.2 * members * 40_000 / INTERVAL
    for name in names:
        times = [at for at, member in driven.upstream if member == name]
        assert max(later - sooner for sooner, later in pairwise(times)) <= INTERVAL + 100


@pytest.mark.parametrize("members", [2, 5, 60])
def test_heartbeats_of_a_group_that_come_together_are_spread_by_probes(members: int) -> None:
    driven = Driven()
    settle(driven, *[f"m{number:02}" for number in range(members)], now=100)
    driven.run(100, 100_000)
    times = [at for at, _ in driven.upstream if at > 30_000]
    longest = max(later - sooner for sooner, later in pairwise(times))
    assert longest <= max(INTERVAL / members + 200, 1_000) + 300


def test_all_heartbeats_are_passed_on_while_a_group_settles(driven: Driven) -> None:
    settle(driven, "a", now=100)
    assert not driven.mirror.covers(request("a", 1), 99 + SETTLING)
    assert driven.mirror.covers(request("a", 1), 100 + SETTLING)


def test_a_heartbeat_that_tells_something_is_passed_on(driven: Driven) -> None:
    settle(driven, "a", now=100)
    now = 100 + SETTLING
    assert not driven.mirror.covers(request("a", 1, partitions(0)), now)
    assert not driven.mirror.covers(request("a", 0), now)
    assert not driven.mirror.covers(request("a", -1), now)
    assert not driven.mirror.covers(request("b", 1), now)


def test_a_heartbeat_that_crosses_a_change_in_its_group_is_followed_by_a_probe(driven: Driven) -> None:
    settle(driven, "a", "b", now=100)
    driven.take(driven.mirror.release("held a", request("a", 2), WaitingRequest.OWN_HEARTBEAT, 200))
    driven.mirror.request(request("a", 2), 3_000)
    driven.beat("leave b", request("b", -1), response("b", -1), 3_001)
    assert driven.asked() == []
    driven.take(driven.mirror.response(request("a", 2), response("a", 2), driven.context("crossed"), 3_002))
    assert driven.asked() == ["a"]


def test_a_commit_waits_for_the_probe_whose_news_the_heartbeat_before_it_gets(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("join b", request("b", 0), response("b", 2, []), 100)
    (probe,) = driven.probes
    driven.take(driven.mirror.release("held a", request("a", 1), WaitingRequest.REQUEST, 101))
    assert "held a" not in driven.answers
    driven.take(driven.mirror.probed(probe, response("a", 2, partitions(0, 1)), 110))
    assert driven.answers["held a"].assignment == Assignment(topic_partitions=partitions(0, 1))


@pytest.mark.parametrize("news", [False, True])
def test_a_commit_behind_a_heartbeat_that_was_not_passed_on_lets_the_coordinator_answer_it(news: bool) -> None:
    # The member's next heartbeat comes an interval later, when the last answer of the coordinator is older than that.
    driven = Driven(ClientKind.JAVA)
    settle(driven, "a", "b", now=100)
    for member in "ab":
        driven.take(driven.mirror.release(f"held {member}", request(member, 2), WaitingRequest.REQUEST, 70_000))
        assert driven.answers[f"held {member}"].heartbeat_interval_ms == INTERVAL
        driven.beat(f"passed {member}", request(member, 2), response(member, 2), 75_000)
    driven.take(driven.mirror.fire(ProbeDue("g"), 77_700))
    (probe,) = driven.probes
    assert probe.request.member_id == "a"
    driven.take(driven.mirror.probed(probe, response("a", 2), 77_701))
    driven.take(driven.mirror.fire(HeldHeartbeatsDue(), 79_900))
    driven.probes.clear()
    driven.beat_without_news("covered", request("a", 2), 80_000)
    assert driven.upstream == []
    driven.take(driven.mirror.release("covered", request("a", 2), WaitingRequest.REQUEST, 80_500))
    assert "covered" not in driven.answers
    (probe,) = driven.probes
    assert probe == Probe("covered", request("a", 2))
    driven.take(driven.mirror.probed(probe, response("a", 2, [] if news else None), 80_510))
    assert (driven.answers["covered"].assignment is not None) is news


def test_a_lost_probe_can_be_repeated(driven: Driven) -> None:
    settle(driven, "a", "b", "c", "d", "e", "f")
    driven.take(driven.mirror.fire(ProbeDue("g"), 1_100))
    (probe,) = driven.probes
    driven.probes.clear()
    assert driven.mirror.is_asked(request(probe.request.member_id, 6))
    driven.mirror.probe_lost(probe)
    assert not driven.mirror.is_asked(request(probe.request.member_id, 6))
    driven.beat("join g", request("g", 0), response("g", 7, []), 1_200)
    assert probe.request.member_id in driven.asked()


def test_something_that_happens_while_a_probe_is_under_way_needs_another(driven: Driven) -> None:
    settle(driven, "a", "b")
    driven.beat("join c", request("c", 0), response("c", 3, []), 100)
    first = {probe.request.member_id: probe for probe in driven.probes}
    driven.probes.clear()
    driven.beat("leave c", request("c", -1), response("c", -1), 105)
    assert driven.asked() == []
    driven.take(driven.mirror.probed(first["a"], response("a", 2), 110))
    assert driven.asked() == ["a"]


def test_few_probes_of_a_large_group_are_under_way(driven: Driven) -> None:
    members = [f"m{number:03}" for number in range(3 * AT_ONCE)]
    settle(driven, *members)
    driven.beat("join", request("new", 0), response("new", 61, []), 100)
    done = 0
    while driven.probes:
        assert len(driven.probes) + done <= 3 * AT_ONCE
        under_way, driven.probes = driven.probes, []
        assert len(under_way) <= AT_ONCE
        for probe in under_way:
            done += 1
            driven.take(driven.mirror.probed(probe, response(probe.request.member_id, 60), 110))
    assert done == 3 * AT_ONCE


def test_a_group_without_members_is_forgotten(driven: Driven) -> None:
    settle(driven, "a")
    driven.beat("leave", request("a", -1), response("a", -1), 100)
    assert driven.mirror.consumer("g") is None
    assert driven.timers[ProbeDue("g")] is None
    assert driven.mirror.fire(ProbeDue("g"), 1_000) == Outcome(Effects())


def test_an_answer_of_the_coordinator_is_not_changed_but_for_its_interval(driven: Driven) -> None:
    told = response("a", 1, partitions(0))
    told.throttle_time_ms, told.error_message = 7, "because"
    expected = copy(told)
    driven.beat("join", request("a", 0), told, 0)
    expected.heartbeat_interval_ms = driven.answers["join"].heartbeat_interval_ms
    assert driven.answers["join"] == expected
