"""Offsets that are committed in transactions: who may commit them, and when they become visible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort.coordinator import Effects, GroupConfig, GroupShard
from kohort.errors import ErrorCode
from kohort.group_events import GroupEvent
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.shell import Shell, decoded

ONE, OTHER = 1, 2
"""Producer IDs."""
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@dataclass
class TransactionalShell(Shell):
    """A shard whose log has transactions, too."""

    transactions: list[tuple[int, int | None, Any]] = field(default_factory=list)
    """By position in the log: producer ID and records of a transaction, or its end with whether it committed."""

    def apply(self, effects: Effects) -> Effects:
        if effects.producer is not None:
            producer_id, epoch = effects.producer
            assert epoch == 7
            self.transactions.append((len(self.log), producer_id, list(effects.records)))
            self.shard.replay_pending(effects.records, producer_id)
            effects.records.clear()
        return super().apply(effects)

    def end(self, producer_id: int, *, commit: bool) -> list[GroupEvent]:
        """Write a marker; return the events."""
        self.transactions.append((len(self.log), producer_id, commit))
        effects = self.shard.transaction_ended(producer_id, committed=commit)
        self.check(changed=True)
        return effects.events

    def loaded(self, *, compacted: bool = False) -> GroupShard:
        # What is part of a transaction is not compacted before its end.
        return self._replayed() if self.transactions else super().loaded(compacted=compacted)

    def _replayed(self) -> GroupShard:
        log, self.log = self.log, []
        shard = super().loaded()
        self.log = log
        for position in range(len(log) + 1):
            for at, producer_id, what in self.transactions:
                if at == position:
                    assert producer_id is not None
                    if isinstance(what, bool):
                        shard.replay_end(producer_id, committed=what)
                    else:
                        shard.replay_pending(what, producer_id)
            if position < len(log):
                shard.replay(decoded(*log[position]))
        return shard

    # Requests

    def commit(self, producer_id: int, *offsets: int, **fields: Any) -> list[ErrorCode]:
        """Commit these offsets of partitions 0, 1, and so on in a transaction."""
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
            for index, offset in enumerate(offsets)
        ]
        topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)]
        shared: dict[str, Any] = {"group_id": "g", "producer_id": producer_id, "producer_epoch": 7, "topics": topics}
        request = TxnOffsetCommitRequest(**(shared | fields))
        answer: Any = self.handle(request, "txn", 3).replies["txn"]
        return [ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions]

    def commit_plainly(self, *offsets: int) -> None:
        """Commit these offsets without a transaction."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in enumerate(offsets)
        ]
        topic = OffsetCommitRequestTopic(name="orders", partitions=partitions)
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
        answer: Any = self.handle(request, "plain", 8).replies["plain"]
        assert {partition.error_code for partition in answer.topics[0].partitions} == {0}

    def positions(self, *, stable: bool = True, version: int = 9) -> list[int | ErrorCode]:
        """Return the offsets of partitions 0 and 1, or their errors."""
        if version < 8:
            topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
            request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=stable)
        else:
            wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]
            group = OffsetFetchRequestGroup(group_id="g", topics=wanted)
            request = OffsetFetchRequest(groups=[group], require_stable=stable)
        answer: Any = self.handle(request, "fetch", version).replies["fetch"]
        [topic] = answer.topics if version < 8 else answer.groups[0].topics
        found: list[int | ErrorCode] = []
        for partition in topic.partitions:
            if partition.error_code:
                assert (partition.committed_offset, partition.metadata) == (-1, "")
                found.append(ErrorCode(partition.error_code))
            else:
                found.append(partition.committed_offset)
        return found

    def group_ids(self) -> list[str]:
        answer: Any = self.handle(ListGroupsRequest(), "list", 4).replies["list"]
        return [group.group_id for group in answer.groups]


@pytest.mark.parametrize("version", [7, 9])
def test_pending_offsets_become_visible_with_the_marker_of_a_commit(version: int) -> None:
    shell = TransactionalShell()
    shell.commit_plainly(3, 4)
    assert shell.commit(ONE, 30) == [ErrorCode.NONE]
    assert shell.positions(version=version) == [UNSTABLE, 4]
    assert shell.positions(version=version, stable=False) == [3, 4]
    shell.end(ONE, commit=True)
    assert shell.positions(version=version) == [30, 4]


def test_pending_offsets_disappear_with_the_marker_of_an_abort() -> None:
    shell = TransactionalShell()
    shell.commit_plainly(3, 4)
    shell.commit(ONE, 30)
    shell.end(ONE, commit=False)
    assert shell.positions() == [3, 4]
    shell.end(ONE, commit=True)  # the next transaction of the producer has no offsets
    assert shell.positions() == [3, 4]


def test_the_last_offset_of_a_transaction_counts() -> None:
    shell = TransactionalShell()
    shell.commit(ONE, 30, 40)
    shell.commit(ONE, 31)
    shell.end(ONE, commit=True)
    assert shell.positions() == [31, 40]


def test_a_commit_after_the_offset_of_a_transaction_is_newer_than_it() -> None:
    shell = TransactionalShell()
    shell.commit(ONE, 30, 40)
    shell.commit_plainly(5)
    shell.end(ONE, commit=True)
    assert shell.positions() == [5, 40]


def test_an_offset_of_a_transaction_after_a_plain_commit_is_newer_than_it() -> None:
    shell = TransactionalShell()
    shell.commit(ONE, 30)
    shell.commit_plainly(5)
    shell.commit(ONE, 31)
    shell.end(ONE, commit=True)
    assert shell.positions() == [31, -1]


def test_of_two_transactions_the_one_that_wrote_later_counts() -> None:
    # Markers may arrive in another order than the offsets.
    shell = TransactionalShell()
    shell.commit(ONE, 30)
    shell.commit(OTHER, 50)
    assert shell.positions(stable=False) == [-1, -1]
    shell.end(OTHER, commit=True)
    assert shell.positions() == [UNSTABLE, -1]  # the other one is still open
    shell.end(ONE, commit=True)
    assert shell.positions() == [50, -1]


def test_pending_offsets_survive_a_failover() -> None:
    shell = TransactionalShell()
    shell.commit_plainly(3, 4)
    shell.commit(ONE, 30)
    shell.fail_over()
    assert shell.positions() == [UNSTABLE, 4]
    shell.end(ONE, commit=True)
    shell.fail_over()
    assert shell.positions() == [30, 4]


def test_a_group_that_has_only_pending_offsets_exists_until_they_are_aborted() -> None:
    shell = TransactionalShell()
    shell.commit(ONE, 30)
    assert shell.group_ids() == ["g"]
    assert shell.positions() == [UNSTABLE, -1]
    shell.end(ONE, commit=False)
    assert shell.group_ids() == []


def test_a_deleted_group_is_not_created_again_by_an_open_transaction() -> None:
    shell = TransactionalShell()
    shell.commit_plainly(3)
    shell.commit(ONE, 30, 40)
    answer: Any = shell.handle(DeleteGroupsRequest(groups_names=["g"]), "delete", 2).replies["delete"]
    assert answer.results[0].error_code == ErrorCode.NONE
    shell.end(ONE, commit=True)
    assert shell.group_ids() == []


@pytest.mark.parametrize("how", ["request", "topic"])
def test_offsets_that_are_deleted_are_not_committed_by_an_open_transaction(how: str) -> None:
    shell = TransactionalShell()
    shell.commit_plainly(3)
    shell.commit(ONE, 30, 40)
    if how == "topic":
        shell.apply(shell.shard.topics_deleted(["orders"], shell.now))
    else:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1, 2)]
        topic = OffsetDeleteRequestTopic(name="orders", partitions=partitions)
        shell.handle(OffsetDeleteRequest(group_id="g", topics=[topic]), "delete", 0)
    assert shell.positions() == [-1, -1]
    shell.end(ONE, commit=True)
    assert shell.positions() == [-1, -1]
    assert shell.group_ids() == []


def test_what_is_pending_does_not_expire() -> None:
    # KAFKA-19163: else the group of a transaction that commits late would be gone.
    hour = 3_600_000
    shell = TransactionalShell(GroupConfig(offsets_retention_ms=hour, offsets_retention_check_interval_ms=hour))
    shell.commit_plainly(3, 4)
    shell.commit(ONE, 30)
    list(shell.wait(3 * hour))
    assert shell.positions(stable=False) == [3, -1]
    list(shell.wait(3 * hour))
    assert shell.group_ids() == ["g"]
    shell.end(ONE, commit=True)
    assert shell.positions() == [30, -1]
    list(shell.wait(3 * hour))
    assert shell.group_ids() == []


def test_a_group_that_has_nothing_but_pending_offsets_does_not_expire() -> None:
    hour = 3_600_000
    shell = TransactionalShell(GroupConfig(offsets_retention_ms=hour, offsets_retention_check_interval_ms=hour))
    shell.commit(ONE, 30)
    list(shell.wait(3 * hour))
    assert shell.group_ids() == ["g"]
    shell.end(ONE, commit=True)
    assert shell.positions() == [30, -1]


def test_metadata_that_is_too_long_fails_only_its_own_partition() -> None:
    shell = TransactionalShell(GroupConfig(offset_metadata_max_bytes=4))
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=text)
        for index, text in enumerate(["12345", "1234", None])
    ]
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)]
    assert shell.commit(ONE, topics=topics) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    shell.end(ONE, commit=True)
    assert shell.positions() == [-1, 5]
    stored = shell.shard.groups["g"].offsets["orders"][1]
    assert stored.metadata == "1234"


# Members


def member(**fields: Any) -> dict[str, Any]:
    return {"member_id": "", "generation_id": -1, "group_instance_id": None} | fields


def joined(shell: Shell) -> JoinGroupResponse:
    """A classic member joins, and is the only one; its SyncGroup is still to come."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    shell.handle(request, "join", 5, "c")
    for effects in shell.wait(3_000):
        if "join" in effects.replies:
            answer = effects.replies["join"]
            assert isinstance(answer, JoinGroupResponse)
            return answer
    raise AssertionError("nobody answered")


def test_a_member_of_a_classic_group_commits_in_its_generation() -> None:
    shell = TransactionalShell()
    told = joined(shell)
    mine = member(member_id=told.member_id, generation_id=told.generation_id, group_instance_id="i")
    # Also while the group completes its rebalance: the transaction has read what it had before.
    assert shell.commit(ONE, 1, **mine) == [ErrorCode.NONE]
    refused: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"generation_id": told.generation_id - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": told.generation_id + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger", "group_instance_id": None}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"group_instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "group_instance_id": None}, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for changes, code in refused:
        assert shell.commit(ONE, 2, **mine | changes) == [code], changes
    # Producers before KIP-447 name no member.
    assert shell.commit(ONE, 3, **member()) == [ErrorCode.NONE]
    shell.end(ONE, commit=True)
    assert shell.positions() == [3, -1]


def test_a_member_of_a_consumer_group_commits_in_its_epoch() -> None:
    shell = TransactionalShell()
    shell.set_topics({"orders": 2})
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    told: Any = shell.handle(request, "heartbeat", 1).replies["heartbeat"]
    assert told.error_code == 0
    mine = member(member_id="m", generation_id=told.member_epoch)
    assert shell.commit(ONE, 1, **mine) == [ErrorCode.NONE]
    refused: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"generation_id": told.member_epoch - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": told.member_epoch + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id": -1, "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for changes, code in refused:
        assert shell.commit(ONE, 2, **mine | changes) == [code], changes
    assert shell.commit(ONE, 3, **member()) == [ErrorCode.NONE]
    shell.end(ONE, commit=True)
    assert shell.positions() == [3, -1]


def test_a_group_that_does_not_exist_is_created_unless_a_generation_is_named() -> None:
    shell = TransactionalShell()
    assert shell.commit(ONE, 1, **member(member_id="m", generation_id=0)) == [ErrorCode.ILLEGAL_GENERATION]
    assert shell.group_ids() == []
    assert shell.commit(ONE, 1, **member(member_id="m")) == [ErrorCode.NONE]
    assert shell.group_ids() == ["g"]
