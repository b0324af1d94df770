"""What an error of the coordinator does to a member, whatever it answered."""

from kohort.errors import ErrorCode, KafkaError
from kohort.member.classic.standing import Standing
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase


def refused(member: Standing, code: ErrorCode) -> None:
    """Join anew, look for the coordinator, wait a while, or end: as the code says."""
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
            member.heartbeat_at = member.now  # the session may be nearly over when the next one is found
            member.link.back_off(member.now)
        case _ if code.retriable:
            member.link.back_off(member.now)
        case _:
            member.fail(KafkaError(code))
