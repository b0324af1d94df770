"""The group: members join, leave and are killed in an order that a seed gives."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.mixed.kinds import Choices, Kind, Place
from tests.interop.mixed.login import Login
from tests.interop.mixed.member import Member, now_ms
from tests.interop.mixed.view import GroupWatch
from tests.interop.process import until

SESSION_MS = 6_000
"""The least that brokers allow: how long the group waits for one that was killed."""

SETTLED_S = 60.0
"""Far more than a rebalance takes; a JVM's start on a busy machine is most of it."""

_MOST = 8
_LEAST = 2
_KILLED = (0, 143, -15)
"""The exit codes of a process that took SIGTERM as a request: a JVM has one of its own."""


@dataclass
class MixedGroup:
    """Members of many kinds in one group of one topic."""

    bootstrap: str
    group: str
    topic: str
    kinds: Sequence[Kind]
    directory: Path
    rng: random.Random
    kills: bool
    logins: Mapping[str, Login] = field(default_factory=dict)
    """By kind, if the broker is secured."""
    lives: list[Member] = field(default_factory=list)
    """All that ever were."""
    live: list[Member] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    _leaving: list[Member] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._watch = GroupWatch(self.bootstrap, self.group)

    def everybody_joins(self, strategy: str) -> None:
        """One of each kind, in random order."""
        for kind in self.rng.sample(self.kinds, len(self.kinds)):
            self._join(kind, strategy)
            time.sleep(self.rng.uniform(0.0, 0.5))

    def churn(self, strategy: str, seconds: float) -> None:
        """Take random steps for that time, often before the group has settled after the previous step."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step(strategy)
            if self.rng.random() < 0.25:
                self.settle()
            time.sleep(self.rng.uniform(0.2, 2.0))
            self._look()

    def come_back(self, strategy: str) -> None:
        """Each kind that has no member now gets one."""
        present = {member.kind.name for member in self.live}
        for kind in self.kinds:
            if kind.name not in present:
                self._join(kind, strategy)

    def settle(self) -> None:
        """Wait until the group is Stable with exactly its members, each with the partitions that it reports."""

        def settled() -> bool:
            self._look()
            return self._is_settled() or bool(self.problems)

        try:
            until(SETTLED_S, "the group is Stable with everybody in it", settled)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from None

    def everybody_leaves(self) -> None:
        """The group is Empty afterwards."""
        for member in self.live:
            member.leave()
        self._leaving += self.live
        self.live = []
        self._wait_for_leavers()

    def end(self) -> None:
        """Nothing is left running."""
        for member in (*self.live, *self._leaving):
            member.kill()

    def state(self) -> str:
        """As the broker has it."""
        return self._watch.look().state

    def describe(self) -> str:
        """Both sides' view, for a message."""
        view = self._watch.look()
        theirs = [f"  {name}: {sorted(number for _, number in owned)}" for name, owned in view.owned.items()]
        ours = [f"  {member.name}: {sorted(member.owned)}" for member in self.live]
        steps = f"the last steps: {', '.join(self.steps[-10:])}"
        return "\n".join([f"{view.state}, the broker says:", *theirs, "the members say:", *ours, steps])

    def committed(self) -> dict[int, int]:
        """By partition, as the broker has it."""
        return {number: offset for (topic, number), offset in self._watch.committed().items() if topic == self.topic}

    def _step(self, strategy: str) -> None:
        if len(self.live) <= _LEAST:
            self._join(self.rng.choice(self.kinds), strategy)
            return
        chance = self.rng.random()
        member = self.rng.choice(self.live)
        if self.kills and chance < 0.12:
            self._kill(member)
        elif chance < 0.5 or len(self.live) >= _MOST:
            self._leave(member)
        else:
            self._join(self._scarce(), strategy)

    def _note(self, step: str) -> None:
        self.steps.append(f"{now_ms()} {step}")

    def _scarce(self) -> Kind:
        """Return one of the rarest kinds."""
        count = {kind.name: sum(member.kind is kind for member in self.live) for kind in self.kinds}
        least = min(count.values())
        return self.rng.choice([kind for kind in self.kinds if count[kind.name] == least])

    def _join(self, kind: Kind, strategy: str, choices: Choices | None = None) -> None:
        name = f"{kind.name}-{next(self._numbers)}"
        chosen = self._choices(name) if choices is None else choices
        login = self.logins.get(kind.name)
        bootstrap = login.bootstrap if login else self.bootstrap
        place = Place(bootstrap, self.group, self.topic, strategy, name, SESSION_MS, chosen, login)
        member = Member(kind, place, self.directory)
        self._note(f"join {name}")
        self.live.append(member)
        self.lives.append(member)

    def _choices(self, name: str) -> Choices:
        """Return the special settings of the member with that name."""
        return Choices()

    def _leave(self, member: Member) -> None:
        self._note(f"leave {member.name}")
        member.leave()
        self.live.remove(member)
        self._leaving.append(member)

    def _kill(self, member: Member) -> None:
        self._note(f"kill {member.name}")
        member.kill()
        self.live.remove(member)

    def _look(self) -> None:
        """Collect those that left; notice one that ended by itself."""
        for member in [member for member in self._leaving if member.ended]:
            self._leaving.remove(member)
            member.gone(10.0)
            if member.code not in _KILLED:
                self.problems.append(f"{member.name} left with exit code {member.code}\n{member.errors}")
        for member in [member for member in self.live if member.ended]:
            self.live.remove(member)
            member.gone(10.0)
            self.problems.append(f"{member.name} ended by itself with exit code {member.code}\n{member.errors}")

    def _wait_for_leavers(self) -> None:
        def left() -> bool:
            self._look()
            return not self._leaving

        until(SETTLED_S, "members that were told to leave have ended", left)

    def _is_settled(self) -> bool:
        time.sleep(0.2)  # a look is a request: a busy broker is not to be asked all the time
        view = self._watch.look()
        said = {member.name: frozenset((self.topic, number) for number in member.owned) for member in self.live}
        return view.state == "STABLE" and view.owned == said
