"""Loads that the shell measures, weights that an operator sets: what they do to the targets of consumer groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kohort.assignor.server import TopicShape
from kohort.coordinator import (
    GroupConfig,
    GroupSettings,
    GroupShard,
    MetadataImage,
    PartitionExtent,
    RequestContext,
    Topic,
    Weights,
)
from kohort.coordinator.effects import Effects
from kohort.group_events import Cause, GroupEpochBumped, GroupSettled
from kohort.model import UUID
from kohort.wire.group_log import GroupRecord, group_record
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

ORDERS = Topic("orders", UUID(int=1), TopicShape(4))


class World:
    """A shard with one group `g` on the topic `orders`, and members that do as they are told."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.now = 1_000
        self.log: list[GroupRecord] = []
        self.settled: list[GroupSettled] = []
        self.load()

    def load(self) -> None:
        """Another coordinator has the group, and knows of it what the log says."""
        self.shard = GroupShard(GroupConfig(), lambda: "id", settings=lambda group_id: self.settings)
        self.shard.metadata_changed(MetadataImage([ORDERS], 1), 0)
        self.shard.replay_all(self.log)
        self.applied(self.shard.loaded(0))

    def applied(self, effects: Effects) -> Effects:
        self.log += effects.records
        self.shard.replay_all(effects.records)
        self.settled += [event for event in effects.events if isinstance(event, GroupSettled)]
        return effects

    def heartbeat(self, member_id: str, epoch: int, owned: Collection[int], *, client_id: str = "app") -> None:
        topics = [TopicPartitions(topic_id=ORDERS.topic_id, partitions=sorted(owned))] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=["orders"] if epoch == 0 else None,
            topic_partitions=topics,
        )
        context = RequestContext(member_id, 1, client_id, "/10.0.0.1")
        effects = self.applied(self.shard.handle(request, context, self.now))
        response = effects.replies[member_id]
        assert isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code, response

    def settle(self, *member_ids: str, client_id: str = "app") -> None:
        """Heartbeats until every member has what it should have."""
        for member_id in member_ids:
            if "g" not in self.shard.consumer_groups or member_id not in self.shard.consumer_groups["g"].members:
                self.heartbeat(member_id, 0, [], client_id=client_id)
        group = self.shard.consumer_groups["g"]
        for _ in range(4):
            for member_id in group.members:
                member = group.members[member_id]
                owned = member.assigned.by_topic.get(ORDERS.topic_id, frozenset())
                self.heartbeat(member_id, member.epoch, owned, client_id=member.client_id)

    def targets(self) -> dict[str, set[int]]:
        request = ConsumerGroupDescribeRequest(group_ids=["g"])
        effects = self.shard.handle(request, RequestContext("d", 1, "tool", "/10.0.0.1"), self.now)
        described = effects.replies["d"]
        assert isinstance(described, ConsumerGroupDescribeResponse)
        return {
            member.member_id: {n for topic in member.target_assignment.topic_partitions for n in topic.partitions}
            for member in described.groups[0].members
        }

    def commit(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            key = OffsetCommitKey(group="g", topic="orders", partition=partition)
            self.applied(Effects(records=[group_record(key, OffsetCommitValue(offset=offset))]))

    def measure(self, ends: Iterable[int], rates: Iterable[float] = (0, 0, 0, 0)) -> Effects:
        extents = [PartitionExtent(0, end, rate) for end, rate in zip(ends, rates, strict=True)]
        return self.applied(self.shard.loads_measured({"orders": extents}, self.now))


def test_partitions_with_lag_are_shared_whatever_their_number() -> None:
    world = World(GroupSettings(assignor="lag", assignment_interval_ms=0))
    world.settle("a", "b")
    assert world.shard.weighed_topics == {"orders"}
    assert sorted(map(len, world.targets().values())) == [2, 2]
    mine = sorted(world.targets()["a"])
    # Member a has a large lag; b has read all of its partitions.
    world.commit({n: 0 if n in mine else 5_000 for n in range(4)})
    epoch = world.shard.consumer_groups["g"].epoch
    effects = world.measure([5_000] * 4)
    assert effects.records
    assert world.shard.consumer_groups["g"].epoch == epoch + 1 == world.shard.consumer_groups["g"].target_epoch
    assert all(len(set(mine) & target) == 1 for target in world.targets().values())


def test_nothing_is_written_where_the_lag_is_shared_already() -> None:
    world = World(GroupSettings(assignor="lag", assignment_interval_ms=0))
    world.settle("a", "b")
    world.commit(dict.fromkeys(range(4), 0))
    assert world.measure([5_000, 5_100, 4_900, 5_050]).records == []
    assert world.measure([6_000, 6_100, 5_900, 6_050]).records == []


def test_partitions_that_grow_fast_are_shared() -> None:
    world = World(GroupSettings(assignor="rate", assignment_interval_ms=0))
    world.settle("a", "b")
    mine = sorted(world.targets()["a"])
    world.measure([0] * 4, [900 if n in mine else 1 for n in range(4)])
    assert all(len(set(mine) & target) == 1 for target in world.targets().values())


def test_loads_are_none_of_the_business_of_groups_that_do_not_weigh_them() -> None:
    world = World(GroupSettings(assignment_interval_ms=0))
    world.settle("a", "b")
    members = [MemberMetadata(member_id="m", session_timeout=10_000)]
    classic = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=members)
    world.applied(Effects(records=[group_record(GroupMetadataKey(group="classic"), classic)]))
    assert world.shard.weighed_topics == frozenset()
    assert world.measure([9_000, 0, 0, 0]).records == []


def test_a_target_that_is_only_just_made_is_left_alone_for_the_interval() -> None:
    world = World(GroupSettings(assignor="rate", assignment_interval_ms=60_000))
    world.settle("a")
    world.settle("b")
    world.now += 60_000
    world.settle("a", "b")
    mine = sorted(world.targets()["a"])
    rates = [900 if n in mine else 1 for n in range(4)]
    assert world.measure([0] * 4, rates).records == []
    world.now += 60_000
    assert world.measure([0] * 4, rates).records


def test_the_next_coordinator_moves_nothing_before_it_knows_the_loads() -> None:
    world = World(GroupSettings(assignor="rate", assignment_interval_ms=0))
    world.settle("a", "b")
    rates = [900, 1, 1, 1]
    world.measure([0] * 4, rates)
    world.settle("a", "b")
    uneven = world.targets()
    assert sorted(map(len, uneven.values())) == [1, 3]
    # It knows the targets and no loads; a third member waits for its share until they are measured.
    world.load()
    world.settle("c")
    assert {m: t for m, t in world.targets().items() if m != "c"} == uneven
    world.measure([0] * 4, rates)
    assert len(world.targets()["c"]) >= 1


def test_a_member_is_drained_and_weighed_by_patterns_of_its_ids() -> None:
    world = World(GroupSettings(assignor="weighted", assignment_interval_ms=0))
    world.settle("old", client_id="app-1")
    world.settle("new", client_id="app-2")
    assert sorted(map(len, world.targets().values())) == [2, 2]
    for weights, expected in (((("app-2", 1.0), ("app-*", 3.0)), (3, 1)), ((("app-2", 0.0),), (4, 0)), ((), (2, 2))):
        world.settings = GroupSettings(assignor="weighted", assignment_interval_ms=0, weights=Weights(weights))
        changed = world.applied(world.shard.settings_changed(["g"], world.now))
        assert causes(changed) == [Cause.WEIGHT_CHANGED]
        world.settle("old", "new")
        assert (len(world.targets()["old"]), len(world.targets()["new"])) == expected


def causes(effects: Effects) -> list[Cause]:
    """Why groups have a new epoch."""
    return [event.cause for event in effects.events if isinstance(event, GroupEpochBumped)]


def test_the_cause_of_another_assignor_in_the_settings_is_the_assignor_though_the_weights_change_too() -> None:
    world = World(GroupSettings(assignor="weighted", assignment_interval_ms=0))
    world.settle("a")
    world.settings = GroupSettings(assignor="uniform", assignment_interval_ms=0, weights=Weights((("app", 2.0),)))
    assert causes(world.applied(world.shard.settings_changed(["g"], world.now))) == [Cause.ASSIGNOR_CHANGED]


def test_an_operator_drains_a_member_after_a_failover() -> None:
    # Nobody knows then with which weights the target was computed, so it is computed anew.
    world = World(GroupSettings(assignor="weighted", assignment_interval_ms=0))
    world.settle("old", client_id="app-1")
    world.settle("new", client_id="app-2")
    world.load()
    world.settle("old", "new")
    world.settings = GroupSettings(assignor="weighted", assignment_interval_ms=0, weights=Weights((("app-2", 0.0),)))
    world.applied(world.shard.settings_changed(["g"], world.now))
    world.settle("old", "new")
    assert (len(world.targets()["old"]), len(world.targets().get("new", ()))) == (4, 0)


def test_settings_that_change_while_a_target_is_awaited_need_no_epoch_of_their_own() -> None:
    world = World(GroupSettings(assignment_interval_ms=60_000))
    world.settle("a")
    world.load()
    world.heartbeat("b", 0, [])
    group = world.shard.consumer_groups["g"]
    assert group.epoch > group.target_epoch
    assert world.applied(world.shard.settings_changed(["g"], world.now)).records == []


def test_the_first_pattern_that_matches_an_instance_id_or_client_id_applies() -> None:
    weights = Weights((("canary", 0.5), ("app-*", 2.0)))
    members = (("canary", "app-1"), (None, "app-1"), ("app-9", "x"), (None, "x"))
    assert [weights.of(*ids) for ids in members] == [0.5, 2, 2, None]


def test_the_journal_has_the_weights_of_members_whose_target_changed() -> None:
    world = World(GroupSettings(assignor="weighted", weights=Weights((("b*", 3.0),)), assignment_interval_ms=0))
    world.settle("a", client_id="a")
    world.settle("b", client_id="b")
    assert [settled.assignor for settled in world.settled] == ["weighted", "weighted"]
    assert {member.member_id: member.reason for member in world.settled[-1].weighed} == {
        "a": "1 partitions; its fair share by weight 1 is 1.0",
        "b": "3 partitions; its fair share by weight 3 is 3.0",
    }
    assert [member.member_id for member in world.settled[0].weighed] == ["a"]
