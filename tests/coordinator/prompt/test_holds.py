"""Held heartbeats in the pure coordinator: whose session waits, and which of them are told what."""

from dataclasses import replace

import pytest

from kohort.coordinator import (
    INFERRED_GRACE,
    ClientKind,
    Effects,
    GroupConfig,
    GroupSettings,
    HeldHeartbeat,
    HeldHeartbeatsDue,
    WaitingRequest,
)
from kohort.coordinator.prompt.held_heartbeats import ClassicHeartbeats, HeldHeartbeats
from kohort.coordinator.timers import SessionTimeout, TargetDue
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.group_records import ConsumerGroupTargetAssignmentMetadataKey
from kohort.wire.messages.heartbeat import HeartbeatResponse
from tests.coordinator.held_group import HeldGroup
from tests.coordinator.shell import Shell

HOLDS = GroupConfig(heartbeat_hold_ms=9_000)
SESSION = 45_000


@pytest.fixture
def shell() -> Shell:
    made = Shell(HOLDS)
    made.set_topics({"orders": 64})
    return made


def join(shell: Shell, member_id: str) -> int:
    """A member joins, and acknowledges what it is given; returns its epoch."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    reply = shell.handle(joining, f"{member_id} joins at {shell.now}", 1).replies.popitem()[1]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse) and reply.assignment is not None
    if owned := reply.assignment.topic_partitions:
        epoch = reply.member_epoch
        report = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=owned
        )
        shell.handle(report, f"{member_id} reports at {shell.now}", 1)
    return reply.member_epoch


def hold(shell: Shell, member_id: str, epoch: int) -> None:
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
    token = f"{member_id} at {shell.now}"
    assert isinstance(shell.shard.quiet_heartbeat(beat, shell.now, token), HeldHeartbeat)
    shell.expect(token, 1)


def test_a_member_does_not_expire_while_its_answer_is_in_our_hands(shell: Shell) -> None:
    hold(shell, "a", join(shell, "a"))
    # The coordinator stood still: its timers fire late, and this one first.
    shell.now += 2 * SESSION
    shell.apply(shell.shard.fire(SessionTimeout("g", "a"), shell.now))
    assert set(shell.shard.members("g")) == {"a"}


def test_it_expires_when_nothing_of_it_is_held(shell: Shell) -> None:
    join(shell, "a")
    shell.now += 2 * SESSION
    shell.apply(shell.shard.fire(SessionTimeout("g", "a"), shell.now))
    assert not shell.shard.members("g")


def targets(shell: Shell, gap_ms: int) -> int:
    """How many targets are computed while twenty members join, one after the other."""
    seen = set()
    for number in range(20):
        join(shell, f"m{number}")
        seen.add(shell.shard.consumer_groups["g"].target_epoch)
        shell.now += gap_ms
    return len(seen)


def test_the_first_changes_count_at_once_and_a_crowd_of_them_together(shell: Shell) -> None:
    assert 3 <= targets(shell, gap_ms=30) <= 10


def test_changes_that_come_one_by_one_count_each_at_once(shell: Shell) -> None:
    shell.settings = GroupSettings(assignment_interval_ms=1_000)
    assert targets(shell, gap_ms=1_100) == 20


def test_without_holding_the_interval_is_kafkas() -> None:
    shell = Shell(GroupConfig())
    shell.set_topics({"orders": 64})
    assert targets(shell, gap_ms=30) == 1


def interval_of(effects: Effects) -> int:
    reply = effects.replies.popitem()[1]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply.heartbeat_interval_ms


def release(shell: Shell, held: HeldHeartbeat) -> int:
    """Let a commit follow it; return the interval in the member's response."""
    return interval_of(shell.shard.release(held.token, WaitingRequest.REQUEST, shell.now))


def held_heartbeat(shell: Shell, epoch: int) -> HeldHeartbeat:
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    held = shell.shard.quiet_heartbeat(beat, shell.now, f"a at {shell.now}")
    assert isinstance(held, HeldHeartbeat)
    return held


def test_a_client_that_may_not_sleep_is_held_for_less_than_its_interval(
    shell: Shell,
) -> None:
    epoch = join(shell, "a")
    assert release(shell, held_heartbeat(shell, epoch)) == 100, "the group has just changed"
    shell.now += 2_000
    told = release(shell, held_heartbeat(shell, epoch))
    assert told == 250, "it has changed, and may again"
    held = held_heartbeat(shell, epoch)
    assert 200 <= held.due_at - shell.now < told
    shell.now += 100
    assert release(shell, held) == 250
    shell.now += 60_000
    assert release(shell, held_heartbeat(shell, epoch)) == 5_000, "it is quiet now"
    held = held_heartbeat(shell, epoch)
    assert 4_500 < held.due_at - shell.now < 5_000


def test_a_client_whose_heartbeat_times_out_with_the_interval_has_time_left_for_the_answer(shell: Shell) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=["orders"]
    )
    joined = shell.handle(joining, "a joins", 1, client=ClientKind.LIBRDKAFKA, may_hold=True).replies["a joins"]
    assert isinstance(joined, ConsumerGroupHeartbeatResponse)
    told = joined.heartbeat_interval_ms
    assert told == 100, "the answer that gives it partitions"
    owned = [] if joined.assignment is None else joined.assignment.topic_partitions
    report = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", member_epoch=joined.member_epoch, topic_partitions=owned
    )
    shell.now += 10
    told = interval_of(shell.handle(report, "a reports", 1, client=ClientKind.LIBRDKAFKA, may_hold=True))
    assert told == 100, "the group has just changed"
    for passes, expected in ((2_000, 250), (60_000, 5_000)):
        held = held_heartbeat(shell, joined.member_epoch)
        assert held.due_at - shell.now == told - min(told // 2, 100)
        shell.now += passes
        told = release(shell, held)
        assert told == expected
    held = held_heartbeat(shell, joined.member_epoch)
    assert held.due_at - shell.now == 4_900


def test_a_client_that_sleeps_during_a_hold_is_back_soon_after_a_commit_while_its_group_changes(shell: Shell) -> None:
    epoch = join(shell, "a")
    report = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, topic_partitions=[])
    shell.handle(report, "a reports", 1, client=ClientKind.KOHORT, may_hold=True)
    shell.now += 100
    held = held_heartbeat(shell, epoch)
    shell.now += 20
    assert release(shell, held) == 230, "one in 250 ms, however many commits there are"
    held = held_heartbeat(shell, epoch)
    shell.now += 400
    assert release(shell, held) == 50
    shell.now += 60_000
    held = held_heartbeat(shell, epoch)
    shell.now += 400
    assert release(shell, held) == 600, "it is quiet now: one in a second"


def test_a_client_that_waits_for_a_hold_once_is_forgiven_those_that_it_left(shell: Shell) -> None:
    epoch = join(shell, "a")
    for _ in range(3):
        shell.now += 100
        left = held_heartbeat(shell, epoch)
        shell.apply(shell.shard.disconnected(left.token, shell.now))
        shell.now += 100
        assert release(shell, held_heartbeat(shell, epoch)) > 0


def test_a_client_that_left_two_holds_in_a_row_is_not_held_any_more(shell: Shell) -> None:
    epoch = join(shell, "a")
    shell.now += 60_000
    for _ in range(2):
        left = held_heartbeat(shell, epoch)
        shell.apply(shell.shard.disconnected(left.token, shell.now))
        shell.now += 100
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    assert shell.shard.quiet_heartbeat(beat, shell.now, "again") is None
    assert interval_of(shell.handle(beat, "again", 1, may_hold=True)) == 5_000


def test_heartbeats_of_a_member_that_commits_regularly_come_to_lie_just_after_its_commits(shell: Shell) -> None:
    # The Java client sends a heartbeat when its timer is over, which begins with the last one, or with an answer that
    # tells another interval; and commits every auto.commit.interval.ms, a little later each time.
    epoch = join(shell, "a")
    shell.now += 60_000
    began, interval, commit_at = shell.now, 5_000, shell.now + 2_000
    due_at, held, covered, sent = shell.now, None, 0, 0
    for _ in range(200):
        if held is None and due_at <= commit_at:
            shell.now, sent = due_at, sent + 1
            held = held_heartbeat(shell, epoch)
            due_at = shell.now + interval
        elif held is not None and held.due_at < commit_at:
            covered += held.due_at - held.arrived_at
            shell.now = held.due_at
            told = interval_of(shell.shard.fire(HeldHeartbeatsDue(), held.due_at))
            due_at, interval, held = (due_at if told == interval else shell.now + told), told, None
        else:
            shell.now = commit_at
            commit_at += 5_000 + shell.now % 37
            if held is not None:
                covered += shell.now - held.arrived_at
                told = release(shell, held)
                due_at, interval, held = (due_at if told == interval else shell.now + told), told, None
    passed = shell.now - began
    assert covered > 0.8 * passed, "else half of the time"
    assert sent <= passed / 5_000 + 1, "no more than without"


def tell(shell: Shell) -> dict[str, ConsumerGroupHeartbeatResponse]:
    """Whose heartbeats are answered with news, and what."""
    told = {}
    while shell.shard.has_news:
        for token, answer in shell.apply(shell.shard.answer_news(shell.now)).replies.items():
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            told[str(token).split()[0]] = answer
    return told


def acknowledge(shell: Shell, member_id: str, told: ConsumerGroupHeartbeatResponse, client: ClientKind) -> Effects:
    """It has done what it was told, and says so in a heartbeat that may be held."""
    assert told.assignment is not None
    has = [TopicPartitions(topic_id=t.topic_id, partitions=t.partitions) for t in told.assignment.topic_partitions]
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=told.member_epoch, topic_partitions=has
    )
    return shell.handle(beat, f"{member_id} acknowledges", 1, client=client, may_hold=True)


def test_an_answer_that_news_cut_short_does_not_extend_the_session(shell: Shell) -> None:
    # Its client may have died while its heartbeat was held.
    epoch = join(shell, "a")
    shell.now += 1_000
    hold(shell, "a", epoch)
    list(shell.wait(2_000))
    join(shell, "b")
    assert tell(shell).keys() == {"a"}
    list(shell.wait(SESSION - 2_001))
    assert "a" in shell.shard.members("g")
    list(shell.wait(1))
    assert "a" not in shell.shard.members("g")


def test_a_heartbeat_that_is_held_again_is_not_held_longer(shell: Shell) -> None:
    # Its client waits for as long as it was told to, whatever happens in the group meanwhile.
    shell.settings = GroupSettings(assignment_interval_ms=60_000)
    join(shell, "a")
    list(shell.wait(30_000))
    join(shell, "b")
    shell.now += 100
    epoch = join(shell, "a")
    held = held_heartbeat(shell, epoch)
    shell.expect(held.token, 1)
    shell.now += 50
    join(shell, "c")
    assert not tell(shell), "the next target is not due"
    (again,) = shell.shard.held
    assert again.token == held.token
    assert (again.arrived_at, again.due_at) == (held.arrived_at, held.due_at)


def test_when_the_group_moves_every_held_heartbeat_is_refused_in_its_protocol(shell: Shell) -> None:
    hold(shell, "a", join(shell, "a"))
    told = shell.fail_over().replies
    assert [(type(answer), getattr(answer, "error_code", None)) for answer in told.values()] == [
        (ConsumerGroupHeartbeatResponse, ErrorCode.NOT_COORDINATOR)
    ]
    classic = HeldGroup().at_rest(members=1)
    refused = classic.shell.fail_over().replies
    assert [(type(answer), getattr(answer, "error_code", None)) for answer in refused.values()] == [
        (HeartbeatResponse, ErrorCode.NOT_COORDINATOR)
    ]


def test_a_member_that_does_not_give_up_its_partitions_is_asked_less_and_less_often(shell: Shell) -> None:
    def beat(token: object) -> ConsumerGroupHeartbeatResponse:
        epoch = shell.shard.consumer_groups["g"].members["a"].epoch
        silent = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
        answer = shell.handle(silent, token, 1, may_hold=True).replies[token]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    join(shell, "a")
    shell.now += 60_000
    join(shell, "b")
    answers = [beat(number) for number in range(9)]
    assert answers[0].assignment is not None
    intervals = [answer.heartbeat_interval_ms for answer in answers]
    assert intervals == [30, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]


@pytest.mark.parametrize(("client", "interval"), [(ClientKind.JAVA, 30), (ClientKind.KOHORT, 50)])
def test_an_assignment_wakes_an_application_that_sleeps_until_the_next_heartbeat(
    shell: Shell, client: ClientKind, interval: int
) -> None:
    # Java's asks for the positions of its new partitions when it wakes, and would sleep for a tenth of a second.
    epoch = join(shell, "a")
    has = shell.shard.consumer_groups["g"].members["a"].assigned
    owned = [TopicPartitions(topic_id=t, partitions=sorted(n)) for t, n in has.by_topic.items()]
    report = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, topic_partitions=owned)
    shell.handle(report, "a reports", 1, client=client, may_hold=True)
    shell.now += 60_000
    hold(shell, "a", epoch)
    join(shell, "b")
    told = tell(shell)["a"]
    assert told.assignment is not None and told.heartbeat_interval_ms == interval
    # Its acknowledgement ends that: a member that is held for less than its interval needs one that is longer.
    acknowledged = acknowledge(shell, "a", told, client).replies.values()
    assert [
        answer.heartbeat_interval_ms for answer in acknowledged if isinstance(answer, ConsumerGroupHeartbeatResponse)
    ] == [50 if client is ClientKind.KOHORT else 100]


def test_members_with_only_a_new_epoch_are_notified_when_the_others_have_moved(shell: Shell) -> None:
    shell.set_topics({"orders": 4})
    for member_id in "ab":
        join(shell, member_id)
        shell.now += 60_000
    for _ in range(3):  # until each has its two
        for member_id in "ab":
            has = shell.shard.consumer_groups["g"].members[member_id].assigned
            reported = [TopicPartitions(topic_id=t, partitions=sorted(n)) for t, n in has.by_topic.items()]
            epoch = shell.shard.consumer_groups["g"].members[member_id].epoch
            beat = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=reported
            )
            shell.handle(beat, f"{member_id} reports", 1)
    epochs = {m.member_id: m.epoch for m in shell.shard.consumer_groups["g"].members.values()}
    for member_id, epoch in epochs.items():
        hold(shell, member_id, epoch)
    join(shell, "c")
    told = tell(shell)
    assert len(told) == 1, "one of them has to give up one"
    [(giver, answer)] = told.items()
    [other] = epochs.keys() - told.keys()
    acknowledge(shell, giver, answer, ClientKind.JAVA)
    assert not tell(shell), "now c may take it"
    shell.handle(ConsumerGroupHeartbeatRequest(group_id="g", member_id="c", member_epoch=epochs["a"] + 1), "c asks", 1)
    told = tell(shell)
    assert told.keys() == {other} and told[other].assignment is None


def test_a_java_member_that_has_nothing_yet_waits_in_the_acknowledgement_of_that(shell: Shell) -> None:
    # Answered, it would let 100 ms pass before its next heartbeat.
    epoch = join(shell, "a")
    shell.now += 60_000
    hold(shell, "a", epoch)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="b",
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    joined = shell.handle(beat, "b joins", 1, client=ClientKind.JAVA, may_hold=True).replies["b joins"]
    assert isinstance(joined, ConsumerGroupHeartbeatResponse) and joined.heartbeat_interval_ms == 10
    told = tell(shell)["a"]
    assert not acknowledge(shell, "b", joined, ClientKind.JAVA).replies, "it is held"
    acknowledge(shell, "a", told, ClientKind.JAVA)
    won = tell(shell)["b"].assignment
    assert won is not None and len(won.topic_partitions[0].partitions) == 32


def test_a_member_that_commits_rarely_may_be_without_a_connection_until_the_heartbeat_behind_its_commit() -> None:
    shell = Shell(replace(HOLDS, disconnect_grace_ms=INFERRED_GRACE))
    shell.set_topics({"orders": 64})
    epoch = join(shell, "a")
    shell.now += 120_000
    assert release(shell, held_heartbeat(shell, epoch)) == 5_000
    assert shell.shard.grace_ms("g", "a") == 5_500
    shell.now += 5_000
    held = held_heartbeat(shell, epoch)
    shell.now += 2_000
    assert release(shell, held) == 7_050, "the time between its commits, and a little"
    assert shell.shard.grace_ms("g", "a") == 7_550


@pytest.mark.parametrize(("passed", "interval"), [(35_906, 250), (35_907, 5_000)])
def test_members_return_to_the_usual_interval_at_different_times(shell: Shell, passed: int, interval: int) -> None:
    # All at once, none would have a held heartbeat for a moment. The time is 30 s, and that of the member's ID.
    epoch = join(shell, "a")
    shell.now += passed
    assert release(shell, held_heartbeat(shell, epoch)) == interval


def commits_after(shell: Shell, epoch: int, milliseconds: int) -> int:
    """Its last heartbeat is held 5 s after the last commit, and another commit cuts that short; return its interval."""
    shell.now += 5_000
    held = held_heartbeat(shell, epoch)
    shell.now += milliseconds - 5_000
    return release(shell, held)


def test_commits_that_met_no_held_heartbeat_count_for_the_time_between_commits(shell: Shell) -> None:
    epoch = join(shell, "a")
    shell.now += 120_000
    release(shell, held_heartbeat(shell, epoch))
    assert commits_after(shell, epoch, 10_600) == 5_350, "one after 5.3 s met none"


def test_an_interval_that_is_right_and_yet_comes_at_the_wrong_time_changes_by_a_little(shell: Shell) -> None:
    # The timer of the client begins anew only with another interval.
    epoch = join(shell, "a")
    shell.now += 120_000
    release(shell, held_heartbeat(shell, epoch))
    assert [commits_after(shell, epoch, 7_000) for _ in range(3)] == [7_050, 7_051, 7_050]


def test_members_of_a_large_group_send_heartbeats_less_often_after_a_change(shell: Shell) -> None:
    shell.settings = GroupSettings(assignment_interval_ms=0)
    for number in range(219):
        join(shell, f"m{number}")
    epoch = join(shell, "a")
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    assert not shell.handle(beat, "beat", 1, may_hold=True).replies
    assert interval_of(shell.shard.release("beat", WaitingRequest.REQUEST, shell.now)) == 110


def test_a_hold_is_limited_by_the_brokers_setting() -> None:
    shell = Shell(GroupConfig(heartbeat_hold_ms=1_000))
    shell.set_topics({"orders": 1})
    epoch = join(shell, "a")
    shell.now += 120_000  # the group is quiet, and the interval the usual one
    held = held_heartbeat(shell, epoch)
    assert held.due_at - held.arrived_at == 1_000


def test_nor_than_a_third_of_the_session() -> None:
    shell = Shell(HOLDS, settings=GroupSettings(session_timeout_ms=12_000))
    shell.set_topics({"orders": 1})
    epoch = join(shell, "a")
    shell.now += 120_000
    held = held_heartbeat(shell, epoch)
    assert held.due_at - held.arrived_at == 4_000


def test_while_a_heartbeat_is_held_its_member_has_its_session_and_no_more(shell: Shell) -> None:
    epoch = join(shell, "a")
    list(shell.wait(30_000))
    hold(shell, "a", epoch)
    # The timer that was set when it joined fires; the heartbeat has moved the end of the session.
    shell.now += SESSION - 30_000
    shell.apply(shell.shard.fire(SessionTimeout("g", "a"), shell.now))
    at, _ = shell.timers[SessionTimeout("g", "a")]
    assert at - shell.now == 30_000


def test_while_the_target_is_up_to_date_a_hold_makes_nothing_due(shell: Shell) -> None:
    epoch = join(shell, "a")
    owned = shell.shard.consumer_groups["g"].members["a"].assigned
    reported = [TopicPartitions(topic_id=t, partitions=sorted(n)) for t, n in owned.by_topic.items()]
    report = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, topic_partitions=reported)
    shell.handle(report, "a reports", 1, may_hold=True)
    silent = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    assert not shell.handle(silent, "a beats", 1, may_hold=True).replies, "it is held"
    assert TargetDue("g") not in shell.timers


def test_a_member_that_has_acknowledged_its_partitions_is_held_at_its_next_heartbeat(shell: Shell) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    joined = shell.handle(joining, "a joins", 1, may_hold=True).replies["a joins"]
    assert isinstance(joined, ConsumerGroupHeartbeatResponse)
    assert acknowledge(shell, "a", joined, ClientKind.OTHER).replies
    shell.now += 100
    silent = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=joined.member_epoch)
    assert not shell.handle(silent, "a beats", 1, may_hold=True).replies


def test_a_member_that_owes_an_acknowledgement_is_asked_for_patience_twice_as_long_each_time(shell: Shell) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    answers = [shell.handle(joining, "a joins", 1, may_hold=True).replies["a joins"]]
    epoch = shell.shard.consumer_groups["g"].members["a"].epoch
    for number in range(3):
        silent = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
        answers.append(shell.handle(silent, number, 1, may_hold=True).replies[number])
    assert [getattr(answer, "heartbeat_interval_ms") for answer in answers] == [30, 200, 400, 800]  # noqa: B009


def test_only_one_member_computes_the_target_that_all_receive(shell: Shell) -> None:
    # Its records are written before the next member is notified.
    epochs = {}
    for member_id in "abc":
        join(shell, member_id)
    list(shell.wait(2_000))
    for _ in range(4):
        for member_id in "abc":
            member = shell.shard.consumer_groups["g"].members[member_id]
            has = [TopicPartitions(topic_id=t, partitions=sorted(n)) for t, n in member.assigned.by_topic.items()]
            beat = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=member_id, member_epoch=member.epoch, topic_partitions=has
            )
            shell.handle(beat, f"{member_id} reports", 1)
            epochs[member_id] = shell.shard.consumer_groups["g"].members[member_id].epoch
    for member_id, epoch in epochs.items():
        hold(shell, member_id, epoch)
    shell.set_topics({"orders": 67})
    list(shell.wait(1_000))
    written = []
    while shell.shard.has_news:
        effects = shell.shard.answer_news(shell.now)
        written += [type(record.key) for record in effects.records]
        shell.apply(effects)
    assert written.count(ConsumerGroupTargetAssignmentMetadataKey) == 1


def test_a_member_that_waits_no_more_leaves_those_alone_that_wait_for_the_same_partition() -> None:
    holds = HeldHeartbeats()
    partition = "g", UUID(int=1), 0
    first, second = (
        HeldHeartbeat(name, ConsumerGroupHeartbeatRequest(group_id="g", member_id=name), 1, 0, 5_000, [partition])
        for name in ("a", "b")
    )
    holds.add(first)
    holds.add(second)  # another target gives it the partition
    holds.drop(first)
    holds.partitions_freed("g", UUID(int=1), [0])
    assert holds.next_news() is second


@pytest.mark.parametrize("ends", ["by a request behind it", "by its time"])
@pytest.mark.parametrize(
    ("instance_id", "code"), [("i", ErrorCode.FENCED_INSTANCE_ID), (None, ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_a_replaced_member_is_fenced_even_if_its_hold_ends_before_the_news(
    shell: Shell, instance_id: str | None, code: ErrorCode, ends: str
) -> None:
    def beat(member_id: str, epoch: int, topics: list[str] | None = None) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=60_000 if topics else -1,
            topic_partitions=[] if topics else None,
            subscribed_topic_names=topics,
        )

    reply = shell.handle(beat("a", 0, ["none"]), "a joins", 1).replies["a joins"]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    held = shell.shard.quiet_heartbeat(beat("a", reply.member_epoch), shell.now, "a")
    assert isinstance(held, HeldHeartbeat)
    shell.handle(beat("a", -2 if instance_id else -1), "a leaves on another connection", 1)
    shell.handle(beat("b", 0, ["none"]), "b joins", 1)
    if ends == "by its time":
        released = shell.shard.fire(HeldHeartbeatsDue(), held.due_at)
    else:
        released = shell.shard.release("a", WaitingRequest.REQUEST, shell.now)
    answer = released.replies["a"]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code == code
    assert not released.records


def test_nothing_is_remembered_of_a_member_that_was_removed() -> None:
    holds = HeldHeartbeats()
    holds.state("g", "a").failed_holds = 1
    holds.sleeping.add(("g", "a"))
    holds.timing_out.add(("g", "a"))
    holds.forget_member("g", "a")
    assert not holds.states and not holds.sleeping and not holds.timing_out


def test_all_known_times_of_a_classic_member_are_skipped_and_no_others() -> None:
    known = ClassicHeartbeats(10, 20, 30, 40, 3_000, 1, 50, 2, 7)
    known.skip_time(1_000)
    assert known == ClassicHeartbeats(1_010, 1_020, 1_030, 1_040, 3_000, 1, 1_050, 2, 7)
    unknown = ClassicHeartbeats()
    unknown.skip_time(1_000)
    assert unknown == ClassicHeartbeats()


def test_a_member_waits_for_what_it_was_last_found_to_wait_for() -> None:
    holds = HeldHeartbeats()
    before, now = ("g", UUID(int=1), 0), ("g", UUID(int=1), 1)
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    held = HeldHeartbeat("token", request, 1, arrived_at=0, due_at=5_000, waits_for=[before])
    holds.add(held)
    holds.wait_for(held, [now])
    holds.partitions_freed("g", UUID(int=1), [0])
    assert holds.next_news() is None
    holds.partitions_freed("g", UUID(int=1), [1])
    assert holds.next_news() is held
    holds.drop(held)
    assert not holds.waits_for_partitions
