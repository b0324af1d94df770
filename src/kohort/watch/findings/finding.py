"""A finding: what happens in a group and what to do about it. `KINDS` has all of them, and docs/watch-findings.md
explains each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from kohort.printable import printable


class Severity(IntEnum):
    """How much a finding matters; `label` is its name in JSON."""

    INFO = 0
    """The group works; a change would make it better."""
    WARNING = 1
    """The group loses time."""
    CRITICAL = 2
    """Records are not processed, or were lost."""

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of a finding."""

    severity: Severity
    title: str
    hurts: bool = False
    """Whether the group is marked as one that hurts now."""


INFO, WARNING, CRITICAL = Severity

KINDS: Mapping[str, Kind] = {
    "offset-out-of-range": Kind(CRITICAL, "Records were deleted before they were read", hurts=True),
    "offset-beyond-end": Kind(CRITICAL, "The committed offset is beyond the end of the log", hurts=True),
    "stuck-partition": Kind(CRITICAL, "A partition stands still", hurts=True),
    "nothing-committed": Kind(CRITICAL, "Nothing is committed although records arrive", hurts=True),
    "dark-partition": Kind(CRITICAL, "A partition has no reader", hurts=True),
    "waits-for-transaction": Kind(CRITICAL, "Members wait for an open transaction", hurts=True),
    "group-emptied": Kind(WARNING, "The group has no members, and records wait", hurts=True),
    "thrashing": Kind(WARNING, "The group does little else than rebalance", hurts=True),
    "flapping-member": Kind(WARNING, "A member leaves and returns again and again", hurts=True),
    "poll-too-slow": Kind(WARNING, "A member does not poll in time", hurts=True),
    "lag-grows": Kind(WARNING, "Records arrive faster than the group processes them", hurts=True),
    "slow-revoker": Kind(WARNING, "One member keeps the others waiting", hurts=True),
    "member-refused": Kind(WARNING, "A member cannot join the group"),
    "needless-moves": Kind(WARNING, "Partitions move between members that stay"),
    "assignors-differ": Kind(WARNING, "Members do not agree on an assignor"),
    "static-membership": Kind(INFO, "Static membership would have saved rebalances"),
    "rolling-restart": Kind(INFO, "The members were restarted one after the other"),
    "eager-assignor": Kind(INFO, "Partitions stopped although they did not move"),
    "heartbeats-out-of-step": Kind(INFO, "The members learn of a rebalance one by one"),
    "classic-protocol": Kind(INFO, "The consumer protocol would spare the members the wait for each other"),
    "idle-members": Kind(INFO, "Some members have no partitions"),
    "unbalanced": Kind(INFO, "Some members have far more partitions than others"),
    "subscriptions-differ": Kind(INFO, "Members subscribe to different topics"),
    "clients-differ": Kind(INFO, "Members run different versions of the client"),
}
"""Kinds by code, the ones that matter most first."""

DOCUMENT = "docs/watch-findings.md"
MOST_MEMBERS = 50
"""Maximum number of members that a finding lists."""
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding about one group."""

    code: str
    """A key of `KINDS`."""
    text: str
    """What happened, with figures."""
    advice: str
    """What to do, with the settings to change."""
    member_ids: tuple[str, ...] = ()
    """Members that it is about, at most `MOST_MEMBERS`; they may have left."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Figures behind the text, for `json.dumps`."""
    over: bool = False
    """Whether it is a while ago, so that it no longer marks the group."""

    @property
    def severity(self) -> Severity:
        return KINDS[self.code].severity

    @property
    def title(self) -> str:
        return KINDS[self.code].title

    @property
    def hurts(self) -> bool:
        """Whether it marks the group as one that hurts now."""
        return KINDS[self.code].hurts and not self.over

    @property
    def doc(self) -> str:
        """Place in the documentation, from the root of the repository."""
        return f"{DOCUMENT}#{self.code}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding for `json.dumps`."""
        return {
            "code": self.code,
            "severity": self.severity.label,
            "title": self.title,
            "text": self.text,
            "advice": self.advice,
            "member_ids": list(self.member_ids),
            "doc": self.doc,
            "evidence": dict(self.evidence),
        }


def shown(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name that a stranger chose, short and without characters that a terminal would obey."""
    short = name if len(name) <= longest else f"{name[: longest - 1]}…"
    return printable(short)


def first_ids(member_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first members without repetition, for `Finding.member_ids`."""
    return tuple(dict.fromkeys(member_ids))[:MOST_MEMBERS]


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number with its noun, such as `1 rebalance` or `2 rebalances`."""
    return f"1 {what}" if number == 1 else f"{number:,} {many or what + 's'}"


def duration(seconds: float) -> str:
    """Return a duration for readers."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
