"""Descriptions of groups by their coordinators, for what precedes the history in the log."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

from kohort.client import Admin, ErrorCode, GroupDescription, KafkaError
from kohort.group_events import MemberFacts
from kohort.model import TopicPartition
from kohort.watch.group import GroupFound, WatchedMember
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.watch.source.following import LogFollower
from kohort.watch.source.log_stream import LogStream

_AT_ONCE = 32
"""Number of groups that are described at the same time."""
_PAUSES_S = (0.2, 0.5, 1.0)
"""Pauses before groups are described again that changed meanwhile."""
_NEEDS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the topics of its members",  # KIP-848: of consumer groups only
}
_UNSTABLE = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class Describer:
    """Asks coordinators for groups, and tells `Live` what the log has not told."""

    def __init__(self, admin: Admin, live: Live, stream: LogStream, follower: LogFollower) -> None:
        self._admin = admin
        self._live = live
        self._stream = stream
        self._follower = follower
        self._denied: set[str] = set()
        """Groups that could not be described."""

    async def describe_all(self) -> None:
        """Describe all classic and consumer groups. Raises KafkaError if the groups cannot be listed.

        A description is newer than the log as far as it is read. So it counts only if the log, once
        it is read up to the time of the description, told nothing of the group since. Otherwise the
        next rebalance would be taken for one that is known already.
        """
        listed = await self._admin.list_groups()
        await self._describe_now({group.group_id for group in listed if group.type in (None, "classic", "consumer")})

    async def describe_denied(self) -> None:
        """Describe again the groups that could not be described: only a few, until one of them can."""
        some = set(islice(self._denied, _AT_ONCE))
        await self._describe_now(some)
        if self._denied and not some <= self._denied:
            await self._describe_now(set(self._denied))

    async def _describe_now(self, wanted: set[str]) -> None:
        for pause in (*_PAUSES_S, None):
            self._follower.changed = set()
            found = await self._describe(wanted)
            await self._follower.reach(await self._stream.ends())
            changed, self._follower.changed = self._follower.changed, None
            again = set()
            for group in found:
                if pause is not None and (group.group_id in changed or group.state in _UNSTABLE):
                    again.add(group.group_id)
                else:
                    self._live.found(self._without_known(group), clock())
            if not again or pause is None:
                return
            wanted = again
            await asyncio.sleep(pause)

    def _without_known(self, group: GroupFound) -> GroupFound:
        """Leave out the commits that the log told: they are at least as new."""
        known = self._live.groups.get(group.group_id)
        if known is None:
            return group
        commits = {partition: offset for partition, offset in group.commits.items() if partition not in known.commits}
        return replace(group, commits=commits)

    async def _describe(self, group_ids: Iterable[str]) -> list[GroupFound]:
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(group_id: str) -> GroupFound | None:
            async with turn:
                return await self._describe_one(group_id)

        found = await asyncio.gather(*map(one, sorted(group_ids)))
        return [group for group in found if group is not None]

    async def _describe_one(self, group_id: str) -> GroupFound | None:
        try:
            described = (await self._admin.describe_groups([group_id]))[group_id]
            offsets = await self._admin.group_offsets(group_id)
        except KafkaError as problem:
            if problem.code is ErrorCode.GROUP_ID_NOT_FOUND:
                self._describable(group_id)
                return None
            self._denied.add(group_id)
            self._live.problem(cannot_describe(group_id, problem), clock(), about=about(group_id))
            return None
        self._describable(group_id)
        if described.state == "Dead":
            return None
        commits = {partition: position.offset for partition, position in offsets.items() if position is not None}
        return found_group(described, commits)

    def _describable(self, group_id: str) -> None:
        self._denied.discard(group_id)
        self._live.solved(about(group_id), clock())


def about(group_id: str) -> str:
    """Return what a group's problem is about."""
    return f"group {group_id}"


def cannot_describe(group_id: str, problem: KafkaError) -> str:
    """Return the problem as a sentence, with the ACL to ask for if one is missing."""
    if problem.code in _NEEDS:
        return needs_describe(group_id, problem.code)
    return f"Group {group_id} cannot be described: {problem}"


def needs_describe(group_id: str, code: ErrorCode) -> str:
    """Return a sentence with the ACL that is missing."""
    return f"Group {group_id} cannot be described: it needs the ACL Describe on {_NEEDS[code]}."


def found_group(described: GroupDescription, commits: Mapping[TopicPartition, int]) -> GroupFound:
    """Convert the answers of an admin client."""
    members = tuple(
        WatchedMember(
            MemberFacts(member.member_id, member.client_id, member.client_host, member.instance_id),
            member.topics,
            member.expression,
            member.epoch,
            owned=member.assignment,
        )
        for member in described.members
    )
    return GroupFound(
        described.group_id,
        described.type,
        described.state,
        described.epoch,
        described.target_epoch,
        described.assignor or None,
        described.protocol_type or None,
        members,
        commits,
    )
