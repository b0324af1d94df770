"""The configs of client metrics subscriptions: what they may be, and that every store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.broker.config import Subscriptions, subscription
from kohort.errors import ErrorCode, KafkaError
from kohort.log import FileStore, MemoryStore


def test_defaults() -> None:
    found = subscription({})
    assert (found.metrics, found.interval_ms, found.match) == (frozenset(), 300_000, {})


@pytest.mark.parametrize(
    ("configs", "code", "text"),
    [
        ({"nonsense": "1"}, ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: nonsense"),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        ({"interval.ms": "often"}, ErrorCode.INVALID_CONFIG, "a whole number"),
        ({"interval.ms": "1_000"}, ErrorCode.INVALID_CONFIG, "a whole number"),
        ({"interval.ms": "9" * 5_000}, ErrorCode.INVALID_CONFIG, "a whole number"),
        ({"interval.ms": "\u0663\u0660\u0660"}, ErrorCode.INVALID_CONFIG, "a whole number"),
        ({"metrics": "a.,"}, ErrorCode.INVALID_CONFIG, "empty parts"),
        ({"match": "client_rack=a"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: 'client_rack=a'"),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG, "not KEY=REGEX"),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG, "not KEY=REGEX"),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG, "not KEY=REGEX"),
        ({"match": "client_id=a("}, ErrorCode.INVALID_CONFIG, "no valid regular expression"),
        ({"match": "client_id=(a{1000}){1000}"}, ErrorCode.INVALID_CONFIG, "no valid regular expression"),
    ],
)
def test_an_invalid_config_is_refused(configs: Mapping[str, str], code: ErrorCode, text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        subscription(configs)
    assert refused.value.code == code
    assert text in refused.value.sentence


def test_a_subscription_survives_a_restart(tmp_path: Path) -> None:
    configs = {"metrics": "a.,b.", "interval.ms": "5000", "match": "client_id=app-.*"}
    store = FileStore(tmp_path)
    Subscriptions(store).change("one", configs)
    store.close()
    store = FileStore(tmp_path)
    restarted = Subscriptions(store)
    assert restarted.of("one") == configs
    assert restarted.current["one"].metrics == {"a.", "b."}
    restarted.change("one", {})
    assert restarted.all() == {}
    store.close()


def test_a_stored_subscription_that_is_invalid_here_subscribes_to_nothing() -> None:
    store = MemoryStore()
    store.keep_configs("client-metrics", "newer", {"metrics": "a.", "labels": "x"})
    found = Subscriptions(store)
    assert (found.current, list(found.all())) == ({}, ["newer"])
