"""JSON encoding of the cluster's image (`cluster.json`)."""

import json
from typing import Any

from kohort.log.cluster.image import ClusterImage, Leader, Node, PartitionId
from kohort.log.directory import topic_of_json, topic_to_json
from kohort.model import UUID


def encode_image(image: ClusterImage) -> bytes:
    """Encode an image for `decode_image`.

    Version 0.1 rejects the result; otherwise, its next change would drop the replicas.
    """
    stored = {
        "version": image.version,
        "first_epoch": image.first_epoch,
        "nodes": [_node_to_json(node) for node in image.nodes.values()],
        "registered": sorted(image.registered),
        "topics": [
            {**topic_to_json(topic), "leaders": image.leaders[topic_id], "deleting": topic_id in image.deleting}
            | ({"replicas": image.replicas[topic_id]} if topic_id in image.replicas else {})
            for topic_id, topic in image.topics.items()
        ],
        "targets": [
            [str(partition_id.topic_id), partition_id.partition, target]
            for partition_id, target in image.targets.items()
        ],
        "configs": image.configs,
    }
    return json.dumps({"image": stored}).encode()


def decode_image(data: bytes) -> ClusterImage:
    """Decode an image. Raises ValueError if the bytes are not one."""
    try:
        stored: dict[str, Any] = json.loads(data)
        stored = stored.get("image", stored)  # version 0.1 wrote it without the outer object
        topics = {UUID(topic["id"]): topic for topic in stored["topics"]}
        nodes = {int(node[0]): _node_of_json(node) for node in stored["nodes"]}
        return ClusterImage(
            version=int(stored["version"]),
            first_epoch=int(stored["first_epoch"]),
            nodes=nodes,
            registered=frozenset(map(int, stored.get("registered", nodes))),  # 0.1 wrote none
            topics={topic_id: topic_of_json(topic) for topic_id, topic in topics.items()},
            leaders={
                topic_id: tuple(Leader(*map(int, leader)) for leader in topic["leaders"])
                for topic_id, topic in topics.items()
            },
            replicas={
                topic_id: tuple(tuple(map(int, replicas)) for replicas in topic["replicas"])
                for topic_id, topic in topics.items()
                if "replicas" in topic  # 0.1 wrote none
            },
            targets={
                PartitionId(UUID(topic_id), int(partition)): tuple(map(int, target))
                for topic_id, partition, target in stored.get("targets", ())
            },
            deleting=frozenset(topic_id for topic_id, topic in topics.items() if topic["deleting"]),
            configs=stored["configs"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no image of a cluster: {error!r}") from error


def _node_to_json(node: Node) -> list[object]:
    stored = [node.node_id, node.host, node.port, node.rack]
    return [*stored, [list(endpoint) for endpoint in node.endpoints]] if node.endpoints else stored


def _node_of_json(stored: list[Any]) -> Node:
    number, host, port, rack, *endpoints = stored
    named = tuple((str(name), str(at), int(on)) for name, at, on in endpoints[0]) if endpoints else ()
    return Node(int(number), host, int(port), rack, named)
