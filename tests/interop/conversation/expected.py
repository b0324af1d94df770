"""Where Kohort answers otherwise than Apache Kafka on purpose, and why. docs/interop.md tells the same to users."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.interop.conversation.play import Difference


@dataclass(frozen=True, slots=True)
class Expected:
    """Differences of one kind: scene, exchange and field may have `*` and `?`."""

    why: str
    scene: str
    exchange: str = "*"
    field: str = "*"

    def is_about(self, scene: str) -> bool:
        """Whether it may occur in that scene."""
        return fnmatchcase(scene, self.scene)

    def covers(self, found: Difference) -> bool:
        """Whether it is this one."""
        return (
            fnmatchcase(found.scene, self.scene)
            and fnmatchcase(found.exchange, self.exchange)
            and fnmatchcase(found.field, self.field)
        )


_UNREADABLE = """\
A subscription that cannot be read is refused (INCONSISTENT_GROUP_PROTOCOL): whoever leads would fail on it. Kafka takes
it, and for some bytes never answers the join (KAFKA-20570)."""
_NO_GHOSTS = "A join that is refused leaves nothing behind; Kafka keeps an empty group until it cleans up."
_SUPERSEDED = """\
A join or sync that the same member repeats elsewhere is answered with REBALANCE_IN_PROGRESS when the new one comes;
Kafka never answers it."""

EXPECTED: tuple[Expected, ...] = (
    Expected(_UNREADABLE, "malformed-subscriptions"),
    Expected(_NO_GHOSTS, "bad-joins", "no protocols and an unknown member", "error_code"),
    Expected(_NO_GHOSTS, "refused-joins-leave-no-group", "* after a refused join"),
    Expected(_SUPERSEDED, "the-same-request-twice", "b's first *"),
    Expected(
        "A dynamic member's id with an instance id is unknown; Kafka fails with an internal error.",
        "an-id-of-another-kind",
        "a dynamic id used with an instance id",
    ),
    Expected(
        "Without offsets and members a simple consumer's group is forgotten at once; Kafka's stays until it cleans up.",
        "offset-delete",
        "is the group there",
    ),
)
