"""Requests of AdminClient about groups."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future

from kohort.client import GroupDescription, GroupListing, OffsetAndMetadata
from kohort.client import MemberDescription as KnownMember
from kohort.compat.confluent.admin.descriptions import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    GroupMember,
    GroupMetadata,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
    node_of,
)
from kohort.compat.confluent.admin.requests import Requests, not_twice
from kohort.compat.confluent.clients import LimitedAdmin
from kohort.compat.confluent.errors import error_of, not_supported
from kohort.compat.confluent.values import TopicPartition, partition_of, partitions_of, with_position
from kohort.model import TopicPartition as Partition

_STATES = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "Stable": ConsumerGroupState.STABLE,
    "Dead": ConsumerGroupState.DEAD,
    "Empty": ConsumerGroupState.EMPTY,
    "Assigning": ConsumerGroupState.ASSIGNING,
    "Reconciling": ConsumerGroupState.RECONCILING,
}
_TYPES = {"classic": ConsumerGroupType.CLASSIC, "consumer": ConsumerGroupType.CONSUMER}


class GroupRequests(Requests):
    """Client for groups and their offsets."""

    def list_groups(self, group: str | None = None, timeout: float | None = -1) -> list[GroupMetadata]:
        """Return all groups with their members, or one."""

        def find(admin: LimitedAdmin) -> list[GroupMetadata]:
            names = [listed.group_id for listed in admin.list_groups() if group in (None, listed.group_id)]
            return [_group(described) for described in admin.describe_groups(names).values()]

        return self.now(timeout, find)

    def list_consumer_groups(
        self,
        *,
        request_timeout: float = -1,
        states: Iterable[ConsumerGroupState] | None = None,
        types: Iterable[ConsumerGroupType] | None = None,
    ) -> "Future[ListConsumerGroupsResult]":
        """Return the names, states and types of groups."""
        of_states, of_types = frozenset(states or ()), frozenset(types or ())

        def find(admin: LimitedAdmin) -> ListConsumerGroupsResult:
            found = [_listing(listed) for listed in admin.list_groups()]
            return ListConsumerGroupsResult(
                [
                    each
                    for each in found
                    if (not of_states or each.state in of_states) and (not of_types or each.type in of_types)
                ]
            )

        return self.soon(request_timeout, find)

    def delete_consumer_groups(self, group_ids: list[str], *, request_timeout: float = -1) -> dict[str, "Future[None]"]:
        """Delete groups and their offsets."""
        not_twice(group_ids)
        return {
            group: self.soon(request_timeout, lambda admin, group=group: admin.delete_groups([group]))  # type: ignore[misc]
            for group in group_ids
        }

    def describe_consumer_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, "Future[ConsumerGroupDescription]"]:
        """Return the state and the members of groups."""
        not_twice(group_ids)
        if include_authorized_operations:
            raise not_supported("include_authorized_operations")

        def describe(group: str) -> Callable[[LimitedAdmin], ConsumerGroupDescription]:
            return lambda admin: _described(admin.describe_groups([group])[group])

        return {group: self.soon(request_timeout, describe(group)) for group in group_ids}

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, "Future[ConsumerGroupTopicPartitions]"]:
        """Return the committed offsets of groups, in some partitions or in all.

        With `require_stable`, a partition whose offset an open transaction may change has an error instead.
        """

        def find(wanted: ConsumerGroupTopicPartitions) -> Callable[[LimitedAdmin], ConsumerGroupTopicPartitions]:
            chosen = None if wanted.topic_partitions is None else partitions_of(wanted.topic_partitions)

            def run(admin: LimitedAdmin) -> ConsumerGroupTopicPartitions:
                if not require_stable:
                    found = sorted(admin.group_offsets(wanted.group_id, chosen).items())
                    return ConsumerGroupTopicPartitions(wanted.group_id, [with_position(*each) for each in found])
                stable, refused = admin.stable_offsets(wanted.group_id, chosen)
                answered = [
                    with_position(partition, stable.get(partition)) for partition in sorted({*stable, *refused})
                ]
                for each in answered:
                    problem = refused.get(Partition(each.topic, each.partition))
                    each.error = None if problem is None else error_of(problem)
                return ConsumerGroupTopicPartitions(wanted.group_id, answered)

            return run

        return {each.group_id: self.soon(request_timeout, find(each)) for each in list_consumer_group_offsets_request}

    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        request_timeout: float = -1,
    ) -> dict[str, "Future[ConsumerGroupTopicPartitions]"]:
        """Commit offsets for groups without members."""

        def alter(wanted: ConsumerGroupTopicPartitions) -> Callable[[LimitedAdmin], ConsumerGroupTopicPartitions]:
            offsets = {
                partition_of(each): OffsetAndMetadata(each.offset, each.metadata or "", each.leader_epoch)
                for each in wanted.topic_partitions or ()
            }

            def run(admin: LimitedAdmin) -> ConsumerGroupTopicPartitions:
                admin.alter_group_offsets(wanted.group_id, offsets)
                return wanted

            return run

        return {each.group_id: self.soon(request_timeout, alter(each)) for each in alter_consumer_group_offsets_request}


def _group(described: GroupDescription) -> GroupMetadata:
    members = [GroupMember(each.member_id, each.client_id, each.client_host) for each in described.members]
    return GroupMetadata(described.group_id, described.state, described.protocol_type, described.assignor, members)


def _listing(listed: GroupListing) -> ConsumerGroupListing:
    return ConsumerGroupListing(
        listed.group_id,
        not listed.protocol_type,
        _STATES.get(listed.state or "", ConsumerGroupState.UNKNOWN),
        _TYPES.get((listed.type or "classic").lower(), ConsumerGroupType.UNKNOWN),
    )


def _described(group: GroupDescription) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        not group.protocol_type,
        [_member(member) for member in group.members],
        group.assignor,
        _STATES.get(group.state, ConsumerGroupState.UNKNOWN),
        None if group.coordinator is None else node_of(group.coordinator),
        type=_TYPES.get(group.type.lower(), ConsumerGroupType.UNKNOWN),
    )


def _member(member: KnownMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        _assignment(member.assignment),
        member.instance_id,
        None if member.target is None else _assignment(member.target),
    )


def _assignment(partitions: Iterable[Partition]) -> MemberAssignment:
    return MemberAssignment([TopicPartition(*partition) for partition in sorted(partitions)])
