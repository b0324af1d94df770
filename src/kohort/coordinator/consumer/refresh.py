"""What a change of topics means to consumer groups: their target must be computed anew."""

from kohort.coordinator.consumer.epochs import bump_if_topics_changed
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.metadata import UNKNOWN, MetadataImage, changed_names
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.model import Millis


def topics_changed(groups: Groups, old: MetadataImage, now: Millis, out: Effects) -> None:
    """Look at the groups that ask for a topic that is another now; at all of them if topics were not known before."""
    names = changed_names(old, groups.metadata)
    concerned: dict[str, set[str]] = {}
    for name in sorted(names):
        for group_id in groups.by_topic.get(name, ()):
            concerned.setdefault(group_id, set()).add(name)
    for group_id, of_group in concerned.items():
        group = groups.consumer(group_id)
        assert group is not None
        group.topics_changed(of_group)
        bump_if_topics_changed(groups, group, out)
    if old is UNKNOWN:
        for one in groups.by_id.values():
            if isinstance(one, ConsumerGroup) and one.group_id not in concerned:
                bump_if_topics_changed(groups, one, out)
