"""Reactions of a member to errors of the coordinator, independent of the request."""

from kohort.errors import ErrorCode, KafkaError
from kohort.member.classic.state import ClassicState
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase


def refused(member: ClassicState, code: ErrorCode) -> None:
    """Rejoin, look up the coordinator, back off or fail, depending on the code."""
    match code:
        case ErrorCode.REBALANCE_IN_PROGRESS if member.phase is Phase.ASSIGNING:
            member.prepare("another rebalance began before the assignment was computed")
        case ErrorCode.REBALANCE_IN_PROGRESS if member.phase is Phase.STABLE:
            member.rejoin = "the group is rebalancing"
        case ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        case ErrorCode.ILLEGAL_GENERATION:
            member.lose_generation("the coordinator is at another generation")
        case ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""
            member.lose_generation("the coordinator does not know the member")
        case _ if code in COORDINATOR_GONE:
            member.link.known = False
            member.heartbeat_at = member.now  # the session may almost be over when the next coordinator is found
            member.link.back_off(member.now)
        case _ if code.retriable:
            member.link.back_off(member.now)
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member.fail(KafkaError(code, f"{member.config.group_id}: {code.sentence}"))
        case _:
            member.fail(KafkaError(code))
