"""What client instances push, and when they may. Time is an argument."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from uuid import UUID

import pytest

from kohort.broker.config import Subscriptions, subscription
from kohort.broker.telemetry.instances import ClientInstances, Selection, select
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.wire.batches import Codec

ONE, TWO, THREE = (UUID(int=number) for number in (7, 8, 9))
CLIENT: Mapping[str, str] = {"client_id": "app-1", "client_software_name": "librdkafka"}
MINUTE = 60_000


@pytest.fixture
def subscriptions() -> Subscriptions:
    made = Subscriptions(MemoryStore())
    made.change("all", {"metrics": "a.", "interval.ms": str(MINUTE)})
    return made


def asked(instances: ClientInstances, now: int, instance: UUID = ONE, connection: Hashable = "c") -> Selection:
    found = instances.ask(instance, CLIENT, connection, now)
    assert isinstance(found, Selection)
    return found


def pushed(
    instances: ClientInstances,
    now: int,
    subscription_id: int,
    *,
    instance: UUID = ONE,
    connection: Hashable = "c",
    codec: int = Codec.ZSTD,
    terminating: bool = False,
    too_large: bool = False,
) -> ErrorCode:
    outcome = instances.push(
        instance,
        CLIENT,
        connection,
        now,
        subscription_id=subscription_id,
        codec=codec,
        terminating=terminating,
        too_large=too_large,
    )
    return outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE


def test_all_matching_subscriptions_count_and_the_shortest_interval() -> None:
    some = [
        subscription({"metrics": "b.,a.", "interval.ms": "60000", "match": "client_id=app-.*"}),
        subscription({"metrics": "a.,c.", "interval.ms": "30000"}),
        subscription({"metrics": "d.", "interval.ms": "100", "match": "client_id=app"}),
    ]
    found = select(some, ONE, CLIENT)
    assert (found.metrics, found.interval_ms) == (("a.", "b.", "c."), 30_000)


def test_all_metrics_include_all_others() -> None:
    some = [subscription({"metrics": "a."}), subscription({"metrics": "b.,*"})]
    assert select(some, ONE, CLIENT).metrics == ("*",)


def test_no_subscription_asks_for_nothing_every_five_minutes() -> None:
    found = select([], ONE, CLIENT)
    assert (found.metrics, found.interval_ms) == ((), 300_000)


def test_every_key_of_a_match_must_match_completely() -> None:
    both = subscription({"metrics": "a.", "match": "client_id=app-.,client_software_name=librdkafka"})
    assert both.matches(CLIENT)
    assert not both.matches({**CLIENT, "client_software_name": "librdkafka2"})
    assert not both.matches({"client_id": "app-1"})
    assert subscription({"match": "client_id=.*"}).matches({"client_id": "\udcff"}), "an ID that is not UTF-8"


def test_a_subscription_id_is_kafkas() -> None:
    # From Apache Kafka 4.3.1: tests/interop/conversation/scenes/telemetry.py compares them with a broker's.
    found = select([subscription({"metrics": "a."})], UUID("218223ad-f40a-5796-b384-a153f3b5e5d3"), CLIENT)
    assert found.subscription_id == -1270756556
    assert found != select([subscription({"metrics": "b."})], UUID("218223ad-f40a-5796-b384-a153f3b5e5d3"), CLIENT)


def test_a_client_may_push_once_after_its_question_and_then_at_its_interval(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert pushed(instances, 1, told) == ErrorCode.NONE, "jitter makes the first push early"
    assert pushed(instances, MINUTE, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, MINUTE + 1, told) == ErrorCode.NONE


def test_a_client_may_ask_again_after_its_interval(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert instances.ask(ONE, CLIENT, "c", MINUTE - 1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, MINUTE - 1, told) == ErrorCode.NONE
    assert instances.ask(ONE, CLIENT, "c", 2 * MINUTE - 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    asked(instances, 2 * MINUTE - 1)


@pytest.mark.parametrize(
    ("subscription_id", "codec", "error"),
    [(1, Codec.ZSTD, ErrorCode.UNKNOWN_SUBSCRIPTION_ID), (None, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)],
)
def test_a_client_may_ask_at_once_after_an_error_that_a_question_solves(
    subscriptions: Subscriptions, subscription_id: int | None, codec: int, error: ErrorCode
) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert pushed(instances, 1, told if subscription_id is None else subscription_id, codec=codec) == error
    asked(instances, 2)


def test_the_first_error_in_kafkas_order_is_the_answer(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert pushed(instances, 1, told + 1, codec=9, too_large=True) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert pushed(instances, 2, told + 1, codec=9, too_large=True) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, MINUTE + 1, told, codec=9, too_large=True) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert pushed(instances, 2 * MINUTE + 1, told, too_large=True) == ErrorCode.TELEMETRY_TOO_LARGE
    for reserved in (UUID(int=0), UUID(int=1)):
        assert pushed(instances, 0, told, instance=reserved) == ErrorCode.INVALID_REQUEST


def test_the_last_push_may_be_early_and_nothing_follows_it(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert pushed(instances, 1, told) == ErrorCode.NONE
    assert pushed(instances, 2, told, terminating=True) == ErrorCode.NONE
    assert pushed(instances, 3, told, terminating=True) == ErrorCode.INVALID_REQUEST


def test_a_changed_subscription_applies_at_once(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    subscriptions.change("all", {"metrics": "b.", "interval.ms": str(MINUTE)})
    assert pushed(instances, 1, told) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert asked(instances, 2).metrics == ("b.",)


def test_a_client_that_was_not_asked_may_push_once(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = select(subscriptions.current.values(), ONE, CLIENT).subscription_id
    assert pushed(instances, 0, told) == ErrorCode.NONE, "another broker may have told it"
    assert pushed(instances, 1, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_an_instance_is_forgotten_with_its_connection(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    asked(instances, 0)
    instances.lost("another")
    assert len(instances) == 1
    instances.lost("c")
    assert len(instances) == 0
    asked(instances, 1)


def test_an_instance_is_forgotten_after_two_missed_pushes(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions)
    told = asked(instances, 0).subscription_id
    assert pushed(instances, 1, told, terminating=True) == ErrorCode.NONE
    assert pushed(instances, 3 * MINUTE, told) == ErrorCode.INVALID_REQUEST
    assert pushed(instances, 6 * MINUTE, told) == ErrorCode.NONE


def test_instances_are_bounded_and_the_most_silent_goes_first(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions, max_instances=2)
    asked(instances, 0, ONE, "c1")
    asked(instances, 1, TWO, "c2")
    assert instances.ask(ONE, CLIENT, "c1", 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    asked(instances, 3, THREE, "c3")
    assert len(instances) == 2
    assert instances.ask(ONE, CLIENT, "c1", 4) == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "it was heard after TWO"
    asked(instances, 5, TWO, "c2")


def test_many_instances_on_one_connection_leave_nothing_behind(subscriptions: Subscriptions) -> None:
    instances = ClientInstances(subscriptions, max_instances=10)
    for number in range(2, 1_000):
        asked(instances, number, UUID(int=number), "c")
    assert len(instances) == 10
    instances.lost("c")
    assert len(instances) == 9, "a connection has one instance, its last, as in Kafka"
    assert instances._of_connection == {}
