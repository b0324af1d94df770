"""The table of errors names every code, and a consumer at a broker that answers the code does what it says."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, KafkaError, TopicPartition
from kohort.client import CommitFailedError
from kohort.client.error_table import REACTIONS, Operation, Reaction
from kohort.client.membership.committed import commit_outside
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from tests.client.link import linked_broker

CODES: list[ErrorCode] = [code for code in ErrorCode if code is not ErrorCode.NONE]
FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, EPOCH_END = 1, 2, 3, 8, 9, 10, 23
QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 500,
    "fetch_max_wait_ms": 20,
    "heartbeat_interval_ms": 500,
}
Change = Callable[[Any, ErrorCode], None]


def topic_of(code: ErrorCode) -> str:
    return f"of-{code.name}"


def for_client(change: Change) -> Callable[[Any, str | None], None]:
    """Each client has the name of the code that it is to get."""

    def changed(answer: Any, client: str | None) -> None:
        if client is not None and client in ErrorCode.__members__:
            change(answer, ErrorCode[client])

    return changed


def in_partitions(answer: Any, code: ErrorCode) -> None:
    for topic in answer.responses if hasattr(answer, "responses") else answer.topics:
        for partition in topic.partitions:
            partition.error_code = code


def in_fetched(answer: Any, code: ErrorCode) -> None:
    in_partitions(answer, code)
    for topic in answer.responses:
        for partition in topic.partitions:
            partition.records = None


def at_the_top(answer: Any, code: ErrorCode) -> None:
    answer.error_code = code
    answer.responses = []


def in_topics(answer: Any, code: ErrorCode) -> None:
    for topic in answer.topics:
        topic.error_code, topic.partitions = code, []


def in_groups(answer: Any, code: ErrorCode) -> None:
    for group in answer.groups:
        group.error_code, group.topics = code, []


def in_offsets(answer: Any, code: ErrorCode) -> None:
    for group in answer.groups:
        in_partitions(group, code)


def in_coordinators(answer: Any, code: ErrorCode) -> None:
    for coordinator in answer.coordinators:
        coordinator.error_code = code


def under_a_new_leader(answer: Any, client: str | None) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch += 1


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


CASES: list[tuple[Operation, int, Change, bool]] = [
    (Operation.FETCH, FETCH, in_fetched, False),
    (Operation.FETCH_REQUEST, FETCH, at_the_top, False),
    (Operation.LIST_OFFSETS, LIST_OFFSETS, in_partitions, False),
    (Operation.EPOCH_END, EPOCH_END, in_partitions, False),
    (Operation.OFFSET_FETCH, OFFSET_FETCH, in_offsets, True),
    (Operation.OFFSET_FETCH, OFFSET_FETCH, in_groups, True),
    (Operation.METADATA, METADATA, in_topics, False),
    (Operation.FIND_COORDINATOR, FIND_COORDINATOR, in_coordinators, True),
]


@pytest.mark.parametrize(("operation", "key", "change", "grouped"), CASES)
async def test_a_consumer_raises_or_logs_each_code_according_to_the_table(
    operation: Operation, key: int, change: Change, grouped: bool, logged: Callable[[ErrorCode], bool]
) -> None:
    async with linked_broker() as (broker, link):
        consumers = {}
        for code in CODES:
            broker.topics.create(topic_of(code), 1)
            group: dict[str, Any] = {"group_id": topic_of(code), "enable_auto_commit": False} if grouped else {}
            consumers[code] = Consumer(
                bootstrap_servers=f"127.0.0.1:{link.port}", client_id=code.name, **QUICK, **group
            )
        if operation is Operation.EPOCH_END:
            link.change[METADATA] = under_a_new_leader
        link.change[key] = for_client(change)
        for code, consumer in consumers.items():
            here = TopicPartition(topic_of(code), 0)
            consumer.assign([here])
            if operation is Operation.EPOCH_END:
                consumer._partitions.fetcher.states[here].move(0, 0)  # as if records of epoch 0 had been read
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
    requests: Counter[ErrorCode] = Counter()

    def refuse(answer: OffsetCommitResponse, code: ErrorCode) -> None:
        requests[code] += 1
        in_partitions(answer, code)

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

    async with linked_broker(group_initial_rebalance_delay_ms="0") as (broker, link):
        link.change[OFFSET_COMMIT] = for_client(refuse)
        consumers = {}
        for code in CODES:
            broker.topics.create(topic_of(code), 1)
            options: dict[str, Any] = {
                "group_id": topic_of(code),
                "enable_auto_commit": False,
                "client_id": code.name,
                **QUICK,
            }
            if protocol == "consumer":
                options |= {"group_protocol": "consumer"}
                del options["heartbeat_interval_ms"]
            topics = () if protocol == "none" else (topic_of(code),)
            consumers[code] = Consumer(*topics, bootstrap_servers=f"127.0.0.1:{link.port}", **options)
        async with asyncio.timeout(60):
            await asyncio.gather(*(commit(consumer, code) for code, consumer in consumers.items()))
        for consumer in consumers.values():
            await consumer.close(timeout=1.0)
    seen: dict[ErrorCode, Reaction | None] = {
        code: Reaction.RETRY if requests[code] > 1 else Reaction.RAISE for code in CODES
    }
    expected = REACTIONS[Operation.OFFSET_COMMIT]
    assert differences(seen, expected) == {}
