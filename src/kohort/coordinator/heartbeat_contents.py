"""Contents of heartbeats and of their answers. Most contain no news in either direction."""

from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def reports_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat omits all optional fields."""
    return request.offered_assignors is None and reports_at_most_offers(request)


def reports_at_most_offers(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat omits all optional fields but `offered_assignors`, which some members always send."""
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.computed is None
        and request.asks_anew is None
        and request.weight == -1
    )


def has_no_news(request: Message, response: Message) -> bool:
    """Return whether a heartbeat without a report gets an answer that only repeats what its member sent.

    A crash cannot invalidate such an answer, so it need not wait until records are durable.
    """
    match request, response:
        case HeartbeatRequest(), HeartbeatResponse():
            return not response.error_code
        case ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse():
            return (
                not response.error_code
                and response.member_epoch == request.member_epoch > 0
                and response.assignment is None
                and response.computation is None
                and response.refused is None
                and reports_nothing(request)
            )
    return False
