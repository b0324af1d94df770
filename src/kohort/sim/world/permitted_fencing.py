"""Check whether a member that permanently left its group did so for a legitimate reason (S14)."""

from __future__ import annotations

from kohort.errors import ErrorCode
from kohort.sim.processes import Application, WorldState


def is_permitted(world: WorldState, application: Application, starts: int) -> bool:
    """Return whether the world's events explain the end of the membership.

    `starts` is the number of runs of its process.
    """
    assert application.over is not None
    plan, mine = world.plan, application.settings
    policy = plan.settings.get("group.consumer.migration.policy", "bidirectional")
    shared = sum(settings.group == mine.group and settings.instance == mine.instance for settings in plan.members) > 1
    # If the disk lost a takeover, or a suspended broker missed it, the previous incarnation remains in the
    # group.
    resume_times = any(at >= application.started for at in world.resume_times)
    # A member that an operator removed during this run returned under another id; if the disk lost that, the
    # group has the previous one.
    removed = world.watch.removed.get((mine.group, mine.instance or ""), -1.0) >= application.started
    forgotten = (starts > 1 and resume_times) or ((starts > 1 or removed) and mine.group in world.ledger.damaged_groups)
    # Another client claimed this instance id: if the session of its holder has just ended, that client gets
    # it.
    impostors = (mine.group, mine.instance) in world.claimed
    # A join that was given up may arrive after the one that was sent instead, and then replaces that member.
    replaced_joins = application.name.rpartition(".")[0] in world.answers.replaced_joins
    # The coordinator's state was checked when it rejected a member of this group and instance id.
    code = application.over.code
    refused = world.watch.refused.get((mine.group, mine.instance or "", code), -1.0) >= application.started
    expected = {
        ErrorCode.UNRELEASED_INSTANCE_ID: mine.instance is not None and mine.protocol == "consumer" and refused,
        ErrorCode.FENCED_INSTANCE_ID: mine.instance is not None
        and (shared or forgotten or impostors or replaced_joins),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: policy == "disabled" and mine.protocol == "classic" and refused,
        # A classic group may briefly have more members: a rebalance only counts those that have joined again.
        ErrorCode.GROUP_ID_NOT_FOUND: mine.protocol == "consumer"
        and (policy in ("disabled", "downgrade") or "group.consumer.max.size" in plan.settings),
        ErrorCode.GROUP_MAX_SIZE_REACHED: "group.max.size" in plan.settings,
    }
    return expected.get(code, False)
