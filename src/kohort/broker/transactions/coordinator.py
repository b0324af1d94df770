"""The transaction coordinator's shell: the shard of each transactional ID, and the topic of all shards.

As in Kafka, `__transaction_state` is created when a client first looks for the coordinator of a transactional ID.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.groups import group_partition
from kohort.broker.logs import Leadership, Topics
from kohort.broker.net import Sockets
from kohort.broker.transactions.marking import MarkerWriting, MarkingParts
from kohort.broker.transactions.other_brokers import OtherBrokers, OtherBrokersParts
from kohort.broker.transactions.shard import Dependencies as ShardParts
from kohort.broker.transactions.shard import TransactionPartition
from kohort.broker.transactions.verification import Dependencies as VerificationParts
from kohort.broker.transactions.verification import Verification
from kohort.errors import ErrorCode, KafkaError
from kohort.log.cluster import TRANSACTIONS_TOPIC, Node


class Dependencies(ShardParts, MarkingParts, OtherBrokersParts, VerificationParts, Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    leadership: Leadership
    sockets: Sockets
    topics: Topics


class TransactionCoordinator:
    """All shards of this broker. Iteration yields those that it leads."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._shards: list[TransactionPartition] = []
        self._others = OtherBrokers(broker)
        self.marking = MarkerWriting(broker, self._others)
        self.verification = Verification(broker, self, self._others)

    def __iter__(self) -> Iterator[TransactionPartition]:
        return (shard for shard in self._shards if shard.leads)

    def shard(self, transactional_id: str) -> TransactionPartition | None:
        """Return the shard that coordinates the ID; None while there is no topic of them."""
        shards = self._all()
        return shards[group_partition(transactional_id, len(shards))] if shards else None

    def coordinator(self, transactional_id: str) -> Node | None:
        """Return the broker that leads the ID's partition, or None if there is none at the moment.

        Creates the topic if it does not exist. Raise KafkaError or OSError.
        """
        if self._broker.topics.named(TRANSACTIONS_TOPIC) is None:
            self._create()
            self.lead()
        return self.known_coordinator(transactional_id)

    def known_coordinator(self, transactional_id: str) -> Node | None:
        """Return the broker that leads the ID's partition, or None if there is none, or no topic."""
        topic = self._broker.topics.named(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = self._broker.leadership.leader(topic, group_partition(transactional_id, topic.partitions))
        return self._broker.leadership.node(leader.node_id)

    def lead(self, partitions: Iterable[int] | None = None) -> None:
        """Begin to load these shards, by default all; while they load, requests get COORDINATOR_LOAD_IN_PROGRESS."""
        shards, topic = self._all(), self._broker.topics.named(TRANSACTIONS_TOPIC)
        if topic is None:
            return
        for number in range(topic.partitions) if partitions is None else partitions:
            log, shard = self._broker.topics.log(topic, number), shards[number]
            if log is None or (shard.leads and shard.epoch == log.leader_epoch):
                continue
            if shard.leads:
                shard.resign()  # the partition was with another broker meanwhile
            is_new = log.stable_offset == log.start_offset
            shard.led_from = 0 if is_new else self._broker.sockets.accepted
            shard.lead(log)

    def give_up(self, partitions: Iterable[int]) -> None:
        """Resign from these partitions, which other brokers now coordinate."""
        if self._shards:
            for partition in partitions:
                self._shards[partition].resign()

    def resign(self) -> None:
        """Resign from all shards because the broker stops."""
        for shard in self:
            shard.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def close(self) -> None:
        """Stop waiting for other brokers."""
        await self._others.close()

    def _all(self) -> list[TransactionPartition]:
        """Return the shards of all partitions. A broker that leads none of them asks other brokers by them."""
        topic = self._broker.topics.named(TRANSACTIONS_TOPIC)
        if not self._shards and topic is not None:
            write = self.marking.write
            self._shards = [TransactionPartition(self._broker, number, write) for number in range(topic.partitions)]
        return self._shards

    def _create(self) -> None:
        config = self._broker.config
        configs = {
            "segment.bytes": str(config.number("transaction.state.log.segment.bytes")),
            "compression.type": "uncompressed",
        }
        try:
            self._broker.topics.create(
                TRANSACTIONS_TOPIC, config.number("transaction.state.log.num.partitions"), configs
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise  # otherwise, another broker of the cluster created it at the same time
