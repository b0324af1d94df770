"""Regular expressions that members subscribe to: when they are looked up, and what follows."""

from collections.abc import Collection, Mapping

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.expressions import check, resolve
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.search import Search
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, Why
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import ExpressionRefresh
from kohort.model import Millis

MANY_MATCHES = 100
"""More names times expressions than this are looked up in slices: each may take a millisecond (see `expressions`)."""


def look_up(
    groups: Groups, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now: Millis
) -> dict[str, ResolvedExpression]:
    """What a member's new expression matches, where nobody else in the group asks by it.

    Nothing where that takes longer than one slice: then the timer goes on with it. Raises KafkaError
    INVALID_REGULAR_EXPRESSION.
    """
    expression = after.subscription.expression
    if expression is None or expression == before.subscription.expression or group.topics.expressions[expression]:
        return {}
    check(expression)
    search = Search([expression], groups.metadata)
    return search.found(now) if search.go_on() else {}


def keep_fresh(
    groups: Groups,
    group: ConsumerGroup,
    after: ConsumerMember,
    found: Collection[str],
    now: Millis,
    out: Effects,
) -> None:
    """A member came with an expression: see that it is looked up to its end, and again from time to time."""
    expression = after.subscription.expression
    if expression is None:
        return
    if expression not in found and expression not in group.topics.resolved:
        out.timers[ExpressionRefresh(group.group_id)] = now
    elif not group.topics.expressions:
        out.timers[ExpressionRefresh(group.group_id)] = now + groups.config.consumer_regex_refresh_interval_ms


def refresh(groups: Groups, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Look the group's expressions up anew among all topics, one slice at a time."""
    if not group.topics.expressions:
        group.search = None
        return
    if group.search is None or group.search.image is not groups.metadata:
        group.search = Search(sorted(group.topics.expressions), groups.metadata)
    timer = ExpressionRefresh(group.group_id)
    if not group.search.go_on():
        out.timers[timer] = now
        return
    found, group.search = group.search.found(now), None
    take(groups, group, found, out)
    out.timers[timer] = now + groups.config.consumer_regex_refresh_interval_ms


def topics_renamed(groups: Groups, group: ConsumerGroup, names: Collection[str], now: Millis, out: Effects) -> None:
    """Topics came or went: compare those alone with the group's expressions."""
    expressions, resolved = group.topics.expressions, group.topics.resolved
    if len(names) * len(expressions) > MANY_MATCHES or len(resolved) < len(expressions):
        out.timers[ExpressionRefresh(group.group_id)] = now
        return
    there = [name for name in names if name in groups.metadata.matchable]
    found = {
        expression: ResolvedExpression(
            (before.topics - frozenset(names)) | resolve(expression, there), groups.metadata.version, now
        )
        for expression, before in resolved.items()
    }
    take(groups, group, found, out)


def take(groups: Groups, group: ConsumerGroup, found: Mapping[str, ResolvedExpression], out: Effects) -> None:
    """Write what expressions match now, where it is not what they matched; that calls for a new target."""
    resolved = group.topics.resolved
    fresh = {
        expression: one
        for expression, one in found.items()
        if group.topics.expressions[expression]
        and (expression not in resolved or resolved[expression].topics != one.topics)
    }
    out.records += [records.resolved_expression(group.group_id, name, one) for name, one in fresh.items()]
    changes = group.topics.changes_by(fresh)
    if any(fresh_one.topics or name in resolved for name, fresh_one in fresh.items()):
        bump(groups, group, Why(Cause.TOPICS_CHANGED), out, changes)
