"""Rule for classic groups that may keep an outdated assignment because static members returned.

The return of a static member triggers no new assignment (KIP-345), even if its subscription has
changed. A returning leader is not asked to compute an assignment (KIP-814), and does not know for
which topics the present one was computed.
"""

from __future__ import annotations

from kohort.coordinator.classic import ClassicGroup
from kohort.sim.processes import WorldState


def keeps_old_assignment(world: WorldState, group_id: str) -> bool:
    """Return whether the group's assignment may be incomplete until its next generation."""
    group, kept = world.observations.group(group_id), world.observations.kept.get(group_id)
    if not isinstance(group, ClassicGroup) or kept is None or kept.generation != group.generation:
        return False
    if kept.for_others:
        return True
    age = world.plan.metadata_age / 1000
    known_at = world.generations.get(group_id, 0.0) - age
    return kept.leader_at is not None and any(known_at <= at <= kept.leader_at + age for at in world.topic_changes)
