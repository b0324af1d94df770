"""What librdkafka does although no client may. Each fault is recognised by what causes it, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.model import TopicPartition
from kohort.testing import Event, RequestReceived
from kohort.testing.invariants import Checks, Invariant, Violation
from kohort.wire.messages.list_offsets import ListOffsetsRequest

NAME = "librdkafka"
"""How the client IDs of its members begin."""


@dataclass
class BegunAgain:
    """Partitions that members of librdkafka asked an offset of after they had given them up, according to `checks`.

    An answer to ListOffsets is outdated if the partition was paused by a rebalance or given up meanwhile. It starts a
    timer of 500 ms (`rd_kafka_toppar_handle_Offset` of librdkafka 2.16.0), also if it arrives after the partition was
    given up. To give it up stops the timer only while the partition is not fetched (`rd_kafka_toppar_fetch_stop`). When
    the timer expires, librdkafka asks for the offset and fetches from there, until the partition is assigned to it
    again. Only then its application may receive these records, and may commit them, before it continues where the
    group committed. Both protocols are concerned.
    """

    checks: Checks
    asked: list[tuple[RequestReceived, TopicPartition]] = field(default_factory=list)

    def observe(self, event: Event) -> None:
        """Observe an event after the checks did."""
        if not isinstance(event, RequestReceived) or not isinstance(event.request, ListOffsetsRequest):
            return
        scene = self.checks._scene
        client = scene.clients.get(event.client_id)
        if client is None or not event.client_id.startswith(NAME):
            return
        given_up = {
            place
            for group_id, member_id in client.members
            for place in scene.groups[group_id].members[member_id].given_up
        }
        asked = {
            TopicPartition(topic.name, partition.partition_index)
            for topic in event.request.topics
            for partition in topic.partitions
        }
        self.asked += ((event, place) for place in asked & given_up)

    def explains(self, violation: Violation) -> bool:
        """Return whether a member fetched, or committed from what it fetched, because it asked for that offset."""
        return any(
            violation.client_id == event.client_id and _is_of(violation, place) and _is_within(violation, event)
            for event, place in self.asked
        )


def _is_of(violation: Violation, place: TopicPartition) -> bool:
    match violation.invariant:
        case Invariant.OWNED_FETCHES:
            return f" fetched {place} " in violation.what and " had lost that partition" in violation.what
        case Invariant.FETCHED_COMMITS:
            return f" of {place}, but connections with its client id were delivered " in violation.what
        case _:
            return False


def _is_within(violation: Violation, asked: RequestReceived) -> bool:
    """Return whether the request came before what it led to, and after the report that the partition is given up."""
    reported, *_ = violation.events
    *_, last = (event for event in violation.events if isinstance(event, RequestReceived))
    if violation.invariant is Invariant.OWNED_FETCHES:
        return isinstance(reported, RequestReceived) and reported.request_id < asked.request_id < last.request_id
    return asked.request_id < last.request_id
