"""The rules for a topic's records: from the topic's configs, or the broker's where the topic has none."""

from collections.abc import Callable

from kohort.broker.config import BrokerConfig
from kohort.log import Topic
from kohort.model import Millis
from kohort.wire.batches import Codec

_CODECS = {"producer": None, "uncompressed": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}


class TopicRules:
    """The rules under the broker's settings at the time of creation; consulted for every batch."""

    def __init__(self, config: BrokerConfig, now: Callable[[], Millis]) -> None:
        self._now = now
        self._max_batch_bytes = config.number("message.max.bytes")
        self._timestamp_type = config.text("log.message.timestamp.type")
        self._time_before = config.number("log.message.timestamp.before.max.ms")
        self._time_after = config.number("log.message.timestamp.after.max.ms")
        self._cleanup_policy = config.text("log.cleanup.policy")
        self._min_in_sync = config.number("min.insync.replicas")
        self._compression = config.text("compression.type")

    def max_batch_bytes(self, topic: Topic) -> int:
        """Return the size of the largest batch that the topic accepts, in bytes."""
        own = topic.configs.get("max.message.bytes") if topic.configs else None
        return self._max_batch_bytes if own is None else int(own)

    def stamps(self, topic: Topic) -> bool:
        """Return whether the broker sets the timestamps of the topic's records when it appends them."""
        own = topic.configs.get("message.timestamp.type") if topic.configs else None
        return (self._timestamp_type if own is None else own) == "LogAppendTime"

    def times(self, topic: Topic) -> tuple[Millis, Millis]:
        """Return the earliest and the latest timestamp that a record of the topic may have now."""
        configs = topic.configs
        before = configs.get("message.timestamp.before.max.ms", self._time_before)
        after = configs.get("message.timestamp.after.max.ms", self._time_after)
        now = self._now()
        return now - int(before), now + int(after)

    def compacts(self, topic: Topic) -> bool:
        """Return whether the topic is compacted, so that every record must have a key."""
        return "compact" in self._policies(topic)

    def only_compacts(self, topic: Topic) -> bool:
        """Return whether the topic is compacted, and retention deletes none of its records."""
        policies = self._policies(topic)
        return "compact" in policies and "delete" not in policies

    def _policies(self, topic: Topic) -> str:
        own = topic.configs.get("cleanup.policy") if topic.configs else None
        return self._cleanup_policy if own is None else own

    def min_in_sync(self, topic: Topic) -> int:
        """Return the number of replicas that must be in sync for a produce request with acks=all."""
        own = topic.configs.get("min.insync.replicas") if topic.configs else None
        return self._min_in_sync if own is None else int(own)

    def codec(self, topic: Topic) -> Codec | None:
        """Return the codec with which the topic's batches are compressed; None if they are kept as received."""
        own = topic.configs.get("compression.type") if topic.configs else None
        return _CODECS[self._compression if own is None else own]
