"""Administrative changes of leadership: reassignments of replicas (KIP-455) and elections (KIP-460).

They are transitions of the image. A reassignment is complete when one of the new replicas leads the
partition: the other replicas have nothing to copy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kohort.log.cluster.image import NOBODY, ClusterImage, Leader, PartitionId
from kohort.log.cluster.replicas import ANY, Replicas


def with_reassignments(image: ClusterImage, wanted: Mapping[PartitionId, tuple[int, ...]]) -> ClusterImage:
    """Start reassignments of these partitions to these replicas."""
    return replace(image, targets={**image.targets, **wanted}).with_reassignments_advanced()


def without_reassignments(image: ClusterImage, partition_ids: Iterable[PartitionId]) -> ClusterImage:
    """Cancel the reassignments of these partitions, which keep their present replicas and leaders."""
    over = {partition_id for partition_id in partition_ids if partition_id in image.targets}
    kept = {partition_id: image.leader(partition_id)._replace(following=NOBODY) for partition_id in over}
    targets = {partition_id: target for partition_id, target in image.targets.items() if partition_id not in over}
    return replace(image.led(kept), targets=targets) if over else image


def with_preferred_leaders(image: ClusterImage, partition_ids: Iterable[PartitionId]) -> ClusterImage:
    """Let the preferred replicas of these partitions lead them, if they are alive."""
    changed: dict[PartitionId, Leader] = {}
    for partition_id in partition_ids:
        if partition_id.topic_id not in image.leaders:
            continue  # deleted meanwhile
        leader, preferred = image.leader(partition_id), preferred_replica(image, partition_id)
        if preferred in image.nodes and preferred not in (leader.node_id, leader.following):
            changed[partition_id] = leader._replace(following=preferred)
    return image.led(changed)


def preferred_replica(image: ClusterImage, partition_id: PartitionId) -> int:
    """Return the first replica, or the leader if there is no preference."""
    target = image.targets.get(partition_id, ANY)
    return next(iter((*target, *image.replicas_of(partition_id))), image.leader(partition_id).node_id)


def replicas_for_clients(image: ClusterImage, partition_id: PartitionId, factor: int = 1) -> Replicas:
    """Return the partition's replicas as clients see them.

    If any broker may lead it, they are the leader and, up to `factor`, the next brokers by node ID.
    """
    leader = image.leader(partition_id).node_id
    if leader == NOBODY:
        held = image.replicas_of(partition_id)
    else:
        held = image.replicas_of(partition_id) or _around(leader, sorted(image.nodes), factor)
        held = held if leader in held else (*held, leader)
    target = image.targets.get(partition_id, ANY)
    adding = tuple(node_id for node_id in target if node_id not in held)
    removing = tuple(node_id for node_id in held if node_id not in target) if target else ANY
    nodes = (*target, *(node_id for node_id in held if node_id not in target))
    return Replicas(
        nodes=nodes,
        in_sync=tuple(node_id for node_id in nodes if node_id in held and node_id in image.nodes),
        offline=tuple(node_id for node_id in nodes if node_id not in image.nodes),
        adding=adding,
        removing=removing,
        in_progress=partition_id in image.targets,
        factor=max(1, len(target or image.replicas_of(partition_id))),
    )


def _around(leader: int, node_ids: list[int], factor: int) -> tuple[int, ...]:
    at = node_ids.index(leader) if leader in node_ids else 0
    return (leader, *[node_id for node_id in node_ids[at + 1 :] + node_ids[:at] if node_id != leader][: factor - 1])
