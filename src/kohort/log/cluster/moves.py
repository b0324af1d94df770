"""Administrative changes of leadership: reassignments of replicas (KIP-455) and elections (KIP-460).

They are transitions of the image. A reassignment is complete when one of the new replicas leads the
partition: the other replicas have nothing to copy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kohort.log.cluster.image import NOBODY, ClusterImage, Leader, PartitionId
from kohort.log.cluster.replicas import ANY, Replicas


def reassigned(image: ClusterImage, wanted: Mapping[PartitionId, tuple[int, ...]]) -> ClusterImage:
    """Start reassignments of these partitions to these replicas."""
    return replace(image, targets={**image.targets, **wanted}).directed()


def called_off(image: ClusterImage, ones: Iterable[PartitionId]) -> ClusterImage:
    """Cancel the reassignments of these partitions, which keep their present replicas and leaders."""
    over = {one for one in ones if one in image.targets}
    kept = {one: image.leader(one)._replace(following=NOBODY) for one in over}
    targets = {one: target for one, target in image.targets.items() if one not in over}
    return replace(image.led(kept), targets=targets) if over else image


def elected(image: ClusterImage, ones: Iterable[PartitionId]) -> ClusterImage:
    """Let the preferred replicas of these partitions lead them, if they are alive."""
    changed: dict[PartitionId, Leader] = {}
    for one in ones:
        if one.topic_id not in image.leaders:
            continue  # deleted meanwhile
        leader, preferred = image.leader(one), preferred_replica(image, one)
        if preferred in image.nodes and preferred not in (leader.node_id, leader.following):
            changed[one] = leader._replace(following=preferred)
    return image.led(changed)


def preferred_replica(image: ClusterImage, one: PartitionId) -> int:
    """Return the first replica, or the leader if there is no preference."""
    target = image.targets.get(one, ANY)
    return next(iter((*target, *image.replicas_of(one))), image.leader(one).node_id)


def told_replicas(image: ClusterImage, one: PartitionId, factor: int = 1) -> Replicas:
    """Return the partition's replicas as clients see them.

    If any broker may lead it, they are the leader and, up to `factor`, the next brokers by node ID.
    """
    leader = image.leader(one).node_id
    if leader == NOBODY:
        held = image.replicas_of(one)
    else:
        held = image.replicas_of(one) or _around(leader, sorted(image.nodes), factor)
        held = held if leader in held else (*held, leader)
    target = image.targets.get(one, ANY)
    adding = tuple(node_id for node_id in target if node_id not in held)
    removing = tuple(node_id for node_id in held if node_id not in target) if target else ANY
    nodes = (*target, *(node_id for node_id in held if node_id not in target))
    return Replicas(
        nodes=nodes,
        in_sync=tuple(node_id for node_id in nodes if node_id in held and node_id in image.nodes),
        offline=tuple(node_id for node_id in nodes if node_id not in image.nodes),
        adding=adding,
        removing=removing,
        in_progress=one in image.targets,
        factor=max(1, len(target or image.replicas_of(one))),
    )


def _around(leader: int, node_ids: list[int], factor: int) -> tuple[int, ...]:
    at = node_ids.index(leader) if leader in node_ids else 0
    return (leader, *[one for one in node_ids[at + 1 :] + node_ids[:at] if one != leader][: factor - 1])
