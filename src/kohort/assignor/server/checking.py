"""Validate an assignment that a user-defined assignor computed: it is accepted or rejected as a whole."""

from collections.abc import Collection, Mapping

from kohort.assignor.server.api import MemberShape, TopicShape
from kohort.errors import AssignorError
from kohort.model import UUID


def check_targets(
    given: Mapping[str, Mapping[UUID, Collection[int]]],
    members: Mapping[str, MemberShape],
    topics: Mapping[UUID, TopicShape],
) -> dict[str, Mapping[UUID, frozenset[int]]]:
    """Return the targets of all members; members that are not in `given` get nothing.

    Raises AssignorError, with the reason, if a member does not exist, a member is not subscribed to
    the topic, or a partition does not exist or is assigned twice. It also raises AssignorError if a
    partition that some member could own is unassigned, because its records would never be
    processed.
    """
    owners: dict[UUID, dict[int, str]] = {topic_id: {} for topic_id in topics}
    for member_id, share in given.items():
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"it names {member_id!r}, which is not a member")
        for topic_id, numbers in share.items():
            if topic_id not in topics:
                raise AssignorError(f"it assigns {member_id!r} a topic that does not exist: {topic_id}")
            if topic_id not in member.topics or (member.drained and numbers):
                why = "is drained" if member.drained else "does not subscribe to it"
                raise AssignorError(f"it assigns {_name(topics, topic_id)} to {member_id!r}, but that member {why}")
            _take(owners[topic_id], topics, topic_id, member_id, numbers)
    asked = {topic_id for member in members.values() if not member.drained for topic_id in member.topics}
    short = [wanted_id for wanted_id in asked & topics.keys() if len(owners[wanted_id]) < topics[wanted_id].partitions]
    if short:
        topic_id = min(short)
        left = topics[topic_id].partitions - len(owners[topic_id])
        number = min(set(range(topics[topic_id].partitions)) - owners[topic_id].keys())
        rest = f" and {left - 1} more" if left > 1 else ""
        raise AssignorError(f"it assigns {_name(topics, topic_id)}-{number}{rest} to no member")
    shares = {member_id: given.get(member_id, {}) for member_id in members}
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in share.items() if numbers}
        for member_id, share in shares.items()
    }


def _take(
    owners: dict[int, str],
    topics: Mapping[UUID, TopicShape],
    topic_id: UUID,
    member_id: str,
    numbers: Collection[int],
) -> None:
    for number in numbers:
        name = f"{_name(topics, topic_id)}-{number}"
        if type(number) is not int or not 0 <= number < topics[topic_id].partitions:
            raise AssignorError(f"it assigns {name} to {member_id!r}, but it does not exist")
        if owners.setdefault(number, member_id) != member_id:
            raise AssignorError(f"it assigns {name} to both {owners[number]!r} and {member_id!r}")


def _name(topics: Mapping[UUID, TopicShape], topic_id: UUID) -> str:
    return topics[topic_id].name or str(topic_id)
