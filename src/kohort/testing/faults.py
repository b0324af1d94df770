"""Faults on the brokers of a kit: rules with their counts, and what they do to one request.

A request hits a rule once, however many of its parts match. The first rule that was added decides; a rule that only
observes, delays or holds lets later ones decide, too.

Everything here belongs to the event loop of the brokers. `Faults.plan` changes nothing but the counts.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.testing.hits import Hits
from kohort.testing.parts import Entity, Path, Shape, mirrored, names_all, parts
from kohort.testing.rules import AFTER_WORK, Close, Cut, Delay, Drop, Duplicate, Fail, Hold, Observe, Rule, Sender, When
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey


class LiveRule:
    """A rule with its counts."""

    def __init__(self, rule: Rule, owner: "FaultSet") -> None:
        self.rule = rule
        self.owner = owner
        self.hits = 0
        self._matched = 0

    @property
    def left(self) -> int:
        """Number of requests that may still be affected; -1 for all."""
        return -1 if self.rule.count < 0 else max(0, self.rule.count - self.hits)

    def hit(self) -> bool:
        """Count a request that matches; return whether it is affected."""
        if not self.left or self.owner.removed:
            return False
        self._matched += 1
        if self._matched < self.rule.nth:
            return False
        self.hits += 1
        self.owner.counted.add()
        return True


class FaultSet:
    """Rules that were added together. A set that is spent stays until it is removed."""

    def __init__(self, number: int, rules: Sequence[Rule]) -> None:
        self.id = number
        self.live = [LiveRule(rule, self) for rule in rules]
        self.removed = False
        self.counted = Hits(lambda: str(self))
        self.releases = 0
        """Number of releases so far."""
        self._held: list[Callable[[], None]] = []

    @property
    def rules(self) -> list[Rule]:
        """The rules, as they were added."""
        return [live.rule for live in self.live]

    @property
    def hits(self) -> int:
        """Number of requests that each of the rules has affected, summed."""
        return self.counted.count

    @property
    def left(self) -> int:
        """Number of requests that may still be affected; -1 if that is not limited."""
        left = [live.left for live in self.live]
        return -1 if -1 in left else sum(left)

    @property
    def held(self) -> int:
        """Number of requests and answers that are held."""
        return len(self._held)

    async def wait(self, hits: int = 1, timeout_s: float = 30.0) -> int:
        """Wait until there are that many hits; return their number.

        Raise TimeoutError, which says how many there are, or KohortError if the set is removed before.
        """
        return await self.counted.wait(hits, timeout_s)

    def remove(self) -> None:
        """Affect no more requests, and release what is held."""
        self.removed = True
        self.release()
        self.counted.end()

    def hold(self, resume: Callable[[], None], releases: int) -> None:
        """Call `resume` at the first release of the set after the first `releases`, which may have happened."""
        if self.removed or self.releases > releases:
            resume()
        else:
            self._held.append(resume)

    def release(self) -> None:
        """Let all requests that were hit so far go on, also if their work is not done yet."""
        self.releases += 1
        held, self._held = self._held, []
        for resume in held:
            resume()

    def __str__(self) -> str:
        return "; ".join(str(live.rule) for live in self.live)


class Faults:
    """All faults of a kit, in the order in which they were added."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._sets: dict[int, FaultSet] = {}

    def __iter__(self) -> Iterator[FaultSet]:
        return iter(self._sets.values())

    def add(self, rules: Sequence[Rule]) -> FaultSet:
        """Add rules."""
        made = FaultSet(next(self._numbers), rules)
        self._sets[made.id] = made
        return made

    def get(self, number: int) -> FaultSet | None:
        """Return the set with that ID, unless it was removed."""
        return self._sets.get(number)

    def remove(self, number: int) -> bool:
        """Remove a set, and release what it holds; return whether there was one."""
        found = self._sets.pop(number, None)
        if found is None:
            return False
        found.remove()
        return True

    def clear(self) -> int:
        """Remove all sets, and return their number."""
        numbers = list(self._sets)
        for number in numbers:
            self.remove(number)
        return len(numbers)

    @property
    def any(self) -> bool:
        """Whether there are faults at all."""
        return bool(self._sets)

    def plan(self, sender: Sender, request: Message, shape: Shape, name_of: "NameOf") -> "Plan | None":
        """Return what happens to a request; None if no rule affects it. Counts the hits."""
        plan = Plan(sender, request, shape, name_of)
        for live in [live for each in self for live in each.live]:
            if live.left and live.rule.selects(sender):
                plan.consider(live)
        return plan if plan.affects else None


NameOf = Callable[[UUID], str | None]
"""Returns the name of a topic by its ID; None if there is no such topic."""

_Ending = Drop | Duplicate | Close | Cut
Stay = tuple[Delay | Hold, FaultSet, int]
"""How long a request or its answer is kept, by which faults, and how often these were released before."""


class Plan:
    """What happens to one request."""

    def __init__(self, sender: Sender, request: Message, shape: Shape, name_of: NameOf) -> None:
        self.sender = sender
        self.request = request
        self.shape = shape
        self._name_of = name_of
        self.hits: list[LiveRule] = []
        """The rules that affect the request, so far."""
        self.stays: list[Stay] = []
        """How long the request and its answer are kept."""
        self.whole: Fail | None = None
        """The error for the request as a whole."""
        self.failed: dict[Path, Fail] = {}
        """The errors of parts, all of them at the same depth."""
        self.depth = 0
        self.ending: _Ending | None = None
        self._later: list[LiveRule] = []
        """Rules that can only be compared with the parts of the response."""

    @property
    def affects(self) -> bool:
        """Whether anything may happen to the request."""
        return bool(self.hits or self._later)

    @property
    def fails(self) -> bool:
        """Whether the request fails, as a whole or in parts."""
        return self.whole is not None or bool(self.failed)

    def error_of(self, path: Path) -> ErrorCode | None:
        """Return the error with which a part fails, or None."""
        fail = self.failed.get(path)
        return None if fail is None else fail.error

    def does_work(self, fail: Fail) -> bool:
        """Return whether the broker does the work before it answers that error."""
        if fail.when is None:
            return fail.error in AFTER_WORK.get(ApiKey(self.sender.key), ())
        return fail.when is When.AFTER

    def consider(self, live: LiveRule) -> None:
        """Apply a rule if it matches."""
        action = live.rule.action
        match action:
            case Fail():
                if self.whole is None and self.ending is None:
                    self._consider_error(live, action)
            case Observe() | Delay() | Hold():
                if self._matches(live.rule) and self._hit(live) and not isinstance(action, Observe):
                    self.stays.append((action, live.owner, live.owner.releases))
            case Drop() | Duplicate() | Close() | Cut():
                if not self.fails and self.ending is None and self._matches(live.rule) and self._hit(live):
                    self.ending = action
            case _:
                assert_never(action)

    def consider_response(self, response: Message) -> None:
        """Apply the rules that select parts of which only the response tells."""
        if not self._later or self.fails:
            return
        shape = mirrored(self.shape)
        for live in self._later:
            action = live.rule.action
            assert isinstance(action, Fail)
            for depth in shape.depths if not self.failed else (self.depth,):
                found = self._found(live.rule, shape, depth, response)
                if found and self._hit(live):
                    self.depth = depth
                    self.failed |= dict.fromkeys(found, action)
                    break
        self._later = []
        self.request, self.shape = response, shape

    def _consider_error(self, live: LiveRule, action: Fail) -> None:
        rule, shape = live.rule, self.shape
        if shape.whole and (rule.top_level or shape.whole_first) and self._whole_matches(rule):
            if not self.failed and self._hit(live):
                self.whole = action
            return
        if rule.top_level:
            return
        for depth in shape.depths:
            if self.failed and depth != self.depth:
                continue
            if names_all(shape, depth, self.request):
                self._later.append(live)
                return
            found = self._found(rule, shape, depth, self.request)
            if found:
                if self._hit(live):
                    self.depth = depth
                    self.failed |= dict.fromkeys(found, action)
                return

    def _found(self, rule: Rule, shape: Shape, depth: int, message: Message) -> list[Path]:
        return [
            path
            for path, entity in parts(shape, depth, message)
            if path not in self.failed and rule.matches(self._named(entity))
        ]

    def _whole_matches(self, rule: Rule) -> bool:
        return rule.matches(self.shape.base)

    def _matches(self, rule: Rule) -> bool:
        return self._whole_matches(rule) or any(
            rule.matches(self._named(entity))
            for depth in self.shape.depths
            if not names_all(self.shape, depth, self.request)
            for _, entity in parts(self.shape, depth, self.request)
        )

    def _named(self, entity: Entity) -> Entity:
        if entity.topic is None and entity.topic_id is not None:
            return replace(entity, topic=self._name_of(entity.topic_id))
        return entity

    def _hit(self, live: LiveRule) -> bool:
        if live.hit():
            self.hits.append(live)
            return True
        return False
