"""The commits of one member: one at a time, in the order in which they were requested.

With two in flight, a retried older commit could overwrite a newer one and set the group back.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kohort.errors import ErrorCode, error_code
from kohort.member.actions import CommitSettled
from kohort.member.offsets import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
UNKNOWN_TOPIC_ATTEMPTS = 5
"""Maximum attempts to commit for an unknown topic. A broker that just started may not know the topic yet, but a
deleted topic must not delay a rebalance or a close."""


@dataclass(slots=True)
class Commit:
    """A commit that is not settled. `offsets` shrinks as partitions succeed or fail."""

    number: int
    offsets: dict[TopicPartition, OffsetAndMetadata]
    deadline_at: Millis
    attempts: int = 0
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    """Errors of the last attempt; more informative than the timeout that follows."""
    waits_for_rebalance: bool = False
    """Whether the coordinator refused it until the group is stable again."""
    given_up: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    """Partitions that must not be sent again after the request in flight."""

    def fail(self, partitions: Iterable[TopicPartition], code: ErrorCode) -> None:
        """Fail these partitions; those that are already settled stay unchanged."""
        for partition in partitions:
            if self.offsets.pop(partition, None) is not None:
                self.errors[partition] = code


class CommitQueue:
    """Queue of commits. The head is the current commit; `sent` is set while its request is in flight."""

    def __init__(self) -> None:
        self._queue: deque[Commit] = deque()
        self.sent: int | None = None
        """Number of the request that carries the head."""

    @property
    def head(self) -> Commit | None:
        """The commit to send next or in flight."""
        return self._queue[0] if self._queue else None

    @property
    def is_waiting(self) -> bool:
        """Whether any commit has offsets that the coordinator must still accept."""
        return any(commit.offsets for commit in self._queue)

    @property
    def blocks_rejoining(self) -> bool:
        """Whether a commit awaits its first answer; a commit that was refused must not delay the group."""
        head = self.head
        return head is not None and (head.attempts == 0 or (head.attempts == 1 and self.sent is not None))

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions that wait to be committed."""
        return frozenset(partition for commit in self._queue for partition in commit.offsets)

    def add(self, number: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_at: Millis) -> None:
        """Queue a commit behind the earlier ones."""
        self._queue.append(Commit(number, dict(offsets), deadline_at))

    def drop(self, partitions: frozenset[TopicPartition], code: ErrorCode) -> None:
        """Stop sending these: the member gave them up, and another member may have committed newer offsets.

        The answer to a request in flight still counts.
        """
        for commit in self._queue:
            if commit is self.head and self.sent is not None:
                commit.given_up.update((partition, code) for partition in partitions if partition in commit.offsets)
            else:
                commit.fail(partitions, code)

    def drop_all(self, code: ErrorCode) -> None:
        """Stop sending everything: the member's generation ended, so no waiting commit can succeed."""
        for commit in self._queue:
            self.drop(frozenset(commit.offsets), code)

    def expire(self, now: Millis) -> None:
        """Fail commits that are past their deadline."""
        for commit in self._queue:
            if commit.deadline_at <= now:
                for partition in list(commit.offsets):
                    commit.fail((partition,), commit.refused.get(partition, ErrorCode.REQUEST_TIMED_OUT))

    def next_deadline(self) -> Millis | None:
        """Return the time of the next `expire`; None if no commit waits."""
        return min((commit.deadline_at for commit in self._queue), default=None)

    def settled(self) -> list[CommitSettled]:
        """Remove and return the settled commits at the head. One in flight may be settled only by its deadline."""
        done = []
        while self._queue and not self._queue[0].offsets:
            commit = self._queue.popleft()
            self.sent = None
            done.append(CommitSettled(commit.number, commit.errors))
        return done

    def rebalanced(self) -> None:
        """Record that the group is stable again."""
        for commit in self._queue:
            commit.waits_for_rebalance = False

    def sent_with(self, request: int) -> None:
        """Record that the request carries the head."""
        head = self.head
        assert head is not None and self.sent is None
        head.attempts += 1
        self.sent = request

    def answered(self, request: int, response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
        """Record successes; return the errors of the rest, which the caller settles or leaves to be sent again."""
        if request != self.sent:
            return {}
        self.sent, head = None, self.head
        assert head is not None
        errors: dict[TopicPartition, ErrorCode] = {}
        names = {position.topic_id: partition.topic for partition, position in head.offsets.items()}
        for topic in response.topics:
            name = topic.name or names.get(topic.topic_id, "")  # version 10 and later identify topics by ID
            for answer in topic.partitions:
                partition = TopicPartition(name, answer.partition_index)
                if answer.error_code == ErrorCode.NONE:
                    head.offsets.pop(partition, None)
                elif partition in head.offsets:
                    errors[partition] = head.refused[partition] = error_code(answer.error_code)
        self._settle_given_up(head)
        return {partition: code for partition, code in errors.items() if partition in head.offsets}

    def unanswered(self, request: int) -> bool:
        """Prepare a retry after a lost request; return False if the request carried no commit of this queue."""
        if request != self.sent:
            return False
        self.sent, head = None, self.head
        assert head is not None
        self._settle_given_up(head)
        return True

    @staticmethod
    def _settle_given_up(commit: Commit) -> None:
        for partition, code in commit.given_up.items():
            commit.fail((partition,), code)


def commit_request(
    commit: Commit, group_id: str, member_id: str, generation: int | None, instance_id: str | None
) -> OffsetCommitRequest:
    """Return the next request for the rest of `commit`; a generation of None means that the group has no members.

    A request has either topic IDs or names. By name, the offset of a deleted topic would be committed for a new topic
    of its name, so offsets without an ID follow in another request instead of making the others go by name.
    """
    topics: dict[tuple[str, UUID], OffsetCommitRequestTopic] = {}
    by_id = any(position.topic_id is not None for position in commit.offsets.values())
    for partition, position in commit.offsets.items():
        if by_id and position.topic_id is None:
            continue
        key = partition.topic, position.topic_id or NO_TOPIC_ID
        topic = topics.get(key)
        if topic is None:
            topics[key] = topic = OffsetCommitRequestTopic(name=key[0], topic_id=key[1], partitions=[])
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    # KAFKA-14201: a commit without a generation must not carry the instance ID, or the coordinator fences it.
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1 if generation is None else generation,
        member_id=member_id,
        group_instance_id=None if generation is None else instance_id,
        topics=list(topics.values()),
    )
