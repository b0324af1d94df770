"""Topics of a subscription."""

import re
from collections.abc import Iterable, Mapping

from kohort.client import ErrorCode
from kohort.compat.confluent.errors import KafkaError, invalid
from kohort.compat.confluent.values import Message


def wanted_topics(topics: list[str]) -> "list[str] | re.Pattern[str]":
    """Return names, or an expression if one of the topics begins with ^. librdkafka's need not match to the end."""
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        raise TypeError("expected list of topic unicode strings")
    if not any(topic.startswith("^") for topic in topics):
        return topics
    parts = (f"(?:{topic}).*" if topic.startswith("^") else re.escape(topic) for topic in topics)
    try:
        return re.compile("|".join(parts))
    except re.error as problem:
        raise invalid(f"{topics} has an invalid expression: {problem}") from None


class NamedTopics:
    """Topics to which a consumer subscribes by name, and their errors, which it reports once."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._reported: set[str] = set()

    def subscribe(self, names: Iterable[str]) -> None:
        """Replace the names."""
        self._names = frozenset(names)
        self._reported.clear()

    def next_error(self, rejected: Mapping[str, ErrorCode]) -> Message | None:
        """Return the error of a topic that the brokers reject and that was not reported since, or None."""
        self._reported &= rejected.keys()
        for topic in sorted((self._names & rejected.keys()) - self._reported):
            self._reported.add(topic)
            text = f"Subscribed topic not available: {topic}: Broker: {rejected[topic].sentence}"
            return Message(topic, error=KafkaError(rejected[topic], text))
        return None
