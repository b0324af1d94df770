"""Facts about each client, and all time limits of held heartbeats, each with its reason and source.

Sources: "008" is decision 008, which has the measurements; a class or a property of a client is in its
source code at the version that decision 008 names.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.coordinator.client_kind import ClientKind
from kohort.model import Millis

# Per client


@dataclass(frozen=True, slots=True)
class ClientTimings:
    """Behavior of one client. The defaults suit an unknown client."""

    sleeps_while_held: bool = False
    """Whether a consumer group's member sleeps while its heartbeat is held beyond the interval it was given.

    The Java client's network thread polls without a timeout once the next heartbeat is due, which it may not send yet:
    it keeps a core of its machine busy until the hold ends (ten members used 99 % of two cores). Source: 008, "The Java
    client does not sleep". A client that sleeps also acknowledges an empty assignment; the Java client does not.
    """
    times_out_with_interval: bool = False
    """Whether a consumer group's member considers an answer lost that has not come when its interval ends.

    librdkafka's request timeout of a heartbeat is the interval in the last answer. It looks for late answers once a
    second, and closes the connection to the coordinator if there is one: an interval of 30 ms breaks connections
    whenever a disk or a network takes longer. Source: `rd_kafka_ConsumerGroupHeartbeatRequest` and
    `rd_kafka_broker_timeout_scan` of librdkafka; `tests/interop/test_held_clients.py` failed by it on a busy machine.
    """
    spins_while_overdue: bool = False
    """Whether a classic member polls without a timeout once its next heartbeat is due, although one is held.

    kafka-python bounds the timeout of `poll` by the time to the next heartbeat, which it does not send while one is
    under way: an idle member used 0.4 of a core. Its heartbeats are answered before the next one is due. Source:
    `KafkaConsumer.poll` of kafka-python 3.0.12, `tests/interop/test_held_clients.py`.
    """
    sends_heartbeat_after_commit: bool = False
    """Whether a classic member sends a heartbeat behind each commit in the first minute after a generation.

    Source: `member/classic/heartbeats.py`.
    """
    ignores_answer_to_empty_report: bool = False
    """Whether a consumer group's member that reports no partitions ignores the answer, so that it may be held.

    A member that got partitions next asks for their committed offsets, which would cut the hold short. Source: 008,
    "Other waits of the Java client 4.x".
    """
    resends_refused_heartbeats: int = 0
    """Maximum number of consecutive classic heartbeats to refuse with an error that makes the client resend soon.

    The Java client resends without a limit, 0.1 s later (`retry.backoff.ms`), and logs nothing. librdkafka resends each
    request twice. Source: 008, "The time after a commit" and "Why eager members of librdkafka paused longer".
    """
    resends_by_the_same_timer: bool = False
    """Whether a heartbeat that is resent after an error leaves the time of the next one unchanged.

    librdkafka's timer expires every heartbeat.interval.ms, regardless of what it resends. Source: 008.
    """
    repeats_refused_heartbeats: bool = False
    """Whether a heartbeat that is resent after an error is the same request, although the member has joined since.

    librdkafka sends the same bytes. After ILLEGAL_GENERATION it gives up its partitions without committing: six
    members behind a gateway read 1,984 records again in a rolling restart. Source: `tests/gateway/classic_world.py`,
    which plays the client.
    """
    join_interval_ms: Millis = 0
    """Minimum time between two JoinGroups of a classic member.

    librdkafka waits for it after it has given up its partitions: it sends one JoinGroup per second. Source: 008.
    """


CLIENT_TIMINGS: Mapping[ClientKind, ClientTimings] = {
    ClientKind.OTHER: ClientTimings(),
    ClientKind.JAVA: ClientTimings(ignores_answer_to_empty_report=True, resends_refused_heartbeats=1_000),
    ClientKind.LIBRDKAFKA: ClientTimings(
        times_out_with_interval=True,
        resends_refused_heartbeats=2,
        resends_by_the_same_timer=True,
        repeats_refused_heartbeats=True,
        join_interval_ms=1_000,
    ),
    ClientKind.KAFKA_PYTHON: ClientTimings(spins_while_overdue=True),
    ClientKind.KOHORT: ClientTimings(sleeps_while_held=True, sends_heartbeat_after_commit=True),
}

# Both protocols

HOLDS_NOT_AWAITED = 2
"""Number of consecutive holds that a client did not wait for, after which its heartbeats are not held any more.

Once may be a network failure. Source: 008, "Clients that cannot be held", such as a Go client with a request
timeout of 5 s.
"""
USUAL_HEARTBEAT_INTERVAL: Millis = 3_000
"""Heartbeat interval assumed of members that have sent no heartbeat yet.

Source: default of heartbeat.interval.ms in the Java client, librdkafka, kafka-python and aiokafka.
"""
TIMER_TICK: Millis = 10
"""Holds that end within the same tick end together: one timer serves all members of a shard.

A timer per member would cost more. Holds end at least 10 ms early, see HOLD_MARGIN_MIN. Source: an estimate.
"""

# Consumer protocol: intervals from an answer to the next heartbeat

INTERVAL_SLEEPING: Millis = 50
"""For a client that sleeps during a hold: the hold takes the time that the interval otherwise would. Source: 008."""
INTERVAL_AFTER_TARGET: Millis = 100
TARGET_IS_RECENT: Millis = 2_000
"""For other clients within this time of a new target: a member may take more than one step, and changes often follow
each other.

The Java client cannot send a heartbeat earlier than retry.backoff.ms (100) after an answer. Source: 008.
"""
INTERVAL_ASSIGNED: Millis = 30
"""For other clients, in the first answer with other partitions.

The application of a Java member, whose thread runs the callbacks, sleeps in `poll` until a fetch is answered or the
next heartbeat is due, for at most retry.backoff.ms (100). It asks for the position of a new partition only when it
wakes up after the callback. The client sends no heartbeat earlier for that, because retry.backoff.ms applies to it.
Sources: `pollForFetches` and `checkInflightPoll` of `AsyncKafkaConsumer`; the length, which most callbacks stay below,
is an estimate. A wait of a tenth of a second appeared in traces of the laboratory.
"""
INTERVAL_RESTLESS: Millis = 250
RESTLESS_CONSUMER_GROUP: Millis = 30_000
"""For other clients within this time of a new target, in which another one is likely.

Each member adds a different time to RESTLESS_CONSUMER_GROUP, from zero to as much again, so that not all of them return
to the usual interval, and have no held heartbeat, at once. Each member of the group adds half a millisecond to the
interval, so that a large group does not send more requests. Source: 008, "The Java client does not sleep".
"""
INTERVAL_EMPTY_HANDED: Millis = 10
"""Minimum for other clients without partitions that wait for what others must give up; it grows with the time that this
takes.

In a Java application, the thread that runs callbacks has no records yet to wake it: it checks for callbacks when the
next heartbeat is due. Source: 008, "Other waits of the Java client 4.x".
"""
HOLD_EMPTY_HANDED: Millis = 100
"""Hold for such a member's heartbeat, although its client is awake by then.

If it were answered, the member could not be notified for the same time (retry.backoff.ms). Source: 008.
"""
INTERVAL_RELEASED: Millis = 1_000
"""Minimum time between the heartbeats of a member whose other requests release them, however many requests it sends.

For a client that sleeps during a hold it is INTERVAL_RESTLESS in a group that has just changed. An application that
commits after each record would otherwise send a heartbeat for each of them. Source: 008, "Clients that sleep between
heartbeats".
"""
ANSWERS_WITHOUT_ACKNOWLEDGEMENT = 4
"""Number of a member's heartbeats that are answered at once while its acknowledgement is awaited.

Some clients never send one; then their heartbeats would never be held. Source: 008, "Clients that sleep between
heartbeats".
"""

# The end of a hold before the interval is over: consumer protocol, and classic members that spin afterwards

HOLD_MARGIN_MIN: Millis = 10
HOLD_MARGIN_MAX: Millis = 100
HOLD_MARGIN_PART = 25
"""A hold ends before the interval does, by the interval divided by HOLD_MARGIN_PART, within these bounds.

The answer must arrive before the client's next heartbeat is due; the member cannot be notified in that time, so it is
short. Source: 008, "The Java client does not sleep"; the divisor is an estimate.
"""


INTERVAL_MIN_WITH_TIMEOUT: Millis = 100
"""Minimum interval of a client whose heartbeat times out when the interval ends.

Half of it remains for the network and the disk when a hold has taken the other half. A longer one would leave a new
member longer without a held heartbeat: with 200 instead of 10, the median of dark times was 125 ms instead of 48 in a
rolling restart of six librdkafka members. Source: an estimate.
"""


def hold_within(interval: Millis, *, times_out: bool = False) -> Millis:
    """Return the longest hold that ends before the client's next heartbeat is due.

    `times_out`: the client considers the answer lost by then, so that more than a moment must remain.
    """
    if times_out:
        return interval - min(interval // 2, HOLD_MARGIN_MAX)
    return interval - min(max(interval // HOLD_MARGIN_PART, HOLD_MARGIN_MIN), HOLD_MARGIN_MAX)


HEARTBEAT_AFTER_COMMIT: Millis = 50
HEARTBEAT_AFTER_COMMIT_MAX: Millis = 500
"""Window after a client's commit for its next heartbeat, if it commits about as often as it sends heartbeats.

Java members commit and send heartbeats every 5 s by default: a heartbeat just after the commit is held for 0.86 of the
time instead of half of it. Source: 008, and `tests/coordinator/prompt/test_holds.py`, which plays the client's timer.
"""

# Classic protocol

RESTLESS_CLASSIC_GROUP: Millis = 60_000
"""Time after a generation in which another one is likely, and heartbeats are requested after commits.

Source: 008, "The time after a commit"; the length is an estimate.
"""
RESEND_INTERVAL: Millis = 500
"""Minimum interval at which heartbeats are repeatedly requested from a member by an error.

A member that commits all the time would otherwise send ten per second. Source: 008, "The time after a commit".
"""
HOLD_AFTER_FAILURE: Millis = 3_000
"""Maximum hold for a member whose client closed its connection during the last hold.

Clients with a request timeout of 5 s can wait for it. Source: 008, "Clients that cannot be held".
"""
OVERDUE_MARGIN: Millis = 200
"""Time after which a heartbeat that was expected is overdue, and a successor does not arrive any more.

Timers and schedulers are late by some time. Source: an estimate.
"""
RESTART_MAX: Millis = 3_000
"""Maximum time for the successor of a member that left to arrive.

Elsewhere, the members of an eager group take this long to learn of a leave (heartbeat.interval.ms). Source: 008, "A
restart is one rebalance of an eager group, not two".
"""
UNSEEN_PART_OF_REBALANCE = 2
"""Time for which a rebalance stops an eager group, as a multiple of the part that the coordinator sees.

After the assignment, clients look up positions, fetch and restore. Source: 008, "When a successor is awaited".
"""
NEW_MEMBERS_FOLLOW: Millis = 300
NEW_MEMBERS_FOLLOW_MAX: Millis = 600
"""Time after a new member in which others are likely to follow, and the maximum time that the first one waits.

Processes that one command starts join 70 to 360 ms apart. Source: 008, "Cooperative: members that join together".
"""
REVOCATION_MAX: Millis = 500
"""How long the SyncGroups of a cooperative group wait for the members that must give up partitions and rejoin.

The round trip takes 130 ms with two Java members; a callback that takes longer must not keep the others. Source: 008,
"Cooperative: the follow-up rebalance has no gap".
"""
RETURN_MAX: Millis = 600_000
"""Age after which former members are no longer expected and do not shorten the initial rebalance delay.

Source: 008, "The initial delay"; the length is an estimate.
"""
NEW_PARTITIONS_TAKEN: Millis = 1_000
"""Time within which leaders that rejoin for new partitions without being asked have done so.

The Java client's, aiokafka's and Kohort's do, librdkafka's does not. Source: 008, "New partitions".
"""
TARGET_WAIT_MIN: Millis = 20
"""Minimum wait before another target of a consumer group. Members started by one command join within this time.

Source: 008, "Interval between targets".
"""
