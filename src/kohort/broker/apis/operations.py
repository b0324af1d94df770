"""The operations on a resource as KIP-430's bit set, where nothing is denied."""

from kohort.security import OPERATIONS, ResourceType, authorized_bits

TOPIC_OPERATIONS = authorized_bits(OPERATIONS[ResourceType.TOPIC])
GROUP_OPERATIONS = authorized_bits(OPERATIONS[ResourceType.GROUP])
CLUSTER_OPERATIONS = authorized_bits(OPERATIONS[ResourceType.CLUSTER])
