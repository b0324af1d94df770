"""The topics of this broker: look-up by name and ID, the partitions' logs, creation and deletion."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from kohort.broker.config import BrokerConfig, check_topic_configs
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.log import LogStore, PartitionLog, Topic, TopicExists
from kohort.log.cluster import OFFSETS_TOPIC, ONE_REPLICA, TRANSACTIONS_TOPIC, Placement, TooFewBrokers
from kohort.recorder import JOURNAL_TOPIC
from kohort.telemetry import TELEMETRY_TOPIC

INTERNAL_TOPICS: Mapping[str, str] = {
    OFFSETS_TOPIC: "compact",
    TRANSACTIONS_TOPIC: "compact",
    JOURNAL_TOPIC: "delete",
    TELEMETRY_TOPIC: "delete",
}
"""The topics that only brokers write, each with the cleanup.policy that it must have.

`delete` would expire the offsets of groups, and `compact` would keep only the last rebalance of each group.
"""

_SHORT_LIVED: Mapping[str, Mapping[str, str]] = {
    TELEMETRY_TOPIC: {"retention.ms": "3600000", "segment.ms": "900000"},
}
"""Configs with which internal topics are created if nothing else is asked for."""

_MOST_PARTITIONS = 100_000

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class PartitionKey(NamedTuple):
    """One partition by topic ID: a topic that is deleted and created again with the same name has another ID."""

    topic_id: UUID
    partition: int


def is_legal_name(name: str) -> bool:
    """Return whether a topic may have that name."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def _check_configs(configs: Mapping[str, str]) -> None:
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_cleanup_policy(name: str, configs: Mapping[str, str]) -> None:
    """Raise KafkaError if the topic is internal and its cleanup.policy is not the required one."""
    needed = INTERNAL_TOPICS.get(name)
    if needed is not None and configs.get("cleanup.policy") != needed:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The cleanup.policy of the internal topic {name} must be {needed}.")


class Topics:
    """A cache over the store; every look-up is a dict look-up."""

    def __init__(self, store: LogStore, config: BrokerConfig, fresh_id: Callable[[], UUID]) -> None:
        self._fresh_id = fresh_id
        self._store = store
        self._config = config
        self._by_name: dict[str, Topic] = dict(store.topics())
        self._by_id: dict[UUID, Topic] = {topic.topic_id: topic for topic in self._by_name.values()}
        self._logs: dict[tuple[UUID, int], PartitionLog] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called when topics were created, grown or deleted."""
        self.leads: Callable[[Topic, int], bool] = lambda topic, partition: True
        """Returns whether this broker leads a partition."""
        self.make: Callable[[Topic, Placement], None] = lambda topic, placement: store.create_topic(topic)
        self.make_partitions: Callable[[Topic, Placement], None] = lambda topic, placement: store.alter_topic(topic)
        """`make` creates a topic, and this its new partitions, on the placement's brokers. Both raise TooFewBrokers."""

    def all(self) -> Mapping[str, Topic]:
        """Return every topic by name."""
        return self._by_name

    def named(self, name: str) -> Topic | None:
        """Return the topic with that name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with that ID."""
        return self._by_id.get(topic_id)

    def log(self, topic: Topic, partition: int) -> PartitionLog | None:
        """Return the partition's log; None if the partition does not exist or another broker leads it."""
        key = PartitionKey(topic.topic_id, partition)
        log = self._logs.get(key)
        exists = 0 <= partition < topic.partitions and topic.topic_id in self._by_id
        if log is None and exists and self.leads(topic, partition):
            log = self._logs[key] = self._store.partition(topic.topic_id, partition)
        return log

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Return the topic that `create` would make. `partitions` -1 means num.partitions. Raise KafkaError."""
        if not is_legal_name(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if name in self._by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        clash = name.replace(".", "_")
        if ("." in name or "_" in name) and any(other.replace(".", "_") == clash for other in self._by_name):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"'{name}' collides with another topic: '.' and '_' count as the same in metric names.",
            )
        if partitions == -1:
            partitions = self._config.number("num.partitions")
        if not 1 <= partitions <= _MOST_PARTITIONS:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic has between 1 and {_MOST_PARTITIONS} partitions")
        if name in INTERNAL_TOPICS:
            configs = {"cleanup.policy": INTERNAL_TOPICS[name], **_SHORT_LIVED.get(name, {}), **configs}
        _check_configs(configs)
        _check_cleanup_policy(name, configs)
        return Topic(self._fresh_id(), name, partitions, dict(configs))

    def create(
        self,
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        placement: Placement = ONE_REPLICA,
    ) -> Topic:
        """Create a topic; it is durable on return. Raise KafkaError."""
        topic = self.check_new(name, partitions, configs or {})
        try:
            self.make(topic, placement)
        except TooFewBrokers as error:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from None
        except TopicExists:
            self.refresh()
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
        self._keep(topic)
        self.changed()
        return topic

    def check_growth(self, topic: Topic, count: int) -> None:
        """Raise KafkaError unless the topic may get as many partitions as `count`."""
        now = topic.partitions
        if topic.name in INTERNAL_TOPICS:
            # A group's partition of __consumer_offsets is its ID's hash modulo their number: a change would lose
            # offsets.
            detail = f"The broker itself sets the number of partitions of {topic.name}."
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
        if count == now:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic '{topic.name}' already has {now} partition(s).")
        if count < now:
            detail = f"Topic '{topic.name}' has {now} partition(s); {count} would not be an increase."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
        if count > _MOST_PARTITIONS:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"A topic has at most {_MOST_PARTITIONS} partitions.")

    def grow(self, topic: Topic, partitions: int, placement: Placement = ONE_REPLICA) -> Topic:
        """Return the topic with more partitions; they are durable on return. Raise KafkaError."""
        grown = replace(topic, partitions=partitions)
        try:
            self.make_partitions(grown, placement)
        except TooFewBrokers as error:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from None
        self._keep(grown)
        self.changed()
        return grown

    def check_configured(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Return the topic to `configure` with these configs. Raise KafkaError if it cannot have them."""
        _check_configs(configs)
        topic = self._by_name.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if configs.get("cleanup.policy") != topic.configs.get("cleanup.policy"):
            _check_cleanup_policy(name, configs)
        return topic

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> Topic:
        """Return the topic with exactly these configs, which have been checked; they are durable on return."""
        configured = replace(topic, configs=dict(configs))
        self._store.alter_topic(configured)
        self._keep(configured)
        return configured

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its records."""
        self._store.delete_topic(topic.topic_id)
        del self._by_name[topic.name], self._by_id[topic.topic_id]
        for partition in range(topic.partitions):
            self._logs.pop(PartitionKey(topic.topic_id, partition), None)
        self.changed()

    def refresh(self) -> list[str]:
        """Read the topics again after other brokers changed them; return the names of the deleted ones."""
        before, self._by_id = self._by_id, {topic.topic_id: topic for topic in self._store.topics().values()}
        self._by_name = {topic.name: topic for topic in self._by_id.values()}
        gone = [topic for topic_id, topic in before.items() if topic_id not in self._by_id]
        for topic in gone:
            for partition in range(topic.partitions):
                self._logs.pop(PartitionKey(topic.topic_id, partition), None)
        self.changed()
        return [topic.name for topic in gone]

    def release_topic(self, partitions: Iterable[tuple[UUID, int]]) -> list[PartitionLog]:
        """Release partitions that other brokers now lead; return the logs that were open."""
        found = [self._logs.pop(entry, None) for entry in partitions]
        return [log for log in found if log is not None]

    def _keep(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
