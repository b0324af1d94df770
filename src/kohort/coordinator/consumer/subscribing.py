"""Regular expressions in subscriptions: when they are resolved, and the resulting changes."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.expression_search import ExpressionSearch
from kohort.coordinator.consumer.expressions import check, resolve
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.effects import Effects, Viewer
from kohort.coordinator.timers import ExpressionRefresh
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis

MANY_MATCHES = 100
"""Number of names times expressions above which they are matched in slices.

Each match may take a millisecond (see `expressions`).
"""


def look_up(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    viewer: Viewer | None,
    now: Millis,
) -> dict[str, ResolvedExpression]:
    """Return the topics that a member's new expression matches, if no other member uses it.

    The result is empty if that takes more than one slice; the timer then continues the search.
    Raises KafkaError INVALID_REGULAR_EXPRESSION.
    """
    expression = after.subscription.expression
    if expression is None or expression == before.subscription.expression or group.topics.expressions[expression]:
        return {}
    check(expression)
    search = ExpressionSearch([expression], groups.metadata)
    if not search.proceed():
        return {}
    return {
        name: replace(match, topics=_described_by(groups, {viewer}, match.topics))
        for name, match in search.found(now).items()
    }


def note_viewer(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    viewer: Viewer | None,
    now: Millis,
    out: Effects,
) -> None:
    """Note who sends a member's heartbeats, and match its expression again if that may change the topics."""
    if groups.may_describe is None or viewer is None:
        return
    known, expression = group.viewers.get(after.member_id), after.subscription.expression
    was_missing = before.member_id in group.members and is_viewer_missing(groups, group, before)
    group.viewers[after.member_id] = viewer
    if ExpressionRefresh(group.group_id) in out.timers:
        return  # the search has just begun
    if expression is not None and (known != viewer or before.subscription.expression != expression):
        resolved = group.topics.resolved.get(expression)
        if resolved is not None and _described_by(groups, {viewer}, resolved.topics) != resolved.topics:
            out.timers[ExpressionRefresh(group.group_id)] = now
            return
    if was_missing:
        match_when_viewers_are_known(groups, group, now, out)


def match_when_viewers_are_known(groups: ConsumerGroups, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Match expressions again soon, because a member is known or gone whose viewer was missing.

    After a failover, an expression matches no new topic until all of its members are known. They
    send heartbeats within this interval.
    """
    interval_ms = groups.settings(group.group_id).heartbeat_interval_ms
    out.timers[ExpressionRefresh(group.group_id)] = now + interval_ms


def is_viewer_missing(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the sender of a member with an expression is needed and unknown, as after a failover."""
    return (
        groups.may_describe is not None
        and member.subscription.expression is not None
        and member.member_id not in group.viewers
    )


def _visible(groups: ConsumerGroups, group: ConsumerGroup, expression: str, topics: frozenset[str]) -> frozenset[str]:
    """Return those of the topics that every member with this expression may describe."""
    if groups.may_describe is None:
        return topics
    members = [member for member in group.members.values() if member.subscription.expression == expression]
    viewers = {group.viewers.get(member.member_id) for member in members}
    if None in viewers:
        resolved = group.topics.resolved.get(expression)
        topics &= frozenset() if resolved is None else resolved.topics
    return _described_by(groups, viewers, topics)


def _described_by(groups: ConsumerGroups, viewers: Collection[Viewer | None], topics: frozenset[str]) -> frozenset[str]:
    """Return those of the topics that all of these clients may describe; an unknown client is not asked."""
    may_describe = groups.may_describe
    if may_describe is None:
        return topics
    known = [viewer for viewer in viewers if viewer is not None]
    return frozenset(name for name in topics if all(may_describe(viewer, name) for viewer in known))


def keep_fresh(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    after: ConsumerMember,
    found: Collection[str],
    now: Millis,
    out: Effects,
) -> None:
    """Schedule the search for a member's new expression, and its periodic refresh."""
    expression = after.subscription.expression
    if expression is None:
        return
    if expression not in found and expression not in group.topics.resolved:
        out.timers[ExpressionRefresh(group.group_id)] = now
    elif not group.topics.expressions:
        out.timers[ExpressionRefresh(group.group_id)] = now + groups.config.consumer_regex_refresh_interval_ms


def refresh(groups: ConsumerGroups, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Match the group's expressions against all topics again, one slice at a time."""
    if not group.topics.expressions:
        group.search = None
        return
    if group.search is None or group.search.image is not groups.metadata:
        group.search = ExpressionSearch(sorted(group.topics.expressions), groups.metadata)
    timer = ExpressionRefresh(group.group_id)
    if not group.search.proceed():
        out.timers[timer] = now
        return
    found, group.search = group.search.found(now), None
    found = {name: replace(match, topics=_visible(groups, group, name, match.topics)) for name, match in found.items()}
    take(groups, group, found, out)
    out.timers[timer] = now + groups.config.consumer_regex_refresh_interval_ms


def topics_renamed(
    groups: ConsumerGroups, group: ConsumerGroup, names: Collection[str], now: Millis, out: Effects
) -> None:
    """Match only names of created or deleted topics against the group's expressions."""
    expressions, resolved = group.topics.expressions, group.topics.resolved
    if len(names) * len(expressions) > MANY_MATCHES or len(resolved) < len(expressions):
        out.timers[ExpressionRefresh(group.group_id)] = now
        return
    there = [name for name in names if name in groups.metadata.matchable]
    found = {
        expression: ResolvedExpression(
            (before.topics - frozenset(names)) | _visible(groups, group, expression, resolve(expression, there)),
            groups.metadata.version,
            now,
        )
        for expression, before in resolved.items()
    }
    take(groups, group, found, out)


def take(groups: ConsumerGroups, group: ConsumerGroup, found: Mapping[str, ResolvedExpression], out: Effects) -> None:
    """Write the expressions whose matches changed. A change requires a new target."""
    resolved = group.topics.resolved
    new_matches = {
        expression: match
        for expression, match in found.items()
        if group.topics.expressions[expression]
        and (expression not in resolved or resolved[expression].topics != match.topics)
    }
    out.records += [records.resolved_expression(group.group_id, name, match) for name, match in new_matches.items()]
    changes = group.topics.changes_by(new_matches)
    if any(match.topics or name in resolved for name, match in new_matches.items()):
        bump(groups, group, RebalanceReason(Cause.TOPICS_CHANGED), out, changes)
