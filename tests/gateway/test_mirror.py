"""The groups behind a gateway: which heartbeats it holds, when it asks the coordinator again, and what it passes on."""

from copy import copy
from itertools import pairwise

import pytest

from kohort.coordinator import ClientKind, Effects, HeldHeartbeatsDue, WaitingRequest
from kohort.errors import ErrorCode
from kohort.gateway.groups import Outcome, Probe, ProbeDue
from kohort.gateway.groups.consumer_group import SETTLING
from kohort.gateway.groups.consumer_probes import AT_ONCE
from kohort.wire.messages.consumer_group_heartbeat import Assignment
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.driven_mirror import INTERVAL, Driven, partitions, request, response, settle


@pytest.fixture
def driven() -> Driven:
    return Driven()


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


def test_heartbeats_of_a_large_group_replace_probes() -> None:
    # A change lets the coordinator be asked for all of them, between their heartbeats.
    driven = Driven(ClientKind.JAVA)
    settle(driven, *[f"m{number:02}" for number in range(60)], now=100)
    driven.run(100, 102_300)
    driven.beat("join", request("new", 0), response("new", 2, partitions()), 102_300)
    driven.run(102_300, 200_000)
    assert len([at for at in driven.probed if 102_300 <= at < 103_000]) >= 60
    late = [at for at in driven.probed if at >= 150_000]
    assert len(late) <= 50  # one a second, because these members send theirs together


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


@pytest.fixture
def covered() -> tuple[Driven, Probe]:
    """A heartbeat that the coordinator must answer because its hold has ended, and the probe for it."""
    driven = heartbeat_that_ends()
    (probe,) = driven.probes
    assert probe == Probe("covered", request("a", 2))
    return driven, probe


@pytest.mark.parametrize("news", [False, True])
def test_a_commit_behind_a_heartbeat_that_was_not_passed_on_lets_the_coordinator_answer_it(
    news: bool, covered: tuple[Driven, Probe]
) -> None:
    driven, probe = covered
    driven.take(driven.mirror.probed(probe, response("a", 2, [] if news else None), 80_510))
    assert (driven.answers["covered"].assignment is not None) is news


def test_a_heartbeat_whose_probe_is_lost_is_answered_without_it(covered: tuple[Driven, Probe]) -> None:
    # The gateway cannot send it while it logs in at the broker. The member would wait for its answer for ever.
    driven, probe = covered
    driven.take(driven.mirror.probe_lost(probe))
    answer = driven.answers["covered"]
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert not driven.mirror.covers(request("a", 2), 80_520)


def heartbeat_that_ends() -> Driven:
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
    return driven


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


def test_another_subscription_may_be_news_for_the_others(driven: Driven) -> None:
    settle(driven, "a", "b")
    asked = request("a", 2)
    asked.subscribed_topic_regex = "orders.*"  # the coordinator looks for its topics later
    driven.beat("another regex", asked, response("a", 2), 100)
    assert driven.asked() == ["b"]


def test_a_member_that_is_gone_gives_nothing_up(driven: Driven) -> None:
    settle(driven, "a", "b")
    driven.beat("gives up", request("a", 2), response("a", 2, []), 100)
    group = driven.mirror.consumer("g")
    assert group is not None
    assert group.revoking == {"a"}
    driven.beat("gone", request("a", 2), response("a", 0, error=ErrorCode.UNKNOWN_MEMBER_ID), 200)
    assert group.revoking == set()


def test_an_answer_of_the_coordinator_is_not_changed_but_for_its_interval(driven: Driven) -> None:
    told = response("a", 1, partitions(0))
    told.throttle_time_ms, told.error_message = 7, "because"
    expected = copy(told)
    driven.beat("join", request("a", 0), told, 0)
    expected.heartbeat_interval_ms = driven.answers["join"].heartbeat_interval_ms
    assert driven.answers["join"] == expected
