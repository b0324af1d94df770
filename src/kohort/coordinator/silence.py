"""Answers to heartbeats that tell a member nothing: most of them."""

from kohort.coordinator.consumer.holding import is_silent
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse


def tells_nothing(request: Message, response: Message) -> bool:
    """Whether a heartbeat that says nothing is answered with nothing but what its member says itself.

    No crash can take back what such an answer tells, so it need not wait for records to be durable.
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
                and is_silent(request)
            )
    return False
