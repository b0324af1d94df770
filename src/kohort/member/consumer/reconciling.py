"""From what a member owns to what it should own (KIP-848), one step at a time, while heartbeats go on:

    give up what the target lacks -> the application is done -> acknowledge
    take over what is new         -> the application is done -> acknowledge

A step looks at the newest target, so one that comes while the application is busy is next. Partitions are told apart
by topic id: of a topic that was made anew under its old name, the old partitions are lost and the new ones are won.
"""

from kohort.member.callbacks import CallbackKind
from kohort.member.consumer.standing import ConsumerStanding
from kohort.member.phase import Phase
from kohort.model import UUID, TopicPartition
from kohort.wire.consumer_group_heartbeat import Assignment


def take_target(member: ConsumerStanding, assignment: Assignment) -> None:
    """Another target, or the same one once more, as after a full heartbeat."""
    target = {one.topic_id: frozenset(one.partitions) for one in assignment.topic_partitions if one.partitions}
    if target == member.target:
        return
    member.target = target
    member.owes_assign, member.acknowledged = True, False
    if member.phase is not Phase.RECONCILING:
        member.enter(Phase.RECONCILING)


def reconcile(member: ConsumerStanding) -> None:
    """Begin the next step, if the application is free."""
    if member.phase is not Phase.RECONCILING or not member.callbacks.idle:
        return
    give_up = member.owned - _kept(member)
    if give_up:
        # What a deleted topic's partitions were read to must not be committed for a new topic of its name.
        gone = frozenset(one for one in give_up if member.ids[one.topic] not in member.names)
        for kind, partitions in ((CallbackKind.LOST, gone), (CallbackKind.REVOKE, give_up - gone)):
            if partitions:
                member.callbacks.add(kind, partitions)
        return
    if member.reports or member.said is None:
        # What a heartbeat on its way does not list as owned, the coordinator may give to another when it arrives.
        return
    new = _resolved(member) - member.owned
    if new or (member.owes_assign and not unresolved(member)):
        member.owes_assign = bool(unresolved(member))
        member.ids |= {name: topic_id for topic_id, name in _named(member).items()}
        member.callbacks.add(CallbackKind.ASSIGN, new)
    elif not member.acknowledged:
        # Nothing to do before metadata names the rest; but the coordinator may wait to hear what is not owned.
        _acknowledge(member)


def callback_done(member: ConsumerStanding) -> None:
    """A step is complete when the application is; both kinds of giving up are one."""
    owned_topics = {partition.topic for partition in member.owned}
    member.ids = {name: topic_id for name, topic_id in member.ids.items() if name in owned_topics}
    if member.phase is Phase.RECONCILING and member.callbacks.idle:
        _acknowledge(member)


def is_reconciled(member: ConsumerStanding) -> bool:
    """Whether the member owns its target, and its application knows."""
    return not (member.owes_assign or unresolved(member) or member.owned != _kept(member) | _resolved(member))


def unresolved(member: ConsumerStanding) -> frozenset[UUID]:
    """The topics of the target that have no name yet."""
    return frozenset(member.target or ()) - _named(member).keys()


def _acknowledge(member: ConsumerStanding) -> None:
    member.owes_acknowledgement = True
    member.enter(Phase.ACKNOWLEDGING)


def _kept(member: ConsumerStanding) -> frozenset[TopicPartition]:
    target = member.target or {}
    return frozenset(one for one in member.owned if one.partition in target.get(member.ids[one.topic], ()))


def _named(member: ConsumerStanding) -> dict[UUID, str]:
    """The topics of the target whose names are known, if only because the member owns some of them.

    A name that still stands for an older topic of the application's is not free yet.
    """
    owned = {topic_id: name for name, topic_id in member.ids.items()}
    found: dict[UUID, str] = {}
    for topic_id in member.target or ():
        name = owned.get(topic_id) or member.names.get(topic_id)
        if name is not None and member.ids.get(name, topic_id) == topic_id:
            found[topic_id] = name
    return found


def _resolved(member: ConsumerStanding) -> frozenset[TopicPartition]:
    target = member.target or {}
    return frozenset(TopicPartition(name, n) for topic_id, name in _named(member).items() for n in target[topic_id])
