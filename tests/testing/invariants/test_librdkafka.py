"""The faults of librdkafka that tests with its members accept: it has them, and nothing else is taken for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from kohort import blocking
from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.testing import Broker, Event
from kohort.testing.invariants import Checks, Invariant
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.testing.invariants.librdkafka import BegunAgain
from tests.testing.invariants.stream import TOPIC, Peer, Stream

PATIENCE_S = 30.0
TIMINGS: dict[str, dict[str, Any]] = {
    "classic": {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 100},
    "consumer": {},
}


class Members:
    """Members of one group by librdkafka, which are polled while the test waits."""

    def __init__(self, broker: Broker, protocol: str) -> None:
        self._broker = broker
        self._protocol = protocol
        self._all: list[Any] = []

    def joins(self, name: str) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "client.id": name,
                "group.id": "g",
                "group.protocol": self._protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **TIMINGS[self._protocol],
            }
        )
        consumer.subscribe(["orders"])
        self._all.append(consumer)
        return consumer

    def poll_until(self, reached: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < end, f"after {PATIENCE_S:.0f} s not yet: {what}"
            for consumer in self._all:
                consumer.poll(0.01)

    def leave(self) -> None:
        for consumer in self._all:
            consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_fetches_what_it_gave_up_while_it_waited_for_an_offset(protocol: str) -> None:
    # If this fails with a new version, librdkafka is mended: remove what accepts the fault.
    checks = Checks()
    begun_again = BegunAgain(checks)

    def observe(event: Event) -> None:
        checks.observe(event)
        begun_again.observe(event)

    with Broker(topics={"orders": 2}, observers=[observe]) as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for partition in range(2):
                producer.send("orders", b"first", partition=partition).result()
        members = Members(broker, protocol)
        first = members.joins("librdkafka-1")
        members.poll_until(lambda: all(place.offset == 1 for place in positions(first)), "it has read both partitions")
        asks = broker.fault(keys="ListOffsets", client_id="librdkafka-1", hold=True, when="after", count=-1)
        for partition in range(2):
            first.seek(confluent_kafka.TopicPartition("orders", partition, confluent_kafka.OFFSET_END))
        members.poll_until(lambda: asks.hits == 2, "it asks for the ends")
        second = members.joins("librdkafka-2")
        members.poll_until(lambda: len(second.assignment()) == 1, "a partition has moved")
        moved = second.assignment()[0].partition
        asks.remove()
        members.poll_until(lambda: bool(broker.violations), "the check finds it")
        members.leave()
        (violation,) = broker.violations
        assert f" fetched orders-{moved} " in violation.what
        assert begun_again.explains(violation)
        broker.allow(Invariant.OWNED_FETCHES, "g")


def positions(consumer: Any) -> list[Any]:
    assigned = consumer.assignment()
    return consumer.position(assigned) if assigned else [confluent_kafka.TopicPartition("orders", 0, -1)]


def asks_for_an_offset(peer: Peer, number: int) -> None:
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=number)])]
    )
    peer.asks(request, ListOffsetsResponse())


class Observed(Stream):
    """A stream that looks for the fault."""

    def __init__(self) -> None:
        super().__init__()
        self.begun_again = BegunAgain(self.checks)

    def feed(self, event: Event) -> None:
        super().feed(event)
        self.begun_again.observe(event)

    @property
    def judged(self) -> list[tuple[Invariant, bool]]:
        """The invariants that are broken, and whether the fault explains it."""
        return [(violation.invariant, self.begun_again.explains(violation)) for violation in self.found]


Step = Callable[[Stream, Peer], None]


def gives_up(stream: Stream, a: Peer, asks: Step) -> None:
    """Let a member fetch both of its partitions, and give one up; `asks` is what happens then."""
    stream.describes(2)
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.fetches(0, 10, number=1)
    a.heartbeats("a", 1, assigned=[0])
    a.heartbeats("a", 1, 2, owned=[0])
    asks(stream, a)
    stream.passes(2_000)


def asks_again(stream: Stream, a: Peer) -> None:
    asks_for_an_offset(a, 1)


def asks_for_another(stream: Stream, a: Peer) -> None:
    asks_for_an_offset(a, 0)


def another_client_asks(stream: Stream, a: Peer) -> None:
    asks_for_an_offset(stream.peer("librdkafka-2"), 1)


def nobody_asks(stream: Stream, a: Peer) -> None:
    pass


@pytest.mark.parametrize(
    ("client_id", "asks", "is_explained"),
    [
        ("librdkafka-1", asks_again, True),
        ("aiokafka-1", asks_again, False),
        ("librdkafka-1", nobody_asks, False),
        ("librdkafka-1", asks_for_another, False),
        ("librdkafka-1", another_client_asks, False),
    ],
)
def test_only_a_member_of_librdkafka_that_asked_for_an_offset_since_is_explained(
    client_id: str, asks: Step, is_explained: bool
) -> None:
    stream = Observed()
    a = stream.peer(client_id)
    gives_up(stream, a, asks)
    a.fetches(10, 10, number=1)
    asks_for_an_offset(a, 1)  # too late to be the reason
    assert stream.judged == [(Invariant.OWNED_FETCHES, is_explained)]


@pytest.mark.parametrize(("asks", "is_explained"), [(asks_again, True), (nobody_asks, False)])
def test_what_it_fetched_meanwhile_it_may_commit_when_it_has_the_partition_again(
    asks: Step, is_explained: bool
) -> None:
    stream = Observed()
    a, b = stream.peer("librdkafka-1"), stream.peer("kohort-2")
    gives_up(stream, a, asks)
    b.heartbeats("b", 0, 2, assigned=[1])
    a.fetches(10, 10, number=1)
    b.heartbeats("b", -1, -1)
    a.heartbeats("a", 2, 3, assigned=[0, 1])
    a.commits(20, "a", 3, number=1)
    asks_for_an_offset(a, 1)
    assert stream.judged == [(Invariant.OWNED_FETCHES, is_explained), (Invariant.FETCHED_COMMITS, is_explained)]


def test_an_offset_that_a_member_asks_for_before_it_gives_the_partition_up_explains_nothing() -> None:
    stream = Observed()
    a = stream.peer("librdkafka-1")
    stream.describes(2)
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    asks_for_an_offset(a, 1)
    gives_up(stream, a, nobody_asks)
    a.fetches(10, number=1)
    assert stream.judged == [(Invariant.OWNED_FETCHES, False)]


def test_an_offset_asked_for_after_an_earlier_loss_explains_nothing_after_the_next() -> None:
    stream = Observed()
    a = stream.peer("librdkafka-1")
    gives_up(stream, a, asks_again)
    a.heartbeats("a", 2, 3, assigned=[0, 1])
    a.heartbeats("a", 3, assigned=[0])
    a.heartbeats("a", 3, 4, owned=[0])
    stream.passes(2_000)
    a.fetches(10, number=1)
    assert stream.judged == [(Invariant.OWNED_FETCHES, False)]


def test_a_member_that_was_removed_must_stop() -> None:
    stream = Observed()
    a = stream.peer("librdkafka-1")
    gives_up(stream, a, asks_again)
    a.heartbeats("a", 2, assigned=[0, 1])
    a.fetches(10, 10, number=1)
    stream.gone("a", Cause.SESSION_EXPIRED, client_id="librdkafka-1")
    a.heartbeats("a", 2, code=ErrorCode.UNKNOWN_MEMBER_ID)
    asks_for_an_offset(a, 1)
    stream.passes(700_000)
    a.fetches(20, number=1)
    assert (Invariant.OWNED_FETCHES, False) in stream.judged
    assert (Invariant.OWNED_FETCHES, True) not in stream.judged
