"""Reactions of a consumer group's member to errors of the coordinator, independent of the request."""

from kohort.errors import ErrorCode, KafkaError
from kohort.member.consumer.state import ConsumerState
from kohort.member.link import COORDINATOR_GONE

_TOO_OLD = (
    "the broker does not support the consumer group protocol (KIP-848), or not the version that the subscription "
    "needs: upgrade it, or set group_protocol=classic"
)


def refused(member: ConsumerState, code: ErrorCode, message: str | None = None) -> None:
    """Rejoin, look up the coordinator, back off or fail, depending on the code. `message` is the broker's."""
    match code:
        case ErrorCode.FENCED_MEMBER_EPOCH:
            member.fence("the coordinator is at another epoch")
        case ErrorCode.UNKNOWN_MEMBER_ID:
            member.fence("the coordinator does not know the member")
        case ErrorCode.GROUP_ID_NOT_FOUND if member.generation is not None:
            member.fence("the group was deleted")
        case _ if code in COORDINATOR_GONE:
            member.link.known = False
            member.heartbeat_at = member.now  # the session may almost be over when the next coordinator is found
            member.link.back_off(member.now)
        case _ if code.retriable:
            member.link.back_off(member.now)
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED if member.has_joined:
            # As in Java's client: the member keeps trying, so that it goes on when it has the right again.
            if not member.lacks_topic_right:
                member.lacks_topic_right = True
                member.actions.warning = f"its heartbeats are rejected until that changes: {message or code.sentence}"
            member.link.back_off(member.now)
        case ErrorCode.UNSUPPORTED_VERSION:
            member.fail(KafkaError(code, message or _TOO_OLD))
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member.fail(KafkaError(code, f"{member.config.group_id}: {message or code.sentence}"))
        case _:
            member.fail(KafkaError(code, message))
