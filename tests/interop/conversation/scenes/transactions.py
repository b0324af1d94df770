"""Transactions: each request in each state of a transactional ID, from its producer and from others."""

from __future__ import annotations

import asyncio
import functools
import re
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from kohort.errors import ErrorCode
from kohort.security import CLUSTER_NAME, Operation, ResourceType
from kohort.wire.batches import Record, encode_batch
from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.interop.conversation.scenes.permissions import grant
from tests.interop.conversation.scenes.records import NOON
from tests.interop.conversation.stage import Stage, scene

V1, V2 = 1, 2
_BUSY = re.compile(rf"error_code={int(ErrorCode.CONCURRENT_TRANSACTIONS)}\b")


def nobody(name: str) -> int:
    """A producer ID that nobody has; another one for each name, because Kafka remembers those that it refused."""
    return zlib.crc32(name.encode())


@dataclass(frozen=True)
class Producer:
    """Who sends a request: a transactional ID, and the producer ID and epoch that it claims."""

    stage: Stage
    name: str
    topic: str
    producer_id: int = -1
    epoch: int = -1

    def init(self, *, claims: bool, timeout_ms: int = 60_000) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if claims else -1,
            producer_epoch=self.epoch if claims else -1,
        )

    def add(self, *partitions: int, topic: str | None = None) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic or self.topic, partitions=list(partitions))],
        )

    def add_as_broker(self, *partitions: int, verify: bool) -> AddPartitionsToTxnRequest:
        one = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=list(partitions))],
        )
        return AddPartitionsToTxnRequest(transactions=[one])

    def add_offsets(self) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=f"{self.stage.scene}-group",
        )

    def end(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )

    def produce(self, partition: int = 0, *, sequence: int = 0, transactional: bool = True) -> ProduceRequest:
        records = encode_batch(
            [Record(0, NOON, None, b"x", ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        data = [PartitionProduceData(index=partition, records=records)]
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
        )

    def commit(self) -> TxnOffsetCommitRequest:
        one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=f"{self.stage.scene}-group",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[one])],
        )

    # Outside the transcript

    async def started(self) -> Producer:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
        while True:
            found = await self.stage.admin.quietly(find, 4)
            if not found.coordinators[0].error_code:
                answer = await self.stage.admin.quietly(self.init(claims=False), 4)
                if not answer.error_code:
                    return replace(self, producer_id=answer.producer_id, epoch=answer.producer_epoch)
            await asyncio.sleep(0.02)

    async def opened(self, version: int) -> Producer:
        """Begin a transaction with a record in partition 0 and an offset."""
        if version == V1:
            await self.does(self.add(0), 3)
            await self.does(self.add_offsets(), 3)
        await self.does(self.produce(), 12 if version == V2 else 11)
        await self.does(self.commit(), 5 if version == V2 else 4)
        return self

    async def does(self, request: Message, version: int) -> Any:
        """Ask until the last transaction is complete."""
        for _ in range(300):
            answer = await self.stage.admin.quietly(request, version)
            if not _BUSY.search(repr(answer)):
                return answer
            await asyncio.sleep(0.01)
        raise AssertionError(f"{request} is not possible")

    async def ended(self, version: int, *, commit: bool) -> Producer:
        answer = await self.does(self.end(commit=commit), 5 if version == V2 else 4)
        assert answer.error_code == 0, answer
        await self.settled()
        if version == V2:
            return replace(self, producer_id=answer.producer_id, epoch=answer.producer_epoch)
        return self

    async def settled(self) -> Any:
        while True:
            answer = await self.stage.admin.quietly(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)
            [state] = answer.transaction_states
            if not state.transaction_state.startswith("Prepare"):
                return state
            await asyncio.sleep(0.01)


STATES: dict[str, Callable[[Producer], Awaitable[Producer]]] = {}


def _states() -> None:
    async def empty(one: Producer) -> Producer:
        return await one.started()

    STATES["empty"] = empty
    for version in (V1, V2):

        async def is_open(one: Producer, version: int = version) -> Producer:
            return await (await one.started()).opened(version)

        STATES[f"ongoing v{version}"] = is_open
        for commit in (True, False):

            async def over(one: Producer, version: int = version, commit: bool = commit) -> Producer:
                return await (await (await one.started()).opened(version)).ended(version, commit=commit)

            STATES[f"{'committed' if commit else 'aborted'} v{version}"] = over


_states()

REQUESTS: dict[str, Callable[[Producer], tuple[Message, int]]] = {
    "init": lambda p: (p.init(claims=True), 4),
    "init as before fencing": lambda p: (p.init(claims=True), 3),
    "add": lambda p: (p.add(0, 1), 3),
    "add as before fencing": lambda p: (p.add(0, 1), 1),
    "add as a broker": lambda p: (p.add_as_broker(0, 1, verify=False), 5),
    "verify": lambda p: (p.add_as_broker(0, 1, verify=True), 4),
    "add offsets": lambda p: (p.add_offsets(), 3),
    "commit v1": lambda p: (p.end(commit=True), 4),
    "commit before fencing": lambda p: (p.end(commit=True), 1),
    "abort v1": lambda p: (p.end(commit=False), 4),
    "commit v2": lambda p: (p.end(commit=True), 5),
    "abort v2": lambda p: (p.end(commit=False), 5),
    "produce 10": lambda p: (p.produce(1), 10),
    "produce 11": lambda p: (p.produce(1), 11),
    "produce 12": lambda p: (p.produce(1), 12),
    "produce 12 from 5": lambda p: (p.produce(1, sequence=5), 12),
    "produce 11 from 5": lambda p: (p.produce(1, sequence=5), 11),
    "produce the same": lambda p: (p.produce(0), 12),
    "produce next": lambda p: (p.produce(0, sequence=1), 11),
    "produce outside": lambda p: (p.produce(0, sequence=1, transactional=False), 11),
    "offsets 3": lambda p: (p.commit(), 3),
    "offsets 4": lambda p: (p.commit(), 4),
    "offsets 5": lambda p: (p.commit(), 5),
}

CLAIMS: dict[str, Callable[[Producer], Producer]] = {
    "": lambda p: p,
    ", an epoch behind": lambda p: replace(p, epoch=p.epoch - 1) if p.epoch else replace(p, epoch=p.epoch + 5),
    ", an epoch ahead": lambda p: replace(p, epoch=p.epoch + 1),
    ", another producer": lambda p: replace(p, producer_id=nobody(p.name)),
}


@scene
async def transactions(s: Stage) -> None:
    """Each request to the coordinator of an ID in each state, and to its partitions.

    One after the other: where Kafka verifies two producers at the same time, one of them may get the errors of the
    other's version.
    """
    topic = await s.topic("t", partitions=2)
    for state in STATES:
        for request in REQUESTS:
            for claim in CLAIMS:
                await ask(s, topic, state, request, claim)


async def ask(s: Stage, topic: str, state: str, request: str, claim: str, prefix: str = "") -> None:
    """Send one request in one state, and write the answer and the state after it."""
    name = f"{prefix}{state}: {request}{claim}"
    producer = await STATES[state](Producer(s, f"{s.scene}-{name}", topic))
    message, version = REQUESTS[request](CLAIMS[claim](producer))
    await s.admin.ask(name, message, version)
    after = await producer.settled()
    told = {
        "state": after.transaction_state,
        "epoch": after.producer_epoch,
        "same producer": after.producer_id == producer.producer_id,
        "partitions": sorted((one.topic, tuple(sorted(one.partitions))) for one in after.topics),
    }
    s.write(f"{name}, then", "the state", told)
    if after.transaction_state == "Ongoing":  # otherwise, many transactions would be open in its partitions
        claims = replace(producer, producer_id=after.producer_id, epoch=after.producer_epoch)
        await claims.ended(V1, commit=False)


@scene
async def transactional_ids(s: Stage) -> None:
    """InitProducerId: who may have which timeout, and what lists and descriptions tell."""
    topic = await s.topic("t", partitions=2)
    one = await Producer(s, f"{s.scene}-one", topic).started()
    for timeout_ms in (-1, 0, 1, 900_000, 900_001):
        await s.admin.ask(
            f"timeout {timeout_ms}",
            replace(one, name=f"{one.name}-{timeout_ms}").init(claims=False, timeout_ms=timeout_ms),
            4,
        )
    await s.admin.ask("no name", replace(one, name="").init(claims=False), 4)
    await s.admin.ask("an unknown name with an ID", replace(one, name=f"{s.scene}-new").init(claims=True), 4)
    for v in range(6):
        await s.admin.ask(f"init {v}", one.init(claims=False), v)
    await s.admin.ask(
        "half a claim", InitProducerIdRequest(transactional_id=one.name, transaction_timeout_ms=1, producer_id=5), 4
    )
    await s.admin.ask("describe nobody", DescribeTransactionsRequest(transactional_ids=[f"{s.scene}-none", ""]), 0)
    for filters in (["Ongoing"], ["Dead", "PrepareEpochFence"], ["ongoing", "X"]):
        answer = await s.admin.quietly(ListTransactionsRequest(state_filters=filters, producer_id_filters=[1]), 0)
        s.write(f"list {filters}", "list", {"unknown": answer.unknown_state_filters, "error": answer.error_code})
    for pattern in (f"{s.scene}-one", f"{s.scene}-o", f"{s.scene}-o.*", "(", ""):
        answer = await s.admin.quietly(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        found = sorted(
            state.transactional_id for state in answer.transaction_states if state.transactional_id == one.name
        )
        s.write(f"list pattern {pattern}", "list", {"found": found, "error": answer.error_code})


@scene
async def partitions_of_transactions(s: Stage) -> None:
    """AddPartitionsToTxn and markers for partitions that do not exist, and for internal topics."""
    topic = await s.topic("t", partitions=2)
    one = await (await Producer(s, f"{s.scene}-one", topic).started()).started()
    for v in (0, 3):
        await s.admin.ask(f"one is missing {v}", one.add(0, 5), v)
        await s.admin.ask(f"no topic {v}", one.add(0, topic="none"), v)
        await s.admin.ask(f"an internal topic {v}", one.add(0, topic="__consumer_offsets"), v)
    await s.admin.ask("one is missing, as a broker", one.add_as_broker(0, 5, verify=False), 4)
    await s.admin.ask("one is missing, verified", one.add_as_broker(0, 5, verify=True), 4)

    def markers(*, epoch: int, coordinator_epoch: int) -> WriteTxnMarkersRequest:
        marker = WritableTxnMarker(
            producer_id=one.producer_id,
            producer_epoch=epoch,
            topics=[
                WritableTxnMarkerTopic(name=topic, partition_indexes=[0]),
                WritableTxnMarkerTopic(name="none", partition_indexes=[0]),
            ],
            coordinator_epoch=coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    for v in (1, 2):
        await s.admin.ask(f"markers {v}", markers(epoch=one.epoch, coordinator_epoch=7), v)
    await s.admin.ask("markers of an older coordinator", markers(epoch=one.epoch, coordinator_epoch=6), 1)
    await s.admin.ask("markers of an older epoch", markers(epoch=one.epoch - 1, coordinator_epoch=7), 1)
    await s.admin.ask("no markers", WriteTxnMarkersRequest(), 1)


ALLOWED: dict[str, list[tuple[ResourceType, Operation]]] = {
    "nothing": [],
    "write the ID": [(ResourceType.TRANSACTIONAL_ID, Operation.WRITE)],
    "describe the ID": [(ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE)],
    "write the ID and the topic": [
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
        (ResourceType.TOPIC, Operation.WRITE),
    ],
    "write the ID and read the group": [
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
        (ResourceType.GROUP, Operation.READ),
    ],
    "write the ID, and read group and topic": [
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
        (ResourceType.GROUP, Operation.READ),
        (ResourceType.TOPIC, Operation.READ),
    ],
    "act for the cluster": [(ResourceType.CLUSTER, Operation.CLUSTER_ACTION)],
    "alter the cluster": [(ResourceType.CLUSTER, Operation.ALTER)],
}
PERMITTED = (
    "init",
    "add",
    "add as a broker",
    "verify",
    "add offsets",
    "abort v1",
    "produce 12",
    "offsets 3",
    "offsets 5",
)

WITHOUT_VERIFICATION = {
    ("write the ID and the topic", "produce 12"),
    ("write the ID, and read group and topic", "offsets 3"),
    ("write the ID, and read group and topic", "offsets 5"),
}
"""What would be handled. Kafka's broker of this part cannot ask itself whether the partition is in the transaction, nor
write markers."""


@functools.partial(scene, part="permissions")
async def permissions_of_transactions(s: Stage) -> None:
    """Each request, with each permission that it may need."""
    topic = await s.topic("t", partitions=2)
    user = "grace"
    grace = s.client(user, user=user)
    for name, rules in ALLOWED.items():
        named = [(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else s.scene, of) for kind, of in rules]
        await grant(s, user, *named)
        for request in PERMITTED:
            if (name, request) in WITHOUT_VERIFICATION:
                continue
            one = await Producer(s, f"{s.scene}-{name}-{request}", topic).started()
            message, version = REQUESTS[request](one)
            await grace.ask(f"{name}: {request}", message, version)
        one = await Producer(s, f"{s.scene}-{name}", topic).started()
        await one.does(one.add(0), 3)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[one.name])
        await grace.ask(f"{name}: find", find, 4)
        await grace.ask(f"{name}: a missing partition", one.add(0, 7), 3)
        described = await grace.quietly(DescribeTransactionsRequest(transactional_ids=[one.name, "none"]), 0)
        told = [
            (found.error_code, found.transaction_state, len(found.topics)) for found in described.transaction_states
        ]
        s.write(f"{name}: describe", "describe", {"": sorted(told)})
        listed = await grace.quietly(ListTransactionsRequest(), 0)
        ids = {found.transactional_id for found in listed.transaction_states}
        s.write(f"{name}: list", "list", {"error": listed.error_code, "seen": one.name in ids})
        marker = WritableTxnMarker(
            producer_id=one.producer_id,
            producer_epoch=one.epoch + 1,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        await grace.ask(f"{name}: markers", WriteTxnMarkersRequest(markers=[marker]), 1)
