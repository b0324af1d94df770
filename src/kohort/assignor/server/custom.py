"""User-defined server-side assignors: a class with `name` and `assign` becomes a plan with validated targets.

The coordinator calls `assign` between two requests, so it should take milliseconds and must not
block.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from kohort.assignor.server.api import MemberShape, Plan, ServerAssignor, Target, TopicShape, why_nothing
from kohort.assignor.server.checking import check_targets
from kohort.errors import AssignorError, ConfigError
from kohort.model import UUID


@dataclass(frozen=True, slots=True)
class MemberView(MemberShape):
    """Facts about a member that a user-defined assignor receives."""

    target: Mapping[UUID, frozenset[int]] = field(default_factory=dict)
    """Present target of the member. Assignors that keep it avoid moves."""


class SimpleAssignor(Protocol):
    """Interface that a user implements. The class is instantiated once, without arguments."""

    @property
    def name(self) -> str:
        """Name that members and groups specify."""
        ...

    def assign(
        self, members: Mapping[str, MemberView], topics: Mapping[UUID, TopicShape]
    ) -> Mapping[str, Mapping[UUID, Collection[int]]]:
        """Assign every partition of `topics` to one of the `members` that subscribe to it.

        `members` excludes drained members; `topics` contains the topics to which at least one of
        them subscribes.
        """
        ...


@dataclass(frozen=True, slots=True)
class CustomAssignor:
    """A user-defined assignor as a `ServerAssignor`."""

    own: SimpleAssignor

    @property
    def name(self) -> str:
        """See `ServerAssignor.name`."""
        return self.own.name

    def plan(self) -> Plan:
        """See `ServerAssignor.plan`."""
        return CustomPlan(self.own)


class CustomPlan:
    """See `Plan`. After any change, the user's code computes the whole assignment again."""

    def __init__(self, own: SimpleAssignor) -> None:
        self._own = own
        self._topics: dict[UUID, TopicShape] = {}
        self._members: dict[str, MemberShape] = {}
        self._targets: dict[str, Mapping[UUID, frozenset[int]]] = {}
        self._changed = False

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """See `Plan.set_topic`."""
        self._topics[topic_id] = topic
        self._changed = True

    def remove_topic(self, topic_id: UUID) -> None:
        """See `Plan.remove_topic`."""
        self._topics.pop(topic_id, None)
        self._changed = True

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """See `Plan.set_member`."""
        self._members[member_id] = member
        self._changed = True

    def remove_member(self, member_id: str) -> None:
        """See `Plan.remove_member`."""
        self._members.pop(member_id, None)
        self._targets.pop(member_id, None)
        self._changed = True

    def rename_member(self, old: str, new: str) -> None:
        """See `Plan.rename_member`. A new name moves no partition, so the user's code is not called."""
        self.remove_member(new)
        if old not in self._members:
            return
        self._members[new] = self._members.pop(old)
        if old in self._targets:
            self._targets[new] = self._targets.pop(old)

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`."""
        self._targets = {
            member_id: {topic_id: frozenset(numbers) for topic_id, numbers in target.items()}
            for member_id, target in targets.items()
        }
        self._changed = True

    def update(self) -> Mapping[str, Target]:
        """See `Plan.update`."""
        if not self._changed:
            return {}
        targets = self._compute()
        self._changed = False
        before, self._targets = self._targets, targets
        return {member_id: target for member_id, target in targets.items() if before.get(member_id) != target}

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        member = self._members[member_id]
        if member.drained or self._topics.keys().isdisjoint(member.topics):
            return why_nothing(member)
        return (
            f"{sum(map(len, self._targets.get(member_id, {}).values()))} partitions, by the assignor {self._own.name}"
        )

    def _compute(self) -> dict[str, Mapping[UUID, frozenset[int]]]:
        members = {
            member_id: MemberView(
                member.topics,
                member.rack,
                member.instance_id,
                member.weight,
                target=self._targets.get(member_id, {}),
            )
            for member_id, member in self._members.items()
            if not member.drained
        }
        asked = frozenset[UUID]().union(*(member.topics for member in members.values()))
        topics = {topic_id: topic for topic_id, topic in self._topics.items() if topic_id in asked}
        try:
            return check_targets(self._own.assign(members, topics), self._members, topics)
        except AssignorError as problem:
            raise AssignorError(f"The assignor {self._own.name!r} was rejected: {problem}.") from problem
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"
            raise AssignorError(f"The assignor {self._own.name!r} failed with {said}.") from problem


def load(name: str) -> ServerAssignor:
    """Load a user-defined assignor from `package.module:Class` or `package.module.Class`. Raises ConfigError."""
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    try:
        made = getattr(import_module(module), attribute)()
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise ConfigError(f"The server assignor {name!r} cannot be loaded: {said}.") from problem
    if not (isinstance(getattr(made, "name", None), str) and made.name):
        raise ConfigError(f"The server assignor {name!r} has no name: give its class one, such as name = 'mine'.")
    if callable(getattr(made, "plan", None)):
        ready: ServerAssignor = made
        return ready
    if not callable(getattr(made, "assign", None)):
        raise ConfigError(f"The server assignor {name!r} needs a method assign(members, topics), or plan().")
    return CustomAssignor(made)
