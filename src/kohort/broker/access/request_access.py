"""Access checks of one request, and its reduction to the parts that its client may ask for.

A guard gets the request before its handler. It returns the request for the handler, or None if it has answered.
It adds an error to the handler's response for each part that it took out of the request.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kohort.broker.access.access_control import CLUSTER, AccessControl
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.log import Topic
from kohort.model import NO_TOPIC_ID, UUID
from kohort.security import Operation, ResourceType, authorized_bits
from kohort.wire.codec import Message

_M = TypeVar("_M", bound=Message)


class RequestAccess:
    """The access of one request."""

    def __init__(self, control: AccessControl, call: Call, topics: Topics) -> None:
        self._control = control
        self.call = call
        self._topics = topics

    def cluster(self, operation: Operation) -> bool:
        """Return whether the client may do this with the cluster."""
        return self._control.may(self.call.connection, operation, *CLUSTER)

    def topic(self, operation: Operation, name: str) -> bool:
        """Return whether the client may do this with the topic."""
        connection = self.call.connection
        if operation is Operation.DESCRIBE:
            return self._control.may_describe_topic(connection, name)
        return self._control.may(connection, operation, ResourceType.TOPIC, name)

    def group(self, operation: Operation, group_id: str) -> bool:
        """Return whether the client may do this with the group."""
        return self._control.may(self.call.connection, operation, ResourceType.GROUP, group_id)

    def transactional_id(self, operation: Operation, name: str) -> bool:
        """Return whether the client may do this with the transactional ID."""
        return self._control.may(self.call.connection, operation, ResourceType.TRANSACTIONAL_ID, name)

    def any_topic(self, operation: Operation) -> bool:
        """Return whether the client may do this with any topic that could exist."""
        return self._control.may_with_any(self.call.connection, operation, ResourceType.TOPIC)

    def topic_or_id(self, operation: Operation, name: str, topic_id: UUID) -> bool:
        """Return whether the client may do this with a topic that has a name or an ID.

        An unknown ID is allowed: the handler answers that it is unknown.
        """
        if topic_id != NO_TOPIC_ID:
            found = self.with_id(topic_id)
            return found is None or self.topic(operation, found.name)
        return self.topic(operation, name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with that ID, or None."""
        return self._topics.with_id(topic_id)

    def exists(self, name: str) -> bool:
        """Return whether there is a topic of that name."""
        return self._topics.named(name) is not None

    def topic_bits(self, name: str) -> int:
        """Return the authorized operations on the topic (KIP-430)."""
        return authorized_bits(self._control.operations(self.call.connection, ResourceType.TOPIC, name))

    def group_bits(self, group_id: str) -> int:
        """Return the authorized operations on the group."""
        return authorized_bits(self._control.operations(self.call.connection, ResourceType.GROUP, group_id))

    def cluster_bits(self) -> int:
        """Return the authorized operations on the cluster; none if the client may not describe it."""
        if not self.cluster(Operation.DESCRIBE):
            return 0
        return authorized_bits(self._control.operations(self.call.connection, *CLUSTER))

    # What a guard does with a request

    def refuse(self, response: Message) -> None:
        """Answer the whole request."""
        self.call.reply(response)

    def amend(self, change: Callable[[Any], None]) -> None:
        """Change the handler's response before it is sent."""
        before = self.call.amend

        def amended(response: Message) -> None:
            if before is not None:
                before(response)
            change(response)

        self.call.amend = amended

    def keep_allowed(
        self,
        request: _M,
        items: str,
        allowed: Callable[[Any], bool],
        refused: Callable[[Any], Any],
        answer: Message,
        results: str,
        *,
        refused_first: bool = False,
    ) -> _M | None:
        """Take the items that are not allowed out of the request, and add their results to the response.

        `items` and `results` name the lists of the request and of the response. If nothing is left, `answer` is the
        response. Kafka adds them at the end of most responses, and before the others in some.
        """
        denied = [item for item in getattr(request, items) if not allowed(item)]
        if not denied:
            return request
        kept = [item for item in getattr(request, items) if allowed(item)]
        added = [refused(item) for item in denied]
        if not kept:
            getattr(answer, results).extend(added)
            self.refuse(answer)
            return None
        setattr(request, items, kept)

        def add(response: Message) -> None:
            found = getattr(response, results)
            found[:] = [*added, *found] if refused_first else [*found, *added]

        self.amend(add)
        return request


class Guard(Protocol):
    """Checks one kind of request."""

    def __call__(self, access: RequestAccess, request: Any, /) -> Any: ...
