"""Check that a broker answers each fetch session only with partitions that its requests ask for (S18, KIP-227)."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kohort.sim.violation import Violation
from kohort.wire.messages.fetch import FetchRequest, FetchResponse

FETCH = 1
"""API key of Fetch."""

Place = tuple[str | UUID, int]


class FetchChecks:
    """Check of all brokers of a world."""

    def __init__(self) -> None:
        self._wanted: dict[tuple[str, int], set[Place]] = {}
        """Partitions that a session fetches, by broker and session id."""

    def answered(self, broker: str, request: FetchRequest, response: FetchResponse) -> None:
        """Check a response of a broker. Raises Violation.

        A request counts once it is answered: a client that does not receive the response begins
        another session.
        """
        if response.error_code:
            return
        wanted = set(_named(request))
        if request.session_id and request.session_epoch > 0:
            wanted |= self._wanted.get((broker, request.session_id), set())
            for topic in request.forgotten_topics_data:
                wanted -= {(topic.topic or topic.topic_id, partition) for partition in topic.partitions}
        if response.session_id:
            self._wanted[broker, response.session_id] = wanted
        for answered in response.responses:
            for data in answered.partitions:
                place = answered.topic or answered.topic_id, data.partition_index
                if place not in wanted:
                    raise Violation(
                        "S18", f"{broker} answered a fetch with {place[0]}-{place[1]}, which was not requested"
                    )


def _named(request: FetchRequest) -> Iterator[Place]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic or topic.topic_id, partition.partition
