"""Bugs of brokers that share a directory, which only worlds with such brokers can find; see planting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest import MonkeyPatch

from kohort.broker.cluster.following import ClusterFollower
from kohort.broker.groups.coordinator import GroupCoordinator
from kohort.log.cluster import ClusterDirectory
from tests.sim.planting import plant


@plant("S9", "S7", "S10", "S13", hint=2)
def a_live_broker_is_declared_dead(patch: MonkeyPatch) -> None:
    patch.setattr(ClusterDirectory, "is_alive", lambda self, node_id: False)


@plant("S7", "S9", "S10", "S13", "L2", hint=16)
def a_shard_keeps_serving_after_it_is_handed_over(patch: MonkeyPatch) -> None:
    def keep(self: GroupCoordinator, partitions: Iterable[int]) -> None:
        pass

    patch.setattr(GroupCoordinator, "give_up", keep)


@plant("L1", "L2", "L6", "S3", hint=2)
def a_shard_that_is_handed_over_is_never_loaded(patch: MonkeyPatch) -> None:
    def nothing(self: Any, before: Any, image: Any) -> None:
        pass

    patch.setattr(ClusterFollower, "_lead_more", nothing)
