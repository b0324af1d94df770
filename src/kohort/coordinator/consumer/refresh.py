"""Changes of topics and settings that require new targets for consumer groups."""

from collections.abc import Iterable

from kohort.coordinator.config import Weights
from kohort.coordinator.consumer.epochs import bump, bump_if_topics_changed
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.subscribing import topics_renamed
from kohort.coordinator.consumer.target import chosen_assignor
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import ExpressionRefresh, SessionTimeout
from kohort.coordinator.topic_metadata import UNKNOWN, MetadataImage, changed_names
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis


def topics_changed(groups: ConsumerGroups, old: MetadataImage, now: Millis, out: Effects) -> None:
    """Check the groups that subscribe to a changed topic, or whose expressions may match a new name."""
    if old is UNKNOWN:
        topics_known(groups, now, out)
        return
    names = sorted(changed_names(old, groups.metadata))
    renamed = [name for name in names if (name in old.by_name) != (name in groups.metadata.by_name)]
    changed_names_of: dict[str, list[str]] = {}
    for name in names:
        for group_id in groups.by_topic.get(name, ()):
            changed_names_of.setdefault(group_id, []).append(name)
    for group_id in dict.fromkeys([*changed_names_of, *(groups.with_expressions if renamed else ())]):
        group = groups.consumer(group_id)
        assert group is not None
        group.topics_changed(changed_names_of.get(group_id, ()))
        written = len(out.records)
        if renamed and group_id in groups.with_expressions:
            topics_renamed(groups, group, renamed, now, out)
        if written == len(out.records):
            bump_if_topics_changed(groups, group, out)


def topics_known(groups: ConsumerGroups, now: Millis, out: Effects) -> None:
    """Check all groups when the topics become known for the first time after loading; any may have changed."""
    for group in groups.by_id.values():
        if isinstance(group, ConsumerGroup):
            bump_if_topics_changed(groups, group, out)
            if group.topics.expressions:
                out.timers[ExpressionRefresh(group.group_id)] = now


def acls_changed(groups: ConsumerGroups, now: Millis, out: Effects) -> None:
    """Search again for the topics of all expressions: their members may now describe other topics."""
    if groups.metadata is not UNKNOWN:
        for group_id in groups.with_expressions:
            out.timers[ExpressionRefresh(group_id)] = now


def settings_changed(groups: ConsumerGroups, group_ids: Iterable[str], now: Millis, out: Effects) -> None:
    """Apply changed settings to these groups. A shorter session, an assignor and weights take effect immediately."""
    for group_id in group_ids:
        group = groups.consumer(group_id)
        if group is None:
            continue
        latest = now + groups.settings(group_id).session_timeout_ms
        for member in group.members.values():
            if member.classic is None and not 0 < member.session_deadline < latest:
                out.timers[SessionTimeout(group_id, member.member_id)] = member.session_deadline = latest
        weights = groups.settings(group_id).weights
        if group.members and (cause := _why_computed_anew(groups, group, weights)) is not None:
            bump(groups, group, RebalanceReason(cause), out)


def _why_computed_anew(groups: ConsumerGroups, group: ConsumerGroup, weights: Weights) -> Cause | None:
    """Return the cause of a new target if the assignor or the weights differ from the current target's, else None."""
    planning, computing = group.planning, group.computing
    if computing.made_by is not None:
        return Cause.WEIGHT_CHANGED if computing.weights != weights else None
    if not planning.is_known:
        # After a failover, the assignor of the current target is unknown. Another rebalance moves
        # little.
        return Cause.ASSIGNOR_CHANGED if group.epoch == group.target_epoch else None
    if planning.is_of_another_assignor(chosen_assignor(groups, group)):
        return Cause.ASSIGNOR_CHANGED
    return None if planning.has_weights(weights) else Cause.WEIGHT_CHANGED
