"""Check of what every broker receives, answers and stores, by the invariants that the test kit uses for any client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from kohort.sim.violation import Violation
from kohort.testing import Event, GroupChanged, Observer, RecordsAppended
from kohort.testing.invariants import Checks, Fault, Invariant, Limits
from kohort.testing.invariants import Violation as Broken

_OWN = "member-"
"""Start of the client IDs of members; other clients misbehave on purpose."""
_OF_COORDINATORS = RecordsAppended | GroupChanged


class WireChecks:
    """The checks of `kohort.testing` over the events of all brokers of a world.

    `violation` is the first one. The world fails by it only if its own checks, which know more, find nothing.
    """

    def __init__(
        self,
        failed: Callable[[str, BaseException], None],
        now: Callable[[], float],
        *,
        has_records: bool,
        shared_instances: Collection[str] = (),
        groups_of_replaced_topics: Collection[str] = (),
        through_gateways: bool = False,
        could_act: Callable[[str, float], bool] = lambda client_id, since: True,
    ) -> None:
        """Create the checks. `now` returns the time of the world, in seconds.

        Without `has_records`, members commit numbers that they never fetch. In the groups of `shared_instances`, two
        members have one instance ID. In `groups_of_replaced_topics`, two members may have one partition by name.
        `through_gateways`: members may use gateways. `could_act` returns whether the process of that client has run
        since that time, and the network has not held what it sends or gets.
        """
        self.violation: Violation | None = None
        self._failed = failed
        self._now = now
        self._has_records = has_records
        self._shared_instances = shared_instances
        self._groups_of_replaced_topics = groups_of_replaced_topics
        self._through_gateways = through_gateways
        self._could_act = could_act
        self._checks = self._new()

    def observer(self, name: str, owns: Callable[[], bool]) -> Observer:
        """Return the observer of a broker that starts. `owns` returns whether it still owns the log."""

        def observe(event: Event) -> None:
            if owns() or not isinstance(event, _OF_COORDINATORS):
                self._observe(name, event)

        return observe

    def lost(self) -> None:
        """Begin anew: the disk lost records of groups."""
        self._checks = self._new()

    def _new(self) -> Checks:
        allowed = {
            # The network may hold the answer to a heartbeat, while another connection of the client works.
            Invariant.HEARTBEATS: ("*",),
            # It may hold the answer that removes a member, too, for longer than the rebalance timeout.
            Invariant.OWNED_FETCHES: ("*",),
            # A broker whose clock jumps ends sessions early; the world's own checks know its clock.
            Invariant.LIVING_MEMBERS: ("*",),
            # An application whose callback takes longer than the rebalance timeout joins late.
            Invariant.JOINED_REBALANCES: ("*",),
            # The plan made the mistake that this invariant reports.
            Invariant.ONE_INSTANCE: self._shared_instances,
            # A member that knows names only, and another one, may commit in turns. The world's own check knows whose
            # topic was deleted; these know no protocols and no deletions.
            Invariant.FORWARD_COMMITS: self._groups_of_replaced_topics,
        }
        if self._through_gateways:
            # While a JoinGroup waits, a member leaves on another connection. If the gateway cannot reach the broker for
            # it, the LeaveGroup is lost, and the member joins anew on the connections that are left.
            allowed[Invariant.KEPT_MEMBER_ID] = ("*",)
        if not self._has_records:
            allowed[Invariant.FETCHED_COMMITS] = ("*",)
        # The world itself checks whether groups recover in time, when its faults are over.
        return Checks(Limits(unassigned_checks=False), allowed=allowed)

    def _observe(self, name: str, event: Event) -> None:
        try:
            # The clock of a broker jumps, and that of the next coordinator shows another time.
            found = self._checks.observe(replace(event, at=int(self._now() * 1000)))
        except Exception as problem:  # noqa: BLE001  # an error of the checks fails the world
            self._failed(name, problem)
            return
        for each in found:
            counts = each.fault is Fault.BROKER or each.client_id.startswith(_OWN)
            if self.violation is None and counts and not self._is_excused(each):
                proof = "\n".join(f"  {event}" for event in each.events)
                self.violation = Violation(each.invariant.letter, f"{each.what} {each.why}\n{proof}")

    def _is_excused(self, found: Broken) -> bool:
        """Return whether a member that sends no SyncGroup may not have its generation, or not be able to send one.

        The first event is the answer that contains the generation.
        """
        if found.invariant is not Invariant.SYNC_AFTER_JOIN:
            return False
        return not self._could_act(found.client_id, found.events[0].at / 1000)
