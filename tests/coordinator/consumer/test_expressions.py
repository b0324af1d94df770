from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.consumer.expressions import Resolution, check, resolve
from kohort.errors import ErrorCode, KafkaError

NAMES = ("orders", "orders-eu", "orders.eu", "payments", "__consumer_offsets")

SLOW = "|".join(f".*[a-z0-9]*{number}" for number in range(1000))
"""RE2 matches it, but follows a thousand paths at each letter."""


def refused(expression: str) -> str:
    with pytest.raises(KafkaError) as raised:
        check(expression)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    return raised.value.sentence


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu", "orders.eu"}),
        ("orders.eu", {"orders-eu", "orders.eu"}),
        (r"orders\.eu", {"orders.eu"}),
        ("order|pay", set()),
        ("orders|pay.*", {"orders", "payments"}),
        ("(?i)ORDERS", {"orders"}),
        ("^orders$", {"orders"}),
        ("rders", set()),
        ("", set()),
        (".*", set(NAMES)),
    ],
)
def test_an_expression_matches_whole_names(expression: str, matches: set[str]) -> None:
    check(expression)
    assert resolve(expression, NAMES) == matches


def test_an_expression_of_another_engine_is_refused_with_the_reason() -> None:
    assert refused("orders-[") == "SubscribedTopicRegex `orders-[` is not a valid regular expression: missing ]: [."
    assert "(?=" in refused("a(?=b)")
    assert r"\1" in refused(r"(a)\1")
    assert "repetition" in refused("a{1001}")
    assert "UTF-8" in refused("a\udcff")


def test_exponential_expressions_are_matched_in_linear_time() -> None:
    began = time.process_time()
    for expression in ("(a+)+b", "(a|aa)+b", "(a*)*b", "a?" * 200 + "a" * 200):
        assert resolve(expression, ["a" * 249]) == (frozenset() if expression.endswith("b") else {"a" * 249})
    assert time.process_time() - began < 0.5


def test_an_expression_may_name_hundreds_of_topics() -> None:
    names = [f"orders.team-{number}.production.events" for number in range(800)]
    assert resolve("|".join(names), [*names, "orders.team-7.production.event"]) == set(names)


@pytest.mark.parametrize(
    "expression", ["a" * (1 << 20), "(" * (1 << 19), "(" * 20_000, "a{1000}" * 4000, r"\pL{1000}", "(?i)" * 8000 + "["]
)
def test_a_huge_expression_is_refused_in_little_time(expression: str) -> None:
    began = time.process_time()
    assert len(refused(expression)) < 400
    assert time.process_time() - began < 0.5


def test_a_slow_expression_lets_others_work_between_names() -> None:
    names = [f"t{number}." + "a" * 40 for number in range(50)] + ["ends-with-7"]
    resolution = Resolution(SLOW, names)
    slices = 1
    while not resolution.proceed(10_000_000):
        slices += 1
    assert resolution.found == {"ends-with-7"}
    assert slices > 2


def test_a_usual_expression_is_resolved_in_one_slice() -> None:
    assert Resolution("orders-.*", [f"orders-{number}" for number in range(10_000)]).proceed(10_000_000)


@given(st.text(max_size=30))
def test_any_text_is_taken_or_refused(expression: str) -> None:
    try:
        check(expression)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    else:
        assert resolve(expression, NAMES) <= set(NAMES)
