"""The arguments of a fault, and what is wrong with those that are refused."""

from typing import Any
from uuid import UUID

import pytest

from kohort.errors import ConfigError, ErrorCode
from kohort.testing.parts import Entity
from kohort.testing.rules import (
    Action,
    Close,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Hold,
    Observe,
    Rule,
    Sender,
    When,
    rule_of,
)
from kohort.wire.messages.api_key import ApiKey

SENDER = Sender(node=1, key=ApiKey.PRODUCE, version=9, client_id="app", connection=7)


def test_a_rule_without_arguments_fails_the_next_request() -> None:
    assert rule_of() == Rule(action=Fail(ErrorCode.UNKNOWN_SERVER_ERROR), count=1, nth=1)


def test_one_or_several_of_a_kind_are_given_alike() -> None:
    assert rule_of(keys=["Produce", 1], partitions=0, versions=range(8, 10), nodes={1, 2}) == Rule(
        keys=frozenset({ApiKey.PRODUCE, ApiKey.FETCH}),
        partitions=frozenset({0}),
        versions=frozenset({8, 9}),
        nodes=frozenset({1, 2}),
    )
    assert rule_of(topic=None, error=None) == rule_of()  # type: ignore[arg-type]  # as a program may pass them on


@pytest.mark.parametrize("given", [UUID(int=5), str(UUID(int=5)), UUID(int=5).hex, "AAAAAAAAAAAAAAAAAAAABQ"])
def test_a_topic_id_is_a_uuid_in_any_form(given: UUID | str) -> None:
    assert rule_of(topic_id=given).topic_id == UUID(int=5)


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"error": "NOT_COORDINATOR"}, Fail(ErrorCode.NOT_COORDINATOR)),
        ({"error": 16, "when": "after"}, Fail(ErrorCode.NOT_COORDINATOR, When.AFTER)),
        ({"when": "before"}, Fail(ErrorCode.UNKNOWN_SERVER_ERROR, When.BEFORE)),
        ({"drop": True}, Drop(When.AFTER)),
        ({"drop": True, "when": When.BEFORE}, Drop(When.BEFORE)),
        ({"delay_ms": 20, "hold": False}, Delay(20, When.BEFORE)),
        ({"hold": True, "when": "after"}, Hold(When.AFTER)),
        ({"duplicate": True}, Duplicate()),
        ({"close": True}, Close(When.BEFORE)),
        ({"close": True, "when": "answered"}, Close(When.ANSWERED)),
        ({"cut": True}, Cut()),
        ({"cut": 5}, Cut(5)),
        ({"observe": True}, Observe()),
    ],
)
def test_a_rule_has_one_action(given: Any, action: Action) -> None:
    assert rule_of(**given).action == action


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eror": "x"}, "Unknown argument `eror` of a fault; did you mean `error`?"),
        ({"keys": "Prodce"}, "Unknown request 'Prodce'; did you mean Produce?"),
        ({"error": "NOPE"}, "Unknown error 'NOPE'"),
        ({"observe": True, "error": 29}, "A fault has one action, not `error` and `observe`: add two faults."),
        ({"top_level": True, "topic": "x"}, "`top_level` selects only on group and txn_id."),
        ({"top_level": True, "drop": True}, "`top_level` is about errors: give an `error`, or leave it out."),
        ({"top_level": 1}, "`top_level` is True or False, not 1."),
        ({"nth": 0}, "`nth` counts from 1: 0 selects no request."),
        ({"count": 0}, "`count` cannot be 0: choose the number of requests, or -1 for all."),
        ({"count": "2"}, "`count` takes numbers, not '2'."),
        ({"partitions": ["0"]}, "`partitions` takes numbers, not '0'."),
        ({"topic": 5}, "`topic` takes a string, not 5."),
        ({"topic_id": "zz"}, "`topic_id` 'zz' is not a UUID."),
        ({"delay_ms": -1}, "`delay_ms` takes a number of milliseconds, not -1."),
        ({"cut": -1}, "`cut` takes the number of bytes that are sent, or True, not -1."),
        ({"error": True}, "`error` takes the name or the number of an error, not True."),
        ({"close": True, "when": "later"}, '`when` of `close` cannot be \'later\': choose "before" or "after" or'),
        ({"cut": True, "when": "after"}, "`when` of `cut` cannot be 'after': leave it out."),
        ({"zzzzzzzzzz": 1}, "Unknown argument `zzzzzzzzzz` of a fault: choose from keys, versions,"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of(**given)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("selectors", "selected"),
    [
        ({}, True),
        ({"keys": "Produce"}, True),
        ({"keys": "Fetch"}, False),
        ({"versions": [8, 9]}, True),
        ({"versions": 8}, False),
        ({"nodes": 2}, False),
        ({"client_id": "app", "connection": 7}, True),
        ({"client_id": "app", "connection": 8}, False),
    ],
)
def test_a_request_is_selected_by_its_kind_and_its_sender(selectors: Any, selected: bool) -> None:
    assert rule_of(**selectors).selects(SENDER) is selected


@pytest.mark.parametrize(
    ("selectors", "matches"),
    [
        ({}, True),
        ({"topic": "orders"}, True),
        ({"topic": "orders", "partitions": [1, 2]}, True),
        ({"topic": "orders", "partitions": [2]}, False),
        ({"topic_id": UUID(int=5)}, False),
        ({"group": "g", "member": "m", "instance_id": "i", "txn_id": "t", "resource": "r"}, True),
        ({"group": "h"}, False),
        ({"resource": "q"}, False),
    ],
)
def test_a_part_matches_if_it_has_all_that_the_rule_selects(selectors: Any, matches: bool) -> None:
    entity = Entity("orders", None, 1, "g", "m", "i", "t", ("r",))
    assert rule_of(**selectors).matches(entity) is matches
    assert rule_of(**selectors).matches(Entity()) is (not selectors)


def test_a_rule_is_shown_by_its_action_and_selectors() -> None:
    rule = rule_of(keys=["Fetch", "Produce"], topic="orders", partitions=[1, 0], delay_ms=20, connection=3)
    assert str(rule) == "delay of 20 ms, Produce or Fetch, topic orders, partitions 0, 1, connection 3"
    assert str(rule_of(error=16, when="after")) == "NOT_COORDINATOR after the work"
