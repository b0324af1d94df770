"""Group membership: the driver of a member's state machine and its link to the coordinator."""

from kohort.client.membership.committed import (
    ask_committed,
    commit_outside,
    committed_offsets,
    committed_positions,
    positions_of,
)
from kohort.client.membership.driver import MemberDriver
from kohort.client.membership.group_metrics import GroupMetrics
from kohort.client.membership.join_notice import join_log
from kohort.client.membership.membership import Membership, member_config

__all__ = [
    "GroupMetrics",
    "MemberDriver",
    "Membership",
    "ask_committed",
    "commit_outside",
    "committed_offsets",
    "committed_positions",
    "join_log",
    "member_config",
    "positions_of",
]
