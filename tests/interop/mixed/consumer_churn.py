"""A consumer group (KIP-848) that never settles: with regular expressions, static members, new partitions."""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.mixed.churn import SETTLED_S, MixedGroup
from tests.interop.mixed.kinds import Choices
from tests.interop.mixed.member import Member
from tests.interop.process import until

_MOST_PARTITIONS = 20


@dataclass
class ConsumerGroupChurn(MixedGroup):
    """Some of the members subscribe by expression, some are static and restart."""

    partitions: int = 12

    def _choices(self, name: str) -> Choices:
        instance = f"instance-{name}" if self.rng.random() < 0.3 else ""
        return Choices(protocol="consumer", pattern=self.rng.random() < 0.3, instance=instance)

    def _step(self, strategy: str) -> None:
        chance = self.rng.random()
        static = [member for member in self.live if member.place.choices.instance]
        if chance < 0.1 and self.partitions < _MOST_PARTITIONS:
            self._widen()
        elif chance < 0.3 and static:
            self._restart(self.rng.choice(static), strategy)
        else:
            super()._step(strategy)

    def _widen(self) -> None:
        self.partitions += 2
        self._note(f"widen to {self.partitions}")
        self._watch.widen(self.topic, self.partitions)

    def _kill(self, member: Member) -> None:
        # An instance id is free when its member's session has ended, and no other waits for that: a static one leaves.
        if member.place.choices.instance:
            self._leave(member)
        else:
            super()._kill(member)

    def _restart(self, member: Member, strategy: str) -> None:
        """A static member leaves, and returns with its instance id before its session ends."""
        self._leave(member)
        until(SETTLED_S, f"{member.name} has ended", lambda: member.ended)
        self._join(member.kind, strategy, member.place.choices)
