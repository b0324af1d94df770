"""Each client in a group of its own kind, with more than joining and leaving."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import confluent_kafka
import pytest

from tests.interop.broker import Broker
from tests.interop.clients import Confluent
from tests.interop.mixed.events import Assigned, Committed, Lost, NoOffset, Read, Revoked, value_of
from tests.interop.mixed.kinds import KINDS, Choices, Kind, Place
from tests.interop.mixed.member import Member, now_ms
from tests.interop.mixed.needs import need
from tests.interop.mixed.offsets_log import read_group_log
from tests.interop.mixed.view import GroupWatch, Spot
from tests.interop.process import until

# The first use of franz-go compiles it, and Go's library with it.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PATIENCE_S = 40.0
SESSION_MS = 30_000
PAUSE_MS = 2_000
CLOCK_MS = 50
"""The pause is timed before or after the line that says that the partition is there."""

Starter = Callable[..., Member]
"""Start a member: its name, the topic, and Choices as keyword arguments."""


@pytest.fixture
def start(any_broker: Broker, fresh: str, tmp_path: Path) -> Iterator[Callable[[Kind], Starter]]:
    """Members of a kind in the group `fresh`; none is left at the end."""
    with contextlib.ExitStack() as running:

        def of(kind: Kind) -> Starter:
            def starter(name: str, topic: str, **choices: object) -> Member:
                chosen = Choices(**choices)  # type: ignore[arg-type]  # named by the test
                place = Place(any_broker.bootstrap, fresh, topic, "range", name, SESSION_MS, chosen)
                member = Member(kind, place, tmp_path)
                running.callback(member.kill)
                return member

            return starter

        yield of


def kinds(*daily: str, **unable: str) -> pytest.MarkDecorator:
    """All clients but the `unable`, which are named with underscores and the reason.

    The `daily` ones run in each run of the suite, the others with the long tests.
    """
    able = [kind for kind in KINDS if kind.name.replace("-", "_") not in unable]
    assert len(able) == len(KINDS) - len(unable)
    of_many = pytest.mark.long("the same with each other client")
    return pytest.mark.parametrize(
        "kind", [pytest.param(kind, id=kind.name, marks=() if kind.name in daily else of_many) for kind in able]
    )


@pytest.fixture(autouse=True)
def able(request: pytest.FixtureRequest, kind: Kind) -> None:
    need(kind, request)


@kinds("kohort", kafkajs="kafkajs knows no static members")
def test_a_static_member_comes_back_without_a_rebalance(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch, starter = GroupWatch(any_broker.bootstrap, fresh), start(kind)
    Confluent().create_topic(any_broker.bootstrap, fresh, 4)
    stays = starter("stays", fresh, instance="one")
    until(PATIENCE_S, "the first owns all", lambda: owned(watch, "stays", fresh) == {0, 1, 2, 3} == stays.owned)
    leaves = starter("leaves", fresh, instance="two")
    until(PATIENCE_S, "two own two each", lambda: (len(stays.owned), len(leaves.owned)) == (2, 2))
    until(PATIENCE_S, "the group is Stable", lambda: watch.look().state == "STABLE")
    before = watch.look().owned["leaves"]
    revoked = sum(isinstance(event, Revoked) for event in stays.events)

    leaves.leave()
    leaves.gone(PATIENCE_S)
    assert watch.look().owned["leaves"] == before, "a static member that ends does not leave"
    back = starter("leaves", fresh, instance="two")
    until(PATIENCE_S, "it has what it had", lambda: {(fresh, number) for number in back.owned} == before)

    write(any_broker, fresh, 4)
    until(PATIENCE_S, "all is committed", lambda: watch.committed() == {(fresh, number): 10 for number in range(4)})
    assert watch.look().owned.keys() == {"stays", "leaves"}
    # Nobody who stayed noticed: its partitions were not taken from it, and the generation is the same.
    assert sum(isinstance(event, Revoked) for event in stays.events) == revoked
    full = [
        generation.number
        for generation in read_group_log(any_broker.bootstrap, fresh).generations
        if len(generation.owners) == 2
    ]
    assert len(set(full)) == 1


@kinds(
    "kafka-python",
    kafkajs="kafkajs looks for the topics of a pattern once, when it subscribes",
)
def test_a_topic_that_starts_to_match_a_pattern_is_consumed(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    first, other, second = f"{fresh}-in-1", f"{fresh}-out", f"{fresh}-in-2"
    for topic in (first, other):
        Confluent().create_topic(any_broker.bootstrap, topic, 2)
    start(kind)("only", f"{fresh}-in-.*", pattern=True, metadata_ms=500)
    until(PATIENCE_S, "it owns the topic that matches", lambda: spots(watch, "only") == {(first, 0), (first, 1)})

    Confluent().create_topic(any_broker.bootstrap, second, 1)
    until(PATIENCE_S, "it owns both", lambda: spots(watch, "only") == {(first, 0), (first, 1), (second, 0)})
    write(any_broker, second, 1)
    until(PATIENCE_S, "its records are read", lambda: watch.committed().get((second, 0)) == 10)


@kinds("librdkafka")
def test_partitions_that_are_added_to_a_topic_are_consumed(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 2)
    start(kind)("only", fresh, metadata_ms=500)
    until(PATIENCE_S, "it owns two", lambda: owned(watch, "only", fresh) == {0, 1})
    watch.widen(fresh, 4)
    until(PATIENCE_S, "it owns four", lambda: owned(watch, "only", fresh) == {0, 1, 2, 3})
    write(any_broker, fresh, 4)
    until(PATIENCE_S, "all is committed", lambda: watch.committed() == {(fresh, number): 10 for number in range(4)})


@kinds("aiokafka")
def test_a_member_that_pauses_a_partition_keeps_it(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 2)
    write(any_broker, fresh, 2)
    member = start(kind)("only", fresh, pause_ms=PAUSE_MS)
    until(PATIENCE_S, "it reads both in the end", lambda: watch.committed() == {(fresh, 0): 10, (fresh, 1): 10})
    assert owned(watch, "only", fresh) == {0, 1}

    member.leave()
    member.gone(PATIENCE_S)
    had = min(event.at for event in member.events if isinstance(event, Assigned) and 0 in event.partitions)
    read = {span.partition: event.at for event in member.events if isinstance(event, Read) for span in event.spans}
    assert read[1] - had < PAUSE_MS <= read[0] - had + CLOCK_MS, "partition 1 went on while 0 was paused"
    # It went on beating: nothing was taken from it before it left.
    gone = [event for event in member.events if isinstance(event, Revoked | Lost)]
    assert all(event.at >= read[0] for event in gone)


@kinds("kafkajs")
def test_a_commit_keeps_its_metadata(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 1)
    write(any_broker, fresh, 1)
    member = start(kind)("only", fresh, note="état 42")
    until(PATIENCE_S, "it has committed", lambda: any(isinstance(event, Committed) for event in member.events))
    assert not any(event.error for event in member.events if isinstance(event, Committed))
    assert watch.notes() == {(fresh, 0): "état 42"}


@kinds("franz-go")
def test_a_group_without_offsets_begins_at_its_reset_policy(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 1)
    write(any_broker, fresh, 1)
    member = start(kind)("only", fresh, reset="latest")
    until(PATIENCE_S, "it owns the topic", lambda: owned(watch, "only", fresh) == {0} == member.owned)
    # Its first look at the end of the log may come before or after these: it must not go back behind them.
    written = 10

    def read_some() -> bool:
        nonlocal written
        Confluent().produce(any_broker.bootstrap, fresh, [value_of(0, written)], "none")
        written += 1
        return bool(watch.committed())

    until(PATIENCE_S, "it reads what is new", read_some)
    member.leave()
    member.gone(PATIENCE_S)
    spans = [span for event in member.events for span in getattr(event, "spans", ())]
    assert min(span.first for span in spans) >= 10


@kinds("librdkafka", kafkajs="kafkajs always begins somewhere", franz_go="franz-go begins at the start all the same")
def test_a_group_without_offsets_ends_where_it_is_not_to_begin_by_itself(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 1)
    write(any_broker, fresh, 1)
    member = start(kind)("only", fresh, reset="none")
    member.gone(PATIENCE_S)
    assert member.code == 0, member.errors
    assert any(isinstance(event, NoOffset) for event in member.events)
    assert not any(isinstance(event, Read | Committed) for event in member.events)
    assert watch.committed() == {}


_NO_DURATION = "{} has no by_duration (KIP-1106)"


@kinds(
    "kohort",
    librdkafka=_NO_DURATION.format("librdkafka"),
    kafka_python=_NO_DURATION.format("kafka-python"),
    aiokafka=_NO_DURATION.format("aiokafka"),
    kafkajs=_NO_DURATION.format("kafkajs"),
)
def test_a_group_without_offsets_begins_at_its_duration(
    kind: Kind, start: Callable[[Kind], Starter], any_broker: Broker, fresh: str
) -> None:
    watch = GroupWatch(any_broker.bootstrap, fresh)
    Confluent().create_topic(any_broker.bootstrap, fresh, 1)
    write(any_broker, fresh, 1, ages_ms=[7_200_000] * 4 + [1_800_000] * 6)
    member = start(kind)("only", fresh, reset="by_duration:PT1H")
    until(PATIENCE_S, "it reads the rest", lambda: watch.committed() == {(fresh, 0): 10})
    member.leave()
    member.gone(PATIENCE_S)
    spans = [span for event in member.events for span in getattr(event, "spans", ())]
    assert min(span.first for span in spans) == 4


def owned(watch: GroupWatch, name: str, topic: str) -> set[int]:
    return {number for of_topic, number in spots(watch, name) if of_topic == topic}


def spots(watch: GroupWatch, name: str) -> frozenset[Spot]:
    """Return the member's partitions once the group is Stable."""
    view = watch.look()
    return view.owned.get(name, frozenset()) if view.state == "STABLE" else frozenset()


def write(broker: Broker, topic: str, partitions: int, *, ages_ms: Sequence[int] = (0,) * 10) -> None:
    """Ten records into each partition, which is empty, so old."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    now = now_ms()
    for partition in range(partitions):
        for offset, age in enumerate(ages_ms):
            producer.produce(topic, value_of(partition, offset), partition=partition, timestamp=now - age)
    assert producer.flush(20.0) == 0
