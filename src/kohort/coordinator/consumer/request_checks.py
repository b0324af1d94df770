"""Validate a ConsumerGroupHeartbeat by itself, before any group is looked up.

The checks and their order are those of Apache Kafka 4.3.
"""

from collections.abc import Collection

from kohort.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kohort.coordinator.rejections import TOO_LARGE, too_large
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_LONGEST_ID = (1 << 15) - 1
"""Maximum length of an ID in the log's keys, in bytes. Strings in Kafka's requests are no longer."""
_MEMBER_MAKES_ITS_ID = 1
"""First version in which a member generates its own ID (KIP-1082)."""

_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e9
"""Bounds of a weight. They also apply to the operator's setting (consumer.member.weights)."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str], max_subscription: int
) -> None:
    """Raise KafkaError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR or TOO_LARGE if the request is invalid.

    `max_subscription` limits a member's subscription, in characters. Kafka limits it by the size of
    a record.
    """
    needs_id = api_version >= _MEMBER_MAKES_ITS_ID or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    if needs_id and not request.member_id.strip():
        raise _invalid("the member id is empty")
    _check_not_empty(request.group_id, "group id")
    _check_not_empty(request.instance_id, "instance id")
    _check_not_empty(request.rack_id, "rack id")
    _check_length(request.group_id, "GroupId")
    _check_length(request.member_id, "MemberId")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("only a static member, with its instance id, can leave temporarily (epoch -2)")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("the member epoch must be at least -2")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no server assignor {request.server_assignor!r}; this broker has {', '.join(assignors)}",
        )
    size = sum(map(len, request.subscribed_topic_names or ()))
    if size > max_subscription:
        raise KafkaError(TOO_LARGE, too_large(size, max_subscription))
    if request.weight != -1 and not (request.weight == 0 or _LEAST_WEIGHT <= request.weight <= _LARGEST_WEIGHT):
        raise _invalid(f"a weight is 0, or between {_LEAST_WEIGHT:g} and {_LARGEST_WEIGHT:g}, not {request.weight:g}")
    offered = request.offered_assignors
    if offered and sum(len(offer.name) + len(offer.user_data or b"") for offer in offered) > max_subscription:
        raise _invalid(f"the offered assignors and their user data are longer than {max_subscription} bytes")


def _check_not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"the {name} is empty")


def _check_length(value: str, name: str) -> None:
    # A character takes at most four bytes.
    if 4 * len(value) > _LONGEST_ID and len(value.encode("utf-8", "surrogateescape")) > _LONGEST_ID:
        raise _invalid(f"{name} is longer than {_LONGEST_ID} bytes.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins must send its rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins must send an empty list of owned partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a member that joins must send its subscription, even if it is empty")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
