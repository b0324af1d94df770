"""The image of a cluster as the JSON of `cluster.json`."""

import json
from typing import Any

from kohort.log.cluster.image import ClusterImage, Leader, Node
from kohort.log.directory import topic_of_json, topic_to_json
from kohort.model import UUID


def encode_image(image: ClusterImage) -> bytes:
    """As `decode_image` reads it."""
    stored = {
        "version": image.version,
        "first_epoch": image.first_epoch,
        "nodes": [[node.node_id, node.host, node.port, node.rack] for node in image.nodes.values()],
        "topics": [
            {**topic_to_json(topic), "leaders": image.leaders[topic_id], "deleting": topic_id in image.deleting}
            for topic_id, topic in image.topics.items()
        ],
        "configs": image.configs,
    }
    return json.dumps(stored).encode()


def decode_image(data: bytes) -> ClusterImage:
    """Raises ValueError where it is no image."""
    try:
        stored: dict[str, Any] = json.loads(data)
        topics = {UUID(one["id"]): one for one in stored["topics"]}
        return ClusterImage(
            version=int(stored["version"]),
            first_epoch=int(stored["first_epoch"]),
            nodes={
                int(number): Node(int(number), host, int(port), rack) for number, host, port, rack in stored["nodes"]
            },
            topics={topic_id: topic_of_json(one) for topic_id, one in topics.items()},
            leaders={
                topic_id: tuple(Leader(*map(int, leader)) for leader in one["leaders"])
                for topic_id, one in topics.items()
            },
            deleting=frozenset(topic_id for topic_id, one in topics.items() if one["deleting"]),
            configs=stored["configs"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no image of a cluster: {error!r}") from error
