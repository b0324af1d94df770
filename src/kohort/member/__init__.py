"""The client side of a group, without I/O or a clock: a member's requests, and its application's callbacks."""

from kohort.member.actions import Actions, CommitSettled, Send
from kohort.member.any_member import AnyMember
from kohort.member.callbacks import CallbackKind
from kohort.member.classic import ClassicMember
from kohort.member.commits import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ATTEMPTS, Commit, commit_request
from kohort.member.config import AnyConfig, ConsumerMemberConfig, MemberConfig
from kohort.member.consumer import ConsumerMember
from kohort.member.events import (
    CallbackDone,
    CommitRequested,
    CoordinatorFound,
    CoordinatorUnavailable,
    Event,
    Leave,
    MemberTimer,
    MetadataChanged,
    PollEnded,
    PollStarted,
    Rejoin,
    RequestFailed,
    Responded,
    Subscribe,
    TimerFired,
    Weigh,
)
from kohort.member.offsets import OffsetAndMetadata
from kohort.member.phase import Phase

__all__ = [
    "UNKNOWN_TOPIC",
    "UNKNOWN_TOPIC_ATTEMPTS",
    "Actions",
    "AnyConfig",
    "AnyMember",
    "CallbackDone",
    "CallbackKind",
    "ClassicMember",
    "Commit",
    "CommitRequested",
    "CommitSettled",
    "ConsumerMember",
    "ConsumerMemberConfig",
    "CoordinatorFound",
    "CoordinatorUnavailable",
    "Event",
    "Leave",
    "MemberConfig",
    "MemberTimer",
    "MetadataChanged",
    "OffsetAndMetadata",
    "Phase",
    "PollEnded",
    "PollStarted",
    "Rejoin",
    "RequestFailed",
    "Responded",
    "Send",
    "Subscribe",
    "TimerFired",
    "Weigh",
    "commit_request",
]
