"""Whether targets that somebody else computed can be: what a user's assignor gives is refused whole or taken whole."""

from collections.abc import Collection, Mapping

from kohort.assignor.server.api import MemberShape, Target, TopicShape
from kohort.errors import AssignorError
from kohort.model import UUID


def check_targets(
    given: Mapping[str, Mapping[UUID, Collection[int]]],
    members: Mapping[str, MemberShape],
    topics: Mapping[UUID, TopicShape],
) -> dict[str, Target]:
    """The targets of all members, of whom those that are not in `given` get nothing.

    AssignorError, with what is wrong, where a member is gone, a topic is not subscribed to, a partition does not
    exist or is given twice, or where one that somebody could have is given to nobody: its records would wait unseen.
    """
    owners: dict[UUID, dict[int, str]] = {topic_id: {} for topic_id in topics}
    for member_id, share in given.items():
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"it names {member_id!r}, which is not a member")
        for topic_id, numbers in share.items():
            if topic_id not in topics:
                raise AssignorError(f"it gives {member_id!r} a topic that does not exist: {topic_id}")
            if topic_id not in member.topics or (member.drained and numbers):
                why = "is drained" if member.drained else "does not subscribe to it"
                raise AssignorError(f"it gives {member_id!r} {_name(topics, topic_id)}, and that member {why}")
            _take(owners[topic_id], topics, topic_id, member_id, numbers)
    asked = {topic_id for member in members.values() if not member.drained for topic_id in member.topics}
    for topic_id in asked & topics.keys():
        left = topics[topic_id].partitions - len(owners[topic_id])
        if left:
            number = min(set(range(topics[topic_id].partitions)) - owners[topic_id].keys())
            rest = f" and {left - 1} more" if left > 1 else ""
            raise AssignorError(f"it gives {_name(topics, topic_id)}-{number}{rest} to nobody")
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
            raise AssignorError(f"it gives {member_id!r} {name}, which does not exist")
        if owners.setdefault(number, member_id) != member_id:
            raise AssignorError(f"it gives {name} to both {owners[number]!r} and {member_id!r}")


def _name(topics: Mapping[UUID, TopicShape], topic_id: UUID) -> str:
    return topics[topic_id].name or str(topic_id)
