"""Whether a member that is out of its group for good met what a member may meet (S14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.sim.application import Application
    from kohort.sim.world import World


def is_fair(world: World, application: Application, lives: int) -> bool:
    """Whether what ended its membership is what the world did to it. `lives` counts those of its process."""
    assert application.over is not None
    plan, mine = world.plan, application.habits
    policy = plan.settings.get("group.consumer.migration.policy", "bidirectional")
    shared = sum(one.group == mine.group and one.instance == mine.instance for one in plan.members) > 1
    # Of a takeover that the disk lost, or that a broker which stood still has not heard of, the life before is left.
    woken = any(at >= application.started for at in world.woken)
    # A member that an operator removed comes back under another id; a disk that lost that has the one before.
    removed = any(step.what == "remove-member" and step.value == mine.group for step in plan.steps)
    forgotten = (lives > 1 and woken) or ((lives > 1 or removed) and mine.group in world.ledger.doubted)
    # A stranger claimed this instance id: if its holder's session has just ended, the stranger gets it.
    impostors = (mine.group, mine.instance) in world.claimed
    # A join that was given up may arrive behind the one that was sent instead, and then takes over from it.
    outdone = application.name.rpartition(".")[0] in world.answers.outdone
    expected = {
        ErrorCode.UNRELEASED_INSTANCE_ID: mine.instance is not None,
        ErrorCode.FENCED_INSTANCE_ID: mine.instance is not None and (shared or forgotten or impostors or outdone),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: policy != "bidirectional",
        # A classic group may have more members for a moment: only those that have joined again count in a rebalance.
        ErrorCode.GROUP_ID_NOT_FOUND: policy != "bidirectional" or "group.consumer.max.size" in plan.settings,
        ErrorCode.GROUP_MAX_SIZE_REACHED: "group.max.size" in plan.settings,
    }
    return expected.get(application.over.code, False)
