"""ConsumerGroupHeartbeat: when it is sent, its contents, and the handling of its answer.

Unchanged fields are omitted. After an error, a lost answer or a new connection all fields are sent again,
because the member does not know what the coordinator received.
"""

from collections import defaultdict

from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member.consumer.computing import compute, offers
from kohort.member.consumer.phases import IN_GROUP
from kohort.member.consumer.reconciling import is_reconciled, receive_target
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.state import ConsumerState
from kohort.member.phase import Phase
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_JOIN_EPOCH = 0
_NO_CLIENT_ASSIGNORS = (
    "the broker does not let members assign: remove group_local_assignors, or set group_protocol=classic"
)

_NO_WEIGHTS = "the broker does not support weights: this member gets the same share as the others instead of"


def send_heartbeat_if_due(member: ConsumerState) -> None:
    """Send a heartbeat if it is due or there is something to report."""
    if not member.link.ready(member.now) or not _may_send(member):
        return
    changed = member.known_subscription is not None and member.known_subscription != member.wanted_subscription
    if member.heartbeats:
        # A coordinator may hold a heartbeat without a report; a second one on the connection releases it.
        # An acknowledgement needs no second one: heartbeats of a member that owes one are not held. Neither is a
        # join, and a second one would be rejected because it does not contain all fields.
        if not changed or len(member.heartbeats) > 1 or member.generation is None:
            return
        member.owes_acknowledgement = True
    news = changed or member.owes_acknowledgement or member.computed is not None
    if news or member.now >= member.heartbeat_at:
        reports = member.known_subscription != member.wanted_subscription
        heartbeat = _heartbeat(member)
        request = member.send(heartbeat)
        member.heartbeats.add(request)
        if reports:
            member.subscription_request = request
        if heartbeat.topic_partitions is not None:
            member.reports.add(request)
        member.heartbeat_at = member.now + member.interval_ms
        member.may_be_member = True
        if member.phase is Phase.ACKNOWLEDGING:
            member.enter(Phase.STABLE if is_reconciled(member) else Phase.RECONCILING)


def next_heartbeat_at(member: ConsumerState) -> Millis | None:
    """Return when the next heartbeat is due; None if none may be sent."""
    if not _may_send(member) or member.heartbeats or not member.link.known:
        return None
    return max(member.heartbeat_at, member.link.retry_at)


def heartbeat_answered(member: ConsumerState, request: int, response: ConsumerGroupHeartbeatResponse) -> None:
    """Handle the coordinator's answer: the member's epoch, and its target assignment if that changed."""
    if request not in member.heartbeats:
        return
    config = member.config
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        heartbeat_failed(member, request, code, response.error_message)
        return
    _remove_in_flight(member, request)
    member.lacks_topic_right = False
    member.link.progressed(member.now)
    member.commits.rebalanced()
    if response.heartbeat_interval_ms not in (member.interval_ms, 0):
        member.interval_ms = response.heartbeat_interval_ms
        member.heartbeat_at = member.now + member.interval_ms
    if response.member_epoch <= _JOIN_EPOCH or not _is_in_group(member):
        return
    if member.generation is None and config.client_assignors and not response.takes_offers:
        member.fail(KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, _NO_CLIENT_ASSIGNORS))
        return
    if member.generation is None and member.wanted_subscription.weight is not None and not response.takes_weights:
        member.actions.warning = f"{_NO_WEIGHTS} {member.wanted_subscription.weight:g}"
    member.generation, member.has_joined = response.member_epoch, True
    if response.assignment is not None and member.phase in IN_GROUP:
        receive_target(member, response.assignment)
    if response.computation is not None and member.phase in IN_GROUP:
        member.computed = compute(config.client_assignors, response.computation)
        member.actions.warning = member.computed.error
    elif response.refused is not None:
        member.actions.warning = f"the assignment that this member computed was rejected: {response.refused}"


def heartbeat_failed(member: ConsumerState, request: int, code: ErrorCode, message: str | None = None) -> None:
    """Handle an error, or the loss of the answer."""
    _remove_in_flight(member, request)
    member.known_subscription = None
    member.heartbeat_at = member.now
    refused(member, code, message)


def _remove_in_flight(member: ConsumerState, request: int) -> None:
    member.heartbeats.discard(request)
    member.reports.discard(request)
    if request == member.subscription_request:
        member.subscription_request = None


def _is_in_group(member: ConsumerState) -> bool:
    return member.phase in IN_GROUP or (member.phase is Phase.PREPARE_LEAVING and member.generation is not None)


def _may_send(member: ConsumerState) -> bool:
    if member.phase is Phase.JOINING:
        # Epoch 0 states that the member owns nothing, so the application must have given up everything.
        return member.callbacks.idle
    return _is_in_group(member)


def _heartbeat(member: ConsumerState) -> ConsumerGroupHeartbeatRequest:
    config, wanted, known = member.config, member.wanted_subscription, member.known_subscription
    request = ConsumerGroupHeartbeatRequest(
        group_id=config.group_id,
        member_id=member.member_id,
        member_epoch=_JOIN_EPOCH if member.generation is None else member.generation,
        instance_id=config.instance_id,
    )
    if known is None:
        request.rebalance_timeout_ms = config.max_poll_interval_ms
        request.rack_id = config.rack_id
        request.server_assignor = config.server_assignor
    if known is None or known.topics != wanted.topics:
        request.subscribed_topic_names = sorted(wanted.topics)
    if wanted.weight is not None and (known is None or known.weight != wanted.weight):
        request.weight = wanted.weight
    if wanted.expression or member.sent_expression:
        member.sent_expression = True
        if known is None or known.expression != wanted.expression:
            request.subscribed_topic_regex = wanted.expression or ""
    if known is None or member.owes_acknowledgement:
        request.topic_partitions = _owned(member)
        member.owes_acknowledgement, member.acknowledged = False, True
    # Sent always: a coordinator that just loaded the group knows no offers, and must not assume that none exist.
    request.offered_assignors = offers(member)
    request.computed, member.computed = member.computed, None
    request.asks_anew, member.asks_anew = member.asks_anew, None
    member.known_subscription = wanted
    return request


def _owned(member: ConsumerState) -> list[TopicPartitions]:
    """Return all partitions of the application, even those it has just been given: no one else may get them."""
    numbers = defaultdict[UUID, list[int]](list)
    for topic, number in sorted(member.owned):
        numbers[member.ids[topic]].append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=some) for topic_id, some in numbers.items()]
