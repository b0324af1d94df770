"""A record of the journal, and its JSON form. Times are milliseconds since the epoch, by the broker's clock.

An observer outside the broker writes the same records and omits facts that it cannot know, so
nearly every field may be None. Readers skip unknown keys, so that older readers can read newer
records.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from kohort.errors import KohortError
from kohort.group_events import Cause, MemberFacts, Refused, Weighed
from kohort.model import Millis, TopicPartition
from kohort.recorder.held_offsets import HeldOffsets

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made", bound="DataclassInstance")

JOURNAL_TOPIC = "__kohort_rebalances"
"""Topic that holds the journal.

The key is the group ID, the value is `RebalanceRecord.to_json`. There is one record per rebalance,
oldest first within a group.
"""


class MalformedRecord(KohortError):
    """The bytes are not a record of the journal."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One partition whose owner changed or that became dark.

    - `owner` and `previous_owner` differ: the partition moved. - They are equal: the owner stayed,
    but stopped in between, as every member of an eager group does. - `previous_owner` is None: no
    earlier owner is known. - `owner` is None: the partition has no owner. A cooperative assignor
    took it from its owner, and the follow-up
      rebalance reassigns it.
    """

    topic: str
    partition: int
    previous_owner: str | None = None
    """Member ID of the earlier owner."""
    owner: str | None = None
    """Member ID of the new owner."""
    revoked_at: Millis | None = None
    """Time by which the previous owner is known to have stopped, in milliseconds.

    This is the time at which its JoinGroup arrived without the partition (with none, if the group
    is eager), or at which it was removed from the group. Of a member that disappeared without
    leaving, it is its last sign of life: the end of its connection, or its last heartbeat if it
    only fell silent, after which it may have gone on for a while. In a cooperative group, the time
    may lie in an earlier rebalance. For an observer of the log, it is an estimate.
    """
    assigned_at: Millis | None = None
    """Time the assignment that gives the partition to `owner` reached the coordinator."""
    first_read_at: Millis | None = None
    """Time of the owner's first fetch; None if the record was written before it.

    For an observer of the log, it is an estimate between the assignment and the owner's first
    commit; None if nothing is committed within a minute, or if no record waited for the owner.
    """
    dark_error_ms: int | None = None
    """Largest error of `dark_ms` in milliseconds if it is estimated from commits; None if the broker saw the times."""

    @property
    def dark_ms(self) -> int | None:
        """Time for which no member processed the partition, in milliseconds; None if its start or end is unknown."""
        if self.revoked_at is None or self.first_read_at is None:
            return None
        return max(0, self.first_read_at - self.revoked_at)

    @property
    def moved(self) -> bool:
        """Whether the partition moved from one member to another."""
        return self.owner is not None and self.previous_owner is not None and self.owner != self.previous_owner

    def __str__(self) -> str:
        return str(TopicPartition(self.topic, self.partition))


@dataclass(frozen=True, slots=True)
class Trigger:
    """Reason why a rebalance began, or began again before it was complete."""

    cause: str
    """A value of `kohort.group_events.Cause`."""
    member_id: str | None = None
    reason: str | None = None
    """Reason that the member sent (KIP-800)."""


@dataclass(frozen=True, slots=True)
class RefusedMember:
    """A member that the group could not accept."""

    member_id: str
    """Empty if the member had no ID."""
    client_id: str
    client_host: str
    code: str
    """Name of the error code in the response."""
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceRecord:
    """One rebalance of one group, from the first trigger to the assignment and the first reads of the new owners.

    A record with `refused_members` describes no rebalance, but members that could not join the
    group. A record with `held_offsets` describes members that waited for a transaction.
    """

    group_id: str
    generation: int
    """Generation that resulted from the rebalance."""
    started_at: Millis | None
    """Time the group left Stable or Empty."""
    ended_at: Millis
    """Time the assignment arrived."""
    triggers: tuple[Trigger, ...] = ()
    """The first trigger began the rebalance; the others followed before it was complete."""
    protocol: str | None = None
    """Name of the assignor; None for a group that became empty."""
    leader_id: str | None = None
    follow_up_of: int | None = None
    """Generation whose cooperative assignment made this rebalance necessary."""
    before: tuple[MemberFacts, ...] = ()
    """Members of the previous generation.

    After a failover the recorder knows only members that left or kept partitions.
    """
    after: tuple[MemberFacts, ...] = ()
    size: int | None = None
    """Group size after the rebalance, if `before` and `after` list only affected members."""
    gone: tuple[Trigger, ...] = ()
    """Reason for each removal of a member."""
    weighed: tuple[Weighed, ...] = ()
    """Reasons of the broker's assignor for members whose target changed; not all of them in a large group."""
    refused: tuple[Refused, ...] = ()
    """Targets that were refused before one was accepted: an assignor failed, or its target was invalid."""
    partitions: tuple[PartitionChange, ...] = ()
    """Partitions whose owner changed or that became dark. Undisturbed partitions are not listed."""

    polled: bool = False
    """Whether it compares two descriptions of the group, so that it may merge several rebalances."""
    source: str | None = None
    """Origin of the record, where an observer has several: `journal` if a recorder saw the requests; else None."""
    refused_members: tuple[RefusedMember, ...] = ()
    """Members that were refused at `ended_at`. `generation` is 0 in this case, because no generation results."""
    held_offsets: HeldOffsets | None = None
    """Wait for a transaction, as of `ended_at`. `generation` is 0 in this case."""

    @property
    def is_rebalance(self) -> bool:
        """Whether the record describes a rebalance."""
        return not self.refused_members and self.held_offsets is None

    @property
    def members_after(self) -> int:
        """Number of members after the rebalance."""
        return len(self.after) if self.size is None else self.size

    @property
    def wall_ms(self) -> int | None:
        """Duration of the rebalance in milliseconds; None if its start is unknown."""
        return None if self.started_at is None else self.ended_at - self.started_at

    @property
    def cause(self) -> str | None:
        """Cause of the first trigger."""
        return self.triggers[0].cause if self.triggers else None

    @property
    def was_empty(self) -> bool:
        """Whether the group had no members before. Its partitions were not dark: nobody waits for a stopped group."""
        return self.cause == Cause.FIRST_MEMBER.value

    @property
    def dark_times(self) -> list[int]:
        """Times for which partitions were dark, in milliseconds."""
        return [] if self.was_empty else [change.dark_ms for change in self.partitions if change.dark_ms is not None]

    @property
    def came(self) -> tuple[MemberFacts, ...]:
        """Members that were not in the previous generation."""
        known = {member.member_id for member in self.before}
        return tuple(member for member in self.after if member.member_id not in known)

    @property
    def went(self) -> tuple[MemberFacts, ...]:
        """Members that are only in the previous generation."""
        left = {member.member_id for member in self.after}
        return tuple(member for member in self.before if member.member_id not in left)

    @property
    def moved(self) -> tuple[PartitionChange, ...]:
        """Partitions that moved from one member to another."""
        return tuple(change for change in self.partitions if change.moved)

    def members(self) -> Iterator[MemberFacts]:
        """Yield each member of `before` and `after` once."""
        yield from {member.member_id: member for member in (*self.before, *self.after)}.values()

    def to_json(self) -> bytes:
        """Return the value of the journal's record.

        It includes derived figures for readers that do not use this class.
        """
        value = _plain(self)
        for name in ("triggers", "gone", "before", "after", "weighed", "refused", "refused_members"):
            value[name] = [_plain(item) for item in value[name]]
        value["partitions"] = [_of_partition(change) for change in self.partitions]
        if not self.polled:
            del value["polled"]
        if self.source is None:
            del value["source"]
        if self.held_offsets is None:
            del value["held_offsets"]
        else:
            value["held_offsets"] = _plain(self.held_offsets)
        value["wall_ms"] = self.wall_ms
        value["cause"] = self.cause
        value["came"] = [member.member_id for member in self.came]
        value["went"] = [member.member_id for member in self.went]
        value["moved"] = len(self.moved)
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes | str) -> "RebalanceRecord":
        """Parse JSON that `to_json` or an observer wrote. Raises MalformedRecord."""
        try:
            value = json.loads(data)
            nested: dict[str, Any] = {
                "triggers": tuple(_made(Trigger, trigger) for trigger in value.get("triggers") or ()),
                "gone": tuple(_made(Trigger, trigger) for trigger in value.get("gone") or ()),
                "before": tuple(_made(MemberFacts, member) for member in value.get("before") or ()),
                "after": tuple(_made(MemberFacts, member) for member in value.get("after") or ()),
                "refused_members": tuple(_made(RefusedMember, member) for member in value.get("refused_members") or ()),
                "weighed": tuple(_made(Weighed, weighed) for weighed in value.get("weighed") or ()),
                "refused": tuple(_made(Refused, refused) for refused in value.get("refused") or ()),
                "partitions": tuple(_made(PartitionChange, change) for change in value.get("partitions") or ()),
            }
            held = value.pop("held_offsets", None)
            if held is not None:
                partitions = tuple(TopicPartition(str(topic), int(number)) for topic, number in held["partitions"])
                nested["held_offsets"] = _made(HeldOffsets, {**held, "partitions": partitions})
            return _made(cls, {"started_at": None, **value, **nested})
        except (ValueError, TypeError, AttributeError, RecursionError) as problem:
            raise MalformedRecord(f"This is not a record of a rebalance: {problem}.") from problem


def _plain(value: "DataclassInstance") -> dict[str, Any]:
    """Return the fields as a dict.

    `dataclasses.asdict` copies deeply: with thousands of partitions, it blocks the event loop for
    too long.
    """
    return {name: getattr(value, name) for name in type(value).__slots__}  # type: ignore[attr-defined]


def _of_partition(change: PartitionChange) -> dict[str, Any]:
    value = _plain(change) | {"dark_ms": change.dark_ms}
    if change.dark_error_ms is None:
        del value["dark_error_ms"]  # the journal of a broker never has it
    return value


def _made(kind: type[Made], value: Mapping[str, Any]) -> Made:
    made = {}
    for name, types in _types(kind).items():
        if name in value:
            if types and not isinstance(value[name], types):
                raise TypeError(f"{name} is {value[name]!r:.100}")
            made[name] = value[name]
    return kind(**made)


@cache
def _types(kind: type[object]) -> dict[str, tuple[type, ...]]:
    """Return the accepted types of each field with plain types, and an empty tuple for nested fields."""
    plain = {str: (str,), int: (int,), float: (int, float), bool: (bool,), NoneType: (NoneType,)}
    named = {}
    for name, hint in get_type_hints(kind).items():
        parts = [plain.get(part, ()) for part in (get_args(hint) or (hint,))]
        named[name] = tuple(chain.from_iterable(parts)) if all(parts) else ()
    return named
