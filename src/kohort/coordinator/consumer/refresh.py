"""What a change of topics, or of settings, means to consumer groups: their target must be computed anew."""

from collections.abc import Iterable

from kohort.coordinator.config import Weights
from kohort.coordinator.consumer.epochs import bump, bump_if_topics_changed
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.metadata import UNKNOWN, MetadataImage, changed_names
from kohort.coordinator.consumer.subscribing import topics_renamed
from kohort.coordinator.consumer.target import chosen_assignor
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, Why
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import ExpressionRefresh, SessionTimeout
from kohort.model import Millis


def topics_changed(groups: Groups, old: MetadataImage, now: Millis, out: Effects) -> None:
    """Look at the groups that ask for a topic that is another now, or by an expression that a new name may match."""
    if old is UNKNOWN:
        topics_known(groups, now, out)
        return
    names = sorted(changed_names(old, groups.metadata))
    renamed = [name for name in names if (name in old.by_name) != (name in groups.metadata.by_name)]
    concerned: dict[str, list[str]] = {}
    for name in names:
        for group_id in groups.by_topic.get(name, ()):
            concerned.setdefault(group_id, []).append(name)
    for group_id in dict.fromkeys([*concerned, *(groups.with_expressions if renamed else ())]):
        group = groups.consumer(group_id)
        assert group is not None
        group.topics_changed(concerned.get(group_id, ()))
        written = len(out.records)
        if renamed and group_id in groups.with_expressions:
            topics_renamed(groups, group, renamed, now, out)
        if written == len(out.records):
            bump_if_topics_changed(groups, group, out)


def topics_known(groups: Groups, now: Millis, out: Effects) -> None:
    """Topics are known for the first time since the log was read; meanwhile all of them may have changed."""
    for group in groups.by_id.values():
        if isinstance(group, ConsumerGroup):
            bump_if_topics_changed(groups, group, out)
            if group.topics.expressions:
                out.timers[ExpressionRefresh(group.group_id)] = now


def settings_changed(groups: Groups, group_ids: Iterable[str], now: Millis, out: Effects) -> None:
    """These groups have other settings: a shorter session counts at once, and so do an assignor and weights."""
    for group_id in group_ids:
        group = groups.consumer(group_id)
        if group is None:
            continue
        latest = now + groups.settings(group_id).session_timeout_ms
        for member in group.members.values():
            if member.classic is None and not 0 < member.session_deadline < latest:
                out.timers[SessionTimeout(group_id, member.member_id)] = member.session_deadline = latest
        weights = groups.settings(group_id).weights
        if group.members and _is_computed_otherwise(groups, group, weights):
            bump(groups, group, Why(Cause.ASSIGNOR_CHANGED), out)


def _is_computed_otherwise(groups: Groups, group: ConsumerGroup, weights: Weights) -> bool:
    """Whether another assignor computes now, or with other weights, than for the present target."""
    planning, computing = group.planning, group.computing
    if computing.made_by is not None:
        return computing.weights != weights
    if not planning.is_known:
        # After a failover nobody knows by what the target was computed. Another rebalance moves little.
        return group.epoch == group.target_epoch
    return planning.is_of_another(chosen_assignor(groups, group)) or not planning.weighs_as(weights)
