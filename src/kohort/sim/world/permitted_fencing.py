"""Check whether a member that permanently left its group did so for a legitimate reason (S14)."""

from __future__ import annotations

from kohort.errors import ErrorCode
from kohort.sim.checks import REFUSALS
from kohort.sim.processes import Application, WorldState

_TOLD_WITHIN = 60.0
"""Maximum time in seconds from a response that refuses a right to the end of the membership: it may be suspended."""


def is_permitted(world: WorldState, application: Application) -> bool:
    """Return whether the world's events explain the end of the membership."""
    assert application.over is not None
    mine = application.settings
    policy = world.plan.settings.get("group.consumer.migration.policy", "bidirectional")
    code = application.over.code
    if code in REFUSALS:
        user = application.name.rpartition(".")[0]
        return world.security is not None and world.security.may_be_refused(user, world.now - _TOLD_WITHIN)
    # The coordinator's state was checked when it rejected this run of the process.
    refused = (application.name, code) in world.observations.refused
    expected = {
        ErrorCode.UNRELEASED_INSTANCE_ID: mine.instance is not None and mine.protocol == "consumer",
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: policy == "disabled" and mine.protocol == "classic",
        ErrorCode.GROUP_ID_NOT_FOUND: mine.protocol == "consumer",
        ErrorCode.GROUP_MAX_SIZE_REACHED: True,
    }
    if code is ErrorCode.FENCED_INSTANCE_ID:
        return mine.instance is not None and _is_replaced(world, application, (mine.group, mine.instance))
    return refused and expected.get(code, False)


def _is_replaced(world: WorldState, application: Application, place: tuple[str, str]) -> bool:
    """Return whether another member took over that instance id during this run.

    Each fact concerns only this instance, and counts only if it happened since the run began.
    """
    since = application.started
    # Another client joined with it: one that shares the instance id, a misbehaving one, or an earlier run whose
    # request was late.
    by_another = any(
        at >= since for client, at in world.observations.joined.get(place, {}).items() if client != application.name
    )
    # A join that was given up may arrive after the one that was sent instead, and then replaces that member.
    by_late_join = world.answers.replaced_joins.get(application.name.rpartition(".")[0], -1.0) >= since
    # If the disk lost the takeover, the group has the member before it again.
    is_forgotten = world.progress.damaged_at.get(place[0], -1.0) >= since
    # A broker that was suspended has missed the takeover, and does not know yet that it lost the log.
    is_outdated = world.observations.outdated.get(place, -1.0) >= since
    return by_another or by_late_join or is_forgotten or is_outdated
