"""Heartbeat answers that contain no news for the member; most are of this kind."""

from kohort.coordinator.prompt.consumer import is_silent
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def tells_nothing(request: Message, response: Message) -> bool:
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
                and is_silent(request)
            )
    return False
