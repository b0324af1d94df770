"""The language of the transcripts of transactions: commands of named producers to a broker, and what they hear.

`init p` starts a producer whose transactional ID is `p`, of transaction.version 2 unless it says `v=1`. Each method
`_do_...` is a command and says how it is written. Producer IDs are numbered as they come: #1, #2. A request that fails
because the broker is still starting is repeated.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.sync_group import SyncGroupRequest
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
from tests.scenarios.transaction_hearing import shown
from tests.scenarios.transaction_wires import Wire

_WRITTEN_AT = 1_600_000_000_000
"""In the past of every machine: brokers refuse records of the future."""
_STARTING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NETWORK_EXCEPTION,
)
_POLLED_EVERY_MS = 20
_POLLS = 3_000
_TRANSACTION = 1


@dataclass
class Producer:
    """State of a producer between its requests."""

    name: str
    version: int = 2
    id: int = -1
    epoch: int = -1
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def become(self, producer_id: int, epoch: int) -> None:
        """Take an ID and an epoch, with which sequence numbers begin anew."""
        if (self.id, self.epoch) != (producer_id, epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch


class TransactionTalk:
    """One transcript being played. `prefix` keeps its names apart from those of other transcripts on the broker."""

    def __init__(self, wire: Wire, prefix: str = "") -> None:
        self._wire, self._prefix = wire, prefix
        self._producers: dict[str, Producer] = {}
        self._numbers: dict[int, str] = {}
        self._members: dict[str, tuple[str, int]] = {}
        self._set_the_scene()

    def play(self, command: str) -> list[str]:
        """Run one command; return its output."""
        name, *words = shlex.split(command)
        options = dict(word.split("=", 1) for word in words if re.match(r"[a-z]+=", word))
        targets = [word for word in words if not re.match(r"[a-z]+=", word)]
        method: Callable[[list[str], dict[str, str]], Iterator[str]] = getattr(self, f"_do_{name.replace('-', '_')}")
        return list(method(targets, options))

    def _set_the_scene(self) -> None:
        """Create the topic orders with two partitions, and wait until both coordinators answer."""
        # Else the time between records and markers would begin another segment, where a fetch ends.
        kept = {"retention.ms": "-1", "segment.ms": str(2**53)}
        topic = CreatableTopic(
            name=self._named("orders"),
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in kept.items()],
        )
        created = self._wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert created.topics[0].error_code == 0, created
        for number in (0, 1):
            self._patiently(partial(self._fetched, TopicPartition("orders", number), 0))
        for kind, key in ((0, "g"), (_TRANSACTION, "p")):
            self._patiently(partial(self._coordinator, kind, key))
        self._patiently(lambda: self._committed("g", TopicPartition("orders", 0), stable=False)[0])

    def _coordinator(self, kind: int, key: str) -> Any:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[self._named(key)])
        return self._wire.ask(request, 4).coordinators[0]

    def _patiently(self, ask: Callable[[], Any], *codes: ErrorCode) -> Any:
        """Repeat a request while its error code is one of these, or the broker is starting."""
        for _ in range(_POLLS):
            answer = ask()
            if answer.error_code not in (*codes, *_STARTING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                return answer
            self._wire.wait(_POLLED_EVERY_MS)
        raise AssertionError(f"the answer stays {answer}")

    def _named(self, name: str) -> str:
        return name if name.startswith("__") else self._prefix + name

    def _number(self, producer_id: int) -> str:
        return self._numbers.setdefault(producer_id, f"#{len(self._numbers) + 1}")

    # Producers

    def _do_init(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`init p id=x timeout=60s v=1`: start a process; `init p again` until the last transaction has ended;
        `init p continues` names the producer's ID and epoch (KIP-360)."""
        name, *how = targets
        producer = self._producers.setdefault(name, Producer(options.get("id", name), int(options.get("v", "2"))))
        request = InitProducerIdRequest(
            transactional_id=self._named(producer.name),
            transaction_timeout_ms=int(options.get("timeout", "60s").removesuffix("s")) * 1_000,
            producer_id=producer.id if how == ["continues"] else -1,
            producer_epoch=producer.epoch if how == ["continues"] else -1,
        )
        again = [ErrorCode.CONCURRENT_TRANSACTIONS] if how == ["again"] else []
        answer = self._patiently(lambda: self._wire.ask(request, 5), *again)
        if answer.error_code:
            yield f"{name} init: {_error(answer.error_code)}"
        else:
            producer.become(answer.producer_id, answer.producer_epoch)
            yield f"{name} init: {self._number(producer.id)} epoch={producer.epoch}"

    def _do_add(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`add p orders-0 orders-1`: AddPartitionsToTxn, as version 1 needs it."""
        producer = self._producers[targets[0]]
        topics: dict[str, list[int]] = {}
        for place in map(_partition, targets[1:]):
            topics.setdefault(place.topic, []).append(place.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._named(producer.name),
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=int(options.get("epoch", producer.epoch)),
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=self._named(topic), partitions=numbers)
                for topic, numbers in topics.items()
            ],
        )
        answer = self._wire.ask(request, 3)
        codes = [
            f"{self._bare(topic.name)}-{one.partition_index} {_error(one.partition_error_code)}"
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        yield f"{targets[0]} add: {', '.join(sorted(codes))}"

    def _do_add_offsets(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`add-offsets p`: AddOffsetsToTxn for the group g."""
        producer = self._producers[targets[0]]
        request = AddOffsetsToTxnRequest(
            transactional_id=self._named(producer.name),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=self._named(options.get("group", "g")),
        )
        yield f"{targets[0]} add-offsets: {_error(self._wire.ask(request, 3).error_code)}"

    def _do_write(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`write p orders-0 a b`: one batch; `epoch=0` as a request of an earlier epoch that arrives late."""
        name, place, *values = targets
        producer, partition = self._producers[name], _partition(place)
        epoch = int(options.get("epoch", producer.epoch))
        records = encode_batch(
            [Record(number, _WRITTEN_AT, None, value.encode(), ()) for number, value in enumerate(values)],
            producer_id=producer.id,
            producer_epoch=epoch,
            base_sequence=producer.sequences.get(partition, 0) if epoch == producer.epoch else 0,
            transactional=True,
        )
        data = PartitionProduceData(index=partition.partition, records=records)
        request = ProduceRequest(
            transactional_id=self._named(producer.name),
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._named(partition.topic), partition_data=[data])],
        )
        usual = "12" if producer.version == 2 else "11"

        def ask() -> Any:
            return self._wire.ask(request, int(options.get("v", usual))).responses[0].partition_responses[0]

        answer = self._patiently(ask)
        if not answer.error_code:
            producer.sequences[partition] = producer.sequences.get(partition, 0) + len(values)
        yield f"{name} write: {_error(answer.error_code)}"

    def _do_offsets(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`offsets p orders-0=5`: TxnOffsetCommit for the group g; `as=m gen=1` as a member (KIP-447)."""
        producer = self._producers[targets[0]]
        member_id, generation = self._members.get(options.get("as", ""), (options.get("as", ""), -1))
        partitions = []
        for word in targets[1:]:
            place, _, offset = word.partition("=")
            partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=_partition(place).partition, committed_offset=int(offset)
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._named(producer.name),
            group_id=self._named(options.get("group", "g")),
            producer_id=producer.id,
            producer_epoch=int(options.get("epoch", producer.epoch)),
            generation_id=int(options.get("gen", generation)),
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=self._named("orders"), partitions=partitions)],
        )
        answer = self._wire.ask(request, 5 if producer.version == 2 else 4)
        codes = [f"orders-{one.partition_index} {_error(one.error_code)}" for one in answer.topics[0].partitions]
        yield f"{targets[0]} offsets: {', '.join(codes)}"

    def _do_end(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`end p commit`, `end p abort`: EndTxn; `epoch=0` as a request of an earlier epoch that arrives late."""
        name, how = targets
        producer = self._producers[name]
        request = EndTxnRequest(
            transactional_id=self._named(producer.name),
            producer_id=producer.id,
            producer_epoch=int(options.get("epoch", producer.epoch)),
            committed=how == "commit",
        )
        answer = self._wire.ask(request, 5 if producer.version == 2 else 4)
        if answer.error_code or producer.version == 1:
            yield f"{name} end: {_error(answer.error_code)}"
        else:
            producer.become(answer.producer_id, answer.producer_epoch)
            yield f"{name} end: ok, now {self._number(producer.id)} epoch={producer.epoch}"

    # Members of the group g

    def _do_join(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`join m`: a classic member joins or joins again, alone in its group, and gets a new generation."""
        [name] = targets
        member_id, generation = self._members.get(name, ("", -1))
        subscription = encode_subscription(Subscription(topics=["orders"], user_data=str(generation).encode()))
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription)
        request = JoinGroupRequest(
            group_id=self._named("g"),
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = self._wire.ask(request, 5)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = self._wire.ask(request, 5)
        assert answer.error_code == 0, answer
        self._members[name] = answer.member_id, answer.generation_id
        sync = SyncGroupRequest(
            group_id=self._named("g"), generation_id=answer.generation_id, member_id=answer.member_id
        )
        assert self._wire.ask(sync, 3).error_code == 0
        yield f"{name} joined generation {answer.generation_id}"

    # What others see

    def _do_read(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`read orders-0`: what consumers see, with read_uncommitted and with read_committed."""
        place = _partition(targets[0])
        yield f"{place} uncommitted: {' '.join(shown(self._fetched(place, 0), self._number)) or 'nothing'}"
        committed = self._fetched(place, 1)
        aborted = sorted((one.first_offset, one.producer_id) for one in committed.aborted_transactions or ())
        notes = [f"stable={committed.last_stable_offset} end={committed.high_watermark}"]
        notes += [f"aborted={self._number(producer_id)}@{first}" for first, producer_id in aborted]
        values = shown(committed, self._number, {(producer_id, first) for first, producer_id in aborted})
        yield f"{place} committed: {' '.join(values) or 'nothing'} ({' '.join(notes)})"

    def _fetched(self, place: TopicPartition, isolation: int) -> Any:
        asked = FetchPartition(partition=place.partition, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self._named(place.topic), partitions=[asked])
        request = FetchRequest(max_bytes=1 << 20, isolation_level=isolation, topics=[topic])
        return self._wire.ask(request, 12).responses[0].partitions[0]

    def _do_offset(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`offset orders-0`: what the group g has committed, for clients that require stable offsets and for others."""
        place = _partition(targets[0])
        found, _ = self._committed("g", place, stable=False)
        stable, _ = self._committed("g", place, stable=True)
        error = f" {_error(stable.error_code)}" if stable.error_code else ""
        yield f"offset of {place}: {found.committed_offset}, stable: {stable.committed_offset}{error}"

    def _committed(self, group_id: str, place: TopicPartition, *, stable: bool) -> tuple[Any, Any]:
        topics = [OffsetFetchRequestTopics(name=self._named(place.topic), partition_indexes=[place.partition])]
        group = OffsetFetchRequestGroup(group_id=self._named(group_id), topics=topics)
        answer = self._wire.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 9).groups[0]
        return (answer.topics[0].partitions[0] if answer.topics else answer), answer

    # Operators

    def _do_state(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`state p`: DescribeTransactions."""
        yield self._described(targets[0])

    def _do_ended(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`ended p`: wait until its transaction is over, with all markers."""
        for _ in range(_POLLS):
            text = self._described(targets[0])
            if not re.search(r"state: (Ongoing|Prepare)", text):
                yield text
                return
            self._wire.wait(_POLLED_EVERY_MS)
        raise AssertionError(f"{text} does not end")

    def _described(self, name: str) -> str:
        transactional_id = self._producers[name].name if name in self._producers else name
        request = DescribeTransactionsRequest(transactional_ids=[self._named(transactional_id)])
        [found] = self._wire.ask(request, 0).transaction_states
        if found.error_code:
            return f"{name} state: {_error(found.error_code)}"
        places = [f"{self._bare(topic.topic)}-{number}" for topic in found.topics for number in topic.partitions]
        # How many partitions hold the offsets of groups is the broker's own.
        places = [re.sub(r"^(__consumer_offsets)-\d+", r"\1", place) for place in sorted(places)]
        producer = f"{self._number(found.producer_id)} epoch={found.producer_epoch}"
        return f"{name} state: {found.transaction_state} {producer} partitions=[{' '.join(places)}]"

    def _bare(self, topic: str) -> str:
        return topic.removeprefix(self._prefix)

    def _do_producers(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`producers orders-0`: what the partition knows of producers."""
        found = [
            f"{self._number(one.producer_id)} epoch={one.producer_epoch}"
            + (f" open from {one.current_txn_start_offset}" if one.current_txn_start_offset >= 0 else "")
            for one in self._active(_partition(targets[0]))
        ]
        yield f"producers of {targets[0]}: {', '.join(found) or 'none'}"

    def _do_abort(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`abort orders-0`: an admin ends the open transactions of a partition (KIP-664)."""
        place = _partition(targets[0])
        for one in [one for one in self._active(place) if one.current_txn_start_offset >= 0]:
            marker = WritableTxnMarker(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=self._named(place.topic), partition_indexes=[place.partition])],
                coordinator_epoch=max(one.coordinator_epoch, 0),
            )
            answer = self._wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
            code = answer.markers[0].topics[0].partitions[0].error_code
            yield f"abort {self._number(one.producer_id)} in {place}: {_error(code)}"

    def _active(self, place: TopicPartition) -> list[Any]:
        topic = TopicRequest(name=self._named(place.topic), partition_indexes=[place.partition])
        found: list[Any] = (
            self._wire.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions[0].active_producers
        )
        return sorted(found, key=lambda one: int(self._number(one.producer_id)[1:]))

    def _do_wait(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`wait 2s`."""
        self._wire.wait(int(targets[0].removesuffix("s")) * 1_000)
        yield from ()


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _error(code: int) -> str:
    return "ok" if code == 0 else ErrorCode(code).name
