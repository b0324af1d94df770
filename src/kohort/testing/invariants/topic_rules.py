"""Topics as brokers describe them: names, IDs, partition counts, deletions. Nothing is checked here."""

from collections.abc import Callable
from typing import Any

from kohort.testing.events import AnswerLost, AnswerSent
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Asked
from kohort.wire.codec import Message
from kohort.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse

_INTERNAL = "__consumer_offsets"


class TopicRules:
    """Observer of the requests that describe, create or delete topics."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._last: object = None
        self.requests: dict[type[Message], Callable[[Asked], None]] = {}
        self.answers: dict[type[Message], Callable[[Asked, Any, AnswerSent | AnswerLost], None]] = {
            MetadataRequest: self._described,
            CreateTopicsRequest: self._created,
            DeleteTopicsRequest: self._deleted,
        }

    def _described(self, asked: Asked, response: MetadataResponse, event: AnswerSent | AnswerLost) -> None:
        if response is self._last:
            return
        self._last = response
        topics = self._scene.topics
        for topic in response.topics:
            if topic.name and not topic.error_code and topic.name != _INTERNAL:
                if topics.counts.get(topic.name) != len(topic.partitions):
                    self._changed(topic.name)
                if topics.described(topic.name, topic.topic_id, len(topic.partitions)):
                    self._scene.forget_topic(topic.name)

    def _created(self, asked: Asked, response: CreateTopicsResponse, event: AnswerSent | AnswerLost) -> None:
        for topic in response.topics:
            if not topic.error_code and topic.num_partitions > 0:
                self._changed(topic.name)
                if self._scene.topics.described(topic.name, topic.topic_id, topic.num_partitions):
                    self._scene.forget_topic(topic.name)

    def _deleted(self, asked: Asked, response: DeleteTopicsResponse, event: AnswerSent | AnswerLost) -> None:
        topics = self._scene.topics
        for topic in response.responses:
            name = topics.name(topic.name, topic.topic_id)
            if name is not None and not topic.error_code:
                self._changed(name)
                topics.deleted(name)
                self._scene.forget_topic(name)

    def _changed(self, topic: str) -> None:
        for group in self._scene.groups.values():
            group.is_changed = True
            if any(member.topics is None or topic in member.topics for member in group.members.values()):
                group.run = None  # its members have a reason to join again
