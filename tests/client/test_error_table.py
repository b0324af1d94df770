"""The table of errors names every code, and a consumer at a broker that answers the code does what it says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, KafkaError, TopicPartition
from kohort.client import CommitFailedError
from kohort.client.error_table import REACTIONS, Operation, Reaction
from kohort.client.membership.committed import commit_outside
from kohort.testing import Broker

CODES: list[ErrorCode] = [code for code in ErrorCode if code is not ErrorCode.NONE]
QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 500,
    "fetch_max_wait_ms": 20,
    "heartbeat_interval_ms": 500,
}


def topic_of(code: ErrorCode) -> str:
    return f"of-{code.name}"


def topics() -> dict[str, int]:
    return {topic_of(code): 1 for code in CODES}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[ErrorCode], bool]]:
    """Whether there is a warning of that code that names the topic or group of it."""
    caplog.set_level(logging.WARNING, "kohort.client")

    def found(code: ErrorCode) -> bool:
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        named = (f"{topic_of(code)}-0", f"topic={topic_of(code)}:", f"group={topic_of(code)}")
        return any(
            (code.name in line or line.startswith("reset: ")) and any(f"{name}" in line for name in named)
            for line in lines
        )

    yield found


def test_the_table_names_every_code_for_every_operation() -> None:
    assert set(REACTIONS) == set(Operation)
    for operation, reactions in REACTIONS.items():
        assert set(reactions) == set(CODES), operation


def differences(
    seen: Mapping[ErrorCode, Reaction | None], expected: Mapping[ErrorCode, Reaction]
) -> dict[str, tuple[str, str]]:
    """By code: what the consumer did, and what the table says."""
    return {
        code.name: (getattr(seen[code], "name", "silence"), expected[code].name)
        for code in CODES
        if seen[code] is not expected[code]
    }


async def outcome(consumer: Consumer, code: ErrorCode, logged: Callable[[ErrorCode], bool]) -> Reaction | None:
    """Return the consumer's reaction to the code; None if there is none within ten seconds."""
    polls = 0  # since it was logged: what is raised may be logged, too
    try:
        async with asyncio.timeout(20):
            while polls < 5:
                try:
                    await consumer.poll(timeout=0.05)
                except KafkaError as problem:
                    assert problem.code is code and code.sentence in str(problem)
                    return Reaction.RAISE
                polls += logged(code)
    except TimeoutError:
        return None
    return Reaction.RETRY


@pytest.mark.parametrize(
    ("operation", "fault", "grouped"),
    [
        (Operation.FETCH, {"keys": "Fetch"}, False),
        (Operation.FETCH_REQUEST, {"keys": "Fetch", "top_level": True}, False),
        (Operation.LIST_OFFSETS, {"keys": "ListOffsets"}, False),
        (Operation.EPOCH_END, {"keys": "OffsetForLeaderEpoch"}, False),
        (Operation.OFFSET_FETCH, {"keys": "OffsetFetch", "partitions": 0}, True),
        (Operation.OFFSET_FETCH, {"keys": "OffsetFetch"}, True),
        (Operation.METADATA, {"keys": "Metadata"}, False),
        (Operation.FIND_COORDINATOR, {"keys": "FindCoordinator"}, True),
    ],
)
async def test_a_consumer_raises_or_logs_each_code_according_to_the_table(
    operation: Operation, fault: dict[str, Any], grouped: bool, logged: Callable[[ErrorCode], bool]
) -> None:
    async with Broker(topics=topics()) as broker:
        consumers = {}
        for code in CODES:
            broker.fault(**fault, client_id=code.name, error=code.name, count=-1)
            group: dict[str, Any] = {"group_id": topic_of(code), "enable_auto_commit": False} if grouped else {}
            consumers[code] = Consumer(
                bootstrap_servers=broker.bootstrap_servers, client_id=code.name, **QUICK, **group
            )
        for code, consumer in consumers.items():
            here = TopicPartition(topic_of(code), 0)
            consumer.assign([here])
            if operation is Operation.EPOCH_END:
                consumer._partitions.fetcher.states[here].move(0, 7)  # as if another leader's records had been read
        outcomes = await asyncio.gather(*(outcome(consumer, code, logged) for code, consumer in consumers.items()))
        for consumer in consumers.values():
            await consumer.close()
    seen: dict[ErrorCode, Reaction | None] = dict(zip(CODES, outcomes, strict=True))
    expected = {
        code: Reaction.RAISE if what is Reaction.RAISE else Reaction.RETRY
        for code, what in REACTIONS[operation].items()
    }
    assert differences(seen, expected) == {}


@pytest.mark.parametrize("protocol", ["none", "classic", "consumer"])
async def test_a_commit_raises_each_code_or_is_retried_according_to_the_table(protocol: str) -> None:
    async def commit(consumer: Consumer, code: ErrorCode) -> None:
        here = TopicPartition(topic_of(code), 0)
        with pytest.raises(CommitFailedError) as raised:
            if protocol == "none":
                await commit_outside(consumer.cluster, topic_of(code), {here: 1}, 3_000)
            else:
                while not consumer.assignment:
                    await consumer.poll(timeout=0.1)
                await consumer.commit({here: 1}, timeout=3.0)
        assert raised.value.errors == {here: code}

    async with Broker(topics=topics()) as broker:
        faults, consumers = {}, {}
        for code in CODES:
            faults[code] = broker.fault(keys="OffsetCommit", client_id=code.name, error=code.name, count=-1)
            options: dict[str, Any] = {
                "group_id": topic_of(code),
                "enable_auto_commit": False,
                "client_id": code.name,
                **QUICK,
            }
            if protocol == "consumer":
                options |= {"group_protocol": "consumer"}
                del options["heartbeat_interval_ms"]
            subscribed = () if protocol == "none" else (topic_of(code),)
            consumers[code] = Consumer(*subscribed, bootstrap_servers=broker.bootstrap_servers, **options)
        async with asyncio.timeout(60):
            await asyncio.gather(*(commit(consumer, code) for code, consumer in consumers.items()))
        for consumer in consumers.values():
            await consumer.close(timeout=1.0)
    seen: dict[ErrorCode, Reaction | None] = {
        code: Reaction.RETRY if fault.hits > 1 else Reaction.RAISE for code, fault in faults.items()
    }
    expected = REACTIONS[Operation.OFFSET_COMMIT]
    assert differences(seen, expected) == {}
