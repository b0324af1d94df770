"""`kohort quota`; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker as AnyBroker
from tests.interop.process import until


def shown(run: Run, bootstrap: str, user: str) -> list[dict[str, object]]:
    told: list[dict[str, object]] = json.loads(
        succeeded(run("quota", "show", "--user", user, "--json", bootstrap=bootstrap)).out
    )
    return told


def test_quotas_are_set_shown_and_unset(run: Run, any_broker: AnyBroker, name: str) -> None:
    at = any_broker.bootstrap
    done = succeeded(
        run("quota", "set", "producer_byte_rate=1048576", "request_percentage=12.5", "--user", name, bootstrap=at)
    )
    assert done.lines == [f"user {name}: producer_byte_rate=1048576", f"user {name}: request_percentage=12.5"]
    done = succeeded(run("quota", "set", "consumer_byte_rate=5e6", "--user", name, "--client-defaults", bootstrap=at))
    assert done.lines == [f"user {name}, client-id <default>: consumer_byte_rate=5000000"]
    both = [
        {"entity": {"user": name}, "quotas": {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}},
        {"entity": {"user": name, "client-id": None}, "quotas": {"consumer_byte_rate": 5000000.0}},
    ]
    # Apache Kafka answers before its brokers know a change.
    until(20, "set", lambda: shown(run, at, name) == both)
    rows = [line.split() for line in succeeded(run("quota", "show", "--user", name, bootstrap=at)).lines]
    assert [name, "-", "-", "producer_byte_rate", "1048576"] in rows
    assert [name, "<default>", "-", "consumer_byte_rate", "5000000"] in rows
    done = succeeded(run("quota", "unset", "producer_byte_rate", "--user", name, bootstrap=at))
    assert done.lines == [f"user {name}: producer_byte_rate is removed"]
    until(20, "half unset", lambda: "producer_byte_rate" not in json.dumps(shown(run, at, name)))
    again = run("quota", "unset", "request_percentage", "producer_byte_rate", "--user", name, bootstrap=at)
    assert (again.code, again.out) == (1, "")
    assert f"user {name} has no quota producer_byte_rate" in again.err
    assert shown(run, at, name)[0]["quotas"] == {"request_percentage": 12.5}
    succeeded(run("quota", "unset", "request_percentage", "--user", name, bootstrap=at))
    succeeded(run("quota", "unset", "consumer_byte_rate", "--user", name, "--client-defaults", bootstrap=at))
    until(20, "unset", lambda: shown(run, at, name) == [])
    lines = succeeded(run("quota", "show", "--user", name, bootstrap=at)).lines
    assert lines == [f"There are no quotas of user {name}; set one with kohort quota set."]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "producer_byte_rate=1"), "Name the owner of the quota"),
        (("unset", "producer_byte_rate"), "Name the owner of the quota"),
        (("set", "producer_byte_rate=much", "--user", "a"), "producer_byte_rate takes a number, not 'much'"),
        (("set", "producer_byte_rate", "--user", "a"), "takes NAME=VALUE"),
        (("set", "producer_byte_rate=1", "--user", "a", "--user-defaults"), "contradict each other"),
        (("set", "producer_byte_rate=1", "--user", "a", "--ip", "192.0.2.1"), "do not combine --ip"),
        (("show", "--client", ""), "--client cannot be empty"),
    ],
)
def test_bad_arguments_are_told_in_a_sentence(run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    told = run("quota", *arguments, bootstrap="127.0.0.1:1")
    assert told.code == 2
    assert sentence in told.err


def test_what_the_broker_refuses_is_told(run: Run, any_broker: AnyBroker, name: str) -> None:
    told = run("quota", "set", "connection_creation_rate=1", "--user", name, bootstrap=any_broker.bootstrap)
    assert (told.code, told.out) == (2, "")
    assert f"user {name}: " in told.err
