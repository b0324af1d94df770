"""Regular expressions that members subscribe to: when they are looked up, and what follows."""

from kohort.coordinator.consumer.expressions import check, resolve
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.groups import Groups
from kohort.model import Millis


def look_up(
    groups: Groups, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now: Millis
) -> dict[str, ResolvedExpression]:
    """What a member's new expression matches, where nobody else in the group asks by it.

    Raises KafkaError INVALID_REGULAR_EXPRESSION.
    """
    expression = after.subscription.expression
    if expression is None or expression == before.subscription.expression or group.topics.expressions[expression]:
        return {}
    check(expression)
    topics = resolve(expression, groups.metadata.by_name)
    return {expression: ResolvedExpression(topics, groups.metadata.version, now)}
