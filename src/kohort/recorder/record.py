"""What the journal says of one rebalance, and its JSON. Times are milliseconds since the epoch, by the broker's clock.

An observer outside the broker writes the same records with what it cannot know left out, so nearly every field may be
None; unknown keys are skipped, so that older readers read newer records.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from kohort.coordinator.events import MemberFacts, Refused, Weighed
from kohort.errors import KohortError
from kohort.model import Millis, TopicPartition

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made", bound="DataclassInstance")

JOURNAL_TOPIC = "__kohort_rebalances"
"""Key: the group id. Value: `RebalanceRecord.to_json`. One record per rebalance, oldest first within a group."""


class MalformedRecord(KohortError):
    """The bytes are not a record of the journal."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One partition that changed hands or went dark.

    Several shapes: `owner` and `previous_owner` differ: it moved. They are the same: it stayed, but its owner had to
    stop meanwhile, as all do in an eager group. `previous_owner` is None: nobody is known to have had it before.
    `owner` is None: nobody has it now; a cooperative assignor took it from its owner, and the follow-up gives it away.
    """

    topic: str
    partition: int
    previous_owner: str | None = None
    """A member id."""
    owner: str | None = None
    """A member id."""
    revoked_at: Millis | None = None
    """When the previous owner was known to have stopped: when its JoinGroup came without the partition (with none, if
    it is eager), or when it was removed from the group. A crashed member stopped earlier: after its last heartbeat,
    which is at most its session timeout before this. It may lie in an earlier rebalance (cooperative)."""
    assigned_at: Millis | None = None
    """When the assignment that gives it to `owner` reached the coordinator."""
    first_read_at: Millis | None = None
    """When the owner first fetched it; None if it had not by the time the record was written."""

    @property
    def dark_ms(self) -> int | None:
        """How long nobody processed it; None where either end is unknown."""
        if self.revoked_at is None or self.first_read_at is None:
            return None
        return max(0, self.first_read_at - self.revoked_at)

    @property
    def moved(self) -> bool:
        """Whether it went from one member to another."""
        return self.owner is not None and self.previous_owner is not None and self.owner != self.previous_owner

    def __str__(self) -> str:
        return str(TopicPartition(self.topic, self.partition))


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a rebalance began, or began again before it was over."""

    cause: str
    """A value of `kohort.coordinator.events.Cause`."""
    member_id: str | None = None
    reason: str | None = None
    """What the member itself said (KIP-800)."""


@dataclass(frozen=True, slots=True)
class RefusedMember:
    """A member that the group could not take."""

    member_id: str
    """Empty where it got none."""
    client_id: str
    client_host: str
    code: str
    """The name of the error code that it got."""
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceRecord:
    """One rebalance of one group, from the first trigger to the assignment, and the reads that end its darkness.

    Or, with `refused_members`, no rebalance at all, but members that did not get into the group.
    """

    group_id: str
    generation: int
    """The one that it led to."""
    started_at: Millis | None
    """When the group left Stable or Empty."""
    ended_at: Millis
    """When the assignment arrived."""
    triggers: tuple[Trigger, ...] = ()
    """The first began it; others came before it was over."""
    protocol: str | None = None
    """The assignor; None for a group that became empty."""
    leader_id: str | None = None
    follow_up_of: int | None = None
    """The generation whose cooperative assignment made this rebalance necessary."""
    before: tuple[MemberFacts, ...] = ()
    """Members of the generation before. After a failover the recorder knows only those that left or kept something."""
    after: tuple[MemberFacts, ...] = ()
    size: int | None = None
    """How many members there are after it, where `before` and `after` name only those that something happened to."""
    gone: tuple[Trigger, ...] = ()
    """Why each member that was removed went."""
    weighed: tuple[Weighed, ...] = ()
    """What the broker's assignor weighed for members whose target changed, of many only some."""
    refused: tuple[Refused, ...] = ()
    """Targets that did not count before one did: an assignor failed, or its target could not be."""
    partitions: tuple[PartitionChange, ...] = ()
    """Those that changed hands or went dark; whoever kept its partitions and went on is not listed."""

    refused_members: tuple[RefusedMember, ...] = ()
    """Members that were refused at `ended_at`. The generation is 0 then: there is none that it led to."""

    @property
    def is_rebalance(self) -> bool:
        """Whether the record is of a rebalance."""
        return not self.refused_members

    @property
    def members_after(self) -> int:
        """How many members the group has."""
        return len(self.after) if self.size is None else self.size

    @property
    def wall_ms(self) -> int | None:
        """How long the group was rebalancing."""
        return None if self.started_at is None else self.ended_at - self.started_at

    @property
    def cause(self) -> str | None:
        """What began it."""
        return self.triggers[0].cause if self.triggers else None

    @property
    def came(self) -> tuple[MemberFacts, ...]:
        """Members that the generation before did not have."""
        known = {member.member_id for member in self.before}
        return tuple(member for member in self.after if member.member_id not in known)

    @property
    def went(self) -> tuple[MemberFacts, ...]:
        """Members that only the generation before had."""
        left = {member.member_id for member in self.after}
        return tuple(member for member in self.before if member.member_id not in left)

    @property
    def moved(self) -> tuple[PartitionChange, ...]:
        """Partitions that went from one member to another."""
        return tuple(change for change in self.partitions if change.moved)

    def members(self) -> Iterator[MemberFacts]:
        """Everybody that it names, once."""
        yield from {member.member_id: member for member in (*self.before, *self.after)}.values()

    def to_json(self) -> bytes:
        """The value of the journal's record; derived figures are in it for readers that only look at them."""
        value = _plain(self)
        for name in ("triggers", "gone", "before", "after", "weighed", "refused", "refused_members"):
            value[name] = [_plain(one) for one in value[name]]
        value["partitions"] = [_plain(change) | {"dark_ms": change.dark_ms} for change in self.partitions]
        value["wall_ms"] = self.wall_ms
        value["cause"] = self.cause
        value["came"] = [member.member_id for member in self.came]
        value["went"] = [member.member_id for member in self.went]
        value["moved"] = len(self.moved)
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes | str) -> "RebalanceRecord":
        """Read what `to_json` or an observer wrote. Raises MalformedRecord."""
        try:
            value = json.loads(data)
            nested = {
                "triggers": tuple(_made(Trigger, trigger) for trigger in value.get("triggers") or ()),
                "gone": tuple(_made(Trigger, trigger) for trigger in value.get("gone") or ()),
                "before": tuple(_made(MemberFacts, member) for member in value.get("before") or ()),
                "after": tuple(_made(MemberFacts, member) for member in value.get("after") or ()),
                "refused_members": tuple(_made(RefusedMember, one) for one in value.get("refused_members") or ()),
                "weighed": tuple(_made(Weighed, one) for one in value.get("weighed") or ()),
                "refused": tuple(_made(Refused, one) for one in value.get("refused") or ()),
                "partitions": tuple(_made(PartitionChange, change) for change in value.get("partitions") or ()),
            }
            return _made(cls, {"started_at": None, **value, **nested})
        except (ValueError, TypeError, AttributeError, RecursionError) as problem:
            raise MalformedRecord(f"This is no record of a rebalance: {problem}.") from problem


def _plain(value: "DataclassInstance") -> dict[str, Any]:
    """As `dataclasses.asdict`, which copies deeply, is too slow for thousands of partitions on an event loop."""
    return {name: getattr(value, name) for name in type(value).__slots__}  # type: ignore[attr-defined]


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
    """By field, what its value may be where that is plain; nothing where it is made of others."""
    plain = {str: (str,), int: (int,), float: (int, float), bool: (bool,), NoneType: (NoneType,)}
    named = {}
    for name, hint in get_type_hints(kind).items():
        parts = [plain.get(part, ()) for part in (get_args(hint) or (hint,))]
        named[name] = tuple(chain.from_iterable(parts)) if all(parts) else ()
    return named
