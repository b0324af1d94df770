"""Members behind a gateway that read and commit while something fails, and what must hold of them afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any, Protocol

import confluent_kafka

from kohort.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition

TOPIC = "orders"
PARTITIONS = 6
RECOVERY_S = 10.0
# ILLEGAL_GENERATION and STALE_MEMBER_EPOCH refuse a commit between two generations, as when the answer to a JoinGroup
# was lost; the member stays, and commits again.
_FENCED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)


class Member(Protocol):
    """A member that commits after each poll."""

    acknowledged: dict[TopicPartition, int]
    """Last acknowledged commit of each partition."""
    commits: int
    lost: list[str]
    """What its library reported about an ownership that ended without its consent."""

    async def stop(self) -> None:
        """Leave the group."""


class OurMember:
    """A member by Kohort's client."""

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        self.acknowledged: dict[TopicPartition, int] = {}
        self.commits = 0
        self.lost: list[str] = []
        strategy = {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
        self.consumer = Consumer(
            TOPIC,
            on_lost=lambda partitions: self.lost.append(f"lost {sorted(partitions)}"),
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            default_api_timeout_ms=20_000,
            **strategy,  # type: ignore[arg-type]
        )
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self.consumer as consumer:
            while True:
                try:
                    await self._commit(await consumer.poll(timeout=0.2))
                except KafkaError as problem:
                    if problem.code in _FENCED:
                        self.lost.append(str(problem))

    async def _commit(self, records: Collection[ConsumerRecord]) -> None:
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        if offsets:
            await self.consumer.commit(offsets)
            self.acknowledged |= offsets
            self.commits += 1

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()


class LibrdkafkaMember:
    """A member by librdkafka, in a thread."""

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        self.acknowledged: dict[TopicPartition, int] = {}
        self.commits = 0
        self.lost: list[str] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # It doubles its pause with each refused connection, by default up to 10 s: as long as recovery may take.
            "reconnect.backoff.max.ms": 2_000,
        }
        if protocol == "classic":
            settings |= {"partition.assignment.strategy": "cooperative-sticky"}
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe([TOPIC], on_lost=lambda _, partitions: self.lost.append(f"lost {partitions}"))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            record = self._consumer.poll(0.2)
            if record is None or record.error() is not None:
                continue
            try:
                self._consumer.commit(message=record, asynchronous=False)
            except confluent_kafka.KafkaException as problem:
                code = problem.args[0].code()
                if code in _FENCED:
                    self.lost.append(str(problem))
                continue
            partition, offset = record.partition(), record.offset()
            assert partition is not None
            assert offset is not None
            self.acknowledged[TopicPartition(TOPIC, partition)] = offset + 1
            self.commits += 1
        self._consumer.close()

    async def stop(self) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.join, 30.0)
        assert not self._thread.is_alive()


class Group:
    """Members of one group, and records that keep them busy."""

    def __init__(self, bootstrap: str, name: str, protocol: str) -> None:
        self._bootstrap, self._protocol = bootstrap, protocol
        self.name = name
        self.members: list[Member] = []

    def join(self, kind: type[OurMember] | type[LibrdkafkaMember] = OurMember, bootstrap: str | None = None) -> Member:
        """Add a member, which finds the cluster at `bootstrap`, or as the first ones do."""
        member = kind(bootstrap or self._bootstrap, self.name, self._protocol)
        self.members.append(member)
        return member

    async def progress(self) -> None:
        """Wait until each member has had two further commits acknowledged: one may be the answer to an older one.

        Fails if it takes longer than clients may take to recover.
        """
        before = {member: member.commits for member in self.members}
        try:
            async with asyncio.timeout(RECOVERY_S):
                await until(lambda: all(member.commits >= before[member] + 2 for member in self.members))
        except TimeoutError:
            made = [member.commits - before[member] for member in self.members]
            raise AssertionError(f"members made {made} commits within {RECOVERY_S:g} s") from None

    def check_ownership(self) -> None:
        """Check that no member was fenced."""
        lost = [what for member in self.members for what in member.lost]
        assert not lost, lost

    async def check_commits(self, upstream: str) -> None:
        """Stop the members, and check that the cluster has each acknowledged commit."""
        self.check_ownership()
        for member in self.members:
            await member.stop()
        async with Admin(bootstrap_servers=upstream) as admin:
            found = await admin.group_offsets(self.name)
        for member in self.members:
            for partition, offset in member.acknowledged.items():
                stored = found[partition]
                assert stored is not None
                assert stored.offset >= offset


@asynccontextmanager
async def busy_group(bootstrap: str, protocol: str, *, name: str = "group", replicas: int = 1) -> AsyncIterator[Group]:
    """A group of two members behind the gateway that read and commit without a pause."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas)])
    producing = asyncio.create_task(_produce(bootstrap))
    group = Group(bootstrap, name, protocol)
    try:
        group.join()
        group.join(LibrdkafkaMember)
        async with asyncio.timeout(30):
            await until(lambda: all(member.commits for member in group.members))
        yield group
    finally:
        producing.cancel()
        await asyncio.wait([producing])
        for member in group.members:
            await member.stop()
    if not producing.cancelled():
        producing.result()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait, without a limit."""
    for _ in repeat(None):  # one of the members runs in a thread
        if is_so():
            return
        await asyncio.sleep(0.02)


async def _produce(bootstrap: str) -> None:
    number = 0
    async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        while True:
            for partition in range(PARTITIONS):
                number += 1
                try:
                    await producer.send(TOPIC, str(number).encode(), partition=partition)
                except KohortError:
                    continue  # that records survive is the subject of other tests
            await asyncio.sleep(0.05)
