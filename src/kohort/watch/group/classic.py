"""Generations of a classic group, as its log has them: each is the result of a rebalance. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from kohort.group_events import Cause, RebalanceStarted
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import GenerationMember, GenerationWritten
from kohort.watch.generations import Before, LastGeneration, events_of
from kohort.watch.group.members import WatchedMember
from kohort.watch.group.state import GroupState


def generation(group: GroupState, change: GenerationWritten) -> list[RebalanceRecord]:
    """Take a new generation, and return the records of the rebalances that it completes."""
    change = _with_known_facts(change, group.members)
    resumed = group.type is None and group.resume("classic", change.at)
    known = group.type == "classic"
    before, after = group.members, {member.facts.member_id: member for member in change.members}
    again = known and change.generation == group.epoch
    if resumed and again and after.keys() < before.keys():
        # The rebalance without the members that left is still to come, and shows them as gone.
        group.protocol, group.protocol_type, group.leader_id = change.protocol, change.protocol_type, change.leader_id
        return []
    created = not known and change.generation == 0 and not after
    events = [] if again and before.keys() == after.keys() else events_of(change, _last(group) if known else None)
    taken = _taken_by(group, change, known=known)
    lost = group.owners.keys() - {partition for member in change.members for partition in member.assigned}
    if any(isinstance(event, RebalanceStarted) and event.cause is Cause.TOPICS_CHANGED for event in events):
        given = {partition for member in change.members for partition in member.assigned}
        group.topics_changed_at = change.at if given - group.owners.keys() else group.topics_changed_at
    group.type, group.epoch, group.complete = "classic", change.generation, True
    group.protocol, group.protocol_type, group.leader_id = change.protocol, change.protocol_type, change.leader_id
    group.members = {
        member_id: WatchedMember(member.facts, member.topics, owned=member.assigned)
        for member_id, member in after.items()
    }
    group.unowned |= dict.fromkeys(lost, change.at)
    for partition in group.owners:
        group.unowned.pop(partition, None)
    records = group.observe(events, change.at)
    if not again:
        group.taken = taken
        for partition in taken:
            group.darkness.told(partition, change.at)
    return [] if created else records


def _with_known_facts(change: GenerationWritten, known: Mapping[str, WatchedMember]) -> GenerationWritten:
    """Return the change with the facts of known members as one object: all their records share it."""
    if not known:
        return change
    members = []
    for member in change.members:
        before = known.get(member.facts.member_id)
        if before is not None and before.facts == member.facts:
            member = GenerationMember(before.facts, member.topics, member.assigned, member.kept)
        members.append(member)
    return replace(change, members=tuple(members))


def _last(group: GroupState) -> LastGeneration:
    members = {
        member_id: Before(member.facts, member.topics, member.owned) for member_id, member in group.members.items()
    }
    return LastGeneration(
        group.epoch, group.protocol, members, group.taken, group.unowned.keys(), group.topics_changed_at
    )


def _taken_by(group: GroupState, change: GenerationWritten, *, known: bool) -> dict[TopicPartition, str]:
    """Return the partitions that the generation takes from members that stay, and gives to none yet."""
    given = {partition for member in change.members for partition in member.assigned}
    stay = {member.facts.member_id: member.kept for member in change.members} if known else {}
    return {
        partition: member_id
        for member_id, kept in stay.items()
        if member_id in group.members
        for partition in (group.members[member_id].owned & kept) - given
    }
