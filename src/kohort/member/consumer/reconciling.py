"""Move a member from its partitions to its target assignment (KIP-848), step by step, while heartbeats continue:

    give up what the target lacks -> the application is done -> acknowledge
    take over what is new         -> the application is done -> acknowledge

Each step uses the latest target, so a target that arrives while the application is busy is next.
Partitions are identified by topic ID: if a topic is recreated under its old name, the old partitions are
lost and the new ones are assigned.
"""

from collections.abc import Mapping

from kohort.member.callbacks import CallbackKind
from kohort.member.consumer.state import ConsumerState
from kohort.member.phase import Phase
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import Assignment


def receive_target(member: ConsumerState, assignment: Assignment) -> None:
    """Record the target assignment, which may be unchanged, as after a full heartbeat."""
    target = {topic.topic_id: frozenset(topic.partitions) for topic in assignment.topic_partitions if topic.partitions}
    if target == member.target:
        return
    member.target = target
    member.owes_assign, member.acknowledged = True, False
    if member.phase is not Phase.RECONCILING:
        member.enter(Phase.RECONCILING)


def reconcile(member: ConsumerState) -> None:
    """Begin the next step, if no callback runs."""
    if member.phase is not Phase.RECONCILING or not member.callbacks.idle:
        return
    give_up = member.owned - _kept(member)
    if give_up:
        # The positions in a deleted topic's partitions must not be committed for a new topic with its name.
        gone = frozenset(partition for partition in give_up if member.ids[partition.topic] not in member.names)
        if gone:
            member.callbacks.add(CallbackKind.LOST, gone, deleted=True)
        if give_up - gone:
            member.callbacks.add(CallbackKind.REVOKE, give_up - gone)
        return
    if member.reports or member.known_subscription is None:
        # The coordinator may reassign partitions that a heartbeat in flight does not list as owned.
        return
    new = _resolved(member) - member.owned
    if new or not unresolved(member):
        member.owes_assign = bool(unresolved(member))
        member.ids |= {name: topic_id for topic_id, name in _named(member).items()}
        member.callbacks.add(CallbackKind.ASSIGN, new)
    elif not member.acknowledged:
        # Nothing to do until metadata names the rest, but the coordinator may wait to learn what is not owned.
        _acknowledge(member)


def callback_done(member: ConsumerState) -> None:
    """Complete a step when all its callbacks are complete; lost and revoked partitions are one step."""
    owned_topics = {partition.topic for partition in member.owned}
    member.ids = {name: topic_id for name, topic_id in member.ids.items() if name in owned_topics}
    if member.phase is Phase.RECONCILING and member.callbacks.idle:
        _acknowledge(member)


def is_reconciled(member: ConsumerState) -> bool:
    """Return whether the member owns its target and the application has been notified."""
    return not member.owes_assign


def unresolved(member: ConsumerState) -> frozenset[UUID]:
    """Return the topics of the target that have no name yet."""
    return frozenset(_target(member)) - _named(member).keys()


def _acknowledge(member: ConsumerState) -> None:
    member.owes_acknowledgement = True
    member.enter(Phase.ACKNOWLEDGING)


def _target(member: ConsumerState) -> Mapping[UUID, frozenset[int]]:
    assert member.target is not None
    return member.target


def _kept(member: ConsumerState) -> frozenset[TopicPartition]:
    target = _target(member)
    return frozenset(
        partition for partition in member.owned if partition.partition in target.get(member.ids[partition.topic], ())
    )


def _named(member: ConsumerState) -> dict[UUID, str]:
    """Return the topics of the target whose names are known, from the metadata or from owned partitions.

    A name that the application still uses for an older topic is not available yet.
    """
    owned = {topic_id: name for name, topic_id in member.ids.items()}
    found: dict[UUID, str] = {}
    for topic_id in _target(member):
        name = owned.get(topic_id) or member.names.get(topic_id)
        if name is not None and member.ids.get(name, topic_id) == topic_id:
            found[topic_id] = name
    return found


def _resolved(member: ConsumerState) -> frozenset[TopicPartition]:
    target = _target(member)
    return frozenset(TopicPartition(name, n) for topic_id, name in _named(member).items() for n in target[topic_id])
