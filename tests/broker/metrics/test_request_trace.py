"""The trace of a broker's requests, as the laboratory reads it after clients used the broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.metrics import RequestTrace
from kohort.client import Consumer, Producer
from kohort.errors import KohortError
from kohort.wire.messages.api_key import ApiKey


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_is_traced_from_its_assignment_to_its_records(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "trace"
    begun = monotonic_ns()
    made = Broker(BrokerOptions(port=0, data=tmp_path / "data", settings={"group.initial.rebalance.delay.ms": "0"}))
    made.trace = RequestTrace(path)
    async with made:
        async with Producer(bootstrap_servers=made.address) as producer:
            await (await producer.send("orders", b"value", partition=0))
        async with (
            Consumer(
                "orders", bootstrap_servers=made.address, group_id="g", client_id="m1", group_protocol=protocol,
                auto_offset_reset="earliest",
            ) as consumer,
            asyncio.timeout(60),
        ):  # fmt: skip
            while not await consumer.poll(timeout=0.05):
                pass
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    syncs = [line["sync"] for line in lines if "sync" in line]
    assert syncs
    assert all(begun < began <= ended < monotonic_ns() for began, ended in syncs)
    requests = [line for line in lines if "api" in line and line["client"] == "m1"]
    assert all(begun < line["received"] <= line["answered"] for line in requests)
    given = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "consumer" else ApiKey.SYNC_GROUP
    steps = [
        next(number for number, line in enumerate(requests) if line["api"] == api and 0 in (line[side] or ()))
        for api, side in ((given, "told"), (ApiKey.OFFSET_FETCH, "asked"), (ApiKey.FETCH, "told"))
    ]
    assert steps == sorted(steps)
    fetched = requests[steps[-1]]
    assert 0 in fetched["asked"]
    left = {"consumer": (ApiKey.CONSUMER_GROUP_HEARTBEAT, -1), "classic": (ApiKey.LEAVE_GROUP, None)}[protocol]
    assert left in [(line["api"], line["epoch"]) for line in requests]


async def test_an_answer_after_a_sync_is_traced_when_it_leaves(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    made = Broker(BrokerOptions(port=0, data=tmp_path / "data"))
    made.trace = RequestTrace(path)
    async with made:
        consumer = Consumer("orders", bootstrap_servers=made.address, group_id="g", group_protocol="consumer")
        async with Producer(bootstrap_servers=made.address) as producer:
            await (await producer.send("orders", b"value"))
        async with consumer, asyncio.timeout(60):
            await consumer.poll(timeout=0.05)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    joined = next(line for line in lines if line.get("api") == ApiKey.CONSUMER_GROUP_HEARTBEAT and line["epoch"] == 0)
    assert any(joined["received"] <= line["sync"][0] < line["sync"][1] <= joined["answered"] for line in lines
               if "sync" in line)  # fmt: skip


def test_a_trace_that_cannot_be_written_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(KohortError, match="cannot be written: No such file"):
        RequestTrace(tmp_path / "none" / "trace")
