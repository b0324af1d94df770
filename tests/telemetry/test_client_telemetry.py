"""What a client pushed, as a record of the telemetry topic."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kohort.telemetry import ClientTelemetry, MalformedTelemetry, claimed, read_metrics
from tests.telemetry.otlp import gauge, metrics_data, point, total

PUSHED = ClientTelemetry(
    client_instance_id="AAAAAAAAAAAAAAAAAAAABw",
    client_id="app-1",
    client_host="/127.0.0.1",
    software="librdkafka",
    version="2.16.0",
    at=1_700_000_000_000,
    interval_ms=30_000,
    group_id="billing",
    member_id="m-1",
    metrics={"org.apache.kafka.consumer.poll.idle.ratio.avg": 0.25},
    increments={"x": 2.0},
)


def test_a_record_reads_back_as_it_was() -> None:
    full = replace(PUSHED, instance_id="one", rack="a", terminating=True, left_out=3)
    for telemetry in (PUSHED, full):
        assert ClientTelemetry.from_json(telemetry.to_json()) == telemetry


def test_unknown_keys_of_a_newer_broker_are_skipped() -> None:
    newer = {**json.loads(PUSHED.to_json()), "more": [1]}
    assert ClientTelemetry.from_json(json.dumps(newer).encode()) == PUSHED


@pytest.mark.parametrize(
    "change",
    [
        {"at": None},
        {"at": 1.5},
        {"at": True},
        {"at": 1 << 60},
        {"client_id": 7},
        {"client_id": "x" * 1_001},
        {"group_id": ["g"]},
        {"metrics": [1]},
        {"metrics": {"a": "1"}},
        {"metrics": {"a": True}},
        {"metrics": {"a": float("nan")}},
        {"metrics": {"a": float("inf")}},
        {"metrics": {"a": 10**400}},
        {"left_out": "many"},
    ],
)
def test_a_damaged_record_is_refused(change: dict[str, object]) -> None:
    damaged = json.dumps({**json.loads(PUSHED.to_json()), **change}).encode()
    with pytest.raises(MalformedTelemetry, match="__kohort_client_telemetry cannot be read"):
        ClientTelemetry.from_json(damaged)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedTelemetry):
        ClientTelemetry.from_json(value)


def test_a_client_expires_after_two_missed_pushes() -> None:
    assert replace(PUSHED, at=0, interval_ms=30_000).expires_at == 90_000
    assert replace(PUSHED, at=0, interval_ms=100).expires_at == 60_000


def test_increments_are_kept_apart_from_values() -> None:
    resource = {"group_id": "g", "group_member_id": "m", "group_instance_id": "i", "client_rack": "", "other": "x"}
    data = metrics_data(
        gauge("ratio", point(0.5)),
        total("sum", point(9)),
        total("inc", point(1), point(2), delta=True),
        resource=resource,
    )
    assert claimed(read_metrics(data)) == {
        "group_id": "g",
        "member_id": "m",
        "instance_id": "i",
        "rack": None,
        "metrics": {"ratio": 0.5, "sum": 9.0},
        "increments": {"inc": 3.0},
        "left_out": 0,
    }
